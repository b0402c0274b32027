//! One text for each name that quota is counted in: names that share their text are compared without reading it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::model::ResourceGroup;
use super::super::name::FlavorResource;
use super::super::workload::Usage;
use super::Setup;

/// The names in quotas. Copies of a snapshot share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(Arc<BTreeMap<FlavorResource, FlavorResource>>);

impl Names {
    /// Makes all groups of `setup` use the same texts.
    pub(super) fn share_in(setup: &mut Setup) -> Self {
        let mut known = BTreeMap::new();
        let queues = setup.queues.iter_mut().map(|queue| &mut queue.groups);
        let cohorts = setup.cohorts.iter_mut().map(|cohort| &mut cohort.groups);
        for group in queues.chain(cohorts).flatten() {
            share_in_group(group, &mut known);
        }
        Self(Arc::new(known))
    }

    /// `usage` with the texts that the groups use.
    pub(super) fn share(&self, usage: Usage) -> Usage {
        let share = |fr: FlavorResource| self.0.get(&fr).cloned().unwrap_or(fr);
        usage.into_iter().map(|(fr, amount)| (share(fr), amount)).collect()
    }
}

fn share_in_group(group: &mut ResourceGroup, known: &mut BTreeMap<FlavorResource, FlavorResource>) {
    for offered in &mut group.flavors {
        for (resource, quota) in std::mem::take(&mut offered.quotas) {
            let fr = FlavorResource::new(&offered.flavor, &resource);
            let shared = known.entry(fr.clone()).or_insert(fr);
            offered.flavor = shared.flavor.clone();
            offered.quotas.insert(shared.resource.clone(), quota);
        }
    }
}
