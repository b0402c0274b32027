//! Ground truth of a training gang: processes that step together, save, obey or ignore signals, and die.

use std::collections::{BTreeMap, BTreeSet};

use sluice_core::checkpoint::{Checkpoint, CheckpointScan, Incomplete, IncompleteReason};
use sluice_core::client::{Ack, ClientOrder, ClientPhase, ClientSeen};
use sluice_core::workload::Exit;

/// What a worker does on its save signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnSignal {
    /// Saves at the next step boundary and goes on.
    Save,
    /// Saves at the next step boundary and ends with status 0.
    SaveAndExit,
    /// Ends with status 0 at once, saving nothing.
    ExitZero,
    /// Catches it and does nothing.
    Ignore,
    /// Does not catch it.
    NoHandler,
}

/// What a worker does when it is asked through its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFile {
    /// It has no client.
    NoClient,
    /// Saves at the next step boundary and parks until it is told to go on.
    SaveAndPark,
    /// Says at once that it has saved, and saves nothing.
    Lie,
    /// Said hello once and never looks again.
    Ignore,
    /// Says that it could not save, and parks.
    Fail,
}

/// How a gang's program behaves. Durations in ms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    pub(crate) startup_ms: u64,
    pub(crate) step_ms: u64,
    pub(crate) save_every: u64,
    pub(crate) save_ms: u64,
    pub(crate) total_steps: u64,
    pub(crate) on_signal: OnSignal,
    pub(crate) on_file: OnFile,
    /// There is no room for another checkpoint, says the file system; its own saves fit all the same.
    pub(crate) is_disk_full: bool,
    /// SIGTERM has no effect; only SIGKILL ends it.
    pub(crate) ignores_term: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Starting,
    Stepping,
    Saving,
    /// Waits for what comes after the save that it was asked for.
    Parked,
    Finished,
}

/// How often a parked worker looks at its file. Unit: ms.
const PARK_LOOK_MS: u64 = 200;

/// One process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Process {
    pub(crate) exit: Option<Exit>,
    /// Save signals received from the drain with this number, to see that none comes twice.
    pub(crate) save_signals: BTreeMap<String, u32>,
    pub(crate) terms: u32,
    /// What its `drain.json` says.
    pub(crate) told: Option<(String, ClientOrder)>,
    /// What it has said.
    pub(crate) said: Option<(String, ClientPhase)>,
}

/// The checkpoint directory, which outlives the processes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directory {
    pub(crate) complete: BTreeSet<u64>,
    /// Step of a save that is under way or was torn.
    pub(crate) partial: Option<u64>,
}

impl Directory {
    pub(crate) fn scan(&self, saving: bool) -> CheckpointScan {
        let checkpoint = |step: &u64| Checkpoint {
            step: *step,
            path: format!("checkpoint-{step}"),
            bytes: 1_000_000,
            files: 6,
            marker: "trainer_state.json".to_owned(),
            grade: sluice_core::checkpoint::Grade::LocalComplete,
        };
        let incomplete = |step: u64| Incomplete {
            path: format!("checkpoint-{step}"),
            step: Some(step),
            bytes: 500_000,
            files: 3,
            saving,
            reason: IncompleteReason::MarkerMissing { marker: "trainer_state.json".to_owned() },
        };
        CheckpointScan {
            complete: self.complete.iter().rev().take(3).map(checkpoint).collect(),
            incomplete: self.partial.into_iter().map(incomplete).collect(),
            saving: saving && self.partial.is_some(),
            problem: None,
        }
    }
}

/// One attempt of a gang.
#[derive(Debug, Clone)]
pub(crate) struct Gang {
    program: Program,
    doing: Doing,
    until_ms: u64,
    pub(crate) step: u64,
    save_asked: bool,
    exit_after_save: bool,
    /// The drain for which it saves now or parks.
    asked_by: Option<String>,
    pub(crate) processes: BTreeMap<u32, Process>,
}

impl Gang {
    pub(crate) fn new(now: u64, program: Program, resume_from: u64, ranks: u32) -> Self {
        Self {
            program,
            doing: Doing::Starting,
            until_ms: now + program.startup_ms,
            step: resume_from,
            save_asked: false,
            exit_after_save: false,
            asked_by: None,
            processes: (0..ranks).map(|rank| (rank, Process::default())).collect(),
        }
    }

    pub(crate) fn is_saving(&self) -> bool {
        self.doing == Doing::Saving && self.all_alive()
    }

    pub(crate) fn alive(&self, rank: u32) -> bool {
        self.processes.get(&rank).is_some_and(|p| p.exit.is_none())
    }

    fn all_alive(&self) -> bool {
        self.processes.values().all(|p| p.exit.is_none())
    }

    fn exit_all(&mut self, exit: Exit) {
        for process in self.processes.values_mut() {
            process.exit.get_or_insert(exit);
        }
        self.doing = Doing::Finished;
    }

    /// Moves on to `now`. A gang with a dead rank hangs in its collective until somebody ends it.
    pub(crate) fn advance(&mut self, now: u64, started: bool, directory: &mut Directory) {
        while started && self.doing != Doing::Finished && self.until_ms <= now && self.all_alive() {
            match self.doing {
                Doing::Starting => self.begin_step(),
                Doing::Stepping => self.end_step(directory),
                Doing::Saving => self.end_save(directory),
                Doing::Parked => {
                    if !self.leaves_park() {
                        // It looks again soon.
                        self.until_ms = now + PARK_LOOK_MS;
                    }
                }
                Doing::Finished => {}
            }
        }
        if !started {
            self.until_ms = now + self.program.startup_ms;
        }
    }

    fn begin_step(&mut self) {
        self.doing = Doing::Stepping;
        self.until_ms += self.program.step_ms;
    }

    fn end_step(&mut self, directory: &mut Directory) {
        self.step += 1;
        if self.step >= self.program.total_steps {
            return self.exit_all(Exit::Code(0));
        }
        self.look_at_file();
        if self.doing == Doing::Parked {
            return;
        }
        if self.save_asked || self.step.is_multiple_of(self.program.save_every) {
            self.doing = Doing::Saving;
            self.until_ms += self.program.save_ms;
            directory.partial = Some(self.step);
        } else {
            self.begin_step();
        }
    }

    fn end_save(&mut self, directory: &mut Directory) {
        directory.complete.insert(self.step);
        directory.partial = None;
        if std::mem::take(&mut self.save_asked) && self.exit_after_save {
            return self.exit_all(Exit::Code(0));
        }
        if self.asked_by.is_some() {
            self.say_all(ClientPhase::Saved);
            self.doing = Doing::Parked;
            self.until_ms += PARK_LOOK_MS;
            return;
        }
        self.begin_step();
    }

    /// The order that rank 0 sees decides for all, as the client's vote does.
    fn look_at_file(&mut self) {
        let Some((drain, ClientOrder::Save)) = self.processes.get(&0).and_then(|p| p.told.clone())
        else {
            return;
        };
        if self.processes.get(&0).and_then(|p| p.said.as_ref()).is_some_and(|(d, _)| *d == drain) {
            return;
        }
        match self.program.on_file {
            OnFile::NoClient | OnFile::Ignore => {}
            OnFile::SaveAndPark => {
                self.asked_by = Some(drain);
                self.save_asked = true;
                self.say_all(ClientPhase::Saving);
            }
            OnFile::Lie => {
                self.asked_by = Some(drain);
                self.say_all(ClientPhase::Saved);
                self.asked_by = None;
            }
            OnFile::Fail => {
                self.asked_by = Some(drain);
                self.say_all(ClientPhase::Failed);
                self.doing = Doing::Parked;
                self.until_ms += PARK_LOOK_MS;
            }
        }
    }

    fn say_all(&mut self, phase: ClientPhase) {
        let Some(drain) = self.asked_by.clone() else { return };
        for process in self.processes.values_mut() {
            process.said = Some((drain.clone(), phase));
        }
    }

    /// Goes on if it is told to, or told something about another drain.
    fn leaves_park(&mut self) -> bool {
        let told = self.processes.get(&0).and_then(|p| p.told.clone());
        let stays = told.is_some_and(|(drain, order)| {
            order == ClientOrder::Save && Some(drain) == self.asked_by
        });
        if stays {
            return false;
        }
        self.say_all(ClientPhase::Resumed);
        self.asked_by = None;
        self.begin_step();
        true
    }

    pub(crate) fn tell(&mut self, rank: u32, drain: &str, order: ClientOrder) {
        if let Some(process) = self.processes.get_mut(&rank) {
            process.told = Some((drain.to_owned(), order));
        }
    }

    /// What the agent reads of one rank.
    pub(crate) fn client(&self, rank: u32) -> ClientSeen {
        if self.program.on_file == OnFile::NoClient || self.doing == Doing::Starting {
            return ClientSeen::default();
        }
        let said = self.processes.get(&rank).and_then(|p| p.said.as_ref());
        let ack = said.and_then(|(drain, phase)| {
            let (drain, phase, detail) = (drain.parse().ok()?, *phase, String::new());
            Some(Ack { drain, phase, step: Some(self.step), detail })
        });
        ClientSeen { ranks: BTreeMap::from([(rank, ack)]), problem: None }
    }

    pub(crate) fn save_signal(&mut self, rank: u32, drain: &str) {
        let Some(process) = self.processes.get_mut(&rank).filter(|p| p.exit.is_none()) else {
            return;
        };
        *process.save_signals.entry(drain.to_owned()).or_default() += 1;
        match self.program.on_signal {
            OnSignal::Save => self.save_asked = true,
            OnSignal::SaveAndExit => {
                self.save_asked = true;
                self.exit_after_save = true;
            }
            OnSignal::ExitZero => process.exit = Some(Exit::Code(0)),
            OnSignal::Ignore => {}
            OnSignal::NoHandler => process.exit = Some(Exit::Signal(10)),
        }
    }

    pub(crate) fn term(&mut self, rank: u32) {
        let ignores = self.program.ignores_term;
        if let Some(process) = self.processes.get_mut(&rank) {
            process.terms += 1;
            if !ignores {
                process.exit.get_or_insert(Exit::Signal(15));
            }
        }
    }

    pub(crate) fn kill(&mut self, rank: u32) {
        if let Some(process) = self.processes.get_mut(&rank) {
            process.exit.get_or_insert(Exit::Signal(9));
        }
    }

    /// Free space where it saves. Unit: bytes.
    pub(crate) fn free_bytes(&self) -> u64 {
        if self.program.is_disk_full { 0 } else { u64::MAX }
    }

    pub(crate) fn catches(&self) -> bool {
        self.program.on_signal != OnSignal::NoHandler
    }
}
