//! What one placement has to achieve: a pod set's wishes resolved to levels and sizes of one topology.

use crate::kueue::workload::{SliceLayer, TopologyMode, TopologyRequest};

use super::failure::{Failure, Unit};
use super::model::PodSetRequest;
use super::snapshot::TasSnapshot;

/// What one placement has to achieve. Levels count from 0, the topmost.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Pods to place, without the leader.
    pub(super) count: i64,
    /// 1 if a leader is placed together with them, else 0.
    pub(super) leaders: i64,
    /// Pods per slice; 1 if no slices were asked for.
    pub(super) slice_size: i64,
    /// Level within one domain of which everything should (or must) lie.
    pub(super) level: usize,
    /// Level within one domain of which each slice must lie; at or below `level`.
    pub(super) slice_level: usize,
    pub(super) strictness: Strictness,
    /// Per level, pods per slice of the layer that governs it; 0 where no inner layer does.
    pub(super) inner_sizes: Vec<i64>,
    /// All layers, outermost first, if there is more than one; else empty.
    pub(super) layers: Vec<SliceLayer>,
}

/// How much the requested level matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// All in one domain of the level, or nowhere.
    Required,
    /// In one domain of the level if possible.
    Preferred,
    /// Anywhere.
    Unconstrained,
}

impl Plan {
    /// Slices to place.
    pub(super) fn slices(&self) -> i64 {
        self.count / self.slice_size
    }

    pub(super) fn unit(&self) -> Unit {
        if self.slice_size == 1 { Unit::Pod } else { Unit::Slice }
    }
}

/// The layers of slices asked for, outermost first. A size of 0 stands for a size that was not given.
pub(super) fn layers_of(topology: Option<&TopologyRequest>) -> Vec<SliceLayer> {
    let Some(topology) = topology else { return Vec::new() };
    if !topology.slice_layers.is_empty() {
        return topology.slice_layers.clone();
    }
    let layer = |level: &String| SliceLayer {
        level: level.clone(),
        size: topology.slice_size.unwrap_or(0),
    };
    topology.slice_level.iter().map(layer).collect()
}

/// How strict a request is. Slices alone leave the rest of the placement free.
pub(super) fn strictness_of(topology: Option<&TopologyRequest>) -> Strictness {
    match topology.and_then(|topology| topology.mode.as_ref()) {
        Some(TopologyMode::Required(_)) => Strictness::Required,
        Some(TopologyMode::Preferred(_)) => Strictness::Preferred,
        Some(TopologyMode::Unconstrained) | None => Strictness::Unconstrained,
    }
}

impl TasSnapshot {
    /// Resolves what `request` asks for, with `layers` in place of the request's own.
    pub(super) fn plan(
        &self,
        request: &PodSetRequest<'_>,
        layers: Vec<SliceLayer>,
        has_leader: bool,
    ) -> Result<Plan, Failure> {
        let topology = request.pod_set.topology.as_ref();
        let slice_size = layers.first().map_or(1, |layer| layer.size);
        if slice_size == 0 {
            return Err(Failure::SliceSizeMissing);
        }
        let level = self.requested_level(topology, &layers, request.is_implied)?;
        let slice_level = match layers.first() {
            Some(layer) => self.tree.level_of(&layer.level).ok_or_else(|| unknown_slice(layer))?,
            None => self.tree.levels.len() - 1,
        };
        if level > slice_level {
            return Err(Failure::SliceLevelAbovePodSetLevel {
                slice_level: self.tree.levels[slice_level].clone(),
                pod_set_level: self.tree.levels[level].clone(),
            });
        }
        let inner_sizes = self.inner_sizes(&layers, slice_level)?;
        let count = request.count;
        if !count.is_multiple_of(slice_size) {
            return Err(Failure::PartialSlice { count, slice_size });
        }
        Ok(Plan {
            count: i64::from(count),
            leaders: i64::from(has_leader),
            slice_size: i64::from(slice_size),
            level,
            slice_level,
            strictness: strictness_of(topology),
            inner_sizes,
            layers: if layers.len() > 1 { layers } else { Vec::new() },
        })
    }

    /// The level that a request starts from when it cuts slices by `layers`: the one it names; the topmost if it only
    /// cuts slices; else the lowest.
    ///
    /// # Errors
    /// [`Failure::UnknownLevel`]; [`Failure::NoTopologyRequested`] if nothing is asked for or implied, or the
    /// topology has no level.
    pub(super) fn requested_level(
        &self,
        topology: Option<&TopologyRequest>,
        layers: &[SliceLayer],
        is_implied: bool,
    ) -> Result<usize, Failure> {
        let lowest = self.tree.lowest_level().ok_or(Failure::NoTopologyRequested)?;
        match topology.and_then(|topology| topology.mode.as_ref()) {
            Some(TopologyMode::Required(label) | TopologyMode::Preferred(label)) => self
                .tree
                .level_of(label)
                .ok_or_else(|| Failure::UnknownLevel { level: label.clone() }),
            Some(TopologyMode::Unconstrained) | None if !layers.is_empty() => Ok(0),
            Some(TopologyMode::Unconstrained) => Ok(lowest),
            // Slices were asked for, but what is left of them is no whole slice: then single pods go anywhere.
            None if is_implied || !layers_of(topology).is_empty() => Ok(lowest),
            None => Err(Failure::NoTopologyRequested),
        }
    }

    /// Per level, the pods per slice of the inner layer that governs it. A layer also governs the levels between
    /// itself and the layer around it, so that those hand out whole slices too.
    fn inner_sizes(&self, layers: &[SliceLayer], slice_level: usize) -> Result<Vec<i64>, Failure> {
        let mut sizes = vec![0; self.tree.levels.len()];
        let mut outer_level = slice_level;
        for (outer, layer) in layers.iter().zip(layers.iter().skip(1)) {
            let level = self.tree.level_of(&layer.level).ok_or_else(|| unknown_slice(layer))?;
            if layer.size == 0 {
                return Err(Failure::SliceSizeMissing);
            }
            if level <= outer_level {
                return Err(Failure::LayerNotBelowOuter {
                    level: layer.level.clone(),
                    outer_level: outer.level.clone(),
                });
            }
            if !outer.size.is_multiple_of(layer.size) {
                return Err(Failure::LayerSizeDoesNotDivide {
                    size: layer.size,
                    outer_size: outer.size,
                });
            }
            sizes[outer_level + 1..=level].fill(i64::from(layer.size));
            outer_level = level;
        }
        Ok(sizes)
    }
}

fn unknown_slice(layer: &SliceLayer) -> Failure {
    Failure::UnknownSliceLevel { level: layer.level.clone() }
}
