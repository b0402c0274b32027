//! Workloads, drains and decisions on the wire. Workloads and drains are also the format of the
//! arbiter's store: what goes out and comes back in is the same value.

mod drain;
mod workload;

pub use drain::drain_state;
pub use workload::phase;
