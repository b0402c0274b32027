//! Every point at which a crash can come, for every way in which a gang is drained: no chance and no other fault.
//!
//! A scenario is run once to count the arbiter's steps and the agent's outputs, and then once for each of them and each
//! moment: the arbiter killed before it stores a step, between storing and sending, and together with the agent; the
//! agent killed before it performs an output (so after the one before). What must never be is checked after every tick,
//! and all work has to end.

use std::collections::{BTreeMap, BTreeSet};

use sluice_core::arbiter::{Config, Input};
use sluice_core::checkpoint::CheckpointFormat;
use sluice_core::drain::{Drain, DrainState, Mode};
use sluice_core::id::{NodeName, ResourceName};
use sluice_core::queue::Queues;
use sluice_core::scheduler::{Rule, Rules};
use sluice_core::workload::{CheckpointSpec, SaveSignal, WorkloadSpec};

use crate::checker;
use crate::gang::{OnFile, OnSignal, Program};
use crate::launcher::Launcher;
use crate::rng::Rng;
use crate::run::Failure;
use crate::world::World;

/// When the victim is asked for; by then it has trained for some seconds.
const DEMAND_MS: u64 = 12_000;
/// How long what was killed stays away: longer than a heartbeat is not needed, as all of the state is on disk.
const AWAY_MS: u64 = 300;
/// Everything has ended by then.
const END_MS: u64 = 300_000;

/// A way of being drained.
#[derive(Debug, Clone, Copy)]
struct Scenario {
    name: &'static str,
    on_signal: Option<OnSignal>,
    on_file: OnFile,
    save_every: u64,
    save_ms: u64,
    deadline_ms: u64,
    /// Nobody needs the devices; a save is tried.
    is_rehearsal: bool,
    has_dir: bool,
    /// What the drain of the run without a crash has to have been, so that a scenario shows what it says.
    mode: Mode,
    state: DrainState,
}

const PLAIN: Scenario = Scenario {
    name: "BOUNDARY, durable",
    on_signal: None,
    on_file: OnFile::NoClient,
    save_every: 50,
    save_ms: 400,
    deadline_ms: 30_000,
    is_rehearsal: false,
    has_dir: true,
    mode: Mode::Boundary,
    state: DrainState::Durable,
};

/// It saves so seldom that its next boundary comes too late.
const SELDOM: Scenario = Scenario { save_every: 10_000, deadline_ms: 5_000, ..PLAIN };

const fn by_signal(name: &'static str, on_signal: OnSignal, state: DrainState) -> Scenario {
    Scenario { name, on_signal: Some(on_signal), mode: Mode::Signal, state, ..SELDOM }
}

const fn by_client(name: &'static str, on_file: OnFile, state: DrainState) -> Scenario {
    Scenario { name, on_file, mode: Mode::Client, state, ..SELDOM }
}

const SCENARIOS: [Scenario; 13] = [
    PLAIN,
    // It saves from 10.8 s to 14.8 s: its SIGTERM is put off.
    Scenario {
        name: "KILL, told to end while it saves",
        save_ms: 4_000,
        save_every: 190,
        deadline_ms: 1_000,
        mode: Mode::Kill,
        state: DrainState::Releasing,
        ..PLAIN
    },
    by_signal("SIGNAL, goes on", OnSignal::Save, DrainState::Durable),
    by_signal("SIGNAL, ends after its save", OnSignal::SaveAndExit, DrainState::Durable),
    by_signal("SIGNAL, only ends", OnSignal::ExitZero, DrainState::SaveFailed),
    by_signal("SIGNAL, ignored", OnSignal::Ignore, DrainState::Expired),
    by_client("CLIENT, parks", OnFile::SaveAndPark, DrainState::Durable),
    by_client("CLIENT, lies", OnFile::Lie, DrainState::Expired),
    by_client("CLIENT, cannot save", OnFile::Fail, DrainState::SaveFailed),
    by_client("CLIENT, deaf", OnFile::Ignore, DrainState::Expired),
    Scenario {
        name: "KILL",
        has_dir: false,
        mode: Mode::Kill,
        state: DrainState::Releasing,
        ..SELDOM
    },
    Scenario {
        name: "rehearsal by signal",
        is_rehearsal: true,
        ..by_signal("", OnSignal::Save, DrainState::Durable)
    },
    Scenario {
        name: "rehearsal by client",
        is_rehearsal: true,
        ..by_client("", OnFile::SaveAndPark, DrainState::Durable)
    },
];

/// Who is killed, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kill {
    Nobody,
    ArbiterBeforeStoring(u64),
    ArbiterBeforeSending(u64),
    Both(u64),
    Agent(u64),
}

/// What a run consisted of, from the demand on.
struct Counts {
    arbiter_steps: u64,
    agent_outputs: u64,
}

/// Runs all of them; the number of crashes, or the first promise that was broken.
pub(crate) fn run_all() -> Result<u64, (String, Failure)> {
    let mut crashes = 0;
    for scenario in SCENARIOS {
        let failed = |kill: Kill| move |failure| (format!("{}, {kill:?}", scenario.name), failure);
        let counts = run(&scenario, Kill::Nobody).map_err(failed(Kill::Nobody))?;
        let steps = (0..counts.arbiter_steps).flat_map(|step| {
            [Kill::ArbiterBeforeStoring(step), Kill::ArbiterBeforeSending(step), Kill::Both(step)]
        });
        for kill in steps.chain((0..counts.agent_outputs).map(Kill::Agent)) {
            run(&scenario, kill).map_err(failed(kill))?;
            crashes += 1;
        }
    }
    Ok(crashes)
}

fn run(scenario: &Scenario, kill: Kill) -> Result<Counts, Failure> {
    let mut world = build(scenario);
    let node: NodeName = named("node-0");
    let (mut back_at, mut is_due) = ([None, None], true);
    while world.now < END_MS && !(world.now > DEMAND_MS && world.all_done()) {
        if is_due && world.now >= DEMAND_MS {
            is_due = false;
            arm(&mut world, &node, kill);
            if scenario.is_rehearsal {
                let workload = named("train");
                world.give(Input::Rehearse { workload, deadline_ms: scenario.deadline_ms });
            }
        }
        heal(&mut world, &node, kill, &mut back_at);
        world.tick();
        checker::check(&world).map_err(|violation| failure(&world, violation))?;
    }
    checker::check_end(&world).map_err(|violation| failure(&world, violation))?;
    if kill == Kill::Nobody {
        is_what_it_says(scenario, &world).map_err(|violation| failure(&world, violation))?;
    }
    let left = world.nodes.get(&node).and_then(|n| n.crash_after_outputs).unwrap_or(u64::MAX);
    Ok(Counts {
        arbiter_steps: u64::MAX - world.arbiter_dies_in.unwrap_or(u64::MAX),
        agent_outputs: u64::MAX - left,
    })
}

fn failure(world: &World, violation: String) -> Failure {
    Failure { violation, at_ms: world.now, trace: world.trace.clone() }
}

/// Sets the moment; with nobody to kill, what is counted down tells how much there was.
fn arm(world: &mut World, node: &NodeName, kill: Kill) {
    let (arbiter, agent) = match kill {
        Kill::Nobody => (Some(u64::MAX), Some(u64::MAX)),
        Kill::ArbiterBeforeStoring(step) | Kill::ArbiterBeforeSending(step) | Kill::Both(step) => {
            (Some(step), None)
        }
        Kill::Agent(output) => (None, Some(output)),
    };
    world.dies_before_storing = matches!(kill, Kill::ArbiterBeforeStoring(_));
    world.arbiter_dies_in = arbiter;
    if let Some(node) = world.nodes.get_mut(node) {
        node.crash_after_outputs = agent;
    }
}

/// What is down comes back after a while.
fn heal(world: &mut World, node: &NodeName, kill: Kill, back_at: &mut [Option<u64>; 2]) {
    let now = world.now;
    if world.arbiter.is_none() {
        if back_at[0].is_none() && matches!(kill, Kill::Both(_)) {
            world.crash_agent(node);
        }
        if now >= *back_at[0].get_or_insert(now + AWAY_MS) {
            world.start_arbiter();
        }
    }
    let is_agent_down = world.nodes.get(node).is_some_and(|node| node.agent.is_none());
    if is_agent_down && now >= *back_at[1].get_or_insert(now + AWAY_MS) {
        world.start_agent(node);
    }
}

/// A scenario that is drained otherwise than its name says would show nothing.
fn is_what_it_says(scenario: &Scenario, world: &World) -> Result<(), String> {
    let is_it = |drain: &&Drain| {
        let asked = drain.history.iter().any(|t| t.state == scenario.state);
        drain.plan.mode == scenario.mode && drain.is_rehearsal == scenario.is_rehearsal && asked
    };
    if world.stored_drains().any(|drain| is_it(&drain)) {
        return Ok(());
    }
    let seen: Vec<String> = world
        .stored_drains()
        .map(|d| {
            let states: Vec<String> = d.history.iter().map(|t| t.state.to_string()).collect();
            format!("{} {}", d.plan.mode, states.join(" "))
        })
        .collect();
    Err(format!("{} was {seen:?}", scenario.name))
}

fn build(scenario: &Scenario) -> World {
    let nodes = [named::<NodeName>("node-0")];
    let config = Config {
        queues: Queues::single("default", &[("nvidia.com/gpu", 2)]),
        // A drain that was tried and given up may be tried again at once.
        rules: Rules::all().without(Rule::ProductiveFloor),
        drain_deadline_ms: scenario.deadline_ms,
        release_grace_ms: 2_000,
        productive_floor_ms: 0,
        ..Config::default()
    };
    let mut world = World::new(&Rng::new(1), config, &nodes, 2);
    world.weather.delay_ms_max = 1;
    let train = Program {
        startup_ms: 200,
        step_ms: 50,
        save_every: scenario.save_every,
        save_ms: scenario.save_ms,
        total_steps: 400,
        on_signal: scenario.on_signal.unwrap_or(OnSignal::NoHandler),
        on_file: scenario.on_file,
        is_disk_full: false,
        ignores_term: false,
    };
    let declared = scenario.on_signal.map(|on_signal| SaveSignal {
        number: 10,
        exits_after_save: on_signal == OnSignal::SaveAndExit,
    });
    let checkpoint = scenario.has_dir.then(|| CheckpointSpec {
        dir: "/checkpoints".to_owned(),
        format: CheckpointFormat::HuggingFace,
        rules: Default::default(),
    });
    let spec = WorkloadSpec { checkpoint, save_signal: declared, ..spec("train", 0) };
    let reach: BTreeSet<NodeName> = nodes.iter().cloned().collect();
    world.add(Launcher::new(spec, 0, reach.clone(), 1_100), train);
    if !scenario.is_rehearsal {
        let serve =
            Program { save_every: 10_000, total_steps: 20, on_file: OnFile::NoClient, ..train };
        world.add(Launcher::new(self::spec("serve", 10), 0, reach, DEMAND_MS), serve);
    }
    world
}

fn spec(name: &str, priority: i32) -> WorkloadSpec {
    let gpu: ResourceName = named("nvidia.com/gpu");
    WorkloadSpec {
        name: named(name),
        queue: named("default"),
        priority,
        nnodes: 1,
        resources: BTreeMap::from([(gpu, 2)]),
        topology: None,
        slice: None,
        checkpoint: None,
        save_signal: None,
        is_signal_vouched: true,
        grace_ms: None,
        drain_deadline_ms: 0,
        command: Vec::new(),
    }
}

fn named<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().expect("names made here are valid")
}
