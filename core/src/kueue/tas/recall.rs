//! Step 2 from remembered counts: domains are found by what fits into them, without looking at all of them.
//!
//! The answers are those of `fit`, which looks at every domain.

use super::counts::{Bare, Counts, Domains};
use super::failure::Failure;
use super::fit::Chosen;
use super::order::Search;
use super::tree::DomainId;

impl Search<'_> {
    /// The tightest domain of the level that holds everything.
    pub(super) fn recall_one(&self, counts: &Counts, level: usize) -> Option<DomainId> {
        let (_, domains) = tightest_class(counts, level, self.plan.slices())?;
        domains.iter().next()
    }

    /// What to say when no domain of the level holds everything.
    pub(super) fn recall_required(&self, counts: &Counts, level: usize) -> Result<Chosen, Failure> {
        let most = counts.classes(level).keys().next_back().map_or(0, |fit| fit.slices);
        Err(self.does_not_fit(level, most))
    }

    /// Several domains of the level, taken greedily, the last one as tight as possible.
    pub(super) fn recall_several(
        &self,
        counts: &Counts,
        level: usize,
    ) -> Result<Vec<DomainId>, Failure> {
        let total = counts.slices(level);
        if total < self.plan.slices() {
            return Err(self.does_not_fit(level, total));
        }
        let mut left = self.plan.slices();
        let mut chosen = Vec::new();
        for (fit, domains) in self.in_order(counts, level) {
            for domain in domains.iter() {
                if left <= 0 {
                    return Ok(chosen);
                }
                if self.is_last(fit.slices, left)
                    && let Some((tightest, others)) = tightest_class(counts, level, left)
                {
                    // Classes with as much room come before this one, and all of theirs are taken.
                    let is_tighter = tightest.slices < fit.slices;
                    let other = others.iter().next().filter(|_| is_tighter);
                    chosen.push(other.unwrap_or(domain));
                    return Ok(chosen);
                }
                chosen.push(domain);
                left -= fit.slices;
            }
        }
        Ok(chosen)
    }

    /// The classes that hold something, in the order in which their domains are taken.
    fn in_order<'c>(&self, counts: &'c Counts, level: usize) -> Vec<(Bare, &'c Domains)> {
        let holding = counts.classes(level).range(Bare { slices: 1, pods: i64::MIN }..);
        let mut classes: Vec<_> = holding.map(|(fit, domains)| (*fit, domains)).collect();
        if !self.is_least_free_first() {
            classes.sort_by_key(|(fit, _)| (-fit.slices, fit.pods));
        }
        classes
    }
}

/// The class with the least room that still holds `slices`.
fn tightest_class(counts: &Counts, level: usize, slices: i64) -> Option<(&Bare, &Domains)> {
    counts.classes(level).range(Bare { slices, pods: i64::MIN }..).next()
}
