//! Places the pod sets of a workload one after the other, groups together.

use std::collections::BTreeMap;

use crate::kueue::workload::{Placement, SliceLayer};

use super::assumed::Assumed;
use super::count::{Counted, Demand};
use super::counts::Counts;
use super::descend::Placed;
use super::failure::Failure;
use super::model::{Capacity, Outcome, PodSetOutcome, PodSetRequest};
use super::order::Search;
use super::plan::{Plan, Strictness, layers_of};
use super::snapshot::{Room, TasSnapshot};
use super::tree::DomainId;

/// One pod set, or a leader and its workers, with their positions in the list of requests.
pub(super) struct Gang<'a> {
    pub(super) workers: (usize, PodSetRequest<'a>),
    pub(super) leader: Option<(usize, PodSetRequest<'a>)>,
}

impl TasSnapshot {
    /// Places all `requests` of one workload, in their order; pod sets of one group are placed together, where the
    /// first of the group stands.
    ///
    /// Each is placed on what `capacity` says, less what `assumed` holds; what it takes is added to `assumed`, also
    /// when a later one fails. The snapshot is not changed: [`TasSnapshot::add`] what is really admitted.
    #[must_use]
    pub fn place(
        &self,
        requests: &[PodSetRequest<'_>],
        capacity: Capacity,
        assumed: &mut Assumed,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        for members in groups(requests) {
            match gang(requests, &members) {
                Ok(gang) => outcome.pod_sets.extend(self.place_gang(&gang, capacity, assumed)),
                Err(failure) => outcome.pod_sets.extend(all_fail(&members, &failure)),
            }
            if outcome.failure().is_some() {
                break;
            }
        }
        outcome
    }

    fn place_gang(
        &self,
        gang: &Gang<'_>,
        capacity: Capacity,
        assumed: &mut Assumed,
    ) -> Vec<PodSetOutcome> {
        if self.switches.is_elastic
            && let Some(outcomes) = self.place_elastic(gang, capacity, assumed)
        {
            return outcomes;
        }
        match self.place_afresh(gang, capacity, assumed) {
            Ok(placed) => gang.outcomes(placed),
            Err(failure) => all_fail(&gang.members(), &failure),
        }
    }

    /// Places a gang that is nowhere yet and adds what it takes to `assumed`.
    pub(super) fn place_afresh(
        &self,
        gang: &Gang<'_>,
        capacity: Capacity,
        assumed: &mut Assumed,
    ) -> Result<Placed, Failure> {
        let workers = &gang.workers.1;
        let leader = gang.leader.as_ref().map(|(_, leader)| &leader.pod_set.requests);
        let demand =
            Demand { request: workers, leader, within: None, room: capacity.into(), assumed };
        let placed = self.find(&demand, layers_of(workers.pod_set.topology.as_ref()))?;
        assumed.add(&placed.workers, &workers.pod_set.requests);
        if let Some(per_pod) = leader {
            assumed.add(&placed.leader, per_pod);
        }
        Ok(placed)
    }

    /// Places one pod set, and its leader if there is one, cut into slices by `layers`; on degraded devices only if
    /// there is no other place.
    pub(super) fn find(
        &self,
        demand: &Demand<'_>,
        layers: Vec<SliceLayer>,
    ) -> Result<Placed, Failure> {
        let plan = self.plan(demand.request, layers, demand.leader.is_some())?;
        if self.totals.usable_leaves == 0 {
            let level = self.tree.levels[plan.level].clone();
            return Err(Failure::NoDomainsAtLevel { level });
        }
        if self.switches.avoids_degraded && self.totals.degraded_leaves > 0 {
            let room = Room { is_healthy_only: true, ..demand.room };
            if let Ok(placed) = self.find_in(&Demand { room, ..*demand }, &plan) {
                return Ok(placed);
            }
        }
        self.find_in(demand, &plan)
    }

    pub(super) fn find_in(&self, demand: &Demand<'_>, plan: &Plan) -> Result<Placed, Failure> {
        let is_balanced = self.switches.is_balanced && plan.strictness == Strictness::Preferred;
        let has_scores =
            self.switches.respects_preferred_affinity && !demand.request.preferred.is_empty();
        let is_plain = demand.leader.is_none() && demand.within.is_none() && plan.count > 0;
        if is_plain && !is_balanced && !has_scores {
            let mut shelf = self.memo.open();
            let counts = shelf.counts(self, demand, plan);
            let search = self.search(plan, Counted::default(), Some(counts));
            let chosen = search.choose()?;
            return search.descend(chosen, false);
        }
        self.find_plainly(demand, plan, is_balanced)
    }

    /// Counts every domain for this one question.
    pub(super) fn find_plainly(
        &self,
        demand: &Demand<'_>,
        plan: &Plan,
        is_balanced: bool,
    ) -> Result<Placed, Failure> {
        let mut search = self.search(plan, self.count(demand, plan), None);
        if is_balanced && let Some(chosen) = search.choose_balanced() {
            return search.descend(chosen, true);
        }
        let chosen = search.choose()?;
        search.descend(chosen, false)
    }

    fn search<'s>(
        &'s self,
        plan: &'s Plan,
        counted: Counted,
        remembered: Option<&'s Counts>,
    ) -> Search<'s> {
        let Counted { fits, excluded } = counted;
        Search {
            snapshot: self,
            tree: &self.tree,
            switches: self.switches,
            plan,
            excluded,
            fits,
            remembered,
            assigned: BTreeMap::new(),
        }
    }

    /// The leaf that `values` of a placement name, going up to `level`.
    pub(super) fn domain_above(&self, values: &[String], level: usize) -> Option<DomainId> {
        let leaf = self.find_leaf(values)?;
        Some(self.tree.ancestor(leaf, self.tree.lowest_level()? - level))
    }
}

impl Gang<'_> {
    fn members(&self) -> Vec<usize> {
        let mut members = vec![self.workers.0];
        members.extend(self.leader.as_ref().map(|(index, _)| *index));
        members.sort_unstable();
        members
    }

    /// The answers for all members, in the order of the requests.
    pub(super) fn outcomes(&self, placed: Placed) -> Vec<PodSetOutcome> {
        let success =
            |index: usize, placement: Placement| PodSetOutcome { index, result: Ok(placement) };
        let mut outcomes = vec![success(self.workers.0, placed.workers)];
        if let Some((index, _)) = self.leader {
            outcomes.push(success(index, placed.leader));
        }
        outcomes.sort_unstable_by_key(|outcome| outcome.index);
        outcomes
    }
}

pub(super) fn all_fail(members: &[usize], failure: &Failure) -> Vec<PodSetOutcome> {
    let fail = |index: &usize| PodSetOutcome { index: *index, result: Err(failure.clone()) };
    members.iter().map(fail).collect()
}

/// Positions of the requests, group by group; a pod set without a group is a group of its own.
fn groups(requests: &[PodSetRequest<'_>]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, request) in requests.iter().enumerate() {
        let group = request.group().map(|name| *known.entry(name).or_insert(groups.len()));
        match group.and_then(|group| groups.get_mut(group)) {
            Some(members) => members.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

/// Of two pod sets the smaller one leads; of two equal ones the second. Kueue allows a leader of one pod only.
fn gang<'a>(requests: &[PodSetRequest<'a>], members: &[usize]) -> Result<Gang<'a>, Failure> {
    let member = |index: usize| (index, requests[index]);
    let malformed = Failure::MalformedGroup { pod_sets: members.len() };
    let (workers, leader) = match *members {
        [only] => (member(only), None),
        [first, second] if requests[second].count > requests[first].count => {
            (member(second), Some(member(first)))
        }
        [first, second] => (member(first), Some(member(second))),
        _ => return Err(malformed),
    };
    if leader.as_ref().is_some_and(|(_, leader)| leader.count != 1) {
        return Err(malformed);
    }
    Ok(Gang { workers, leader })
}
