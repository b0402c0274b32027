//! What Sluice makes of block storage: limits of Google's disks, a plan for a volume, what read-ahead ought to be
//! and is, and who is the bottleneck.
//!
//! All of it is arithmetic in integers on facts of [`crate::sample`] and on tables that the caller hands in: limits age,
//! so they are data files with source and date, never code.

pub mod bottleneck;
pub mod claim;
mod finding;
pub mod limits;
pub mod measure;
pub mod plan;
#[cfg(test)]
mod properties;
mod rate;
pub mod read_ahead;
pub mod shared;
pub mod tune;

pub use finding::{Finding, Severity};
pub use rate::{MIB_BYTES, Mib};
