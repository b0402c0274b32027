//! Balanced placement: as few domains as possible, and the pods spread over them as evenly as possible.
//!
//! Used, when switched on, for preferred topologies. The threshold is the largest number of slices that every domain
//! used can be given. Domains that hold less are cleared, the tightest subset of the others is chosen, each gets the
//! threshold, and what is left goes to the first ones. If any of this fails, the ordinary placement is used.

use std::cmp::Reverse;

use super::count::{Fit, roll_up};
use super::entropy::entropy;
use super::fit::Chosen;
use super::order::{Portion, Search};
use super::tree::{DomainId, ix};

/// What taking domains greedily, largest first, comes to.
pub(super) struct Greedy {
    /// Domains taken.
    pub(super) domains: usize,
    /// The last one taken for the leader.
    last_with_leader: Option<DomainId>,
    /// The last one taken for slices alone.
    last: Option<DomainId>,
}

/// Siblings that could be used.
struct Candidate {
    siblings: Vec<DomainId>,
    threshold: i64,
    /// Domains of the requested level needed.
    domains: usize,
}

impl Search<'_> {
    /// Chooses domains for balanced placement and assigns slices to them. On `None` the search is as it was.
    pub(super) fn choose_balanced(&mut self) -> Option<Chosen> {
        let unpruned = self.fits.clone();
        let chosen = self.best_siblings(&unpruned).and_then(|best| {
            let level = self.plan.level;
            if level == self.plan.slice_level {
                let domains = self.spread(&best.siblings, best.threshold)?;
                return Some(Chosen { level, domains });
            }
            let mut siblings = best.siblings;
            siblings.sort_by_cached_key(|domain| self.evenness_rank(*domain));
            let domains = self.tightest_subset(&siblings)?;
            let children = self.children_of(&domains);
            let domains = self.spread(&children, best.threshold)?;
            Some(Chosen { level: level + 1, domains })
        });
        if chosen.is_none() {
            self.fits = unpruned;
        }
        chosen
    }

    /// The siblings with the highest threshold; of several the ones that need the fewest domains, then the first.
    /// What was cleared below them stays cleared.
    fn best_siblings(&mut self, unpruned: &[Fit]) -> Option<Candidate> {
        let tree = self.tree;
        let families: Vec<Vec<DomainId>> = match self.plan.level.checked_sub(1) {
            None => vec![tree.level(0).collect()],
            Some(above) => tree.level(above).map(|d| tree.children(d).collect()).collect(),
        };
        let mut best: Option<Candidate> = None;
        for siblings in families {
            let least = best.as_ref().map_or(1, |best| best.threshold);
            let Some(candidate) = self.judge_siblings(siblings, least, unpruned) else { continue };
            let is_better = best.as_ref().is_none_or(|best| {
                (Reverse(candidate.threshold), candidate.domains)
                    < (Reverse(best.threshold), best.domains)
            });
            if is_better {
                best = Some(candidate);
            }
        }
        best
    }

    /// The threshold of these siblings, if it is at least `least` and they still hold everything once domains below
    /// the threshold are cleared.
    fn judge_siblings(
        &mut self,
        siblings: Vec<DomainId>,
        least: i64,
        unpruned: &[Fit],
    ) -> Option<Candidate> {
        let sliced = if self.plan.level < self.plan.slice_level {
            self.children_of(&siblings)
        } else {
            siblings.clone()
        };
        let greedy = self.take_greedily(&sliced)?;
        let threshold = self.threshold(&greedy);
        // Keeping room for the leader in the last domain too asks less of each.
        let lower = match greedy.last {
            Some(last) if self.plan.leaders > 0 => self.fit(last).slices_beside_leader,
            Some(_) | None => threshold,
        };
        let retry = Some(lower).filter(|lower| *lower < threshold);
        for threshold in [Some(threshold), retry].into_iter().flatten() {
            if threshold < least {
                return None;
            }
            self.prune(&siblings, threshold);
            if let Some(pruned) = self.take_greedily(&siblings) {
                return Some(Candidate { siblings, threshold, domains: pruned.domains });
            }
            self.restore(&siblings, unpruned);
        }
        None
    }

    /// Takes the largest domains until everything is placed: first for the leader, then for the rest. `None` if
    /// they do not hold it.
    pub(super) fn take_greedily(&self, domains: &[DomainId]) -> Option<Greedy> {
        let mut greedy = Greedy { domains: 0, last_with_leader: None, last: None };
        let mut slices = self.plan.slices();
        let mut rest = domains.to_vec();
        if self.plan.leaders > 0 {
            rest = self.sorted_with_leader(rest);
            let first = *rest.first().filter(|first| self.fit(**first).leaders > 0)?;
            greedy.domains = 1;
            greedy.last_with_leader = Some(first);
            slices -= self.fit(first).slices_beside_leader;
            rest.remove(0);
        }
        for domain in self.sorted(rest) {
            if slices <= 0 || self.fit(domain).slices == 0 {
                break;
            }
            greedy.domains += 1;
            greedy.last = Some(domain);
            slices -= self.fit(domain).slices;
        }
        (slices <= 0 && greedy.domains > 0).then_some(greedy)
    }

    fn threshold(&self, greedy: &Greedy) -> i64 {
        let domains = i64::try_from(greedy.domains).expect("fewer than 2^63 domains");
        let even = self.plan.slices() / domains;
        let with_leader = greedy.last_with_leader.map(|d| self.fit(d).slices_beside_leader);
        let without = greedy.last.map(|domain| self.fit(domain).slices);
        with_leader.into_iter().chain(without).fold(even, i64::min)
    }

    fn children_of(&self, domains: &[DomainId]) -> Vec<DomainId> {
        domains.iter().flat_map(|domain| self.tree.children(*domain)).collect()
    }

    /// Clears the siblings, and their children, that cannot be given `threshold` slices.
    fn prune(&mut self, siblings: &[DomainId], threshold: i64) {
        for child in self.children_of(siblings) {
            self.prune_one(child, threshold);
        }
        for sibling in siblings {
            for (below, domains) in self.tree.subtree(*sibling).into_iter().enumerate().rev() {
                for domain in domains {
                    let level = self.plan.level + below;
                    roll_up(self.tree, &mut self.fits, domain, level, self.plan, &[]);
                }
            }
            self.prune_one(*sibling, threshold);
        }
    }

    fn prune_one(&mut self, domain: DomainId, threshold: i64) {
        let fit = self.fit(domain);
        let clear: fn(&mut Fit) = if fit.slices < threshold {
            |fit| *fit = Fit { score: fit.score, ..Fit::default() }
        } else if fit.leaders > 0 && fit.slices_beside_leader < threshold {
            // It can still be used for workers.
            |fit| {
                *fit = Fit { pods_beside_leader: 0, slices_beside_leader: 0, leaders: 0, ..*fit };
            }
        } else {
            return;
        };
        for domains in self.tree.subtree(domain) {
            self.fits[ix(domains.start)..ix(domains.end)].iter_mut().for_each(clear);
        }
    }

    fn restore(&mut self, siblings: &[DomainId], unpruned: &[Fit]) {
        for sibling in siblings {
            for domains in self.tree.subtree(*sibling) {
                let cells = ix(domains.start)..ix(domains.end);
                self.fits[cells.clone()].copy_from_slice(&unpruned[cells]);
            }
        }
    }

    /// Leaders, then room beside a leader, then an even spread over the children, then the path.
    fn evenness_rank(
        &self,
        domain: DomainId,
    ) -> (Reverse<i64>, Reverse<i64>, Reverse<u64>, DomainId) {
        let fit = self.fit(domain);
        let evenness = entropy(self.tree.children(domain).map(|child| self.fit(child).pods));
        (Reverse(fit.leaders), Reverse(fit.slices_beside_leader), Reverse(evenness), domain)
    }

    /// Gives each domain of the tightest subset `threshold` slices, and what is left to the first ones.
    fn spread(&mut self, domains: &[DomainId], threshold: i64) -> Option<Vec<DomainId>> {
        let mut by_path = domains.to_vec();
        by_path.sort_unstable();
        let subset = self.tightest_subset(&by_path)?;
        let count = i64::try_from(subset.len()).expect("fewer than 2^63 domains");
        let mut extra = self.plan.slices() - count * threshold;
        if extra < 0 {
            return None;
        }
        let subset = self.sorted_with_leader(subset);
        let mut leaders = self.plan.leaders;
        let slice_size = self.plan.slice_size;
        for domain in &subset {
            let fit = self.fit_mut(*domain);
            let leads = leaders > 0;
            let room =
                if leads { Portion::Slices.beside_leader(*fit) } else { Portion::Slices.of(*fit) };
            // Room below the threshold counts as negative: the domain then gets less, others more.
            let more = if leads || extra > 0 { (room - threshold).min(extra) } else { 0 };
            let slices = threshold + more;
            fit.leaders = i64::from(leads);
            fit.slices = slices;
            fit.slices_beside_leader = slices;
            fit.pods = slices * slice_size;
            fit.pods_beside_leader = fit.pods - fit.leaders;
            extra -= more;
            leaders -= i64::from(leads);
        }
        (extra == 0 && leaders == 0).then_some(subset)
    }
}
