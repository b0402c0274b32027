//! Workloads, drains and decisions on the wire. Workloads and drains are also the format of the
//! arbiter's store: what goes out and comes back in is the same value.

mod drain;
mod explain;
mod slice;
mod workload;

use sluice_core::arbiter::Decision;
use sluice_core::unit::Time;

use super::{field, pb};

pub use drain::drain_state;
pub use explain::{add_explanation, changes};
pub use slice::{answer, cube, slice};
pub use workload::phase;

/// A decision with its place in the arbiter's sequence.
#[must_use]
pub fn decision(sequence: u64, at: Time, decision: &Decision) -> pb::Decision {
    pb::Decision {
        sequence,
        at: Some(field::timestamp(at)),
        workload: field::optional_text(decision.workload.as_ref()),
        drain: field::optional_text(decision.drain.as_ref()),
        node: field::optional_text(decision.node.as_ref()),
        kind: decision.kind.as_str().to_owned(),
        reason: Some((&decision.reason).into()),
    }
}
