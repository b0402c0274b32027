//! In which order domains are taken, and which of several is the tightest that suffices.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::count::Fit;
use super::counts::Counts;
use super::failure::Exclusions;
use super::model::{Switches, UnconstrainedOrder};
use super::plan::{Plan, Strictness};
use super::snapshot::TasSnapshot;
use super::tree::{DomainId, Tree, ix};

/// One placement in the making.
pub(super) struct Search<'a> {
    pub(super) snapshot: &'a TasSnapshot,
    pub(super) tree: &'a Tree,
    pub(super) switches: Switches,
    pub(super) plan: &'a Plan,
    pub(super) excluded: Exclusions,
    /// What fits into each domain; on the way down, what is assigned to it. Empty if it is remembered.
    pub(super) fits: Vec<Fit>,
    /// What fits into each domain, if that is remembered.
    pub(super) remembered: Option<&'a Counts>,
    /// On the way down, what is assigned to domains of which it is remembered what fits.
    pub(super) assigned: BTreeMap<DomainId, Fit>,
}

/// What is being handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Portion {
    Slices,
    Pods,
}

impl Portion {
    /// How many fit.
    pub(super) fn of(self, fit: Fit) -> i64 {
        match self {
            Self::Slices => fit.slices,
            Self::Pods => fit.pods,
        }
    }

    /// How many fit beside a leader.
    pub(super) fn beside_leader(self, fit: Fit) -> i64 {
        match self {
            Self::Slices => fit.slices_beside_leader,
            Self::Pods => fit.pods_beside_leader,
        }
    }
}

/// Preferred affinity, then room by the order in force, then few spare pods, then the path.
type Rank = (Reverse<i64>, i64, i64, DomainId);

impl Search<'_> {
    pub(super) fn fit(&self, domain: DomainId) -> Fit {
        let Some(counts) = self.remembered else { return self.fits[ix(domain)] };
        self.assigned.get(&domain).copied().unwrap_or_else(|| counts.fit(domain).into())
    }

    pub(super) fn fit_mut(&mut self, domain: DomainId) -> &mut Fit {
        let Some(counts) = self.remembered else { return &mut self.fits[ix(domain)] };
        self.assigned.entry(domain).or_insert_with(|| counts.fit(domain).into())
    }

    /// Whether the emptiest domain goes last (and none is searched for that fits best).
    pub(super) fn is_least_free_first(&self) -> bool {
        self.plan.strictness == Strictness::Unconstrained
            && self.switches.unconstrained == UnconstrainedOrder::LeastFree
    }

    fn rank_of_room(&self, slices: i64) -> i64 {
        if self.is_least_free_first() { slices } else { -slices }
    }

    pub(super) fn rank(&self, domain: DomainId) -> Rank {
        let fit = self.fit(domain);
        (Reverse(fit.score), self.rank_of_room(fit.slices), fit.pods, domain)
    }

    /// As [`Search::rank`], but domains with room for a leader first, and counting what fits beside it.
    pub(super) fn rank_with_leader(&self, domain: DomainId) -> (Reverse<i64>, Rank) {
        let fit = self.fit(domain);
        let room = self.rank_of_room(fit.slices_beside_leader);
        (Reverse(fit.leaders), (Reverse(fit.score), room, fit.pods_beside_leader, domain))
    }

    pub(super) fn sorted(&self, domains: impl IntoIterator<Item = DomainId>) -> Vec<DomainId> {
        let mut sorted: Vec<DomainId> = domains.into_iter().collect();
        sorted.sort_unstable_by_key(|domain| self.rank(*domain));
        sorted
    }

    pub(super) fn sorted_with_leader(
        &self,
        domains: impl IntoIterator<Item = DomainId>,
    ) -> Vec<DomainId> {
        let mut sorted: Vec<DomainId> = domains.into_iter().collect();
        sorted.sort_unstable_by_key(|domain| self.rank_with_leader(*domain));
        sorted
    }

    /// The tightest of `candidates` that holds `needed` (beside a leader if there is one to place), the earliest of
    /// several; the first candidate if none does.
    ///
    /// Only the leading candidates with one and the same affinity score take part: affinity outranks tightness.
    pub(super) fn tightest(
        &self,
        candidates: &[DomainId],
        needed: i64,
        leaders: i64,
        portion: Portion,
    ) -> DomainId {
        let first = candidates[0];
        let score = self.fit(first).score;
        let room = |domain: DomainId| {
            let fit = self.fit(domain);
            if leaders > 0 { portion.beside_leader(fit) } else { portion.of(fit) }
        };
        candidates
            .iter()
            .copied()
            .take_while(|domain| self.fit(*domain).score == score)
            .filter(|domain| self.fit(*domain).leaders >= leaders && room(*domain) >= needed)
            .min_by_key(|domain| room(*domain))
            .unwrap_or(first)
    }

    /// Puts first the first domain that can take the leader and still leaves room for everything, so that the
    /// promise made by the counts (the leader goes where it costs least) can be kept.
    pub(super) fn leader_first(
        &self,
        mut domains: Vec<DomainId>,
        needed: i64,
        leaders: i64,
        portion: Portion,
    ) -> Vec<DomainId> {
        if leaders == 0 {
            return domains;
        }
        let room: i64 = domains.iter().map(|domain| portion.of(self.fit(*domain))).sum();
        let keeps_promise = |domain: &DomainId| {
            let fit = self.fit(*domain);
            let cost = portion.of(fit) - portion.beside_leader(fit);
            fit.leaders >= leaders && room - cost >= needed
        };
        if let Some(position) = domains.iter().position(keeps_promise) {
            domains[..=position].rotate_right(1);
        }
        domains
    }
}
