//! Step 1: how many pods, slices and leaders fit into every domain.

use crate::kueue::workload::Requests;

use super::assumed::Assumed;
use super::failure::Exclusions;
use super::model::PodSetRequest;
use super::node_match::{Misfit, NodeMatch};
use super::plan::Plan;
use super::snapshot::{LeafRequest, Room, TasSnapshot};
use super::tree::{DomainId, Tree, ix};

/// What fits into one domain; on the way down, what is assigned to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fit {
    pub(super) pods: i64,
    /// 0 below the level of the slices.
    pub(super) slices: i64,
    /// Pods that fit beside a leader, when the leader takes the place where it costs least.
    pub(super) pods_beside_leader: i64,
    /// Slices that fit beside a leader.
    pub(super) slices_beside_leader: i64,
    /// 1 if a leader fits.
    pub(super) leaders: i64,
    /// Preferred affinity: sum of the weights met by the nodes below.
    pub(super) score: i64,
}

/// What a count is made for.
#[derive(Clone, Copy)]
pub(super) struct Demand<'a> {
    pub(super) request: &'a PodSetRequest<'a>,
    /// What the leader requests, if there is one.
    pub(super) leader: Option<&'a Requests>,
    /// The domain that everything must lie in.
    pub(super) within: Option<DomainId>,
    pub(super) room: Room,
    pub(super) assumed: &'a Assumed,
}

/// What fits where, and which leaves were left out.
pub(super) struct Counted {
    /// Domain by domain.
    pub(super) fits: Vec<Fit>,
    pub(super) excluded: Exclusions,
}

/// Tally of left-out leaves by number; it becomes [`Exclusions`] at the end.
struct Tally {
    taints: Vec<u32>,
    resources: Vec<u32>,
    excluded: Exclusions,
}

impl TasSnapshot {
    pub(super) fn count(&self, demand: &Demand<'_>, plan: &Plan) -> Counted {
        let mut fits = vec![Fit::default(); self.tree.len()];
        let excluded = self.count_leaves(demand, &mut fits);
        for level in (0..self.tree.levels.len()).rev() {
            for domain in self.tree.level(level) {
                roll_up(&self.tree, &mut fits, domain, level, plan, &plan.inner_sizes);
            }
        }
        Counted { fits, excluded }
    }

    fn count_leaves(&self, demand: &Demand<'_>, fits: &mut [Fit]) -> Exclusions {
        let node_match = NodeMatch::new(
            &self.nodes,
            demand.request,
            &self.flavor.tolerations,
            self.switches.respects_preferred_affinity,
        );
        let pod = self.leaf_request(&demand.request.pod_set.requests);
        let leader = demand.leader.map(|per_pod| self.leaf_request(per_pod));
        let assumed = demand.assumed.rows_in(self);
        let within = demand.within.map(|domain| self.rows_under(domain));
        let mut tally = Tally::new(node_match.untolerated.len(), pod.amounts.len());
        let mut free = vec![0; self.column_count()];
        for (row, fit) in fits[ix(self.tree.first_leaf())..].iter_mut().enumerate() {
            if !self.is_usable(row) {
                continue;
            }
            tally.excluded.total_nodes += 1;
            match node_match.judge(&self.nodes, row) {
                Ok(score) => fit.score = score,
                Err(misfit) => {
                    tally.misfit(misfit);
                    continue;
                }
            }
            if within.as_ref().is_some_and(|rows| !rows.contains(&row)) {
                tally.excluded.topology_domain += 1;
                continue;
            }
            self.read_free(row, demand.room, &mut free);
            if let Some(taken) = assumed.get(&row) {
                free.iter_mut()
                    .zip(taken)
                    .for_each(|(free, taken)| *free = free.saturating_sub(*taken));
            }
            if let Some(scarcest) = fit.count_leaf(&pod, leader.as_ref(), &mut free) {
                tally.resources[scarcest] += 1;
            }
        }
        tally.into_exclusions(&node_match, &pod)
    }

    /// Whether a usable node lies at or below `domain`.
    pub(super) fn is_any_usable(&self, domain: DomainId) -> bool {
        self.rows_under(domain).any(|row| self.is_usable(row))
    }

    /// Rows of the leaves at or below `domain`.
    fn rows_under(&self, domain: DomainId) -> std::ops::Range<usize> {
        let leaves = self.tree.subtree(domain).pop().unwrap_or(0..0);
        self.row(leaves.start)..self.row(leaves.end)
    }
}

impl Fit {
    /// Counts what fits into `free` (which it uses up). Returns which resource is scarcest if not even one pod fits.
    fn count_leaf(
        &mut self,
        pod: &LeafRequest,
        leader: Option<&LeafRequest>,
        free: &mut [i64],
    ) -> Option<usize> {
        let count = pod.count_in(free);
        self.pods = count.pods;
        self.pods_beside_leader = count.pods;
        if let Some(leader) = leader
            && leader.count_in(free).pods > 0
        {
            self.leaders = 1;
            leader.take_from(free, 1);
            self.pods_beside_leader = pod.count_in(free).pods;
        }
        (count.pods == 0).then_some(count.scarcest)
    }

    fn cut_into_slices(&mut self, slice_size: i64) {
        self.slices = self.pods / slice_size;
        self.slices_beside_leader = self.pods_beside_leader / slice_size;
    }
}

/// Computes what fits into `domain` from its children, which must be up to date.
///
/// Beside a leader fits what fits without one, less what the leader costs where it costs least.
pub(super) fn roll_up(
    tree: &Tree,
    fits: &mut [Fit],
    domain: DomainId,
    level: usize,
    plan: &Plan,
    inner_sizes: &[i64],
) {
    let children = tree.children(domain);
    if !children.is_empty() {
        let inner_size = inner_sizes.get(level + 1).copied().unwrap_or(0);
        let whole = |pods: i64| if inner_size > 0 { pods / inner_size * inner_size } else { pods };
        let mut sum = Fit::default();
        let mut least_cost: Option<(i64, i64)> = None;
        for child in &fits[ix(children.start)..ix(children.end)] {
            let pods = whole(child.pods);
            sum.pods += pods;
            sum.slices += child.slices;
            sum.leaders = sum.leaders.max(child.leaders);
            sum.score = sum.score.saturating_add(child.score);
            if plan.leaders == 0 || child.leaders > 0 {
                let pod_cost = pods - whole(child.pods_beside_leader);
                let slice_cost = child.slices - child.slices_beside_leader;
                least_cost = Some(match least_cost {
                    Some((pods, slices)) => (pods.min(pod_cost), slices.min(slice_cost)),
                    None => (pod_cost, slice_cost),
                });
            }
        }
        if let Some((pod_cost, slice_cost)) = least_cost {
            sum.pods_beside_leader = sum.pods - pod_cost;
            sum.slices_beside_leader = sum.slices - slice_cost;
        }
        fits[ix(domain)] = sum;
    }
    if level == plan.slice_level {
        fits[ix(domain)].cut_into_slices(plan.slice_size);
    }
}

impl Tally {
    fn new(taint_lists: usize, resources: usize) -> Self {
        Self {
            taints: vec![0; taint_lists],
            resources: vec![0; resources],
            excluded: Exclusions::default(),
        }
    }

    fn misfit(&mut self, misfit: Misfit) {
        match misfit {
            Misfit::Taint(list) => self.taints[list] += 1,
            Misfit::NodeSelector => self.excluded.node_selector += 1,
            Misfit::Affinity => self.excluded.affinity += 1,
        }
    }

    fn into_exclusions(mut self, node_match: &NodeMatch, pod: &LeafRequest) -> Exclusions {
        for (taint, count) in node_match.untolerated.iter().zip(self.taints) {
            if let Some(taint) = taint
                && count > 0
            {
                *self.excluded.taints.entry(taint.clone()).or_insert(0) += count;
            }
        }
        for ((name, _, _), count) in pod.amounts.iter().zip(self.resources) {
            if count > 0 {
                self.excluded.resources.insert(name.clone(), count);
            }
        }
        self.excluded
    }
}
