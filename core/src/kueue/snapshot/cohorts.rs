//! Cohorts before they become nodes of the quota tree: parents must be added first, circles must be left out.

use std::collections::BTreeMap;

use super::super::model::{ClusterQueue, Cohort};
use super::super::name::{CohortName, QueueName};
use super::super::quota::{NodeId, QuotaTree};
use super::super::weight::FairWeight;

/// Deepest cohort nesting that is accepted.
///
/// Real organisations nest three or four levels; the bound keeps recursion over the tree shallow. A deeper tree is
/// disabled like one with a cycle.
pub const COHORT_DEPTH_MAX: usize = 64;

/// All cohorts, defined or only named.
pub(super) struct CohortPlan {
    cohorts: BTreeMap<CohortName, Option<Cohort>>,
}

impl CohortPlan {
    pub(super) fn new(defined: Vec<Cohort>, queues: &BTreeMap<QueueName, ClusterQueue>) -> Self {
        let mut cohorts: BTreeMap<CohortName, Option<Cohort>> = BTreeMap::new();
        for name in queues.values().filter_map(|queue| queue.cohort.as_ref()) {
            cohorts.insert(name.clone(), None);
        }
        for name in defined.iter().filter_map(|cohort| cohort.parent.as_ref()) {
            cohorts.insert(name.clone(), None);
        }
        for cohort in defined {
            cohorts.insert(cohort.name.clone(), Some(cohort));
        }
        Self { cohorts }
    }

    fn parent_of(&self, name: &CohortName) -> Option<&CohortName> {
        self.cohorts.get(name)?.as_ref()?.parent.as_ref()
    }

    /// Adds every usable cohort to `tree`, parents first.
    pub(super) fn plant(&self, tree: &mut QuotaTree) -> BTreeMap<CohortName, NodeId> {
        let mut nodes = BTreeMap::new();
        for name in self.cohorts.keys() {
            let mut path: Vec<&CohortName> = vec![name];
            while let Some(parent) = self.parent_of(path[path.len() - 1])
                && path.len() <= COHORT_DEPTH_MAX
            {
                path.push(parent);
            }
            if path.len() > COHORT_DEPTH_MAX {
                continue;
            }
            let mut above = None;
            for &name in path.iter().rev() {
                let node =
                    nodes.entry(name.clone()).or_insert_with(|| self.plant_one(name, above, tree));
                above = Some(*node);
            }
        }
        nodes
    }

    fn plant_one(&self, name: &CohortName, above: Option<NodeId>, tree: &mut QuotaTree) -> NodeId {
        match self.cohorts.get(name).and_then(Option::as_ref) {
            Some(cohort) => tree.add_cohort(above, &cohort.groups, cohort.fair_weight),
            None => tree.add_cohort(above, &[], FairWeight::ONE),
        }
    }
}
