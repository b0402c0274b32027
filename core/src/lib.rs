//! What Sluice decides, and nothing else.
//!
//! No clock, no I/O, no randomness, no logging, no dependencies: `now` is an argument, input is a
//! value, output is a value. Both sides of the protocol are here, the arbiter's ([`arbiter`]) and the
//! agent's ([`agent`]), so that the binaries, the simulator and the tests drive the same code.
//! Nothing in here fails or panics on input from outside: what is stale, repeated or out of order is
//! answered or ignored, with a [`reason::Reason`].

#![forbid(unsafe_code)]

pub mod agent;
pub mod arbiter;
pub mod checkpoint;
pub mod client;
pub mod compare;
pub mod drain;
pub mod health;
pub mod id;
pub mod kueue;
pub mod plan;
pub mod pod;
pub mod protocol;
pub mod queue;
pub mod reason;
pub mod sample;
pub mod scheduler;
pub mod slice;
pub mod topology;
pub mod unit;
pub mod volume;
pub mod workload;
