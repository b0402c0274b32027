//! How a cube or grid is halved: levels, partitions, and the bits that stand for them.

use std::fmt;

use crate::topology::{Generation, Shape};

/// Most levels of a tiling: a 16x16 grid of hosts with 2x2 chips has 7, a cube 5.
pub const LEVELS_MAX: usize = 7;

/// Shapes from one host up to a whole cube or grid, each twice as large as the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tiling {
    shapes: Vec<Shape>,
}

/// Shapes that do not halve each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TilingError {
    /// The shape that is not twice the one before, or none if there are too few or too many.
    pub shape: Option<Shape>,
}

impl fmt::Display for TilingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape {
            Some(shape) => write!(f, "{shape} is not twice as large as the shape before it"),
            None => write!(f, "a cube or grid is halved into 1 to {LEVELS_MAX} shapes"),
        }
    }
}

impl std::error::Error for TilingError {}

impl Tiling {
    /// A tiling of these shapes, the host's first.
    ///
    /// # Errors
    /// The first shape that is not twice the one before; or there are none, or more than [`LEVELS_MAX`].
    pub fn new(shapes: Vec<Shape>) -> Result<Self, TilingError> {
        if shapes.is_empty() || shapes.len() > LEVELS_MAX {
            return Err(TilingError { shape: None });
        }
        let uneven = shapes.windows(2).find(|two| two[1].chips() != 2 * two[0].chips());
        match uneven {
            Some(two) => Err(TilingError { shape: Some(two[1]) }),
            None => Ok(Self { shapes }),
        }
    }

    /// The tiling of a whole of `generation` with hosts of `host`.
    ///
    /// # Errors
    /// Its shapes do not halve each other down to the host.
    pub fn of(generation: &Generation, host: Shape, whole: Shape) -> Result<Self, TilingError> {
        let between = |s: &&Shape| (host.chips()..=whole.chips()).contains(&s.chips());
        let shapes: Vec<Shape> = generation.shapes.iter().filter(between).copied().collect();
        if shapes.first() != Some(&host) {
            return Err(TilingError { shape: Some(host) });
        }
        if shapes.last() != Some(&whole) {
            return Err(TilingError { shape: Some(whole) });
        }
        Self::new(shapes)
    }

    /// Shapes by level, the host's first.
    #[must_use]
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// Level of the whole cube or grid.
    #[must_use]
    pub fn top(&self) -> u8 {
        u8::try_from(self.shapes.len() - 1).unwrap_or(0)
    }

    /// Hosts of a whole cube or grid: 16 of a cube.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        1 << self.top()
    }

    /// Level of the partitions of `shape`.
    #[must_use]
    pub fn level_of(&self, shape: Shape) -> Option<u8> {
        let level = self.shapes.iter().position(|own| *own == shape)?;
        u8::try_from(level).ok()
    }

    /// Shape of the partitions of `level`, the whole for levels that do not exist.
    #[must_use]
    pub fn shape(&self, level: u8) -> Shape {
        let last = self.shapes.len() - 1;
        self.shapes[usize::from(level).min(last)]
    }

    /// Every partition, whole first: 31 of a cube.
    pub fn partitions(&self) -> impl Iterator<Item = Partition> + use<> {
        let top = self.top();
        (0..=top).rev().flat_map(move |level| {
            (0..1_u8 << (top - level)).map(move |index| Partition { level, index })
        })
    }

    /// The partition `index` of `level`; `None` if there is none.
    #[must_use]
    pub fn partition(&self, level: u8, index: u8) -> Option<Partition> {
        let exists = level <= self.top() && index < 1 << (self.top() - level);
        exists.then_some(Partition { level, index })
    }
}

/// A part of a cube: 2^level hosts from host number index·2^level on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    pub(super) level: u8,
    pub(super) index: u8,
}

impl Partition {
    /// Its level: 0 for one host.
    #[must_use]
    pub fn level(self) -> u8 {
        self.level
    }

    /// Its place among those of its level.
    #[must_use]
    pub fn index(self) -> u8 {
        self.index
    }

    /// A bit for each of its hosts.
    #[must_use]
    pub fn hosts(self) -> u64 {
        ones(self.level) << (u32::from(self.index) << self.level)
    }

    /// The partition of twice its size around it.
    #[must_use]
    pub fn parent(self) -> Self {
        Self { level: self.level + 1, index: self.index / 2 }
    }

    /// Whether they have a host in common: one lies within the other.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.hosts() & other.hosts() != 0
    }
}

/// By level: as many ones as a partition has hosts.
const ONES: [u64; LEVELS_MAX] = [0x1, 0x3, 0xf, 0xff, 0xffff, 0xffff_ffff, 0xffff_ffff_ffff_ffff];

/// By level: a one at the first host of each partition.
const STARTS: [u64; LEVELS_MAX] = [
    0xffff_ffff_ffff_ffff,
    0x5555_5555_5555_5555,
    0x1111_1111_1111_1111,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0000_0001_0000_0001,
    0x0000_0000_0000_0001,
];

/// As many ones as a partition of `level` has hosts; those of the largest for levels that do not exist.
pub(super) fn ones(level: u8) -> u64 {
    ONES[usize::from(level).min(LEVELS_MAX - 1)]
}

/// A one at the first host of each partition of `level`.
pub(super) fn starts(level: u8) -> u64 {
    STARTS[usize::from(level).min(LEVELS_MAX - 1)]
}

/// A partition of one of the cubes of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Piece {
    /// The cube's place in the fleet.
    pub cube: usize,
    /// The part.
    pub partition: Partition,
}

impl Piece {
    /// Whether they have a host in common.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.cube == other.cube && self.partition.overlaps(other.partition)
    }
}
