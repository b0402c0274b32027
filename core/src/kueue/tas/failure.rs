//! Why a pod set could not be placed: typed, with the numbers an operator needs.

use std::collections::BTreeMap;
use std::fmt;

use crate::kueue::name::ResourceName;

/// Why a pod set could not be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Not even one pod (or slice) fits.
    NoneFit {
        /// What is counted.
        unit: Unit,
        /// Units wanted.
        requested: u32,
        /// Which nodes were left out and why; `None` if none was.
        excluded: Option<Exclusions>,
    },
    /// Some pods (or slices) fit, but not all. `fits` may equal `requested` when only the leader finds no place.
    SomeFit {
        /// What is counted.
        unit: Unit,
        /// Units that fit into the best domain, or into all domains together.
        fits: u32,
        /// Units wanted.
        requested: u32,
        /// Which nodes were left out and why; `None` if none was.
        excluded: Option<Exclusions>,
    },
    /// Slices within slices do not fit.
    LayersDoNotFit {
        /// What fits in the best domain, layer by layer, outermost first.
        layers: Vec<LayerFit>,
        /// Which nodes were left out and why; `None` if none was.
        excluded: Option<Exclusions>,
    },
    /// The topology has the level, but no node is there.
    NoDomainsAtLevel {
        /// The level's node label key.
        level: String,
    },
    /// The pod set asks for a level that the topology does not have.
    UnknownLevel {
        /// The level's node label key.
        level: String,
    },
    /// The pod set cuts slices by a level that the topology does not have.
    UnknownSliceLevel {
        /// The level's node label key.
        level: String,
    },
    /// A slice may span more than the pod set as a whole may.
    SliceLevelAbovePodSetLevel {
        /// Level of the slices.
        slice_level: String,
        /// Level of the pod set.
        pod_set_level: String,
    },
    /// Slices are asked for, but not how large.
    SliceSizeMissing,
    /// A layer of slices does not lie below the layer around it.
    LayerNotBelowOuter {
        /// Level of the layer.
        level: String,
        /// Level of the layer around it.
        outer_level: String,
    },
    /// A layer's slices do not divide the slices around them.
    LayerSizeDoesNotDivide {
        /// Pods per slice of the layer.
        size: u32,
        /// Pods per slice of the layer around it.
        outer_size: u32,
    },
    /// The pods do not make up whole slices.
    PartialSlice {
        /// Pods to place.
        count: u32,
        /// Pods per slice.
        slice_size: u32,
    },
    /// The pod set asks for no topology, and none is implied.
    NoTopologyRequested,
    /// A group is one pod set, or a leader of one pod and its workers.
    MalformedGroup {
        /// Pod sets in the group.
        pod_sets: usize,
    },
    /// Capacity that the counts promised could not be handed out on the way down; only node layouts that mix
    /// leaders and slices of several levels get here.
    CountsDoNotDescend,
    /// The placement to repair names a domain that is gone.
    StaleDomain {
        /// The domain's first value; the node's host name where placement is node by node.
        value: String,
    },
    /// A broken node can be replaced only where placement is node by node.
    NotPlacedByNode,
}

impl Failure {
    /// Stable code for logs, metrics and records.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoneFit { .. } => "none-fit",
            Self::SomeFit { .. } => "some-fit",
            Self::LayersDoNotFit { .. } => "layers-do-not-fit",
            Self::NoDomainsAtLevel { .. } => "no-domains-at-level",
            Self::UnknownLevel { .. } => "unknown-level",
            Self::UnknownSliceLevel { .. } => "unknown-slice-level",
            Self::SliceLevelAbovePodSetLevel { .. } => "slice-level-above-podset-level",
            Self::SliceSizeMissing => "slice-size-missing",
            Self::LayerNotBelowOuter { .. } => "layer-not-below-outer",
            Self::LayerSizeDoesNotDivide { .. } => "layer-size-does-not-divide",
            Self::PartialSlice { .. } => "partial-slice",
            Self::NoTopologyRequested => "no-topology-requested",
            Self::MalformedGroup { .. } => "malformed-group",
            Self::CountsDoNotDescend => "counts-do-not-descend",
            Self::StaleDomain { .. } => "stale-domain",
            Self::NotPlacedByNode => "not-placed-by-node",
        }
    }

    /// Which nodes were left out and why, where the failure is about room.
    #[must_use]
    pub fn excluded(&self) -> Option<&Exclusions> {
        match self {
            Self::NoneFit { excluded, .. }
            | Self::SomeFit { excluded, .. }
            | Self::LayersDoNotFit { excluded, .. } => excluded.as_ref(),
            Self::NoDomainsAtLevel { .. }
            | Self::UnknownLevel { .. }
            | Self::UnknownSliceLevel { .. }
            | Self::SliceLevelAbovePodSetLevel { .. }
            | Self::SliceSizeMissing
            | Self::LayerNotBelowOuter { .. }
            | Self::LayerSizeDoesNotDivide { .. }
            | Self::PartialSlice { .. }
            | Self::NoTopologyRequested
            | Self::MalformedGroup { .. }
            | Self::CountsDoNotDescend
            | Self::StaleDomain { .. }
            | Self::NotPlacedByNode => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoneFit { unit, requested, .. } => {
                write!(f, "none of {requested} {unit}s fits")?;
            }
            Self::SomeFit { unit, fits, requested, .. } => {
                write!(f, "only {fits} of {requested} {unit}s fit")?;
            }
            Self::LayersDoNotFit { layers, .. } => {
                f.write_str("slices within slices do not fit")?;
                for LayerFit { level, fits, requested } in layers {
                    write!(f, "; {fits} of {requested} fit at level \"{level}\"")?;
                }
            }
            Self::NoDomainsAtLevel { level } => {
                write!(f, "no usable node carries the labels down to level \"{level}\"")?;
            }
            Self::UnknownLevel { level } => {
                write!(f, "the topology has no level \"{level}\"; ask for one of its levels")?;
            }
            Self::UnknownSliceLevel { level } => {
                write!(f, "the topology has no level \"{level}\" for slices; use one it has")?;
            }
            Self::SliceLevelAbovePodSetLevel { slice_level, pod_set_level } => write!(
                f,
                "slice level \"{slice_level}\" lies above the pod set's level \"{pod_set_level}\"; \
                 slices must be cut at or below it"
            )?,
            Self::SliceSizeMissing => {
                f.write_str("slices are asked for without a size; set podset-slice-size")?;
            }
            Self::LayerNotBelowOuter { level, outer_level } => write!(
                f,
                "slice layer \"{level}\" does not lie below the layer \"{outer_level}\" around it"
            )?,
            Self::LayerSizeDoesNotDivide { size, outer_size } => {
                write!(f, "slice size {size} does not divide the size {outer_size} around it")?;
            }
            Self::PartialSlice { count, slice_size } => {
                write!(f, "{count} pods do not make up whole slices of {slice_size}")?;
            }
            Self::NoTopologyRequested => f.write_str("the pod set asks for no topology")?,
            Self::MalformedGroup { pod_sets } => write!(
                f,
                "a group of {pod_sets} pod sets; it must be a leader of one pod and its workers"
            )?,
            Self::CountsDoNotDescend => {
                f.write_str("the pods fit by count, but not once leader and slices are laid out")?;
            }
            Self::StaleDomain { value } => {
                write!(f, "the placement to repair uses \"{value}\", which is gone too")?;
            }
            Self::NotPlacedByNode => {
                write!(f, "a node is replaced only where the lowest level is the host name")?;
            }
        }
        self.excluded().map_or(Ok(()), |excluded| write!(f, "; {excluded}"))
    }
}

/// What a failure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Single pods.
    Pod,
    /// Slices: fixed numbers of pods that stay together.
    Slice,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pod => "pod",
            Self::Slice => "slice",
        })
    }
}

/// What fits of one layer of slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerFit {
    /// The layer's node label key.
    pub level: String,
    /// Slices that fit.
    pub fits: u32,
    /// Slices wanted.
    pub requested: u32,
}

/// How many leaf domains were looked at and how many were left out, by reason. A leaf is counted once, under the
/// first reason that holds: taint, node selector, affinity, topology domain, resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exclusions {
    /// Leaves looked at (nodes, where placement is node by node).
    pub total_nodes: u32,
    /// Left out by the pods' node selector.
    pub node_selector: u32,
    /// Left out by the pods' required node affinity.
    pub affinity: u32,
    /// Outside the domain that a replacement must stay in.
    pub topology_domain: u32,
    /// Left out by a taint, by `key=value:effect`.
    pub taints: BTreeMap<String, u32>,
    /// Too full for even one pod, by the resource that is scarcest there.
    pub resources: BTreeMap<ResourceName, u32>,
}

impl Exclusions {
    /// Whether any leaf was left out.
    #[must_use]
    pub fn any(&self) -> bool {
        self.node_selector > 0
            || self.affinity > 0
            || self.topology_domain > 0
            || !self.taints.is_empty()
            || !self.resources.is_empty()
    }
}

impl fmt::Display for Exclusions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {} nodes left out", self.total_nodes)?;
        let mut reasons = Vec::new();
        for (count, name) in [
            (self.node_selector, "node selector"),
            (self.affinity, "node affinity"),
            (self.topology_domain, "outside the domain to stay in"),
        ] {
            if count > 0 {
                reasons.push(format!("{count} {name}"));
            }
        }
        reasons
            .extend(self.taints.iter().map(|(taint, count)| format!("{count} taint \"{taint}\"")));
        reasons.extend(
            self.resources.iter().map(|(name, count)| format!("{count} short of \"{name}\"")),
        );
        write!(f, ": {}", reasons.join(", "))
    }
}
