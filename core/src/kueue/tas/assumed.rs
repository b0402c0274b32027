//! What earlier pod sets of the same workload will take, before anything of it is in use.

use std::collections::BTreeMap;

use crate::kueue::workload::{PlacedDomain, Placement, Requests};

use super::snapshot::TasSnapshot;

/// What earlier pod sets of a workload will take.
///
/// One value serves a whole workload: pass the same one to the snapshots of all its flavors whose leaves are nodes
/// ([`TasSnapshot::is_node_level`]), because these may share nodes; start a new one for every other flavor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assumed {
    taken: Vec<(Vec<PlacedDomain>, Requests)>,
}

impl Assumed {
    /// Counts the pods of `placement` as taking `per_pod` each, and one unit of `pods`.
    pub fn add(&mut self, placement: &Placement, per_pod: &Requests) {
        if !placement.domains.is_empty() {
            self.taken.push((placement.domains.clone(), per_pod.clone()));
        }
    }

    /// What is taken in the leaves of `snapshot`: rows of its capacity table and amounts, column by column.
    pub(super) fn rows_in(&self, snapshot: &TasSnapshot) -> BTreeMap<usize, Vec<i64>> {
        let mut rows = BTreeMap::new();
        for (domains, per_pod) in &self.taken {
            let request = snapshot.leaf_request(per_pod);
            for domain in domains {
                let Some(leaf) = snapshot.tree.find_planted(&domain.values) else { continue };
                let row = rows
                    .entry(snapshot.row(leaf))
                    .or_insert_with(|| vec![0; snapshot.column_count()]);
                // Taking a negative number of pods adds them up.
                request.take_from(row, -i64::from(domain.pods));
            }
        }
        rows
    }
}
