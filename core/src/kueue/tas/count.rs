//! Step 1: how many pods, slices and leaders fit into every domain.

use std::sync::Arc;

use crate::kueue::workload::Requests;

use super::assumed::Assumed;
use super::counts::Bare;
use super::failure::Exclusions;
use super::memo::Tables;
use super::model::PodSetRequest;
use super::node_match::{Misfit, NodeIndex, NodeMatch};
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
#[derive(Default)]
pub(super) struct Counted {
    /// Domain by domain.
    pub(super) fits: Vec<Fit>,
    pub(super) excluded: Exclusions,
}

/// Tally of left-out leaves by number; it becomes [`Exclusions`] at the end.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    taints: Vec<u32>,
    resources: Vec<u32>,
    excluded: Exclusions,
}

/// What became of a leaf in a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeafState {
    /// No usable node is there: it does not exist.
    Unusable,
    /// The pods may not use it.
    Misfit(Misfit),
    /// It lies outside the domain that everything must lie in.
    Outside,
    /// Not even one pod fits, for lack of the resource at this position of the request.
    Short(usize),
    /// Some pods fit.
    Open,
}

/// Counts leaves for one demand.
pub(super) struct Counter {
    node_match: NodeMatch,
    nodes: Arc<NodeIndex>,
    pod: LeafRequest,
    leader: Option<LeafRequest>,
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
        let counter = Counter::new(self, demand);
        let tables = self.tables(demand);
        let within = demand.within.map(|domain| self.rows_under(domain));
        let mut tally = counter.tally();
        let mut free = vec![0; self.column_count()];
        for (row, fit) in fits[ix(self.tree.first_leaf())..].iter_mut().enumerate() {
            let state = match counter.judge(&tables, row) {
                Err(state) => state,
                Ok(score) => {
                    fit.score = score;
                    if within.as_ref().is_some_and(|rows| !rows.contains(&row)) {
                        LeafState::Outside
                    } else {
                        read_free(&tables, row, &mut free);
                        let (pod, leader) = (&counter.pod, counter.leader.as_ref());
                        let scarcest = fit.count_leaf(pod, leader, &mut free);
                        scarcest.map_or(LeafState::Open, LeafState::Short)
                    }
                }
            };
            tally.change(state, 1);
        }
        counter.exclusions(&tally)
    }

    /// The numbers that `demand` is to be counted in.
    pub(super) fn tables(&self, demand: &Demand<'_>) -> Tables {
        let used = demand.assumed.on(self, self.used(demand.room.capacity));
        let left_out = if demand.room.is_healthy_only { &self.degraded } else { &self.unused };
        Tables { capacity: self.capacity.clone(), used, left_out: left_out.clone() }
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

/// What is free in a leaf (by its row), column by column.
pub(super) fn free_in(tables: &Tables, row: usize) -> Vec<i64> {
    let mut free = vec![0; tables.used.row(row).len()];
    read_free(tables, row, &mut free);
    free
}

/// Writes what is free in a leaf (by its row) to `free`, column by column.
fn read_free(tables: &Tables, row: usize, free: &mut [i64]) {
    let used = tables.used.row(row).iter().zip(tables.left_out.row(row));
    let cells = tables.capacity.row(row)[1..].iter().zip(used);
    for (free, (capacity, (used, left_out))) in free.iter_mut().zip(cells) {
        *free = capacity.saturating_sub(*used).saturating_sub(*left_out);
    }
}

impl Counter {
    pub(super) fn new(snapshot: &TasSnapshot, demand: &Demand<'_>) -> Self {
        let node_match = NodeMatch::new(
            &snapshot.nodes,
            demand.request,
            &snapshot.flavor.tolerations,
            snapshot.switches.respects_preferred_affinity,
        );
        Self {
            node_match,
            nodes: Arc::clone(&snapshot.nodes),
            pod: snapshot.leaf_request(&demand.request.pod_set.requests),
            leader: demand.leader.map(|per_pod| snapshot.leaf_request(per_pod)),
        }
    }

    /// A tally of nothing yet.
    pub(super) fn tally(&self) -> Tally {
        Tally {
            taints: vec![0; self.node_match.untolerated.len()],
            resources: vec![0; self.pod.amounts.len()],
            excluded: Exclusions::default(),
        }
    }

    /// The leaf's score by preferred affinity, or why it is left out whatever is free there.
    fn judge(&self, tables: &Tables, row: usize) -> Result<i64, LeafState> {
        if tables.capacity.row(row)[0] == 0 {
            return Err(LeafState::Unusable);
        }
        self.node_match.judge(&self.nodes, row).map_err(LeafState::Misfit)
    }

    /// Whether the pods may not use a leaf, whatever is free there.
    pub(super) fn is_left_out(&self, tables: &Tables, row: usize) -> bool {
        self.judge(tables, row).is_err()
    }

    /// Whether no taint of any node keeps the pods away.
    pub(super) fn tolerates_all(&self) -> bool {
        self.node_match.untolerated.iter().all(Option::is_none)
    }

    /// Whether the pods may use the node of a leaf, if it is usable.
    pub(super) fn suits(&self, row: usize) -> bool {
        self.node_match.judge(&self.nodes, row).is_ok()
    }

    /// What becomes of a leaf, and how many pods fit there, without a leader.
    pub(super) fn count_bare(&self, tables: &Tables, row: usize) -> (LeafState, i64) {
        if let Err(state) = self.judge(tables, row) {
            return (state, 0);
        }
        let (capacity, used) = (&tables.capacity.row(row)[1..], tables.used.row(row));
        let left_out = tables.left_out.row(row);
        let count = self.pod.count(|column| {
            capacity[column].saturating_sub(used[column]).saturating_sub(left_out[column])
        });
        let is_short = count.pods == 0;
        (if is_short { LeafState::Short(count.scarcest) } else { LeafState::Open }, count.pods)
    }

    pub(super) fn exclusions(&self, tally: &Tally) -> Exclusions {
        let mut excluded = tally.excluded.clone();
        for (taint, count) in self.node_match.untolerated.iter().zip(&tally.taints) {
            if let Some(taint) = taint
                && *count > 0
            {
                *excluded.taints.entry(taint.clone()).or_insert(0) += count;
            }
        }
        for ((name, _, _), count) in self.pod.amounts.iter().zip(&tally.resources) {
            if *count > 0 {
                excluded.resources.insert(name.clone(), *count);
            }
        }
        excluded
    }
}

impl From<Bare> for Fit {
    fn from(Bare { slices, pods }: Bare) -> Self {
        let (pods_beside_leader, slices_beside_leader) = (pods, slices);
        Self { pods, slices, pods_beside_leader, slices_beside_leader, ..Self::default() }
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
    /// Counts a leaf in (`by` 1) or out (`by` -1).
    pub(super) fn change(&mut self, state: LeafState, by: i32) {
        if state == LeafState::Unusable {
            return;
        }
        let add = |count: &mut u32| *count = count.saturating_add_signed(by);
        add(&mut self.excluded.total_nodes);
        match state {
            LeafState::Unusable | LeafState::Open => {}
            LeafState::Misfit(Misfit::Taint(list)) => add(&mut self.taints[list]),
            LeafState::Misfit(Misfit::NodeSelector) => add(&mut self.excluded.node_selector),
            LeafState::Misfit(Misfit::Affinity) => add(&mut self.excluded.affinity),
            LeafState::Outside => add(&mut self.excluded.topology_domain),
            LeafState::Short(resource) => add(&mut self.resources[resource]),
        }
    }
}
