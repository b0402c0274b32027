//! Decisions as lines of the audit log, with what their drains have cost so far.

use std::path::Path;

use serde_json::{Value, json};
use sluice::audit::{Audit, last_number};
use sluice::wire::pb;
use sluice_core::drain::Drain;

use crate::store::Store;

/// Decisions taken from the store at a time.
const PAGE: usize = 1_000;

/// Opens the log and adds the decisions that were stored and not written before the last process ended.
///
/// # Errors
/// The file cannot be opened, or the store not be read.
pub(crate) fn open(path: &Path, store: &Store, next_sequence: u64) -> anyhow::Result<Audit> {
    let written = last_number(path, "sequence")?;
    let audit = Audit::open(path)?;
    // A new log begins now; what was before it is in the store.
    let mut after = written.unwrap_or(next_sequence.saturating_sub(1));
    loop {
        let missing = store.decisions_after(after, PAGE)?;
        let Some(last) = missing.last() else { return Ok(audit) };
        after = last.sequence;
        missing.iter().for_each(|decision| audit.write(line(decision, None)));
    }
}

/// A decision; `drain` is the one that it is about, as it stands.
pub(crate) fn line(decision: &pb::Decision, drain: Option<&Drain>) -> Value {
    let reason = decision.reason.clone().unwrap_or_default();
    let mut line = json!({
        "at": decision.at.as_ref().map(time),
        "sequence": decision.sequence,
        "kind": decision.kind,
        "workload": decision.workload,
        "drain": decision.drain,
        "node": decision.node,
        "reason": { "code": reason.code, "message": reason.message, "values": reason.values },
    });
    if let (Some(drain), Some(fields)) = (drain, line.as_object_mut()) {
        let account = &drain.account;
        fields.insert("state".to_owned(), drain.state.to_string().into());
        fields.insert("mode".to_owned(), drain.plan.mode.to_string().into());
        fields.insert(
            "account".to_owned(),
            json!({
                "at_risk_device_ms": account.at_risk_device_ms,
                "lost_device_ms": account.lost_device_ms,
                "idle_device_ms": account.idle_device_ms,
                "saved_device_ms": account.saved_device_ms,
                "restart_ms": account.restart_ms,
            }),
        );
    }
    line
}

fn time(at: &prost_types::Timestamp) -> String {
    let stamp = jiff::Timestamp::new(at.seconds, at.nanos);
    stamp.map_or_else(|_| format!("{}s", at.seconds), |stamp| stamp.to_string())
}
