//! What the three binaries share: the wire, and being a process.

#![forbid(unsafe_code)]

pub mod net;
pub mod paths;
pub mod simulate;
pub mod telemetry;
pub mod wire;
