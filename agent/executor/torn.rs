//! Puts aside the checkpoint that a worker was writing when it ended, where the agent is told to.
//!
//! Trainers resume from the highest number, complete or not, and crash on a torn one. Nobody writes to it any more
//! once no process of rank 0 lives: that rank writes what makes a checkpoint complete. It is done before the worker
//! counts as gone, so that the next start never sees it.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use sluice_core::agent::{Agent, Registration, Worker};
use sluice_core::checkpoint::{CheckpointFormat, CheckpointRules, Incomplete, IncompleteReason};
use tracing::{info, warn};

use crate::checkpoint::{CheckpointWatcher, WrittenFiles};

/// Pause between looks, and most of them: something that still changes after two seconds is being written by somebody
/// else, and is left alone.
const PAUSE: Duration = Duration::from_millis(550);
const LOOKS_MAX: u32 = 4;

/// Where the checkpoints of a worker lie.
#[derive(Debug, Clone)]
pub(super) struct Place {
    dir: PathBuf,
    format: CheckpointFormat,
    rules: CheckpointRules,
    world_size: u32,
}

impl Place {
    /// `None` if it has none, is not the one that completes them, or another that lives may be writing there.
    pub(super) fn of(agent: &Agent, registration: &Registration) -> Option<Self> {
        let Registration { worker, checkpoint_dir, .. } = registration;
        let writes_there = |other: &Worker| {
            other.exit.is_none()
                && other.registration.checkpoint_dir == *checkpoint_dir
                && other.registration.worker != *worker
        };
        let is_its_business = worker.rank == 0
            && !checkpoint_dir.is_empty()
            && !agent.workers().values().any(writes_there);
        is_its_business.then(|| Self {
            dir: checkpoint_dir.into(),
            format: registration.checkpoint_format,
            // What lies here is torn or not, whatever has arrived elsewhere.
            rules: CheckpointRules {
                remote_dir: String::new(),
                ..registration.checkpoint_rules.clone()
            },
            world_size: registration.world_size,
        })
    }

    /// Renames the newest checkpoint if it can never become complete. Blocks, for two seconds at most on a file system
    /// that answers.
    pub(super) fn put_torn_aside(&self) {
        let mut watcher =
            CheckpointWatcher::open(&self.dir, self.format, &self.rules, self.world_size);
        let nobody = WrittenFiles::of_processes([]);
        watcher.scan(&nobody);
        match watcher.mend_tracker() {
            Ok(None) => {}
            Ok(Some((path, step))) => {
                info!(
                    path,
                    step, "the torn file that names the newest checkpoint was written anew"
                );
            }
            Err(why) => {
                let dir = self.dir.display().to_string();
                warn!(dir, "the torn file that names the newest checkpoint was left: {why}");
            }
        }
        for look in 1..=LOOKS_MAX {
            let scan = watcher.scan(&nobody);
            // Older ones hide behind a complete one: no trainer takes them.
            let newest = scan.newest().map(|checkpoint| checkpoint.step);
            let is_torn = |i: &&Incomplete| {
                let is_ours = !matches!(i.reason, IncompleteReason::NotOfFormat { .. });
                is_ours && i.step.is_some() && i.step > newest
            };
            let torn = scan.incomplete.iter().find(is_torn);
            let Some(torn) = torn else { return };
            match watcher.quarantine(torn, &nobody) {
                Ok(path) => {
                    return info!(from = torn.path, to = path, "torn checkpoint was put aside");
                }
                Err(why) if look == LOOKS_MAX => {
                    warn!(code = why.code(), "torn checkpoint was left where it is: {why}");
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }
}
