//! Which hosts make up which slice: cubes as trees of halves, placing, victims, moves, and the life of a slice.
//!
//! A cube (or the host grid of a flat generation) is halved again and again, and a slice within it is always one of
//! these parts: never a window that slides. So a cube is a word with a bit per host, and a part a run of bits at a
//! multiple of its length ([`Partition`]). Larger slices are whole cubes of one block.
//!
//! [`solve`] places requests and names victims, [`defrag`] names moves; both only say what they would do.
//! [`life`] is one slice from its creation until its nodes can be used again.

mod board;
mod cube;
mod defrag;
mod fit;
mod fleet;
pub mod label;
pub mod life;
mod name;
mod reason;
mod request;
mod score;
mod search;
mod solve;
#[cfg(test)]
mod tests;
mod tiling;
mod tree;
mod wait;

pub use cube::{Cube, Host, PartitionState, Window};
pub use defrag::{Budget, Defrag, Move, defrag};
pub use fleet::{Fleet, FleetProblem};
pub use name::{NAME_BYTES_MAX, slice_name};
pub use reason::Reason;
pub use request::{Part, Request, Running};
pub use score::Score;
pub use solve::{Answer, Outcome, solve};
pub use tiling::{LEVELS_MAX, Partition, Piece, Tiling, TilingError};
pub use tree::{Labelled, TreeProblem, trees};
