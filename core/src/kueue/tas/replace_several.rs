//! Replaces all broken nodes of a placement, one after the other, and leaves all other pods where they are.
//!
//! Kueue replaces a single node and evicts the workload if more break. Here each slice that lost pods is completed in
//! its own domain, innermost layer first; whole slices that were lost, and pods without slices, go wherever the pod
//! set as a whole may be. If any of them finds no place, nothing is replaced.

use std::collections::BTreeMap;

use crate::kueue::workload::{PlacedDomain, Placement, Requests, SliceLayer};

use super::assumed::Assumed;
use super::count::Demand;
use super::failure::Failure;
use super::model::{Capacity, PodSetRequest};
use super::plan::{Strictness, layers_of, strictness_of};
use super::replace::{ReplaceRequest, Replacement};
use super::snapshot::TasSnapshot;
use super::tree::DomainId;

/// A replacement under way.
struct Repair<'a> {
    snapshot: &'a TasSnapshot,
    request: PodSetRequest<'a>,
    /// Pods on nodes in order, those that found a new one included.
    kept: Placement,
    moved: Placement,
    /// Pods that have no place yet.
    left: u32,
    /// What is taken elsewhere, by pods that were moved, and, wholly, on the broken nodes.
    assumed: Assumed,
}

impl TasSnapshot {
    /// Finds new places for the pods of `replace` on all nodes with host names in `broken`, none of which is used
    /// again. What they take is added to `assumed` if all find a place.
    ///
    /// # Errors
    /// [`Failure::NotPlacedByNode`] if leaves are not nodes; [`Failure::StaleDomain`] if a node that is not in
    /// `broken` is gone; [`Failure::PartialSlice`] if the placement was not made of whole slices; else as
    /// [`TasSnapshot::place`].
    pub fn replace_several(
        &self,
        replace: &ReplaceRequest<'_>,
        broken: &[&str],
        assumed: &mut Assumed,
    ) -> Result<Replacement, Failure> {
        let levels = &replace.placement.levels;
        let nowhere = Placement { levels: levels.clone(), domains: Vec::new() };
        let (lost, kept) = split(replace.placement, broken);
        if replace.is_owned_by_single_pod || lost.is_empty() {
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
        let mut repair = Repair {
            snapshot: self,
            request: replace.request,
            moved: nowhere,
            left: lost.values().fold(0, |sum, pods| sum.saturating_add(*pods)),
            assumed: without_room_on(assumed, broken),
            kept: kept.clone(),
        };
        repair.run(&lost)?;
        let moved = repair.moved;
        assumed.add(&moved, &replace.request.pod_set.requests);
        Ok(Replacement { placement: self.merged(&moved, &kept), moved })
    }
}

impl Repair<'_> {
    fn run(&mut self, lost: &BTreeMap<&str, u32>) -> Result<(), Failure> {
        let layers = layers_of(self.request.pod_set.topology.as_ref());
        if layers.iter().any(|layer| layer.size == 0) {
            return Err(Failure::SliceSizeMissing);
        }
        if self.kept.domains.is_empty() {
            return self.place(self.left, None, layers);
        }
        if layers.is_empty() {
            let within = self.required_domain(&layers)?;
            return lost.values().try_for_each(|pods| self.place(*pods, within, Vec::new()));
        }
        for position in (0..layers.len()).rev() {
            self.complete_slices(&layers[position], &layers[position + 1..])?;
        }
        if self.left == 0 {
            return Ok(());
        }
        let within = self.required_domain(&layers)?;
        self.place(self.left, within, layers)
    }

    /// Completes the slices of one layer; those of the layers `inside` are whole already.
    fn complete_slices(
        &mut self,
        layer: &SliceLayer,
        inside: &[SliceLayer],
    ) -> Result<(), Failure> {
        let tree = &self.snapshot.tree;
        let level = tree
            .level_of(&layer.level)
            .ok_or_else(|| Failure::UnknownSliceLevel { level: layer.level.clone() })?;
        let mut pods: BTreeMap<DomainId, u64> = BTreeMap::new();
        for domain in &self.kept.domains {
            if let Some(above) = self.snapshot.domain_above(&domain.values, level) {
                *pods.entry(above).or_insert(0) += u64::from(domain.pods);
            }
        }
        let size = u64::from(layer.size);
        for (domain, pods) in pods {
            let missing = u32::try_from((size - pods % size) % size).unwrap_or(u32::MAX);
            if missing > self.left {
                return Err(Failure::PartialSlice { count: self.left, slice_size: layer.size });
            }
            if missing > 0 {
                self.place(missing, Some(domain), inside.to_vec())?;
            }
        }
        Ok(())
    }

    /// The domain that all pods must lie in, as those in place show; `None` if they may go anywhere.
    fn required_domain(&self, layers: &[SliceLayer]) -> Result<Option<DomainId>, Failure> {
        let topology = self.request.pod_set.topology.as_ref();
        match strictness_of(topology) {
            Strictness::Preferred | Strictness::Unconstrained => Ok(None),
            Strictness::Required => {
                let implied = self.request.is_implied;
                let level = self.snapshot.requested_level(topology, layers, implied)?;
                let first = self.kept.domains.first();
                Ok(first.and_then(|first| self.snapshot.domain_above(&first.values, level)))
            }
        }
    }

    fn place(
        &mut self,
        count: u32,
        within: Option<DomainId>,
        layers: Vec<SliceLayer>,
    ) -> Result<(), Failure> {
        let request = PodSetRequest { count, ..self.request };
        let (room, assumed) = (Capacity::Free.into(), &self.assumed);
        let demand = Demand { request: &request, leader: None, within, room, assumed };
        let moved = self.snapshot.find(&demand, layers)?.workers;
        self.assumed.add(&moved, &request.pod_set.requests);
        self.kept = self.snapshot.merged(&self.kept, &moved);
        self.moved = self.snapshot.merged(&self.moved, &moved);
        self.left -= count;
        Ok(())
    }
}

/// The pods on each broken node, by name, and the placement without these nodes.
fn split<'a>(placement: &'a Placement, broken: &[&str]) -> (BTreeMap<&'a str, u32>, Placement) {
    let mut lost: BTreeMap<&str, u32> = BTreeMap::new();
    let mut kept = Placement { levels: placement.levels.clone(), domains: Vec::new() };
    for domain in &placement.domains {
        match domain.values.last() {
            Some(name) if broken.contains(&name.as_str()) => {
                let pods = lost.entry(name).or_insert(0);
                *pods = pods.saturating_add(domain.pods);
            }
            Some(_) | None => kept.domains.push(domain.clone()),
        }
    }
    (lost, kept)
}

/// `assumed` with the broken nodes full, so that no pod goes back there.
fn without_room_on(assumed: &Assumed, broken: &[&str]) -> Assumed {
    let mut assumed = assumed.clone();
    let full = |name: &&str| PlacedDomain { values: vec![(*name).to_owned()], pods: u32::MAX };
    let domains = broken.iter().map(full).collect();
    assumed.add(&Placement { levels: Vec::new(), domains }, &Requests::new());
    assumed
}
