//! The only door to the generated contract types.
//!
//! Everything between the contract (`proto/`) and the types of `sluice-core` is converted in the
//! modules below: checked on the way in ([`WireError`]), infallible on the way out.
//!
//! A point in time crosses as a `google.protobuf.Timestamp`: [`Time`](sluice_core::unit::Time) counts
//! milliseconds of the arbiter's clock, which its shell anchors to Unix time. Agents never read one.

pub mod admin;
pub mod asked;
pub mod checkpoint;
pub mod digest;
pub mod drain;
pub mod error;
pub mod field;
pub mod health;
pub mod node;
pub mod reason;
pub mod record;
pub mod sample;
#[cfg(test)]
mod tests;

pub use error::WireError;

/// The generated types and services of package `sluice.v1`.
pub mod pb {
    #![allow(
        missing_docs,
        unreachable_pub,
        missing_debug_implementations,
        clippy::all,
        clippy::pedantic,
        clippy::allow_attributes_without_reason,
        reason = "generated from proto/, which holds the documentation"
    )]
    tonic::include_proto!("sluice.v1");
}

/// Descriptors of the contract, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sluice_descriptors.bin"));

/// Version of the contract. An agent and an arbiter with different versions do not talk.
pub const PROTOCOL: u32 = 1;
