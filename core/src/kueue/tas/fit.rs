//! Step 2: at which level, and in which domains of it, everything fits.

use super::failure::{Exclusions, Failure, LayerFit};
use super::order::{Portion, Search};
use super::plan::Strictness;
use super::tree::DomainId;

/// The domains chosen, and their level.
pub(super) struct Chosen {
    pub(super) level: usize,
    pub(super) domains: Vec<DomainId>,
}

impl Search<'_> {
    /// Chooses the fewest and tightest domains that hold everything: one domain of the requested level; for
    /// preferred topologies else one of a level above; else several of the topmost level (of the requested one for
    /// unconstrained pods).
    pub(super) fn choose(&self) -> Result<Chosen, Failure> {
        let mut level = self.plan.level;
        loop {
            let one = match self.remembered {
                Some(counts) => self.recall_one(counts, level),
                None => self.choose_one(level),
            };
            if let Some(domain) = one {
                return Ok(Chosen { level, domains: vec![domain] });
            }
            match self.plan.strictness {
                Strictness::Required => {
                    return match self.remembered {
                        Some(counts) => self.recall_required(counts, level),
                        None => self.choose_required(level),
                    };
                }
                Strictness::Preferred if level > 0 => level -= 1,
                Strictness::Preferred | Strictness::Unconstrained => {
                    let domains = match self.remembered {
                        Some(counts) => self.recall_several(counts, level),
                        None => self.choose_several(level),
                    };
                    return Ok(Chosen { level, domains: domains? });
                }
            }
        }
    }

    fn holds_all(&self, domain: DomainId) -> bool {
        let fit = self.fit(domain);
        fit.slices_beside_leader >= self.plan.slices() && fit.leaders >= self.plan.leaders
    }

    /// One domain of the level that holds everything. Linear in the size of the level: nothing is sorted.
    fn choose_one(&self, level: usize) -> Option<DomainId> {
        let holding = self.tree.level(level).filter(|domain| self.holds_all(*domain));
        if self.is_least_free_first() {
            return holding.min_by_key(|domain| self.rank_with_leader(*domain));
        }
        let top = self.tree.level(level).min_by_key(|domain| self.rank_with_leader(*domain))?;
        if !self.holds_all(top) {
            return None;
        }
        let score = self.fit(top).score;
        holding.filter(|domain| self.fit(*domain).score == score).min_by_key(|domain| {
            (self.fit(*domain).slices_beside_leader, self.rank_with_leader(*domain))
        })
    }

    /// The domain that ranks first does not hold everything, but with preferred affinity a later one may.
    fn choose_required(&self, level: usize) -> Result<Chosen, Failure> {
        let sorted = self.sorted_with_leader(self.tree.level(level));
        let Some(first) = sorted.iter().position(|domain| self.holds_all(*domain)) else {
            return Err(self.does_not_fit(level, self.fit(sorted[0]).slices));
        };
        let (slices, leaders) = (self.plan.slices(), self.plan.leaders);
        let domain = self.tightest(&sorted[first..], slices, leaders, Portion::Slices);
        Ok(Chosen { level, domains: vec![domain] })
    }

    /// Several domains of the level, taken greedily, the last one as tight as possible; first the one for the
    /// leader.
    fn choose_several(&self, level: usize) -> Result<Vec<DomainId>, Failure> {
        let plan = self.plan;
        let sorted = self.sorted_with_leader(self.tree.level(level));
        let sorted = self.leader_first(sorted, plan.slices(), plan.leaders, Portion::Slices);
        let mut chosen = Vec::new();
        let mut slices = plan.slices();
        let mut leaders = plan.leaders;
        let mut rest = sorted.as_slice();
        while let [first, later @ ..] = rest
            && leaders > 0
            && self.fit(*first).leaders > 0
        {
            let domain = if self.is_last(self.fit(*first).slices_beside_leader, slices) {
                self.tightest(rest, slices, leaders, Portion::Slices)
            } else {
                *first
            };
            chosen.push(domain);
            leaders -= self.fit(domain).leaders;
            slices -= self.fit(domain).slices_beside_leader;
            rest = later;
        }
        if leaders > 0 {
            return Err(self.does_not_fit(level, plan.leaders - leaders));
        }
        let sorted = self.sorted(rest.iter().copied());
        let mut rest = sorted.as_slice();
        while let [first, later @ ..] = rest
            && slices > 0
        {
            let domain = if self.is_last(self.fit(*first).slices, slices) {
                self.tightest(rest, slices, 0, Portion::Slices)
            } else {
                *first
            };
            chosen.push(domain);
            slices -= self.fit(domain).slices;
            rest = later;
        }
        if slices > 0 {
            return Err(self.does_not_fit(level, plan.slices() - slices));
        }
        Ok(chosen)
    }

    /// Whether a domain with this much room would be the last one needed, so that a tighter one may do.
    pub(super) fn is_last(&self, room: i64, needed: i64) -> bool {
        !self.is_least_free_first() && room >= needed
    }

    pub(super) fn does_not_fit(&self, level: usize, fits: i64) -> Failure {
        let excluded = match self.remembered {
            Some(counts) => counts.exclusions(),
            None => self.excluded.clone(),
        };
        let excluded = Some(excluded).filter(Exclusions::any);
        if !self.plan.layers.is_empty() {
            return Failure::LayersDoNotFit { layers: self.layer_fits(level), excluded };
        }
        let (unit, requested) = (self.plan.unit(), reported(self.plan.slices()));
        if fits == 0 {
            Failure::NoneFit { unit, requested, excluded }
        } else {
            Failure::SomeFit { unit, fits: reported(fits), requested, excluded }
        }
    }

    /// What fits of each layer in the domain of the level that holds most.
    fn layer_fits(&self, level: usize) -> Vec<LayerFit> {
        let most = |domain: &DomainId| (self.fit(*domain).slices, std::cmp::Reverse(*domain));
        let usable = self.tree.level(level).filter(|domain| self.snapshot.is_any_usable(*domain));
        let Some(best) = usable.max_by_key(most) else { return Vec::new() };
        let below = self.tree.subtree(best);
        let fit_of = |layer: &crate::kueue::workload::SliceLayer| {
            let at = self.tree.level_of(&layer.level)?.checked_sub(level)?;
            let size = i64::from(layer.size);
            let domains = below.get(at)?.clone();
            Some(LayerFit {
                level: layer.level.clone(),
                fits: reported(domains.map(|domain| self.fit(domain).pods / size).sum()),
                requested: reported(self.plan.count / size),
            })
        };
        self.plan.layers.iter().filter_map(fit_of).collect()
    }
}

/// A count as failures carry it.
fn reported(count: i64) -> u32 {
    u32::try_from(count.max(0)).unwrap_or(u32::MAX)
}
