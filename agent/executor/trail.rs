//! What is done to workers, as lines of the audit log.

use serde_json::{Value, json};
use sluice::audit::Audit;
use sluice_core::agent::{Hand, Output};
use sluice_core::id::NodeName;

/// Writes lines for outputs that touch a worker.
#[derive(Debug)]
pub(crate) struct Trail {
    audit: Audit,
    node: NodeName,
}

impl Trail {
    pub(crate) fn new(audit: Audit, node: NodeName) -> Self {
        Self { audit, node }
    }

    /// Writes down an output that was performed.
    pub(super) fn performed(&self, output: &Output) {
        let Some(mut line) = line(output) else { return };
        if let Some(fields) = line.as_object_mut() {
            fields.insert("at".to_owned(), jiff::Timestamp::now().to_string().into());
            fields.insert("node".to_owned(), self.node.to_string().into());
        }
        self.audit.offer(line);
    }

    pub(super) fn finish(self) {
        self.audit.finish();
    }
}

/// `None` for what touches nobody.
fn line(output: &Output) -> Option<Value> {
    match output {
        Output::Journal(hand) => Some(stage(hand)),
        Output::Signal { worker, signal, audience } => Some(json!({
            "event": "signal",
            "worker": worker.to_string(),
            "signal": signal,
            "audience": format!("{audience:?}").to_lowercase(),
        })),
        Output::TellClient { worker, drain, order } => Some(json!({
            "event": "told",
            "worker": worker.to_string(),
            "drain": drain.to_string(),
            "order": order.as_str(),
        })),
        Output::SaveWorker(registration) => Some(json!({
            "event": "registered",
            "worker": registration.worker.to_string(),
            "pid": registration.pid,
        })),
        Output::ForgetWorker(worker) => {
            Some(json!({ "event": "forgotten", "worker": worker.to_string() }))
        }
        Output::Unjournal { .. }
        | Output::Send(_)
        | Output::CheckHolders(_)
        | Output::WatchEvery { .. }
        | Output::WorkerChanged(_)
        | Output::WakeAt(_) => None,
    }
}

fn stage(hand: &Hand) -> Value {
    let failure = hand.failure.as_ref();
    json!({
        "event": "drain",
        "drain": hand.drain.to_string(),
        "worker": hand.worker.to_string(),
        "epoch": hand.epoch,
        "mode": hand.mode.to_string(),
        "stage": hand.stage.as_str(),
        "save_intent": hand.save_intent,
        "term_intent": hand.term_intent,
        "kill_intent": hand.kill_intent,
        "durable_step": hand.durable.as_ref().map(|c| c.step),
        "reason": failure.map(|(code, detail)| json!({ "code": code, "message": detail })),
    })
}
