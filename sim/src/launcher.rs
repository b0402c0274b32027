//! `sluice run`: submits, waits, starts the worker, reports its exit, waits again.

use std::collections::BTreeSet;

use sluice_core::agent::Registration;
use sluice_core::arbiter::{Input, Reply};
use sluice_core::checkpoint::CheckpointFormat;
use sluice_core::id::{DeviceId, LauncherId, NodeName, WorkerId};
use sluice_core::workload::{Assignment, Exit, WorkloadSpec};

use crate::world::World;

/// Where one launcher stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not submitted yet, or the arbiter did not answer.
    Submitting,
    /// Waits for an admission with a higher attempt.
    Waiting,
    /// Its process runs; registered with the agent or not yet.
    Running { worker: WorkerId, node: NodeName, devices: BTreeSet<DeviceId>, registered: bool },
    /// Its process ended and the arbiter has not been told.
    Reporting { worker: WorkerId, exit: Exit },
    /// Over.
    Done,
}

/// One launcher.
#[derive(Debug, Clone)]
pub(crate) struct Launcher {
    pub(crate) id: LauncherId,
    pub(crate) spec: WorkloadSpec,
    pub(crate) rank: u32,
    pub(crate) nodes: BTreeSet<NodeName>,
    pub(crate) submit_at: u64,
    pub(crate) stage: Stage,
    /// True while the arbiter knows that it watches.
    pub(crate) attached: bool,
    /// Attempt that it started last.
    pub(crate) attempt: u32,
}

impl Launcher {
    pub(crate) fn new(
        spec: WorkloadSpec,
        rank: u32,
        nodes: BTreeSet<NodeName>,
        submit_at: u64,
    ) -> Self {
        let id = format!("{}-{rank}", spec.name).parse().expect("a valid name");
        Self {
            id,
            spec,
            rank,
            nodes,
            submit_at,
            stage: Stage::Submitting,
            attached: false,
            attempt: 0,
        }
    }
}

impl World {
    pub(crate) fn launcher_acts(&mut self, index: usize) {
        let Some(launcher) = self.launchers.get(index).cloned() else { return };
        let next = match launcher.stage.clone() {
            Stage::Submitting => self.launcher_submits(&launcher),
            Stage::Waiting => self.launcher_waits(&launcher),
            Stage::Running { worker, registered, .. } => {
                self.launcher_runs(&launcher, worker, registered)
            }
            Stage::Reporting { worker, exit } => self.launcher_reports(&launcher, worker, exit),
            Stage::Done => None,
        };
        let arbiter_up = self.arbiter.is_some();
        let watches = arbiter_up && !matches!(launcher.stage, Stage::Submitting | Stage::Done);
        if watches && !launcher.attached {
            let (workload, rank) = (launcher.spec.name.clone(), launcher.rank);
            self.give(Input::Attach { workload, rank, launcher: launcher.id.clone() });
        }
        let Some(current) = self.launchers.get_mut(index) else { return };
        current.attached = watches && self.arbiter.is_some();
        if let Some(stage) = next {
            if let Stage::Running { worker, .. } = &stage {
                current.attempt = worker.attempt;
            }
            let is_done = stage == Stage::Done;
            current.stage = stage;
            if is_done {
                let (workload, rank) = (launcher.spec.name.clone(), launcher.rank);
                self.give(Input::Detach { workload, rank, launcher: launcher.id });
            }
        }
    }

    fn launcher_submits(&mut self, launcher: &Launcher) -> Option<Stage> {
        if self.now < launcher.submit_at {
            return None;
        }
        let (spec, rank) = (launcher.spec.clone(), launcher.rank);
        let input = Input::Submit {
            spec,
            rank,
            launcher: launcher.id.clone(),
            nodes: launcher.nodes.clone(),
        };
        match self.give(input)? {
            Reply::Submitted(Ok(())) => Some(Stage::Waiting),
            Reply::Submitted(Err(_))
            | Reply::Exit { .. }
            | Reply::Cancelled(_)
            | Reply::Rehearsing(_)
            | Reply::Frozen { .. } => Some(Stage::Done),
        }
    }

    fn launcher_waits(&mut self, launcher: &Launcher) -> Option<Stage> {
        let workload = self.arbiter.as_ref()?.workload(&launcher.spec.name)?.clone();
        if workload.phase.is_finished() {
            return Some(Stage::Done);
        }
        let is_new = workload.attempt > launcher.attempt && workload.phase.holds_devices();
        let assignment =
            workload.members.get(&launcher.rank)?.assignment.clone().filter(|_| is_new)?;
        let worker = WorkerId {
            workload: launcher.spec.name.clone(),
            attempt: workload.attempt,
            rank: launcher.rank,
        };
        self.log(&format!("{worker} starts on {}", assignment.node));
        self.gangs.start(self.now, &worker, launcher.spec.nnodes);
        let Assignment { node, devices, flavors: _ } = assignment;
        Some(Stage::Running { worker, node, devices, registered: false })
    }

    fn launcher_runs(
        &mut self,
        launcher: &Launcher,
        worker: WorkerId,
        registered: bool,
    ) -> Option<Stage> {
        let process = self.gangs.of(&worker).and_then(|g| g.processes.get(&worker.rank));
        if let Some(exit) = process.and_then(|p| p.exit) {
            self.log(&format!("{worker} ended with {exit}"));
            return Some(Stage::Reporting { worker, exit });
        }
        let workload = self.arbiter.as_ref().and_then(|a| a.workload(&worker.workload));
        if workload.is_some_and(|w| w.phase.is_finished()) {
            // Another rank failed, or somebody cancelled: end the own child.
            if let Some(gang) = self.gangs.of_mut(&worker) {
                gang.kill(worker.rank);
            }
            return None;
        }
        if registered { None } else { self.launcher_registers(launcher) }
    }

    fn launcher_registers(&mut self, launcher: &Launcher) -> Option<Stage> {
        let Stage::Running { worker, node, devices, .. } = launcher.stage.clone() else {
            return None;
        };
        let registration = Registration {
            worker: worker.clone(),
            world_size: launcher.spec.nnodes,
            pid: 1_000 + worker.rank,
            start_time_ticks: u64::from(worker.attempt),
            checkpoint_dir: "/checkpoints".to_owned(),
            checkpoint_format: CheckpointFormat::HuggingFace,
            checkpoint_rules: Default::default(),
            devices: devices.clone(),
            drain_dir: "/drain".to_owned(),
            pod: None,
        };
        let now = self.now;
        let accepted = self.nodes.get_mut(&node)?.register(now, registration, &mut self.gangs);
        accepted.then_some(Stage::Running { worker, node, devices, registered: true })
    }

    fn launcher_reports(
        &mut self,
        launcher: &Launcher,
        worker: WorkerId,
        exit: Exit,
    ) -> Option<Stage> {
        let input = Input::ReportExit { worker, launcher: launcher.id.clone(), exit };
        match self.give(input)? {
            Reply::Exit { wait: true, .. } => Some(Stage::Waiting),
            Reply::Exit { wait: false, .. } => Some(Stage::Done),
            Reply::Submitted(_)
            | Reply::Cancelled(_)
            | Reply::Rehearsing(_)
            | Reply::Frozen { .. } => None,
        }
    }
}
