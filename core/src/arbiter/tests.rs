//! The arbiter alone: inputs in, outputs out. What agents do in between is played by hand.

mod asked;
mod drains;
mod explain;
mod faults;
mod holds;
mod nodes;
mod overtake;
mod policy;
mod rehearse;
mod restart;
mod slices;
mod submit;
mod wave;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::*;
use crate::checkpoint::{Checkpoint, CheckpointFormat};
use crate::drain::DrainState;
use crate::id::{LauncherId, ResourceName};
use crate::protocol::{DrainEvent, EventKind, Health, NodeReport, Order, Verb};
use crate::workload::{CheckpointSpec, Exit, Phase, SaveSignal, WorkloadSpec};

fn gpu() -> ResourceName {
    "nvidia.com/gpu".parse().unwrap()
}

fn name(text: &str) -> WorkloadName {
    text.parse().unwrap()
}

/// An arbiter with nodes of two GPUs each and one queue.
struct Bench {
    arbiter: Arbiter,
    now: u64,
    sent: Vec<(NodeName, Order)>,
    decided: Vec<Decision>,
    /// What workers report.
    has_client: bool,
    launcher_grace_ms: Option<u64>,
    stored_faults: BTreeMap<NodeName, NodeFaults>,
    stored_wave: (bool, usize),
    /// Workers that their agents still have when the arbiter is replaced.
    outliving: BTreeMap<NodeName, BTreeMap<WorkerId, WorkerReport>>,
}

impl Bench {
    fn new(nodes: &[&str], nominal: u64) -> Self {
        let nominal = i64::try_from(nominal).unwrap();
        let mut queues = Queues::single("default", &[("nvidia.com/gpu", nominal)]);
        let local = ("team/local".parse().unwrap(), "default".parse().unwrap());
        queues.local.extend([local]);
        Self::with(Config { queues, ..Config::default() }, nodes)
    }

    fn with(config: Config, nodes: &[&str]) -> Self {
        let arbiter = Arbiter::new(Time(1_000_000), config, Vec::new(), Vec::new(), None);
        let mut bench = Self {
            arbiter,
            now: 1_000_000,
            sent: Vec::new(),
            decided: Vec::new(),
            has_client: false,
            launcher_grace_ms: None,
            stored_faults: BTreeMap::new(),
            stored_wave: (false, 0),
            outliving: BTreeMap::new(),
        };
        for node in nodes {
            bench.connect(node);
        }
        bench
    }

    fn give(&mut self, input: Input) -> Option<Reply> {
        let mut reply = None;
        for output in self.arbiter.step(Time(self.now), input) {
            match output {
                Output::Send { node, order } => self.sent.push((node, order)),
                Output::Decided(decision) => self.decided.push(decision),
                Output::Reply(answer) => reply = Some(answer),
                Output::SaveNodeFaults(name) => match self.arbiter.node_faults(&name) {
                    Some(faults) => drop(self.stored_faults.insert(name, faults)),
                    None => drop(self.stored_faults.remove(&name)),
                },
                Output::SaveWave => {
                    self.stored_wave = (self.arbiter.is_wave_open(), self.arbiter.known_nodes());
                }
                Output::SaveWorkload(_)
                | Output::SaveDrain(_)
                | Output::ForgetWorkload(_)
                | Output::ForgetDrain(_)
                | Output::WakeAt(_) => {}
            }
        }
        reply
    }

    fn wait(&mut self, ms: u64) {
        self.now += ms;
        self.give(Input::Tick);
    }

    fn connect(&mut self, node: &str) {
        self.connect_with(node, |_, _| {});
    }

    /// The agent of `node` connects with devices as `change` leaves them.
    fn connect_with(&mut self, node: &str, change: impl Fn(&str, &mut Device)) {
        let node: NodeName = node.parse().unwrap();
        let device = |index: u32| {
            let mut device = Device {
                resource: gpu(),
                index,
                kind: "nvidia-l4".to_owned(),
                simulated: true,
                health: Health::Healthy,
                fault: None,
            };
            let id = format!("{node}-{index}");
            change(&id, &mut device);
            (id.parse().unwrap(), device)
        };
        let known = self.arbiter.nodes().get(&node).map(|n| n.workers.clone());
        let known = known.or_else(|| self.outliving.get(&node).cloned()).unwrap_or_default();
        let report = NodeReport {
            full: true,
            devices: (0..2).map(device).collect(),
            workers: known,
            ..NodeReport::default()
        };
        self.give(Input::AgentConnected { node: node.clone() });
        self.give(Input::NodeReport { node, report });
    }

    fn spec(workload: &str, priority: i32, nnodes: u32, gpus: u64) -> WorkloadSpec {
        WorkloadSpec {
            name: name(workload),
            queue: "default".parse().unwrap(),
            priority,
            nnodes,
            resources: BTreeMap::from([(gpu(), gpus)]),
            topology: None,
            slice: None,
            checkpoint: Some(CheckpointSpec {
                dir: "/ckpt".to_owned(),
                format: CheckpointFormat::HuggingFace,
                rules: Default::default(),
            }),
            save_signal: None,
            is_signal_vouched: true,
            grace_ms: None,
            drain_deadline_ms: 0,
            command: Vec::new(),
        }
    }

    fn launcher(workload: &str, rank: u32) -> LauncherId {
        format!("{workload}-launcher-{rank}").parse().unwrap()
    }

    fn submit_rank(
        &mut self,
        spec: &WorkloadSpec,
        rank: u32,
        nodes: &[&str],
    ) -> Result<(), Reason> {
        let launcher = Self::launcher(spec.name.as_str(), rank);
        let nodes = nodes.iter().map(|n| n.parse().unwrap()).collect();
        let input = Input::Submit { spec: spec.clone(), rank, launcher: launcher.clone(), nodes };
        let Some(Reply::Submitted(result)) = self.give(input) else { panic!("no answer") };
        result?;
        self.give(Input::Attach { workload: spec.name.clone(), rank, launcher });
        Ok(())
    }

    fn submit(&mut self, spec: &WorkloadSpec, nodes: &[&str]) {
        for rank in 0..spec.nnodes {
            self.submit_rank(spec, rank, nodes).unwrap();
        }
    }

    fn workload(&self, workload: &str) -> &Workload {
        self.arbiter.workload(&name(workload)).unwrap()
    }

    fn phase(&self, workload: &str) -> Phase {
        self.workload(workload).phase
    }

    fn drain(&self, id: &str) -> &Drain {
        self.arbiter.drain(&id.parse().unwrap()).unwrap()
    }

    fn worker(&self, workload: &str, rank: u32) -> (NodeName, WorkerId) {
        let record = self.workload(workload);
        let node = record.members[&rank].assignment.as_ref().unwrap().node.clone();
        (node, WorkerId { workload: name(workload), attempt: record.attempt, rank })
    }

    /// The agent of a rank reports its worker, with a checkpoint of this attempt if `step` is given.
    fn report(
        &mut self,
        workload: &str,
        rank: u32,
        step: Option<u64>,
        measured: Option<(u64, u64, u64)>,
    ) {
        let (node, worker) = self.worker(workload, rank);
        let report = WorkerReport {
            device_fault: None,
            running: true,
            checkpoint: step.map(checkpoint),
            checkpoint_age_ms: step.map(|_| 0),
            checkpoint_is_of_this_attempt: step.is_some(),
            step_ms: measured.map(|m| m.0),
            save_ms: measured.map(|m| m.1),
            save_interval_ms: measured.map(|m| m.2),
            running_ms: 0,
            saves: 20,
            has_client: self.has_client,
            launcher_grace_ms: self.launcher_grace_ms,
        };
        let workers = BTreeMap::from([(worker, report)]);
        self.give(Input::NodeReport {
            node,
            report: NodeReport { workers, ..NodeReport::default() },
        });
    }

    fn start(&mut self, workload: &str) {
        for rank in 0..self.workload(workload).spec.nnodes {
            self.report(workload, rank, None, None);
        }
        assert_eq!(self.phase(workload), Phase::Running);
    }

    fn event(&mut self, drain: &str, workload: &str, rank: u32, kind: EventKind) {
        let (node, worker) = self.worker(workload, rank);
        self.event_from(&node, drain, worker, kind);
    }

    fn event_from(&mut self, node: &NodeName, drain: &str, worker: WorkerId, kind: EventKind) {
        let event = DrainEvent { drain: drain.parse().unwrap(), epoch: 1, worker, kind };
        self.give(Input::DrainEvent { node: node.clone(), event });
    }

    fn exit(
        &mut self,
        workload: &str,
        attempt: u32,
        rank: u32,
        exit: Exit,
    ) -> (bool, &'static str) {
        let worker = WorkerId { workload: name(workload), attempt, rank };
        let launcher = Self::launcher(workload, rank);
        match self.give(Input::ReportExit { worker, launcher, exit }) {
            Some(Reply::Exit { wait, reason }) => (wait, reason.code()),
            other => panic!("answered {other:?}"),
        }
    }

    /// Takes what was sent since the last call, as `node:verb`.
    fn sent(&mut self) -> Vec<String> {
        let show = |(node, order): (NodeName, Order)| match order.verb {
            Verb::Prepare { mode, .. } => format!("{node}:prepare {mode}"),
            Verb::Commit => format!("{node}:commit"),
            Verb::Extend { .. } => format!("{node}:extend"),
            Verb::Abort => format!("{node}:abort"),
            Verb::Release { .. } => format!("{node}:release"),
            Verb::Restate => format!("{node}:restate"),
        };
        std::mem::take(&mut self.sent).into_iter().map(show).collect()
    }

    /// A gang that runs on "a" and "b" with a checkpoint every 10 s, the last one 3 s old, and a
    /// submission for which it is drained.
    fn preempting() -> Self {
        let mut bench = Self::new(&["a", "b"], 4);
        bench.submit(&Self::spec("train", 10, 2, 2), &["a", "b"]);
        bench.start("train");
        bench.now += 20_000;
        for rank in 0..2 {
            bench.report("train", rank, Some(40), Some((1_000, 500, 10_000)));
        }
        bench.now += 3_000;
        bench.submit(&Self::spec("serve", 30, 1, 2), &["a", "b"]);
        bench
    }
}

fn checkpoint(step: u64) -> Checkpoint {
    Checkpoint {
        step,
        path: format!("/ckpt/checkpoint-{step}"),
        bytes: 1_000,
        files: 6,
        marker: "trainer_state.json".to_owned(),
        grade: crate::checkpoint::Grade::LocalComplete,
    }
}

fn states(drain: &Drain) -> Vec<DrainState> {
    drain.history.iter().map(|t| t.state).collect()
}

const ARMED: EventKind = EventKind::Armed { step: Some(40), checkpoint_age_ms: Some(3_000) };

fn durable(checkpoint: Checkpoint) -> EventKind {
    EventKind::Durable { checkpoint, age_ms: 0 }
}

fn freed() -> EventKind {
    EventKind::Freed { devices: BTreeSet::new(), killed: false, parked: false, release_ms: 5 }
}
