//! Which slices a generation of TPUs can have: shapes, hosts, and what is wrong with a shape that it cannot have.
//!
//! The figures are a [`Table`] that the caller gives; they age, so they stand in a data file of the shell. What a slice
//! is placed on is not known here: see [`crate::slice`].

#[cfg(test)]
pub(crate) mod fixture;
mod generation;
mod illegal;
mod notation;
mod shape;
#[cfg(test)]
mod tests;

pub use generation::{Extent, Fabric, Generation, Slicing, Table, TableError};
pub use illegal::{Illegal, IllegalShape};
pub use notation::{Notation, PodsMismatch, RequestError, Wanted};
pub use shape::{Shape, ShapeError};
