//! What is wrong with a shape, and which legal ones are nearest to it.

use std::cmp::Reverse;
use std::fmt;

use super::generation::Generation;
use super::shape::Shape;

/// What is wrong with a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Illegal {
    /// It has more or fewer dimensions than the fabric.
    Dimensions {
        /// Dimensions of the fabric.
        want: usize,
    },
    /// Its sides have to ascend.
    Order {
        /// How it is written.
        sorted: Shape,
    },
    /// It is larger than a cube and not made of whole ones.
    NotWholeCubes {
        /// Side of a cube. Unit: chips.
        side_chips: u16,
    },
    /// It is larger than the largest slice.
    TooLarge {
        /// Chips of the largest slice.
        chips_max: u32,
    },
    /// It is not larger than a cube or grid, and not one of the shapes of its parts.
    NotListed,
}

/// A shape that a generation cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IllegalShape {
    /// The generation.
    pub generation: String,
    /// What was asked for.
    pub asked: Shape,
    /// What is wrong with it.
    pub why: Illegal,
    /// What is legal, in words.
    pub legal: String,
    /// The largest legal shape that lies within it.
    pub smaller: Option<Shape>,
    /// The smallest legal shape that it lies within.
    pub larger: Option<Shape>,
}

impl fmt::Display for IllegalShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, asked, .. } = self;
        write!(f, "{generation} has no slice of the shape {asked}: ")?;
        match self.why {
            Illegal::Dimensions { want } => {
                write!(f, "it has {} dimensions instead of {want}", asked.sides().len())?;
            }
            Illegal::Order { sorted } => write!(f, "sides ascend; write {sorted}")?,
            Illegal::NotWholeCubes { side_chips } => {
                write!(f, "beyond a cube every side is a multiple of {side_chips}")?;
            }
            Illegal::TooLarge { chips_max } => {
                let chips = asked.chips();
                write!(f, "its {chips} chips are more than the {chips_max} of the largest slice")?;
            }
            Illegal::NotListed => {
                f.write_str("it is not a shape into which a cube or grid is cut")?;
            }
        }
        write!(f, "; legal: {}", self.legal)?;
        match (self.smaller, self.larger) {
            (Some(smaller), Some(larger)) if smaller == larger => write!(f, "; nearest: {smaller}"),
            (Some(smaller), Some(larger)) => {
                write!(f, "; nearest: {smaller} (smaller), {larger} (larger)")
            }
            (Some(smaller), None) => write!(f, "; nearest: {smaller} (smaller)"),
            (None, Some(larger)) => write!(f, "; nearest: {larger} (larger)"),
            (None, None) => Ok(()),
        }
    }
}

impl std::error::Error for IllegalShape {}

/// The largest legal shape within `asked`, and the smallest around it.
pub(super) fn nearest(generation: &Generation, asked: &Shape) -> (Option<Shape>, Option<Shape>) {
    let legal = generation.legal_shapes();
    let within = legal.iter().filter(|shape| shape.fits_into(asked));
    let around = legal.iter().filter(|shape| asked.fits_into(shape));
    // Of equally large ones the most compact: its longest side is shortest.
    let longest = |shape: &Shape| shape.sides().iter().copied().max();
    let smaller = within.max_by_key(|shape| (shape.chips(), Reverse(longest(shape)), **shape));
    let larger = around.min_by_key(|shape| (shape.chips(), longest(shape), **shape));
    (smaller.copied(), larger.copied())
}
