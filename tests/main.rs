//! Tests of the real programs: an arbiter, agents, launchers and trainers as processes, with real signals.
//!
//! Each test has a [`cluster::Cluster`] in a temporary directory of its own, so that all can run at the same time. They
//! wait for states of the arbiter and lines in logs, each wait bounded by [`process::patience`], and never assume how
//! fast anything is: what is asserted is order, counts and contents. Three things are checked in every test:
//! - each worker holds a lock on the file of each of its devices: a device given twice fails the test
//!   ([`cluster::Cluster::assert_no_device_given_twice`]);
//! - the trainers count the signals that they get and log from where they resume ([`trainer::Trainer`]);
//! - no process outlives its test ([`process::sweep`]).
//!
//! A test that fails prints the workloads, drains and nodes as the arbiter knows them and the ends of all logs;
//! with `SLUICE_TEST_KEEP=1` its directory is kept.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod ask;
mod bad_input;
mod checkpoint;
mod client;
mod clock;
mod cluster;
mod config;
mod ctl;
mod drain;
mod explain;
mod frameworks;
mod gpu_drain;
mod gpu_free;
mod gpu_hang;
mod gpu_kmsg;
mod gpu_node;
mod gpu_overtake;
mod gpu_states;
mod gpu_values;
mod gpu_verdict;
mod gpu_wave;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod manifests;
mod node_api;
mod partition;
mod pod;
mod preempt;
mod process;
mod read_ahead;
mod rehearse;
mod restart;
mod scenario;
mod signal;
mod simulate;
mod slices;
mod state_files;
mod trainer;
