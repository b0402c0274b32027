//! A shape as annotations write it: `2x4`, `4x4x8`.

use std::fmt;
use std::str::FromStr;

/// Chips along each dimension, in the order in which they were written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    count: u8,
    /// Those beyond `count` are 1, so that shapes of different dimensions can be compared.
    sizes: [u16; 3],
}

/// A text that is no shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeError {
    text: String,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.text.chars().take(40).collect();
        let most = Shape::SIDE_CHIPS_MAX;
        write!(
            f,
            "{shown:?} is not a shape; write 2 or 3 numbers from 1 to {most} with x between them, such as 2x4 or 4x4x8"
        )
    }
}

impl std::error::Error for ShapeError {}

impl Shape {
    /// Longest side. Unit: chips. Ten times the side of the largest pod known; it keeps products within 32 bits.
    pub const SIDE_CHIPS_MAX: u16 = 999;

    /// A shape of 2 or 3 dimensions; `None` if it has others or a side is out of range.
    #[must_use]
    pub fn new(sides: &[u16]) -> Option<Self> {
        let is_side = |side: &u16| (1..=Self::SIDE_CHIPS_MAX).contains(side);
        if !(2..=3).contains(&sides.len()) || !sides.iter().all(is_side) {
            return None;
        }
        let mut sizes = [1; 3];
        sizes[..sides.len()].copy_from_slice(sides);
        Some(Self { count: if sides.len() == 2 { 2 } else { 3 }, sizes })
    }

    /// Chips along each dimension: 2 or 3 numbers.
    #[must_use]
    pub fn sides(&self) -> &[u16] {
        &self.sizes[..usize::from(self.count)]
    }

    /// Chips of the whole.
    #[must_use]
    pub fn chips(&self) -> u32 {
        self.sizes.iter().map(|side| u32::from(*side)).product()
    }

    /// The same with its sides in ascending order.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.sizes[..usize::from(self.count)].sort_unstable();
        self
    }

    /// Whether this shape, turned as one likes, fits into `other`.
    #[must_use]
    pub fn fits_into(&self, other: &Self) -> bool {
        let ascending = |shape: &Self| {
            let mut sizes = shape.sizes;
            sizes.sort_unstable();
            sizes
        };
        ascending(self).iter().zip(ascending(other)).all(|(own, others)| *own <= others)
    }
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let error = || ShapeError { text: text.to_owned() };
        let side = |part: &str| {
            let is_plain = part.bytes().all(|b| b.is_ascii_digit()) && !part.starts_with('0');
            part.parse().ok().filter(|_| is_plain)
        };
        let sides: Option<Vec<u16>> = text.split('x').take(4).map(side).collect();
        sides.and_then(|sides| Self::new(&sides)).ok_or_else(error)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides: Vec<String> = self.sides().iter().map(ToString::to_string).collect();
        f.pad(&sides.join("x"))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
