//! Generations of TPUs as a table: what the caller reads from its data file.

use std::fmt;

use super::illegal::{Illegal, IllegalShape, nearest};
use super::shape::Shape;

/// How chips are wired beyond a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fabric {
    /// A flat grid: a slice is one of the listed shapes and never larger than the last of them.
    Grid,
    /// Cubes behind optical switches: any whole cubes can be joined.
    Cubes {
        /// Cubes of a pod.
        pod_cubes_max: u32,
        /// Cubes of the largest slice.
        slice_cubes_max: u32,
    },
}

/// Whether slices can be made and unmade while the nodes stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slicing {
    /// By Slice objects.
    Dynamic,
    /// A node pool is a slice, for as long as it exists.
    Static,
}

/// One generation. See the data file for where each figure comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generation {
    /// Such as `tpu7x`.
    pub name: String,
    /// Other names by which people ask for it.
    pub aliases: Vec<String>,
    /// Values of the node label `cloud.google.com/gke-tpu-accelerator`.
    pub accelerators: Vec<String>,
    /// What an accelerator type begins with: `tpu7x` of `tpu7x-16`.
    pub type_prefix: String,
    /// What the number of an accelerator type counts, per chip.
    pub cores_per_chip: u32,
    /// How chips are wired.
    pub fabric: Fabric,
    /// Whether slices can be made and unmade.
    pub slicing: Slicing,
    /// Whether sides may be written in any order; otherwise they ascend.
    pub is_order_free: bool,
    /// Chips of a host, for each kind of machine, ascending.
    pub hosts: Vec<Shape>,
    /// Shapes up to a whole cube or grid, ascending.
    pub shapes: Vec<Shape>,
    /// A dimension of this many chips or more is closed to a ring (in a grid: of exactly so many). Unit: chips.
    pub ring_chips: u16,
    /// Whether slices of the shapes n×n×2n and n×2n×2n can be twisted.
    pub can_twist: bool,
    /// Where the figures come from.
    pub source: String,
    /// When they were looked up, `YYYY-MM-DD`.
    pub as_of: String,
}

/// How much a legal shape takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// A part of a cube or grid, or all of it: its place in [`Generation::shapes`].
    Part(usize),
    /// This many whole cubes of one block, 2 or more.
    Cubes(u32),
}

impl Generation {
    /// A whole cube, or the largest grid.
    #[must_use]
    pub fn whole(&self) -> Option<Shape> {
        self.shapes.last().copied()
    }

    /// How much `asked` takes.
    ///
    /// # Errors
    /// What is wrong with the shape, what would be legal, and the nearest of these.
    pub fn check(&self, asked: Shape) -> Result<Extent, IllegalShape> {
        let shape = if self.is_order_free { asked.sorted() } else { asked };
        if let Some(part) = self.shapes.iter().position(|legal| *legal == shape) {
            return Ok(Extent::Part(part));
        }
        self.cubes(shape).map(Extent::Cubes).map_err(|why| {
            let (smaller, larger) = nearest(self, &asked);
            let legal = self.rule();
            IllegalShape { generation: self.name.clone(), asked, why, legal, smaller, larger }
        })
    }

    /// Whole cubes that `shape` takes.
    fn cubes(&self, shape: Shape) -> Result<u32, Illegal> {
        let whole = self.whole().ok_or(Illegal::NotListed)?;
        let (have, want) = (shape.sides().len(), whole.sides().len());
        if have != want {
            return Err(Illegal::Dimensions { want });
        }
        let sorted = shape.sorted();
        if sorted != shape && (self.shapes.contains(&sorted) || self.are_cubes(sorted).is_ok()) {
            return Err(Illegal::Order { sorted });
        }
        self.are_cubes(shape)
    }

    fn are_cubes(&self, shape: Shape) -> Result<u32, Illegal> {
        let whole = self.whole().ok_or(Illegal::NotListed)?;
        let Fabric::Cubes { slice_cubes_max, .. } = self.fabric else {
            let too_large = shape.chips() > whole.chips();
            let chips_max = whole.chips();
            return Err(if too_large {
                Illegal::TooLarge { chips_max }
            } else {
                Illegal::NotListed
            });
        };
        let side = whole.sides()[0];
        if shape.sides().iter().any(|s| s % side != 0) {
            return Err(if shape.fits_into(&whole) {
                Illegal::NotListed
            } else {
                Illegal::NotWholeCubes { side_chips: side }
            });
        }
        if shape.sorted() != shape {
            return Err(Illegal::Order { sorted: shape.sorted() });
        }
        let cubes = shape.chips() / whole.chips();
        if cubes > slice_cubes_max {
            return Err(Illegal::TooLarge { chips_max: slice_cubes_max * whole.chips() });
        }
        Ok(cubes)
    }

    /// What is legal, in words.
    fn rule(&self) -> String {
        let listed: Vec<String> = self.shapes.iter().map(ToString::to_string).collect();
        let listed = listed.join(", ");
        let (Fabric::Cubes { slice_cubes_max, .. }, Some(whole)) = (self.fabric, self.whole())
        else {
            return listed;
        };
        let side = whole.sides()[0];
        let order = if self.is_order_free { "in any order" } else { "in ascending order" };
        let chips = slice_cubes_max * whole.chips();
        format!("{listed}, and multiples of {side} {order} up to {chips} chips")
    }

    /// Every legal shape, in ascending order of its sides. At most some hundred.
    #[must_use]
    pub fn legal_shapes(&self) -> Vec<Shape> {
        let mut shapes = self.shapes.clone();
        if let (Fabric::Cubes { slice_cubes_max, .. }, Some(whole)) = (self.fabric, self.whole()) {
            let side = whole.sides()[0];
            let longest = u16::try_from(slice_cubes_max).unwrap_or(u16::MAX);
            for a in 1..=longest {
                for b in
                    (a..=longest).take_while(|b| u32::from(a) * u32::from(*b) <= slice_cubes_max)
                {
                    let most = slice_cubes_max / (u32::from(a) * u32::from(b));
                    let most = u16::try_from(most).unwrap_or(u16::MAX);
                    let sides = (b..=most).map(|c| [a, b, c].map(|n| n.saturating_mul(side)));
                    shapes.extend(sides.filter_map(|sides| Shape::new(&sides)));
                }
            }
        }
        shapes.sort_unstable();
        shapes.dedup();
        shapes
    }

    /// Hosts that a slice of `shape` takes on machines whose hosts have the chips of `host`; `None` if it is smaller
    /// than a host or no multiple.
    #[must_use]
    pub fn hosts_of(&self, shape: Shape, host: Shape) -> Option<u32> {
        let (chips, each) = (shape.chips(), host.chips());
        (chips >= each && chips % each == 0).then(|| chips / each)
    }

    /// The accelerator type of a slice, such as `tpu7x-16`. Its number counts cores, not chips.
    #[must_use]
    pub fn accelerator_type(&self, shape: Shape) -> String {
        format!("{}-{}", self.type_prefix, shape.chips() * self.cores_per_chip)
    }

    /// Which dimensions of a slice are closed to rings.
    #[must_use]
    pub fn rings(&self, shape: Shape) -> Vec<bool> {
        let sides = shape.sides().iter();
        match self.fabric {
            Fabric::Grid => sides.map(|side| *side == self.ring_chips).collect(),
            Fabric::Cubes { .. } => {
                let all = sides.clone().all(|side| *side >= self.ring_chips);
                sides.map(|_| all).collect()
            }
        }
    }

    /// Whether a slice of this shape can be a twisted torus: n×n×2n or n×2n×2n, of whole cubes.
    #[must_use]
    pub fn is_twistable(&self, shape: Shape) -> bool {
        let sorted = shape.sorted();
        let (true, [a, b, c]) = (self.can_twist, sorted.sides()) else { return false };
        *a >= self.ring_chips && *c == 2 * a && (b == a || b == c)
    }
}

/// All generations that are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    generations: Vec<Generation>,
}

/// A row of a table that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableError {
    generation: String,
    why: &'static str,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation {:?}: {}", self.generation, self.why)
    }
}

impl std::error::Error for TableError {}

impl Table {
    /// A table of `generations`, each of which is checked.
    ///
    /// # Errors
    /// The first row that contradicts itself.
    pub fn new(generations: Vec<Generation>) -> Result<Self, TableError> {
        for generation in &generations {
            if let Some(why) = contradiction(generation) {
                return Err(TableError { generation: generation.name.clone(), why });
            }
        }
        Ok(Self { generations })
    }

    /// Every generation, in the order of the data file.
    #[must_use]
    pub fn generations(&self) -> &[Generation] {
        &self.generations
    }

    /// The generation that is called `name`: its own name, an alias, or the value of a node label. Case does not count.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Generation> {
        let is_it = |other: &String| other.eq_ignore_ascii_case(name);
        self.generations.iter().find(|g| {
            is_it(&g.name) || g.aliases.iter().any(is_it) || g.accelerators.iter().any(is_it)
        })
    }
}

fn contradiction(generation: &Generation) -> Option<&'static str> {
    let dimensions = match generation.fabric {
        Fabric::Grid => 2,
        Fabric::Cubes { .. } => 3,
    };
    let shapes = &generation.shapes;
    let all = shapes.iter().chain(&generation.hosts);
    let ascends = |shapes: &[Shape]| shapes.windows(2).all(|two| two[0].chips() < two[1].chips());
    if shapes.is_empty() || generation.hosts.is_empty() {
        return Some("it has no shapes or no hosts");
    }
    if all.clone().any(|shape| shape.sides().len() != dimensions) {
        return Some("a shape has not the dimensions of the fabric");
    }
    if !ascends(shapes) || !ascends(&generation.hosts) {
        return Some("shapes or hosts do not ascend in chips");
    }
    let whole = shapes.last()?;
    let is_cube = whole.sides().windows(2).all(|two| two[0] == two[1]);
    match generation.fabric {
        Fabric::Cubes { .. } if !is_cube => Some("its last shape is not a cube"),
        Fabric::Cubes { pod_cubes_max, slice_cubes_max } if slice_cubes_max > pod_cubes_max => {
            Some("its largest slice is larger than a pod")
        }
        Fabric::Grid | Fabric::Cubes { .. } => None,
    }
}
