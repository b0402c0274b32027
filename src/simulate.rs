//! Runs a cluster and a trace of workloads in virtual time, through the engine that the arbiter decides with.
//!
//! [`load`] reads what is to be simulated, [`simulate`] runs it in one [`Mode`], [`Summary`] says what came of it.
//! The run is a pure function of its [`Scenario`]: no clock, no randomness (traces that are generated have a seed).
//!
//! Where to read: `scenario` (what is simulated) → `execution` (what a running workload does) → `run` (the loop) →
//! `tally`, `summary` (what is counted). `file`, `cluster`, `row`, `trace`, `generate` read it all.

mod amount;
mod cluster;
mod error;
mod execution;
mod file;
mod generate;
mod measure;
mod row;
mod run;
mod scenario;
mod summary;
mod tally;
mod trace;

pub use error::Error;
pub use execution::{Attempt, Exit, Progress, Saves, Work};
pub use file::{Overrides, PlainNodes, load};
pub use run::{Happening, simulate, simulate_with};
pub use scenario::{JOBS_MAX, Job, Measured, Mode, PolicyName, Scenario};
pub use summary::{Figures, Group, Summary, WaitingTimes};
pub use tally::{Fate, Outcome};
