//! An arbiter that takes up where another ended decides as the other would have, whatever has happened.

use proptest::prelude::*;

use super::*;
use crate::health::Action;
use crate::protocol::{DeviceFault, DrainNeed};
use crate::scheduler::Place;

const NODES: [&str; 3] = ["a", "b", "c"];

fn pick<T: Copy>(from: &[T], index: u8) -> T {
    from[usize::from(index) % from.len()]
}

/// Every eighth is out of order; of these some drive out whoever works on them.
fn random_device(node: &NodeName, index: u32, c: u8) -> (DeviceId, Device) {
    let is_broken = u32::from(c % 8) == index;
    let drain = [DrainNeed::None, DrainNeed::Save, DrainNeed::Hurry][usize::from(c / 8 % 3)];
    let fault = DeviceFault { reason: Reason::GpuRowsFailed, action: Action::Replace, drain };
    let device = Device {
        resource: gpu(),
        index,
        kind: "nvidia-l4".to_owned(),
        simulated: true,
        health: if is_broken { Health::Unhealthy } else { Health::Healthy },
        fault: is_broken.then_some(fault),
    };
    (format!("{node}-{index}").parse().unwrap(), device)
}

impl Bench {
    /// One input out of numbers; `None` if there is nothing to do it to.
    fn random_input(&self, (kind, a, b, c): (u8, u8, u8, u8)) -> Option<Input> {
        let workloads: Vec<&Workload> = self.arbiter.workloads.values().collect();
        let workload =
            || workloads.get(usize::from(a) % workloads.len().max(1)).map(|w| w.spec.name.clone());
        let rank = u32::from(b % 2);
        match kind % 16 {
            0..=3 => {
                let mut spec = Self::spec(&format!("w{}", a % 6), i32::from(a % 6) / 2, 1, 1);
                spec.nnodes = 1 + u32::from(a % 2);
                spec.resources = BTreeMap::from([(gpu(), 1 + u64::from(a % 3 % 2))]);
                let rank = rank % spec.nnodes;
                let launcher = Self::launcher(spec.name.as_str(), rank);
                let reach = NODES.iter().enumerate().filter(|(i, _)| (c % 7 + 1) & (1 << i) != 0);
                let nodes = reach.map(|(_, n)| n.parse().unwrap()).collect();
                Some(Input::Submit { spec, rank, launcher, nodes })
            }
            4 | 5 => {
                let name = workload()?;
                let launcher = Self::launcher(name.as_str(), rank);
                Some(Input::Attach { workload: name, rank, launcher })
            }
            6 if c % 3 == 0 => {
                let name = workload()?;
                let launcher = Self::launcher(name.as_str(), rank);
                Some(Input::Detach { workload: name, rank, launcher })
            }
            7 if c % 3 == 0 => Some(Input::Cancel { workload: workload()? }),
            14 => {
                let name = workload()?;
                let record = self.workload(name.as_str());
                let worker = WorkerId { workload: name.clone(), attempt: record.attempt, rank };
                let launcher = Self::launcher(name.as_str(), rank);
                let exit = Exit::Code(i32::from(c % 2));
                Some(Input::ReportExit { worker, launcher, exit })
            }
            _ => self.random_event((kind, a, b, c)),
        }
    }

    /// What agents and operators do, out of numbers.
    fn random_event(&self, (kind, a, b, c): (u8, u8, u8, u8)) -> Option<Input> {
        let node: NodeName = pick(&NODES, a).parse().unwrap();
        let workloads: Vec<&Workload> = self.arbiter.workloads.values().collect();
        let workload =
            || workloads.get(usize::from(a) % workloads.len().max(1)).map(|w| w.spec.name.clone());
        let rank = u32::from(b % 2);
        match kind % 16 {
            8 if c % 4 == 0 => Some(Input::AgentDisconnected { node }),
            8 => Some(Input::AgentConnected { node }),
            9 => {
                let workers = self.arbiter.nodes().get(&node).map(|n| n.workers.clone());
                let devices = (0..2).map(|index| random_device(&node, index, c)).collect();
                let workers = workers.unwrap_or_default();
                let report = NodeReport { full: true, devices, workers, ..NodeReport::default() };
                Some(Input::NodeReport { node, report })
            }
            10 | 11 => {
                let name = workload()?;
                let record = self.workload(name.as_str());
                let node = record.members.get(&rank)?.assignment.as_ref()?.node.clone();
                let worker = WorkerId { workload: name, attempt: record.attempt, rank };
                let report = WorkerReport {
                    device_fault: None,
                    running: c % 8 != 0,
                    checkpoint: (c % 2 == 0).then(|| checkpoint(u64::from(c))),
                    checkpoint_age_ms: Some(0),
                    checkpoint_is_of_this_attempt: true,
                    step_ms: Some(1_000),
                    save_ms: Some(500),
                    save_interval_ms: Some(10_000),
                    running_ms: 0,
                    saves: 20,
                    has_client: c % 3 == 0,
                    launcher_grace_ms: None,
                };
                let workers = BTreeMap::from([(worker, report)]);
                let report = NodeReport { workers, ..NodeReport::default() };
                Some(Input::NodeReport { node, report })
            }
            12 | 13 => {
                let open: Vec<&Drain> =
                    self.arbiter.drains().values().filter(|d| d.state.is_open()).collect();
                let drain = open.get(usize::from(a) % open.len().max(1))?;
                let node = drain.members.get(&rank)?.node.clone();
                let worker =
                    WorkerId { workload: drain.victim.clone(), attempt: drain.attempt, rank };
                let kind = match drain.state {
                    DrainState::Ordered if c % 8 == 0 => EventKind::Refused {
                        refusal: crate::protocol::Refusal::NoWorker,
                        detail: String::new(),
                    },
                    DrainState::Ordered => ARMED,
                    DrainState::Saving => durable(checkpoint(100 + u64::from(c))),
                    _ => freed(),
                };
                let event = DrainEvent { drain: drain.id.clone(), epoch: 1, worker, kind };
                Some(Input::DrainEvent { node, event })
            }
            15 if c % 16 == 0 => Some(Input::Freeze { why: "test".to_owned() }),
            15 if c % 4 == 1 => Some(Input::Unfreeze),
            _ => Some(Input::Tick),
        }
    }

    fn check_state(&self) -> Result<(), String> {
        let arbiter = &self.arbiter;
        let mut held: BTreeMap<(NodeName, DeviceId), WorkloadName> = BTreeMap::new();
        let mut reserved: BTreeMap<(NodeName, DeviceId), WorkloadName> = BTreeMap::new();
        let mut gpus = 0;
        for (name, workload) in arbiter.workloads() {
            for assignment in workload.members.values().filter_map(|m| m.assignment.as_ref()) {
                for device in &assignment.devices {
                    gpus += 1;
                    let other =
                        held.insert((assignment.node.clone(), device.clone()), name.clone());
                    if let Some(other) = other {
                        return Err(format!("{device} is held by {name} and {other}"));
                    }
                }
            }
            let place = arbiter.scheduler.place(&super::super::engine::key_of(name));
            let is_decided = arbiter.frozen().is_none() && !arbiter.dirty;
            if let Some(reservation) = &workload.reservation {
                for (rank, assignment) in &reservation.placement {
                    if !workload.members[rank].nodes.contains(&assignment.node) {
                        return Err(format!(
                            "{name} has {} reserved out of reach",
                            assignment.node
                        ));
                    }
                    for device in &assignment.devices {
                        let of = (assignment.node.clone(), device.clone());
                        if let Some(other) = reserved.insert(of, name.clone()) {
                            return Err(format!("{device} is reserved for {name} and {other}"));
                        }
                    }
                }
                if is_decided && place != Some(Place::Holding) {
                    return Err(format!("{name} has a reservation and is {place:?}"));
                }
            } else if is_decided && workload.phase == Phase::Pending {
                let is_ready = super::super::schedule::not_ready(workload, arbiter.now).is_none();
                if is_ready != (place == Some(Place::Waiting)) {
                    return Err(format!("{name} is ready: {is_ready}, but is {place:?}"));
                }
            }
        }
        if gpus > 5 {
            return Err(format!("{gpus} GPUs of a quota of 5"));
        }
        Ok(())
    }
}

impl Arbiter {
    /// What follows from the rest of the state.
    fn derived(&self) -> (&Stock, &Watchlist, &BTreeSet<NodeName>, &BTreeSet<NodeName>) {
        (&self.stock, &self.watchlist, &self.silent, &self.failing)
    }

    /// Decides as if as many queues waited as make it look at them little by little.
    fn with_many_queues(mut self) -> Self {
        self.review.at_once = 0;
        self
    }

    /// What is decided if everybody is looked at now.
    fn decided_about_all(&self) -> Vec<Decision> {
        let mut arbiter = self.clone();
        arbiter.review.at_once = usize::MAX;
        arbiter.dirty = true;
        let outputs = arbiter.step(arbiter.now, Input::Tick).into_iter();
        let decisions = outputs.filter_map(|output| match output {
            Output::Decided(decision) => Some(decision),
            _ => None,
        });
        let is_given = |d: &Decision| matches!(d.kind, DecisionKind::Admit | DecisionKind::Preempt);
        decisions.filter(is_given).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn who_is_woken_by_what_concerns_them_misses_nothing(
        numbers in proptest::collection::vec(any::<(u8, u8, u8, u8)>(), 1..160)
    ) {
        let mut bench = Bench::new(&NODES, 5);
        bench.arbiter = bench.arbiter.with_many_queues();
        let mut log = Vec::new();
        for numbers in numbers {
            let Some(input) = bench.random_input(numbers) else { continue };
            bench.now += [0, 50, 500, 3_000][usize::from(numbers.3 >> 6)];
            log.push(format!("{} {input:?}", bench.now));
            bench.arbiter.step(Time(bench.now), input);
            prop_assert_eq!(bench.arbiter.decided_about_all(), vec![], "after {:#?}", log);
        }
    }

    #[test]
    #[test]
    fn an_arbiter_restored_decides_as_the_one_that_went_on(
        numbers in proptest::collection::vec(any::<(u8, u8, u8, u8)>(), 1..160)
    ) {
        let mut bench = Bench::new(&NODES, 5);
        let mut log = Vec::new();
        for numbers in numbers {
            let Some(input) = bench.random_input(numbers) else { continue };
            bench.now += [0, 50, 500, 3_000][usize::from(numbers.3 >> 6)];
            log.push(format!("{} {input:?}", bench.now));
            let mut restored = Arbiter::restore(bench.arbiter.snapshot());
            let expected = bench.arbiter.step(Time(bench.now), input.clone());
            let outputs = restored.step(Time(bench.now), input);
            prop_assert_eq!(&outputs, &expected, "after {:#?}", log);
            let mut settled = bench.arbiter.clone();
            for arbiter in [&mut restored, &mut settled] {
                arbiter.sync();
                arbiter.free_the_bound();
            }
            prop_assert_eq!(restored.derived(), settled.derived(), "after {:#?}", log);
            prop_assert!(restored.snapshot() == bench.arbiter.snapshot(), "after {:#?}\n{:#?}\n{:#?}", log, restored.snapshot(), bench.arbiter.snapshot());
            if let Err(problem) = bench.check_state() {
                prop_assert!(false, "{problem}, after {log:#?}");
            }
        }
    }
}

#[test]
fn whoever_waits_for_a_victim_to_start_is_looked_at_when_it_has() {
    let mut bench = Bench::new(&["a"], 2);
    bench.arbiter = bench.arbiter.with_many_queues();
    bench.submit(&Bench::spec("train", 10, 1, 2), &["a"]);
    bench.submit(&Bench::spec("serve", 30, 1, 2), &["a"]);
    assert_eq!(bench.phase("serve"), Phase::Pending);
    assert_eq!(bench.phase("train"), Phase::Admitted);
    bench.report("train", 0, None, None);
    assert_eq!(bench.phase("train"), Phase::Draining);
}
