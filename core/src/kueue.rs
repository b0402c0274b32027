//! Decides as Kueue decides: quota, flavors, preemption, fair sharing and whole scheduling cycles.
//!
//! Everything here is a pure function of a [`snapshot::Snapshot`] and its arguments: no clock, no randomness, no
//! floats, ordered maps only. What-if questions are asked of a [`whatif::WhatIf`], which records only what a
//! question changes and leaves the snapshot alone.
//!
//! How an arbiter uses it:
//! 1. [`snapshot::Snapshot::new`] from the objects, then [`snapshot::Snapshot::insert`] and
//!    [`snapshot::Snapshot::remove`] as workloads get and lose quota;
//! 2. one [`order::PendingQueue`] per cluster queue;
//! 3. whenever something changed: [`order::PendingQueue::pop`] of every queue, all heads into [`cycle::run_cycle`],
//!    carry the verdicts out, [`order::PendingQueue::requeue`] what got no quota.
//!
//! Single questions have their own entrances: [`topology::assign`] (which flavors and places?),
//! [`preempt::find_victims`] (who must give way?), [`tas::TasSnapshot::place`] (where do pods go?).
//!
//! Where to read: `name`, `model`, `workload` (the objects) → `quota` (the tree) → `snapshot`, `whatif` → `flavor`,
//! `preempt`, `share`, `tas` (one decision each) → `topology` → `cycle` (all together); `order` is the waiting line.
//!
//! This module must stay what Kueue does; the conformance corpus in `tests/corpus` checks it. What Sluice does
//! differently comes in through [`preempt::VictimPolicy`] and [`cycle::Options`], or lives elsewhere.

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
pub(crate) mod fixture;
#[cfg(test)]
mod properties;
