//! What the three binaries share: the wire, the files of queues, and being a process.

#![forbid(unsafe_code)]

pub mod audit;
pub mod net;
pub mod paths;
pub mod problems;
pub mod queues;
pub mod simulate;
pub mod slices;
pub mod telemetry;
pub mod volumes;
pub mod wire;
