//! Which worker met an error of its own: by the process that the driver named.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_core::id::WorkerId;
use sluice_core::reason::Reason;
use sluice_core::sample::ProcessTableSample;
use sluice_core::unit::Time;
use tokio::sync::watch;

use crate::clock;
use crate::report::View;

/// Errors whose worker is not known yet. A process is found by the next pass over the table or not at all.
const UNKNOWN_MAX: usize = 64;

/// How long its worker is looked for: some passes over the process table.
const UNKNOWN_MS: u64 = 30_000;

#[derive(Debug)]
pub(super) struct WorkerFaults {
    view: watch::Receiver<Arc<View>>,
    known: BTreeMap<WorkerId, Reason>,
    unknown: Vec<(u32, Reason, Time)>,
}

impl WorkerFaults {
    pub(super) fn new(view: watch::Receiver<Arc<View>>) -> Self {
        Self { view, known: BTreeMap::new(), unknown: Vec::new() }
    }

    /// The newest error of each worker.
    pub(super) fn known(&self) -> &BTreeMap<WorkerId, Reason> {
        &self.known
    }

    /// A process met an error.
    pub(super) fn met(&mut self, pid: u32, reason: Reason, table: Option<&ProcessTableSample>) {
        match self.worker_of(pid, table) {
            Some(worker) => {
                self.known.insert(worker, reason);
            }
            None if self.unknown.len() < UNKNOWN_MAX => {
                self.unknown.push((pid, reason, clock::now()));
            }
            // So many errors of processes that nobody knows: none of them is a worker's.
            None => {}
        }
    }

    /// Looks again for those whose worker was not known.
    pub(super) fn attribute(&mut self, table: Option<&ProcessTableSample>) {
        let now = clock::now();
        for (pid, reason, at) in std::mem::take(&mut self.unknown) {
            match self.worker_of(pid, table) {
                Some(worker) => {
                    self.known.insert(worker, reason);
                }
                None if now.ms_since(at) < UNKNOWN_MS => self.unknown.push((pid, reason, at)),
                None => {}
            }
        }
    }

    /// Workers that are gone need not be known any more.
    pub(super) fn forget_gone(&mut self) {
        let view = self.view.borrow().clone();
        self.known.retain(|worker, _| view.agent.workers().contains_key(worker));
    }

    fn worker_of(&self, pid: u32, table: Option<&ProcessTableSample>) -> Option<WorkerId> {
        let view = self.view.borrow().clone();
        let registered = view.agent.workers().iter().find(|(_, w)| w.registration.pid == pid);
        if let Some((worker, _)) = registered {
            return Some(worker.clone());
        }
        let has = |worker: &&sluice_core::sample::WorkerProcesses| {
            worker.processes.iter().any(|process| process.key.pid == pid)
        };
        let worker = table?.workers.iter().find(has)?;
        let id: WorkerId = worker.marker.parse().ok()?;
        view.agent.workers().contains_key(&id).then_some(id)
    }
}
