//! The JSON of the files. Fields that are not known are left alone: a newer client may say more.

use serde::Deserialize;
use sluice_core::client::{Ack, ClientOrder, ClientPhase, ClientProblem};
use sluice_core::id::DrainId;

/// Longest explanation of a failure that is kept. Unit: characters.
const DETAIL_CHARS_MAX: usize = 256;

#[derive(Debug, Deserialize)]
struct Hello {
    rank: u32,
}

#[derive(Debug, Deserialize)]
struct Word {
    rank: u32,
    drain_id: String,
    phase: String,
    #[serde(default)]
    step: Option<u64>,
    #[serde(default)]
    error: String,
}

pub(super) fn hello(bytes: &[u8], rank: u32) -> Result<(), ClientProblem> {
    let hello: Hello = serde_json::from_slice(bytes).map_err(|_| ClientProblem::Malformed)?;
    if hello.rank == rank { Ok(()) } else { Err(ClientProblem::WrongRank) }
}

pub(super) fn ack(bytes: &[u8], rank: u32) -> Result<Ack, ClientProblem> {
    let word: Word = serde_json::from_slice(bytes).map_err(|_| ClientProblem::Malformed)?;
    if word.rank != rank {
        return Err(ClientProblem::WrongRank);
    }
    let phase = ClientPhase::ALL.into_iter().find(|phase| phase.as_str() == word.phase);
    let phase = phase.ok_or(ClientProblem::Malformed)?;
    let drain: DrainId = word.drain_id.parse().map_err(|_| ClientProblem::Malformed)?;
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let detail = word.error.chars().take(DETAIL_CHARS_MAX).map(plain).collect();
    Ok(Ack { drain, phase, step: word.step, detail })
}

/// What the agent writes.
pub(super) fn order(drain: &DrainId, order: ClientOrder) -> String {
    let value = serde_json::json!({
        "version": 1,
        "drain_id": drain.as_str(),
        "state": order.as_str(),
    });
    format!("{value}\n")
}
