//! What earlier pod sets of the same workload will take, before anything of it is in use.

use std::cell::RefCell;
use std::sync::Arc;

use crate::kueue::workload::{PlacedDomain, Placement, Requests};

use super::snapshot::TasSnapshot;
use super::table::Table;
use super::tree::Tree;

/// What earlier pod sets of a workload will take.
///
/// One value serves a whole workload: pass the same one to the snapshots of all its flavors whose leaves are nodes
/// ([`TasSnapshot::is_node_level`]), because these may share nodes; start a new one for every other flavor.
#[derive(Clone, Debug, Default)]
pub struct Assumed {
    taken: Vec<(Vec<PlacedDomain>, Requests)>,
    /// What was answered last: a gang of many pod sets asks again after each.
    last: RefCell<Option<Answer>>,
}

/// What is in use with what was taken so far.
#[derive(Clone, Debug)]
struct Answer {
    tree: Arc<Tree>,
    before: Table,
    /// How many of the list are counted.
    count: usize,
    used: Table,
}

impl PartialEq for Assumed {
    fn eq(&self, other: &Self) -> bool {
        self.taken == other.taken
    }
}

impl Eq for Assumed {}

impl Assumed {
    /// Counts the pods of `placement` as taking `per_pod` each, and one unit of `pods`.
    pub fn add(&mut self, placement: &Placement, per_pod: &Requests) {
        if !placement.domains.is_empty() {
            self.taken.push((placement.domains.clone(), per_pod.clone()));
        }
    }

    /// `used`, a table of what is in use in `snapshot`, with what is taken.
    pub(super) fn on(&self, snapshot: &TasSnapshot, used: &Table) -> Table {
        if self.taken.is_empty() {
            return used.clone();
        }
        let mut last = self.last.borrow_mut();
        let known = last.take().filter(|answer| {
            Arc::ptr_eq(&answer.tree, &snapshot.tree) && answer.before.is_same(used)
        });
        let mut answer = known.unwrap_or_else(|| Answer {
            tree: Arc::clone(&snapshot.tree),
            before: used.clone(),
            count: 0,
            used: used.clone(),
        });
        for (domains, per_pod) in &self.taken[answer.count..] {
            let request = snapshot.leaf_request(per_pod);
            for domain in domains {
                let Some(leaf) = snapshot.tree.find_planted(&domain.values) else { continue };
                // Taking a negative number of pods adds them up.
                let row = answer.used.row_mut(snapshot.row(leaf));
                request.take_from(row, -i64::from(domain.pods));
            }
        }
        answer.count = self.taken.len();
        last.insert(answer).used.clone()
    }
}
