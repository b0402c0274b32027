//! What the outputs of a batch come to: what is stored, and what is done after that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use sluice::wire::admin::decision;
use sluice::wire::{pb, record};
use sluice_core::arbiter::{Arbiter, Decision, Input, Output, Reply};
use sluice_core::id::{DrainId, NodeName, WorkloadName};
use sluice_core::protocol::Order;
use sluice_core::unit::Time;
use tokio::sync::watch;
use tracing::info;

use super::Engine;
use crate::store::Batch;

/// Shortest time to the next tick. A wish for "now" is granted this much later, so that core can
/// never make this loop spin; the shortest duration that can be set is as long.
const WAKE_AFTER_MS_MIN: u64 = 10;

/// The outputs of one batch.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Saved or forgotten: which of the two is seen in core when the batch is stored.
    workloads: BTreeSet<WorkloadName>,
    drains: BTreeSet<DrainId>,
    decisions: Vec<(pb::Decision, Decision)>,
    frozen: Option<Option<String>>,
    node_faults: BTreeSet<NodeName>,
    has_wave: bool,
    sends: Vec<(NodeName, Order)>,
}

impl Effects {
    /// The kill switch is stored with the batch that turns it.
    pub(super) fn note_input(&mut self, input: &Input) {
        match input {
            Input::Freeze { why } => self.frozen = Some(Some(why.clone())),
            Input::Unfreeze => self.frozen = Some(None),
            Input::Submit { .. }
            | Input::Attach { .. }
            | Input::Detach { .. }
            | Input::ReportExit { .. }
            | Input::Cancel { .. }
            | Input::Rehearse { .. }
            | Input::AgentConnected { .. }
            | Input::AgentDisconnected { .. }
            | Input::NodeReport { .. }
            | Input::DrainEvent { .. }
            | Input::Tick => {}
        }
    }

    /// What becomes durable, as core has it now.
    pub(super) fn batch(&self, arbiter: &Arbiter, now: Time) -> Batch {
        let workload = |name: &WorkloadName| (name.clone(), arbiter.workload(name).map(Into::into));
        let drain = |id: &DrainId| (id.clone(), arbiter.drain(id).map(Into::into));
        let faults = |name: &NodeName| {
            let faults = arbiter.node_faults(name);
            (name.clone(), faults.map(|faults| record::faults_out(name, &faults)))
        };
        Batch {
            workloads: self.workloads.iter().map(workload).collect(),
            drains: self.drains.iter().map(drain).collect(),
            decisions: self.decisions.iter().map(|(message, _)| message.clone()).collect(),
            frozen: self.frozen.clone(),
            node_faults: self.node_faults.iter().map(faults).collect(),
            wave: self.has_wave.then(|| (arbiter.is_wave_open(), arbiter.known_nodes())),
            now,
        }
    }
}

impl Engine {
    /// Sorts the outputs of one step into `effects`; returns the reply among them.
    pub(super) fn collect(
        &mut self,
        now: Time,
        outputs: Vec<Output>,
        effects: &mut Effects,
    ) -> Option<Reply> {
        let mut reply = None;
        for output in outputs {
            match output {
                Output::SaveWorkload(name) | Output::ForgetWorkload(name) => {
                    effects.workloads.insert(name);
                }
                Output::SaveDrain(id) | Output::ForgetDrain(id) => {
                    effects.drains.insert(id);
                }
                Output::SaveNodeFaults(name) => drop(effects.node_faults.insert(name)),
                Output::SaveWave => effects.has_wave = true,
                Output::Decided(decided) => {
                    let message = decision(self.next_sequence, now, &decided);
                    self.next_sequence += 1;
                    effects.decisions.push((message, decided));
                }
                Output::Send { node, order } => effects.sends.push((node, order)),
                Output::Reply(value) => reply = Some(value),
                Output::WakeAt(at) => {
                    let at = at.max(now.plus_ms(WAKE_AFTER_MS_MIN));
                    self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
                }
            }
        }
        reply
    }

    /// Does what had to wait until everything was durable.
    pub(super) fn perform(&mut self, effects: Effects) {
        for (node, order) in effects.sends {
            self.agents.send(&node, &order);
        }
        for name in &effects.workloads {
            self.watchers.changed(name);
        }
        for id in &effects.drains {
            self.metrics.drain_changed(id, self.arbiter.drain(id));
        }
        for (message, decided) in &effects.decisions {
            log(decided);
            if let Some(audit) = &self.audit {
                let drain = decided.drain.as_ref().and_then(|id| self.arbiter.drain(id));
                audit.write(crate::audit::line(message, drain));
            }
            self.metrics.decided(decided);
        }
        if let Some((last, _)) = effects.decisions.last() {
            self.last_decision.send_replace(last.sequence);
        }
    }
}

fn log(decision: &Decision) {
    let Decision { kind, workload, drain, node, reason } = decision;
    let text = |name: Option<&str>| name.map(str::to_owned).unwrap_or_default();
    info!(
        kind = kind.as_str(),
        workload = text(workload.as_ref().map(WorkloadName::as_str)),
        drain = text(drain.as_ref().map(DrainId::as_str)),
        node = text(node.as_ref().map(NodeName::as_str)),
        reason = reason.code(),
        "{reason}"
    );
}

/// Who waits for changes of which workload. Watchers are told that something changed and look
/// themselves, so that a slow one misses versions and never the newest.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Mutex<BTreeMap<WorkloadName, watch::Sender<()>>>);

impl Watchers {
    /// From now on the receiver is told of each change of `name`.
    pub(crate) fn subscribe(&self, name: &WorkloadName) -> watch::Receiver<()> {
        let mut senders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        senders.entry(name.clone()).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    fn changed(&self, name: &WorkloadName) {
        let mut senders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The last receiver has gone: nobody is told, and the entry goes as well.
        if senders.get(name).is_some_and(|sender| sender.send(()).is_err()) {
            senders.remove(name);
        }
    }
}
