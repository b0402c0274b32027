//! What makes two questions alike, so that one count answers both.

use crate::kueue::matching::{LabelRequirement, Labels, Toleration};
use crate::kueue::workload::Requests;

use super::count::Demand;
use super::counts::Bare;
use super::plan::Plan;
use super::snapshot::Room;

/// What a count of pods depends on besides the nodes. How many pods are wanted, and how close, is no part of it.
#[derive(Debug)]
pub(super) struct Shape {
    room: Room,
    cut: Cut,
    requests: Requests,
    tolerations: Vec<Toleration>,
    node_selector: Labels,
    affinity_terms: Vec<Vec<LabelRequirement>>,
}

/// How pods are cut into slices, level by level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    slice_size: i64,
    slice_level: usize,
    inner_sizes: Vec<i64>,
}

impl Shape {
    pub(super) fn new(demand: &Demand<'_>, plan: &Plan) -> Self {
        let pod_set = demand.request.pod_set;
        Self {
            room: demand.room,
            cut: Cut::new(plan),
            requests: pod_set.requests.clone(),
            tolerations: pod_set.tolerations.clone(),
            node_selector: pod_set.node_selector.clone(),
            affinity_terms: pod_set.affinity_terms.clone(),
        }
    }

    pub(super) fn is_of(&self, demand: &Demand<'_>, plan: &Plan) -> bool {
        let pod_set = demand.request.pod_set;
        self.room == demand.room
            && self.cut.is_of(plan)
            && self.requests == pod_set.requests
            && self.tolerations == pod_set.tolerations
            && self.node_selector == pod_set.node_selector
            && self.affinity_terms == pod_set.affinity_terms
    }
}

impl Cut {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            slice_size: plan.slice_size,
            slice_level: plan.slice_level,
            inner_sizes: plan.inner_sizes.clone(),
        }
    }

    fn is_of(&self, plan: &Plan) -> bool {
        self.slice_size == plan.slice_size
            && self.slice_level == plan.slice_level
            && self.inner_sizes == plan.inner_sizes
    }

    /// What of `pods` in a domain of `level` counts in the domain above: whole slices of the layer that governs it.
    pub(super) fn whole(&self, level: usize, pods: i64) -> i64 {
        match self.inner_sizes[level] {
            0 => pods,
            size => pods / size * size,
        }
    }

    /// What fits into a domain of `level` that holds `pods`, and `slices` in the domains below it.
    pub(super) fn bare(&self, level: usize, pods: i64, slices: i64) -> Bare {
        let slices = if level == self.slice_level { pods / self.slice_size } else { slices };
        Bare { slices, pods }
    }
}
