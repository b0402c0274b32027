//! Replaces one broken node in an existing placement and leaves all other pods where they are.

use std::collections::BTreeMap;

use crate::kueue::workload::{PlacedDomain, Placement, SliceLayer};

use super::assumed::Assumed;
use super::count::Demand;
use super::failure::Failure;
use super::model::{Capacity, PodSetRequest};
use super::plan::{Strictness, layers_of, strictness_of};
use super::snapshot::TasSnapshot;
use super::tree::DomainId;

/// A pod set one of whose nodes broke.
#[derive(Clone, Copy, Debug)]
pub struct ReplaceRequest<'a> {
    /// The pod set. Its `count` does not matter: as many pods move as were on the node.
    pub request: PodSetRequest<'a>,
    /// Where all its pods are now, the broken node included.
    pub placement: &'a Placement,
    /// Whether the workload is one lone pod, which cannot move: it keeps its placement.
    pub is_owned_by_single_pod: bool,
}

/// A placement with the broken node replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Where all pods are now.
    pub placement: Placement,
    /// Where the moved pods went; part of `placement`. Empty if none had to move.
    pub moved: Placement,
}

impl TasSnapshot {
    /// Finds new places for the pods of `replace` on the node with host name `broken`. They stay in the slice, or in
    /// the required domain, that the others of it are in. What they take is added to `assumed`.
    ///
    /// # Errors
    /// [`Failure::NotPlacedByNode`] if leaves are not nodes; [`Failure::StaleDomain`] if a second node is gone too;
    /// else as [`TasSnapshot::place`].
    pub fn replace(
        &self,
        replace: &ReplaceRequest<'_>,
        broken: &str,
        assumed: &mut Assumed,
    ) -> Result<Replacement, Failure> {
        let nowhere = Placement { levels: replace.placement.levels.clone(), domains: Vec::new() };
        let (lost, kept) = without(replace.placement, broken);
        if replace.is_owned_by_single_pod || lost == 0 {
            return Ok(Replacement { placement: replace.placement.clone(), moved: nowhere });
        }
        if !self.is_node_level() {
            return Err(Failure::NotPlacedByNode);
        }
        if let Some(values) = self.stale_domain(&kept) {
            return Err(Failure::StaleDomain {
                value: values.first().cloned().unwrap_or_default(),
            });
        }
        let request = PodSetRequest { count: lost, ..replace.request };
        let topology = request.pod_set.topology.as_ref();
        let within = self.domain_to_stay_in(&request, &kept);
        let mut layers = layers_of(topology);
        if within.is_some() && breaks_slices(&layers, lost) {
            layers = whole_layers(layers, lost);
        }
        let room = Capacity::Free.into();
        let demand = Demand { request: &request, leader: None, within, room, assumed };
        let moved = self.find(&demand, layers)?.workers;
        assumed.add(&moved, &request.pod_set.requests);
        Ok(Replacement { placement: self.merged(&moved, &kept), moved })
    }

    /// The domain in which the moved pods must stay: that of the slice they complete, else the required one. `None`
    /// if they may go anywhere.
    fn domain_to_stay_in(&self, request: &PodSetRequest<'_>, kept: &Placement) -> Option<DomainId> {
        let topology = request.pod_set.topology.as_ref();
        let layers = layers_of(topology);
        let level = self.requested_level(topology, &layers, request.is_implied).ok()?;
        let first = kept.domains.first()?;
        if breaks_slices(&layers, request.count) {
            // The innermost broken layer is the tightest one to repair.
            let broken = layers.iter().rev().find(|layer| breaks(layer, request.count))?;
            return self.incomplete_slice(broken, kept, request.count);
        }
        match strictness_of(topology) {
            Strictness::Required => self.domain_above(&first.values, level),
            Strictness::Preferred | Strictness::Unconstrained => None,
        }
    }

    /// The first domain of the layer's level whose pods make up whole slices once the `lost` ones are back.
    fn incomplete_slice(
        &self,
        layer: &SliceLayer,
        kept: &Placement,
        lost: u32,
    ) -> Option<DomainId> {
        let level = self.tree.level_of(&layer.level)?;
        let mut pods: BTreeMap<DomainId, u64> = BTreeMap::new();
        for domain in &kept.domains {
            *pods.entry(self.domain_above(&domain.values, level)?).or_insert(0) +=
                u64::from(domain.pods);
        }
        let is_completed =
            |pods: u64| (pods + u64::from(lost)).is_multiple_of(u64::from(layer.size));
        pods.into_iter().find_map(|(domain, pods)| is_completed(pods).then_some(domain))
    }
}

/// Whether `pods` are no whole number of slices of this layer.
fn breaks(layer: &SliceLayer, pods: u32) -> bool {
    !pods.is_multiple_of(layer.size)
}

/// Whether `pods` are no whole number of outermost slices. A missing size is reported when the pods are placed.
fn breaks_slices(layers: &[SliceLayer], pods: u32) -> bool {
    layers.first().is_some_and(|layer| layer.size > 0 && breaks(layer, pods))
}

/// The innermost layer that `pods` are whole slices of, as the only one; none if there is no such layer.
fn whole_layers(layers: Vec<SliceLayer>, pods: u32) -> Vec<SliceLayer> {
    layers
        .into_iter()
        .rev()
        .find(|layer| layer.size > 0 && !breaks(layer, pods))
        .into_iter()
        .collect()
}

/// The pods that `placement` has on the node, and the placement without it.
fn without(placement: &Placement, node: &str) -> (u32, Placement) {
    let is_on_node = |domain: &&PlacedDomain| domain.values.last().is_some_and(|name| name == node);
    let (lost, kept): (Vec<&PlacedDomain>, Vec<&PlacedDomain>) =
        placement.domains.iter().partition(is_on_node);
    let kept = kept.into_iter().cloned().collect();
    let pods = lost.iter().fold(0u32, |sum, domain| sum.saturating_add(domain.pods));
    (pods, Placement { levels: placement.levels.clone(), domains: kept })
}
