//! One seeded run: a random set of workloads on a few nodes, faults for a while, then calm to the end.

use std::collections::{BTreeMap, BTreeSet};

use sluice_core::arbiter::{Config, Input};
use sluice_core::checkpoint::CheckpointFormat;
use sluice_core::drain::{Drain, Mode};
use sluice_core::id::{NodeName, QueueName, ResourceName};
use sluice_core::kueue::model::PreemptionPolicy;
use sluice_core::queue::Queues;
use sluice_core::scheduler::{Rule, Rules};
use sluice_core::workload::{CheckpointSpec, SaveSignal, WorkloadSpec};

use crate::checker;
use crate::fault::Faults;
use crate::gang::{OnFile, OnSignal, Program};
use crate::launcher::Launcher;
use crate::rng::Rng;
use crate::world::{TICK_MS, World};

/// Faults strike for this long.
const FAULTS_MS: u64 = 60_000;
/// After the faults everything must have ended by then. Workloads take seconds; timeouts add up to minutes.
const END_MS: u64 = 900_000;

/// What a run was like.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Summary {
    pub(crate) drains: u64,
    pub(crate) durable: u64,
    pub(crate) signalled: u64,
    pub(crate) by_client: u64,
    pub(crate) rehearsed: u64,
    pub(crate) epochs: u64,
    pub(crate) virtual_ms: u64,
}

/// A broken promise and how it came about.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) violation: String,
    pub(crate) at_ms: u64,
    pub(crate) trace: Vec<String>,
}

/// Runs one seed.
pub(crate) fn run(seed: u64) -> Result<Summary, Failure> {
    let rng = Rng::new(seed);
    let mut world = build(&rng);
    let mut faults = Faults::new(&rng, FAULTS_MS);
    world.weather = faults.weather();
    let mut rehearsals = Rehearsals::new(&rng, FAULTS_MS);
    let fail = |world: &World, violation: String| Failure {
        violation,
        at_ms: world.now,
        trace: world.trace.clone(),
    };
    while world.now < END_MS {
        faults.strike(&mut world);
        rehearsals.ask(&mut world);
        world.tick();
        checker::check(&world).map_err(|violation| fail(&world, violation))?;
        if world.now > FAULTS_MS && world.now.is_multiple_of(TICK_MS * 100) && world.all_done() {
            break;
        }
    }
    checker::check_end(&world).map_err(|violation| fail(&world, violation))?;
    let durable = world.stored_drains().filter(|d| d.saved.is_some()).count() as u64;
    let drains = world.stored_drains().count() as u64;
    let by_signal = |d: &&Drain| d.members.values().any(|m| m.signalled);
    let signalled = world.stored_drains().filter(by_signal).count() as u64;
    let is_by_client = |d: &&Drain| d.plan.mode == Mode::Client && d.saved.is_some();
    let by_client = world.stored_drains().filter(is_by_client).count() as u64;
    let rehearsed = world.stored_drains().filter(|d| d.is_rehearsal).count() as u64;
    let (epochs, virtual_ms) = (world.epoch, world.now);
    Ok(Summary { drains, durable, signalled, by_client, rehearsed, epochs, virtual_ms })
}

/// Somebody tries a save now and then, on any workload at any moment.
struct Rehearsals {
    rng: Rng,
    until_ms: u64,
}

impl Rehearsals {
    /// Once in some ten seconds.
    const PER_MILLION_TICKS: u64 = 1_000;

    fn new(seed: &Rng, until_ms: u64) -> Self {
        Self { rng: seed.child("rehearsals"), until_ms }
    }

    fn ask(&mut self, world: &mut World) {
        if world.now >= self.until_ms || !self.rng.chance(Self::PER_MILLION_TICKS) {
            return;
        }
        let index = self.rng.range(0, world.launchers.len() as u64);
        let launcher = usize::try_from(index).ok().and_then(|i| world.launchers.get(i));
        if let Some(workload) = launcher.map(|l| l.spec.name.clone()) {
            world.log(&format!("somebody rehearses {workload}"));
            world.give(Input::Rehearse { workload, deadline_ms: 20_000 });
        }
    }
}

fn build(seed: &Rng) -> World {
    let mut rng = seed.child("cluster");
    let count = rng.range(1, 5);
    let nodes: Vec<NodeName> = (0..count).map(|i| name(&format!("node-{i}"))).collect();
    let gpu: ResourceName = name("nvidia.com/gpu");
    let mut policy = seed.child("policy");
    let queues = queues(&mut policy, &gpu, count * 2);
    let (mut rules, fair_sharing) = rules(&mut policy);
    if queues.setup.queues.len() > 1 && !rules.is_on(Rule::HeldCapacity) {
        // Two queues that take back what is theirs take it from each other for ever if nothing is held: Kueue's own
        // way, and no end to wait for.
        rules = Rules::all();
    }
    let config = Config {
        queues,
        rules,
        fair_sharing,
        drain_deadline_ms: rng.range(5, 40) * 1_000,
        release_grace_ms: 2_000,
        productive_floor_ms: rng.range(0, 5) * 1_000,
        ..Config::default()
    };
    let mut world = World::new(seed, config, &nodes, 2);
    for index in 0..rng.range(3, 9) {
        add_workload(&mut world, &mut rng, index, &nodes, &gpu);
    }
    world
}

/// One queue with all devices, or with all but one; or two that share them in a cohort and take back what is theirs.
fn queues(rng: &mut Rng, gpu: &ResourceName, devices: u64) -> Queues {
    let nominal = |n: u64| [(gpu.as_str(), i64::try_from(n).unwrap_or(i64::MAX))];
    match rng.range(0, 4) {
        0 | 1 => Queues::single("default", &nominal(devices)),
        2 => Queues::single("default", &nominal(devices - 1)),
        _ => {
            let own = rng.range(0, devices + 1);
            let mut queues = Queues::single("default", &nominal(own));
            let other = Queues::single("other", &nominal(devices - own));
            queues.setup.queues.extend(other.setup.queues);
            for queue in &mut queues.setup.queues {
                queue.cohort = Some("all".into());
                queue.preemption.reclaim_within_cohort = PreemptionPolicy::Any;
            }
            queues
        }
    }
}

/// Sluice's rules, some of them, or Kueue's alone; seldom with fair sharing.
fn rules(rng: &mut Rng) -> (Rules, bool) {
    match rng.range(0, 6) {
        0 => (Rules::none(), false),
        1 => {
            let off = Rule::ALL.into_iter().filter(|_| rng.chance(300_000));
            (off.fold(Rules::all(), Rules::without), false)
        }
        2 => (Rules::all(), true),
        _ => (Rules::all(), false),
    }
}

fn add_workload(
    world: &mut World,
    rng: &mut Rng,
    index: u64,
    nodes: &[NodeName],
    gpu: &ResourceName,
) {
    let ranks = u32::try_from(rng.range(1, nodes.len() as u64 + 1)).unwrap_or(1);
    let behaviours = [
        OnSignal::Save,
        OnSignal::Save,
        OnSignal::SaveAndExit,
        OnSignal::SaveAndExit,
        OnSignal::ExitZero,
        OnSignal::Ignore,
        OnSignal::NoHandler,
    ];
    let on_signal = rng.pick(&behaviours).unwrap_or(OnSignal::Save);
    let declared = SaveSignal { number: 10, exits_after_save: on_signal == OnSignal::SaveAndExit };
    let has_dir = !rng.chance(100_000);
    let spec = WorkloadSpec {
        name: name(&format!("job-{index}")),
        queue: queue_of(world, index),
        priority: i32::try_from(rng.range(0, 4)).unwrap_or(0) * 10,
        nnodes: ranks,
        resources: BTreeMap::from([(gpu.clone(), rng.range(1, 3))]),
        topology: None,
        slice: None,
        checkpoint: has_dir.then(|| CheckpointSpec {
            dir: "/checkpoints".to_owned(),
            format: CheckpointFormat::HuggingFace,
            rules: Default::default(),
        }),
        save_signal: rng.chance(700_000).then_some(declared),
        is_signal_vouched: rng.chance(800_000),
        grace_ms: None,
        drain_deadline_ms: 0,
        command: Vec::new(),
    };
    let clients = [
        OnFile::NoClient,
        OnFile::NoClient,
        OnFile::SaveAndPark,
        OnFile::SaveAndPark,
        OnFile::Lie,
        OnFile::Ignore,
        OnFile::Fail,
    ];
    let on_file = rng.pick(&clients).unwrap_or(OnFile::NoClient);
    let program = Program {
        startup_ms: rng.range(100, 3_000),
        step_ms: rng.range(20, 300),
        // Most gangs save so rarely that their next boundary is beyond the deadline: a signal is needed.
        save_every: if rng.chance(300_000) { rng.range(5, 50) } else { rng.range(150, 400) },
        save_ms: rng.range(10, 2_000),
        total_steps: rng.range(20, 400),
        on_signal,
        on_file,
        is_disk_full: rng.chance(50_000),
        ignores_term: rng.chance(100_000),
    };
    let reach: BTreeSet<NodeName> = nodes.iter().cloned().collect();
    for rank in 0..ranks {
        let submit_at = 1_000 + rng.range(0, 30_000);
        world.add(Launcher::new(spec.clone(), rank, reach.clone(), submit_at), program);
    }
}

/// The queues in turn.
fn queue_of(world: &World, index: u64) -> QueueName {
    let queues = &world.config.queues.setup.queues;
    let position = usize::try_from(index).unwrap_or(0) % queues.len();
    name(queues[position].name.as_str())
}

fn name<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().expect("names made here are valid")
}
