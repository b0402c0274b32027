//! What the three binaries share: the wire, and being a process.

pub mod net;
pub mod paths;
pub mod telemetry;
pub mod wire;
