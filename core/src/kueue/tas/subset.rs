//! Which few domains together hold everything with the least room to spare: a knapsack for balanced placement.

use std::collections::BTreeMap;

use super::order::Search;
use super::tree::DomainId;

/// Most steps kept by one knapsack. Real requests need thousands; a request that needs more falls back to the
/// ordinary placement rather than fill the memory. Doubling it doubles the worst case, about 50 MiB.
const STEPS_MAX: usize = 1 << 19;

/// Most ways extended by one knapsack, for the same reason: a cycle must not stall. Doubling it doubles the worst
/// case, about a tenth of a second.
const EXTENSIONS_MAX: usize = 1 << 21;

/// What is still to be placed after some domains were taken: leaders, pods (negative: room to spare).
type Rest = (i64, i64);

/// The last domain taken on the way to a rest, and the step before it.
#[derive(Clone, Copy)]
struct Step {
    domain: DomainId,
    before: Option<usize>,
}

/// By number of domains taken: each rest that can be reached, with its first way.
struct Table {
    reached: Vec<BTreeMap<Rest, Option<usize>>>,
    steps: Vec<Step>,
    /// Ways extended so far.
    extensions: usize,
}

impl Search<'_> {
    /// The subset of `domains` that holds all slices and the leader in the fewest domains (as many as taking them
    /// greedily needs) and with the least spare room; the first one found in the order of `domains`.
    ///
    /// `None` if the domains do not hold everything, or the search would be too long.
    pub(super) fn tightest_subset(&self, domains: &[DomainId]) -> Option<Vec<DomainId>> {
        let greedy = self.take_greedily(domains)?;
        let pods = self.plan.slices() * self.plan.slice_size;
        let mut table = Table::new(greedy.domains, (self.plan.leaders, pods));
        for domain in domains {
            for taken in (1..=greedy.domains).rev() {
                self.try_domain(&mut table, *domain, taken)?;
            }
        }
        table.tightest(greedy.domains)
    }

    /// Extends every way that takes one domain fewer by `domain`. `None` if the search gets too long.
    fn try_domain(&self, table: &mut Table, domain: DomainId, taken: usize) -> Option<()> {
        let fit = self.fit(domain);
        let open: Vec<(Rest, Option<usize>)> = table.reached[taken - 1]
            .iter()
            .map(|(rest, way)| (*rest, *way))
            .filter(|((leaders, pods), _)| *leaders > 0 || *pods > 0)
            .collect();
        table.extensions += 1 + open.len();
        if table.extensions > EXTENSIONS_MAX {
            return None;
        }
        for ((leaders, pods), before) in open {
            if leaders > 0 && fit.leaders > 0 {
                let rest = (leaders - fit.leaders, pods - fit.pods_beside_leader);
                table.reach(taken, rest, Step { domain, before })?;
            }
            if fit.slices > 0 {
                table.reach(taken, (leaders, pods - fit.pods), Step { domain, before })?;
            }
        }
        Some(())
    }
}

impl Table {
    fn new(domains: usize, everything: Rest) -> Self {
        let mut reached = vec![BTreeMap::new(); domains + 1];
        reached[0].insert(everything, None);
        Self { reached, steps: Vec::new(), extensions: 0 }
    }

    /// Records a way to `rest`, unless there is one. `None` if the table is full.
    fn reach(&mut self, taken: usize, rest: Rest, step: Step) -> Option<()> {
        if self.reached[taken].contains_key(&rest) {
            return Some(());
        }
        if self.steps.len() == STEPS_MAX {
            return None;
        }
        self.reached[taken].insert(rest, Some(self.steps.len()));
        self.steps.push(step);
        Some(())
    }

    /// The domains on the way to the rest with no leader, no pod and the least spare room.
    fn tightest(&self, taken: usize) -> Option<Vec<DomainId>> {
        let done = self.reached[taken].range((0, i64::MIN)..=(0, 0));
        let (_, way) = done.last()?;
        let mut domains = Vec::with_capacity(taken);
        let mut step = *way;
        while let Some(position) = step {
            domains.push(self.steps[position].domain);
            step = self.steps[position].before;
        }
        domains.reverse();
        Some(domains)
    }
}
