//! What the three binaries share: the wire, and being a process.

pub mod wire;
