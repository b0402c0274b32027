//! Pods that insist on few nodes by name: only these nodes are looked at.
//!
//! Which nodes they are is remembered, since names take longer to look up than nodes to count.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::kueue::matching::{LabelOperator, LabelRequirement, Toleration};
use crate::kueue::workload::{PodSet, Requests};

use super::count::{Counter, Demand, LeafState};
use super::counts::Counts;
use super::memo::Tables;
use super::model::HOSTNAME;
use super::node_match::Misfit;
use super::plan::Plan;
use super::shape::Cut;
use super::snapshot::TasSnapshot;

/// As long as at least this many times as many nodes as are named would be looked at otherwise.
const WORTH_IT: usize = 8;
/// Most names and nodes remembered, of all sets together: some ten MiB. All are forgotten when there are more.
pub(super) const ENTRIES_MAX: usize = 1 << 18;

/// The sets of nodes asked about, and the count of the last question.
#[derive(Default)]
pub(super) struct Narrows {
    /// By a hash of what decides about them.
    known: BTreeMap<u64, Narrow>,
    /// [`Narrow::entries`] of all of them.
    pub(super) entries: usize,
    counted: Option<Counts>,
}

/// The nodes that pods insist on.
struct Narrow {
    requests: Requests,
    tolerations: Vec<Toleration>,
    affinity_terms: Vec<Vec<LabelRequirement>>,
    counter: Arc<Counter>,
    /// Rows of the leaves where the pods may go, in order.
    rows: Vec<usize>,
}

impl Narrows {
    /// Counts for what is asked if it concerns few nodes; whether it does.
    pub(super) fn count(
        &mut self,
        snapshot: &TasSnapshot,
        demand: &Demand<'_>,
        plan: &Plan,
        tables: &Tables,
    ) -> bool {
        let pod_set = demand.request.pod_set;
        if !names_nodes(snapshot, pod_set) {
            return false;
        }
        let hash = hash_of(pod_set);
        if self.known.get(&hash).is_none_or(|narrow| !narrow.is_of(pod_set)) {
            let Some(narrow) = Narrow::new(snapshot, demand) else { return false };
            self.remember(hash, narrow);
        }
        self.counted = self.known.get(&hash).map(|narrow| narrow.count(snapshot, plan, tables));
        true
    }

    /// What the last successful [`Narrows::count`] found.
    pub(super) fn counted(&self) -> &Counts {
        self.counted.as_ref().expect("it was counted before it is asked for")
    }

    fn remember(&mut self, hash: u64, narrow: Narrow) {
        if self.entries + narrow.entries() > ENTRIES_MAX {
            self.known.clear();
            self.entries = 0;
        }
        self.entries += narrow.entries();
        let before = self.known.insert(hash, narrow);
        self.entries -= before.map_or(0, |before| before.entries());
    }
}

/// Whether every way for the pods to match a node names nodes, few enough to make it worth while.
fn names_nodes(snapshot: &TasSnapshot, pod_set: &PodSet) -> bool {
    let names = pod_set.affinity_terms.iter().map(|term| named_by(term).map_or(0, <[_]>::len));
    let named: usize = names.sum();
    snapshot.tree.leaves_are_nodes
        && pod_set.node_selector.is_empty()
        && !pod_set.affinity_terms.is_empty()
        && pod_set.affinity_terms.iter().all(|term| named_by(term).is_some())
        && named.saturating_mul(WORTH_IT) <= snapshot.tree.leaves().len()
}

/// The nodes that a term names.
fn named_by(term: &[LabelRequirement]) -> Option<&[String]> {
    let names = |r: &&LabelRequirement| r.key == HOSTNAME && r.operator == LabelOperator::In;
    term.iter().find(names).map(|requirement| requirement.values.as_slice())
}

fn hash_of(pod_set: &PodSet) -> u64 {
    let mut hasher = DefaultHasher::new();
    for requirement in pod_set.affinity_terms.iter().flatten() {
        requirement.key.hash(&mut hasher);
        requirement.values.hash(&mut hasher);
    }
    for (resource, amount) in &pod_set.requests {
        resource.as_str().hash(&mut hasher);
        amount.hash(&mut hasher);
    }
    hasher.finish()
}

impl Narrow {
    /// `None` if a taint keeps the pods away from some node: how many such nodes there are is told with a failure.
    fn new(snapshot: &TasSnapshot, demand: &Demand<'_>) -> Option<Self> {
        let pod_set = demand.request.pod_set;
        let counter = Counter::new(snapshot, demand);
        if !counter.tolerates_all() {
            return None;
        }
        let names = pod_set.affinity_terms.iter().filter_map(|term| named_by(term)).flatten();
        let leaves =
            names.filter_map(|name| snapshot.tree.find_planted(std::slice::from_ref(name)));
        let mut rows: Vec<usize> = leaves.map(|leaf| snapshot.row(leaf)).collect();
        rows.sort_unstable();
        rows.dedup();
        rows.retain(|row| counter.suits(*row));
        Some(Self {
            requests: pod_set.requests.clone(),
            tolerations: pod_set.tolerations.clone(),
            affinity_terms: pod_set.affinity_terms.clone(),
            counter: counter.into(),
            rows,
        })
    }

    /// What it takes to remember it: also one that names no node that there is takes some.
    fn entries(&self) -> usize {
        let names = self.affinity_terms.iter().flatten().map(|r| 1 + r.values.len());
        1 + names.sum::<usize>() + self.rows.len()
    }

    fn is_of(&self, pod_set: &PodSet) -> bool {
        self.requests == pod_set.requests
            && self.affinity_terms == pod_set.affinity_terms
            && self.tolerations == pod_set.tolerations
    }

    fn count(&self, snapshot: &TasSnapshot, plan: &Plan, tables: &Tables) -> Counts {
        let (tree, tally) = (&snapshot.tree, self.counter.tally());
        let mut counts = Counts::of_none(tree, Arc::clone(&self.counter), Cut::new(plan), tally);
        let mut usable = 0;
        for row in &self.rows {
            let (state, pods) = self.counter.count_bare(tables, *row);
            usable += usize::from(state != LeafState::Unusable);
            counts.tally.change(state, 1);
            counts.set_leaf(tree, tree.leaf(*row), pods);
        }
        let others = snapshot.totals.usable_leaves.saturating_sub(usable);
        let others = i32::try_from(others).unwrap_or(i32::MAX);
        counts.tally.change(LeafState::Misfit(Misfit::Affinity), others);
        counts
    }
}
