//! Decides.

pub mod kueue;
pub mod checkpoint;
