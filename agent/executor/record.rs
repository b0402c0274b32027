//! How hands and registrations look in the journal. Plain values only, so that a person can read a file at 3 a.m.

use serde::{Deserialize, Serialize};
use sluice_core::agent::{Hand, Registration, Stage};
use sluice_core::checkpoint::{Checkpoint, CheckpointRules, Grade};
use sluice_core::id::{DrainId, WorkerId};
use sluice_core::pod::PodWorker;
use sluice_core::unit::Time;
use sluice_core::workload::SaveSignal;

/// Time given to a drain that was open when the machine went down: the worker is gone with it, and what it wrote last
/// has to be looked at once or twice before it is given up.
const AFTER_BOOT_MS: u64 = 30_000;

/// Longest name of a worker, as [`journal_bytes`] counts. With [`DRAIN_NAME_BYTES_MAX`] and the word before them it has
/// to fit into the journal's 230 bytes of a key.
pub(crate) const WORKER_NAME_BYTES_MAX: usize = 150;

/// Longest name of a drain, as [`journal_bytes`] counts. The arbiter's have some ten.
pub(crate) const DRAIN_NAME_BYTES_MAX: usize = 60;

/// Length of `name` in the name of a journal's file, where all but letters, digits, `_` and `-` takes three bytes.
pub(crate) fn journal_bytes(name: &str) -> usize {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    name.bytes().map(|b| if is_plain(b) { 1 } else { 3 }).sum()
}

/// One file of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Record {
    /// One worker in one drain.
    Hand(HandRecord),
    /// A registered worker.
    Worker(WorkerRecord),
}

/// A [`Hand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "intents and flags, as in the hand itself")]
pub(super) struct HandRecord {
    boot_id: String,
    drain: String,
    worker: String,
    epoch: u64,
    mode: String,
    save_signal: Option<i32>,
    exits_after_save: bool,
    baseline_step: Option<u64>,
    deadline_at_ms: u64,
    stage: String,
    save_intent: bool,
    #[serde(default)]
    progress_seen: bool,
    #[serde(default)]
    stall_told: bool,
    term_intent: bool,
    kill_intent: bool,
    durable: Option<CheckpointRecord>,
    failure: Option<(String, String)>,
    exit: Option<String>,
    stage_since_ms: u64,
    released_at_ms: Option<u64>,
    grace_ms: u64,
    release_ms: u64,
}

/// A [`Checkpoint`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CheckpointRecord {
    step: u64,
    path: String,
    bytes: u64,
    files: u32,
    marker: String,
    #[serde(default)]
    grade: String,
}

/// [`CheckpointRules`]. Records of earlier versions have none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct RulesRecord {
    glob: String,
    marker: String,
    remote_dir: String,
}

/// A [`Registration`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkerRecord {
    pub(super) boot_id: String,
    worker: String,
    world_size: u32,
    pid: u32,
    start_time_ticks: u64,
    checkpoint_dir: String,
    checkpoint_format: String,
    #[serde(default)]
    checkpoint_rules: RulesRecord,
    devices: Vec<String>,
    #[serde(default)]
    drain_dir: String,
    #[serde(default)]
    pod: Option<PodRecord>,
}

/// A [`PodWorker`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PodRecord {
    uid: String,
    container: String,
    name: String,
    is_ended_by_kubelet: bool,
}

/// The journal's key of a hand. Ids hold no spaces, so keys of different things differ.
pub(super) fn hand_key(drain: &DrainId, worker: &WorkerId) -> String {
    format!("drain {drain} {worker}")
}

/// The journal's key of a registration.
pub(super) fn worker_key(worker: &WorkerId) -> String {
    format!("worker {worker}")
}

impl Record {
    pub(super) fn of_hand(hand: &Hand, boot_id: &str) -> Self {
        Self::Hand(HandRecord {
            boot_id: boot_id.to_owned(),
            drain: hand.drain.to_string(),
            worker: hand.worker.to_string(),
            epoch: hand.epoch,
            mode: hand.mode.to_string(),
            save_signal: hand.save_signal.map(|s| s.number),
            exits_after_save: hand.save_signal.is_some_and(|s| s.exits_after_save),
            baseline_step: hand.baseline_step,
            deadline_at_ms: hand.deadline_at.0,
            stage: hand.stage.as_str().to_owned(),
            save_intent: hand.save_intent,
            progress_seen: hand.progress_seen,
            stall_told: hand.stall_told,
            term_intent: hand.term_intent,
            kill_intent: hand.kill_intent,
            durable: hand.durable.as_ref().map(CheckpointRecord::of),
            failure: hand.failure.clone(),
            exit: hand.exit.map(|exit| exit.to_string()),
            stage_since_ms: hand.stage_since.0,
            released_at_ms: hand.released_at.map(|at| at.0),
            grace_ms: hand.grace_ms,
            release_ms: hand.release_ms,
        })
    }

    pub(super) fn of_worker(registration: &Registration, boot_id: &str) -> Self {
        Self::Worker(WorkerRecord {
            boot_id: boot_id.to_owned(),
            worker: registration.worker.to_string(),
            world_size: registration.world_size,
            pid: registration.pid,
            start_time_ticks: registration.start_time_ticks,
            checkpoint_dir: registration.checkpoint_dir.clone(),
            checkpoint_format: registration.checkpoint_format.to_string(),
            checkpoint_rules: RulesRecord::of(&registration.checkpoint_rules),
            devices: registration.devices.iter().map(ToString::to_string).collect(),
            drain_dir: registration.drain_dir.clone(),
            pod: registration.pod.as_ref().map(PodRecord::of),
        })
    }
}

impl HandRecord {
    /// The hand again. Points in time of another boot mean nothing on this one's clock and become `now`.
    ///
    /// # Errors
    /// What in it is not what this version writes.
    pub(super) fn hand(self, boot_id: &str, now: Time) -> Result<Hand, String> {
        let is_this_boot = self.boot_id == boot_id;
        let time = |at_ms: u64| if is_this_boot { Time(at_ms) } else { now };
        let stage = Stage::ALL.into_iter().find(|stage| stage.as_str() == self.stage);
        let signal = |number| SaveSignal { number, exits_after_save: self.exits_after_save };
        Ok(Hand {
            drain: self.drain.parse().map_err(text)?,
            worker: self.worker.parse().map_err(text)?,
            epoch: self.epoch,
            mode: self.mode.parse()?,
            save_signal: self.save_signal.map(signal),
            baseline_step: self.baseline_step,
            deadline_at: if is_this_boot {
                Time(self.deadline_at_ms)
            } else {
                now.plus_ms(AFTER_BOOT_MS)
            },
            stage: stage.ok_or_else(|| format!("{:?} is no stage", self.stage))?,
            save_intent: self.save_intent,
            progress_seen: self.progress_seen,
            stall_told: self.stall_told,
            term_intent: self.term_intent,
            kill_intent: self.kill_intent,
            durable: self.durable.map(CheckpointRecord::checkpoint),
            failure: self.failure,
            exit: self.exit.map(|exit| exit.parse()).transpose()?,
            stage_since: time(self.stage_since_ms),
            released_at: self.released_at_ms.map(time),
            grace_ms: self.grace_ms,
            release_ms: self.release_ms,
        })
    }
}

impl CheckpointRecord {
    fn of(checkpoint: &Checkpoint) -> Self {
        Self {
            step: checkpoint.step,
            path: checkpoint.path.clone(),
            bytes: checkpoint.bytes,
            files: checkpoint.files,
            marker: checkpoint.marker.clone(),
            grade: checkpoint.grade.to_string(),
        }
    }

    fn checkpoint(self) -> Checkpoint {
        let grade = Grade::ALL.into_iter().find(|grade| grade.as_str() == self.grade);
        let Self { step, path, bytes, files, marker, .. } = self;
        Checkpoint { step, path, bytes, files, marker, grade: grade.unwrap_or_default() }
    }
}

impl RulesRecord {
    fn of(rules: &CheckpointRules) -> Self {
        let CheckpointRules { glob, marker, remote_dir } = rules.clone();
        Self { glob, marker, remote_dir }
    }

    fn rules(&self) -> CheckpointRules {
        let Self { glob, marker, remote_dir } = self.clone();
        CheckpointRules { glob, marker, remote_dir }
    }
}

impl PodRecord {
    fn of(pod: &PodWorker) -> Self {
        let PodWorker { uid, container, name, is_ended_by_kubelet } = pod.clone();
        Self { uid: uid.to_string(), container, name, is_ended_by_kubelet }
    }

    fn pod(&self) -> Result<PodWorker, String> {
        let Self { uid, container, name, is_ended_by_kubelet } = self.clone();
        let uid = uid.parse().map_err(|e| format!("{uid:?} is no uid of a pod: it must be {e}"))?;
        Ok(PodWorker { uid, container, name, is_ended_by_kubelet })
    }
}

impl WorkerRecord {
    /// The registration again.
    ///
    /// # Errors
    /// What in it is not what this version writes.
    pub(super) fn registration(&self) -> Result<Registration, String> {
        Ok(Registration {
            worker: self.worker.parse().map_err(text)?,
            world_size: self.world_size,
            pid: self.pid,
            start_time_ticks: self.start_time_ticks,
            checkpoint_dir: self.checkpoint_dir.clone(),
            drain_dir: self.drain_dir.clone(),
            pod: self.pod.as_ref().map(PodRecord::pod).transpose()?,
            checkpoint_format: self.checkpoint_format.parse().map_err(text)?,
            checkpoint_rules: self.checkpoint_rules.rules(),
            devices: self
                .devices
                .iter()
                .map(|d| d.parse())
                .collect::<Result<_, _>>()
                .map_err(text)?,
        })
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
