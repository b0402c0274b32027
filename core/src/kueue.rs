//! Decides as Kueue decides: quota, flavors, preemption, fair sharing and whole scheduling cycles.
//!
//! Everything here is a pure function of a [`snapshot::Snapshot`] and its arguments: no clock, no randomness, no
//! floats, ordered maps only. What-if questions are asked of a [`whatif::WhatIf`], which records only what a
//! question changes and leaves the snapshot alone.
//!
//! Sluice's own rules are elsewhere; this module must stay what Kueue does (the conformance corpus checks it).

pub mod cycle;
mod demand;
pub mod flavor;
pub mod matching;
pub mod model;
pub mod name;
pub mod order;
pub mod preempt;
pub mod quota;
pub mod reason;
pub mod share;
pub mod snapshot;
pub mod tas;
pub mod topology;
pub mod weight;
pub mod whatif;
pub mod workload;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod properties;
