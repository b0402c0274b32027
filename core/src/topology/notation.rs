//! What is asked for, in the words of labels and annotations.

use std::fmt;

use super::generation::{Extent, Generation, Slicing, Table};
use super::illegal::IllegalShape;
use super::shape::{Shape, ShapeError};

/// Where a shape was written, which decides how it can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// The annotation `cloud.google.com/gke-tpu-slice-topology`: a slice that is made for it.
    SliceAnnotation,
    /// The node selector `cloud.google.com/gke-tpu-topology`: any slice of that shape.
    NodeSelector,
}

/// A legal wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Name of the generation.
    pub generation: String,
    /// The shape, its sides in the generation's order.
    pub shape: Shape,
    /// How much that is.
    pub extent: Extent,
}

/// Why nothing can be asked for in this way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// No such generation.
    UnknownGeneration {
        /// What was written.
        name: String,
        /// Names that are known.
        known: Vec<String>,
    },
    /// Not a shape at all.
    Shape(ShapeError),
    /// A shape that the generation cannot have.
    Illegal(IllegalShape),
    /// Slices of this generation are not made on demand.
    NotDynamic {
        /// The generation.
        generation: String,
        /// Generations of which they are.
        dynamic: Vec<String>,
    },
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownGeneration { name, known } => {
                let shown: String = name.chars().take(40).collect();
                write!(f, "there is no TPU generation {shown:?}; known are {}", known.join(", "))
            }
            Self::Shape(error) => error.fmt(f),
            Self::Illegal(error) => error.fmt(f),
            Self::NotDynamic { generation, dynamic } => write!(
                f,
                "slices of {generation} are not made on demand: a node pool is one slice; ask for a pool of the shape, or use {}",
                dynamic.join(", ")
            ),
        }
    }
}

impl std::error::Error for RequestError {}

impl Table {
    /// What is asked for by `generation` (a name or the label `cloud.google.com/gke-tpu-accelerator`) and `topology`.
    ///
    /// # Errors
    /// What is wrong with either, and what would be right.
    pub fn request(
        &self,
        generation: &str,
        topology: &str,
        notation: Notation,
    ) -> Result<Wanted, RequestError> {
        let names = |those: &dyn Fn(&Generation) -> bool| {
            let found = self.generations().iter().filter(|g| those(g));
            found.map(|g| g.name.clone()).collect::<Vec<_>>()
        };
        let Some(found) = self.find(generation) else {
            let known = names(&|_| true);
            return Err(RequestError::UnknownGeneration { name: generation.to_owned(), known });
        };
        let shape: Shape = topology.parse().map_err(RequestError::Shape)?;
        if notation == Notation::SliceAnnotation && found.slicing != Slicing::Dynamic {
            let dynamic = names(&|g| g.slicing == Slicing::Dynamic);
            return Err(RequestError::NotDynamic { generation: found.name.clone(), dynamic });
        }
        let extent = found.check(shape).map_err(RequestError::Illegal)?;
        let shape = if found.is_order_free { shape.sorted() } else { shape };
        Ok(Wanted { generation: found.name.clone(), shape, extent })
    }
}

/// Pods that do not use a slice fully.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodsMismatch {
    shape: Shape,
    pods: u32,
    chips_per_pod: u32,
    pods_wanted: Option<u32>,
}

impl fmt::Display for PodsMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shape, pods, chips_per_pod, pods_wanted } = self;
        let chips = shape.chips();
        write!(
            f,
            "{pods} pods of {chips_per_pod} chips do not fill {shape} with its {chips} chips"
        )?;
        match pods_wanted {
            Some(wanted) => write!(f, "; use {wanted} pods"),
            None => write!(f, "; let each pod have all chips of a host, or an even part of them"),
        }
    }
}

impl std::error::Error for PodsMismatch {}

impl Generation {
    /// Checks that `pods` pods of `chips_per_pod` chips are all of a slice, evenly spread over its hosts.
    ///
    /// # Errors
    /// How many pods it would take.
    pub fn check_pods(
        &self,
        shape: Shape,
        pods: u32,
        chips_per_pod: u32,
    ) -> Result<(), PodsMismatch> {
        let on_a_host = |host: &Shape| {
            let chips = host.chips();
            (1..=chips).contains(&chips_per_pod)
                && chips.is_multiple_of(chips_per_pod)
                && self.hosts_of(shape, *host).is_some()
        };
        let is_even = self.hosts.iter().any(on_a_host);
        let pods_wanted = is_even.then(|| shape.chips() / chips_per_pod);
        if pods_wanted == Some(pods) {
            return Ok(());
        }
        Err(PodsMismatch { shape, pods, chips_per_pod, pods_wanted })
    }
}
