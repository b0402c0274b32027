//! Among the victims that a rule allows: the set that costs least.
//!
//! Wanted properties: every set is one that the rule itself takes when it is shown only these candidates, so nobody
//! goes whom the rule forbids; the set is enough and no member of it is superfluous; nobody spared is in it; it costs
//! no more than what the rule takes in order of cost; among up to [`EXACT_CANDIDATES_MAX`] candidates no cheaper set
//! that the rule takes is enough; the same question has the same answer.

use std::collections::BTreeSet;

use super::super::name::{FlavorResource, WorkloadKey};
use super::super::snapshot::Running;
use super::super::whatif::WhatIf;
use super::super::workload::Usage;
use super::{Candidates, Claim, Standing, Targets, Weighing};

/// Up to this many candidates every set of them may be looked at (2^12 = 4,096); beyond, sets are built from the
/// cheapest candidates on, and where pods must be placed from those who lie together.
const EXACT_CANDIDATES_MAX: usize = 12;

/// Most sets that the rule is asked about in one search. A question takes from a few µs on a small cluster to some
/// hundred on the largest, so that a search ends within some ten ms.
const QUESTIONS_MAX: usize = 1_000;
/// On clusters with more leaves than this, fewer questions are asked.
const LEAVES_OF_QUESTIONS_MAX: usize = 2_000;

/// Order of preference among sets: compared field by field, top to bottom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    /// 1. Lose least.
    cost_device_ms: u64,
    /// 2. Of equal cost, put least at risk.
    at_risk_device_ms: u64,
    /// 3. Disturb few gangs.
    gangs: usize,
    /// 4. Ties: the earliest in Kueue's order.
    members: Vec<usize>,
}

/// A candidate and what taking it would cost. One that is leaving costs nothing.
struct Weighed<'a> {
    /// Position in Kueue's order.
    index: usize,
    running: &'a Running,
    standing: Standing,
}

/// The best set found so far.
struct Best<'a> {
    score: Score,
    targets: Targets<'a>,
}

struct Choice<'c, 'a, 'r> {
    claim: &'c Claim<'c>,
    candidates: &'c Candidates<'a, 'r>,
    /// Those that may go, in Kueue's order.
    weighed: Vec<Weighed<'a>>,
    questions_left: usize,
    best: Option<Best<'a>>,
}

pub(super) fn find_targets<'a>(
    whatif: &mut WhatIf<'a>,
    claim: &Claim<'_>,
    candidates: &Candidates<'a, '_>,
    weighing: &Weighing<'_>,
) -> Targets<'a> {
    let weighed = weigh(claim, candidates, weighing);
    if weighed.is_empty() {
        return Targets::new();
    }
    let in_order: Vec<usize> = weighed.iter().map(|candidate| candidate.index).collect();
    let follows_topology = weighing.follows_topology && !claim.topology.is_empty();
    if !weighing.finds_cheapest && !follows_topology {
        return candidates.reordered(&in_order).take(whatif, claim);
    }
    let leaves = claim.topology.leaf_count(whatif).max(LEAVES_OF_QUESTIONS_MAX);
    let questions_left = QUESTIONS_MAX * LEAVES_OF_QUESTIONS_MAX / leaves;
    let mut choice = Choice { claim, candidates, weighed, questions_left, best: None };
    choice.try_in_order_of_cost(whatif);
    if follows_topology {
        choice.try_domains(whatif);
    }
    if weighing.finds_cheapest
        && choice.weighed.iter().filter(|c| !c.is_leaving()).count() <= EXACT_CANDIDATES_MAX
    {
        choice.try_all_sets(whatif);
    }
    choice.best.map_or_else(Targets::new, |best| best.targets)
}

fn weigh<'a>(
    claim: &Claim<'_>,
    candidates: &Candidates<'a, '_>,
    weighing: &Weighing<'_>,
) -> Vec<Weighed<'a>> {
    let weigh = |(index, running): (usize, &'a Running)| {
        let is_leaving = running.workload.is_being_evicted();
        let ask = || (weighing.standing)(claim.workload, running);
        let mut standing = if is_leaving { Standing::default() } else { ask() };
        if !weighing.finds_cheapest {
            standing = Standing { is_spared: standing.is_spared, ..Standing::default() };
        }
        (!standing.is_spared).then_some(Weighed { index, running, standing })
    };
    candidates.running().into_iter().enumerate().filter_map(weigh).collect()
}

impl Weighed<'_> {
    fn is_leaving(&self) -> bool {
        self.running.workload.is_being_evicted()
    }

    /// What it holds of what is contested; at least 1.
    fn contested_amount(&self, claim: &Claim<'_>) -> u64 {
        let held = self.running.usage.iter().filter(|(fr, _)| claim.contested.contains(fr));
        let held = held.fold(0_i64, |sum, (_, amount)| sum.saturating_add((*amount).max(0)));
        held.unsigned_abs().max(1)
    }
}

impl<'a> Choice<'_, 'a, '_> {
    /// Cheapest first, by what each costs and by what it costs for what it frees.
    fn try_in_order_of_cost(&mut self, whatif: &mut WhatIf<'a>) {
        let mut by_cost: Vec<&Weighed<'_>> = self.weighed.iter().collect();
        by_cost.sort_by_key(|c| (!c.is_leaving(), c.standing.cost_device_ms, c.index));
        let by_cost = indices(&by_cost);
        let mut by_density: Vec<(&Weighed<'_>, u64)> =
            self.weighed.iter().map(|c| (c, c.contested_amount(self.claim))).collect();
        // a/b < c/d without division.
        by_density.sort_by(|(a, a_amount), (b, b_amount)| {
            let left = u128::from(a.standing.cost_device_ms) * u128::from(*b_amount);
            let right = u128::from(b.standing.cost_device_ms) * u128::from(*a_amount);
            let leaving_first = b.is_leaving().cmp(&a.is_leaving());
            leaving_first.then(left.cmp(&right)).then(a.index.cmp(&b.index))
        });
        let by_density: Vec<&Weighed<'_>> = by_density.into_iter().map(|(c, _)| c).collect();
        let by_density = indices(&by_density);
        self.ask(whatif, &by_cost);
        if by_density != by_cost {
            self.ask(whatif, &by_density);
        }
    }

    /// Sets whose going makes room that lies together, likely cheapest first. Where quota lacks too, the cheapest of the
    /// others who use it come on top.
    fn try_domains(&mut self, whatif: &mut WhatIf<'a>) {
        let leaving: Vec<usize> =
            self.weighed.iter().filter(|c| c.is_leaving()).map(|c| c.index).collect();
        let missing = missing(whatif, self.claim, &self.weighed);
        let mut by_cost: Vec<&Weighed<'_>> =
            self.weighed.iter().filter(|c| !c.is_leaving()).collect();
        by_cost.sort_by_key(|c| (c.standing.cost_device_ms, c.index));
        let mut orders = Vec::new();
        for way in self.ways_to_free(whatif, &by_cost) {
            let mut chosen: Vec<&Weighed<'_>> = way.iter().map(|&member| by_cost[member]).collect();
            let mut others = (0..by_cost.len()).filter(|position| !way.contains(position));
            while !frees(&chosen, &missing) {
                let Some(next) = others.next() else { break };
                if by_cost[next].running.usage.keys().any(|fr| missing.contains_key(fr)) {
                    chosen.push(by_cost[next]);
                }
            }
            orders.push([leaving.as_slice(), &indices(&chosen)].concat());
        }
        for order in orders {
            self.ask(whatif, &order);
        }
    }

    /// As [`TopologyDemand::ways_to_free`](super::TopologyDemand) once all who are leaving have gone.
    fn ways_to_free(&self, whatif: &mut WhatIf<'a>, staying: &[&Weighed<'_>]) -> Vec<Vec<usize>> {
        let leaving = self.weighed.iter().filter(|c| c.is_leaving()).map(|c| c.running);
        let gone: Vec<&Running> = leaving.filter(|running| whatif.take_away(running)).collect();
        // Of equal cost, fewer are better.
        let cost = |c: &Weighed<'_>| c.standing.cost_device_ms.saturating_add(1);
        let candidates: Vec<(&Running, u64)> =
            staying.iter().map(|c| (c.running, cost(c))).collect();
        let ways = self.claim.topology.ways_to_free(whatif, &candidates);
        for running in gone {
            whatif.put_back(running);
        }
        ways
    }

    /// Asks the rule what it takes of `order`, and keeps it if it is better than the best so far.
    fn ask(&mut self, whatif: &mut WhatIf<'a>, order: &[usize]) {
        self.questions_left = self.questions_left.saturating_sub(1);
        let targets = self.candidates.reordered(order).take(whatif, self.claim);
        if targets.is_empty() {
            return;
        }
        let keys: BTreeSet<&WorkloadKey> =
            targets.iter().map(|(target, _)| &target.workload.key).collect();
        let score = self.score_of(|running| keys.contains(&running.workload.key));
        if self.best.as_ref().is_none_or(|best| score < best.score) {
            self.best = Some(Best { score, targets });
        }
    }

    fn score_of(&self, is_member: impl Fn(&Running) -> bool) -> Score {
        let mut score =
            Score { cost_device_ms: 0, at_risk_device_ms: 0, gangs: 0, members: Vec::new() };
        for candidate in self.weighed.iter().filter(|c| is_member(c.running)) {
            let Standing { cost_device_ms, at_risk_device_ms, is_spared: _ } = candidate.standing;
            score.cost_device_ms = score.cost_device_ms.saturating_add(cost_device_ms);
            score.at_risk_device_ms = score.at_risk_device_ms.saturating_add(at_risk_device_ms);
            score.gangs += usize::from(!candidate.is_leaving());
            score.members.push(candidate.index);
        }
        score
    }

    /// Every set that would be better than the best so far, best first, until the rule takes one.
    fn try_all_sets(&mut self, whatif: &mut WhatIf<'a>) {
        let Some(best) = &self.best else { return };
        let leaving: Vec<usize> =
            self.weighed.iter().filter(|c| c.is_leaving()).map(|c| c.index).collect();
        let staying: Vec<&Weighed<'_>> = self.weighed.iter().filter(|c| !c.is_leaving()).collect();
        let missing = missing(whatif, self.claim, &self.weighed);
        let mut sets: Vec<(Score, Vec<usize>)> = Vec::new();
        for mask in 0u32..1 << staying.len() {
            let chosen: Vec<&Weighed<'_>> =
                (0..staying.len()).filter(|i| mask & (1 << i) != 0).map(|i| staying[i]).collect();
            let score = self.score_of(|running| {
                chosen.iter().any(|c| c.running.workload.key == running.workload.key)
            });
            if score < best.score && frees(&chosen, &missing) {
                sets.push((score, indices(&chosen)));
            }
        }
        sets.sort();
        for (_, set) in sets {
            if self.questions_left == 0 {
                return;
            }
            let before = self.best.as_ref().map(|best| best.score.clone());
            self.ask(whatif, &[leaving.as_slice(), &set].concat());
            if self.best.as_ref().map(|best| &best.score) != before.as_ref() {
                return;
            }
        }
    }
}

fn indices(weighed: &[&Weighed<'_>]) -> Vec<usize> {
    weighed.iter().map(|candidate| candidate.index).collect()
}

/// What must at least become free by going of those that stay: what is asked for, less what is available when all who
/// are leaving have gone.
fn missing(whatif: &mut WhatIf<'_>, claim: &Claim<'_>, weighed: &[Weighed<'_>]) -> Usage {
    let leaving: Vec<&Running> = weighed
        .iter()
        .filter(|c| c.is_leaving())
        .map(|c| c.running)
        .filter(|running| whatif.take_away(running))
        .collect();
    let missing = |(fr, amount): (&FlavorResource, &i64)| {
        let missing = amount.saturating_sub(whatif.ledger().available(claim.node, fr));
        (missing > 0).then(|| (fr.clone(), missing))
    };
    let missing = claim.usage.iter().filter_map(missing).collect();
    for running in leaving {
        whatif.put_back(running);
    }
    missing
}

/// Whether `chosen` use at least what is missing. One who goes never makes more available than it used.
fn frees(chosen: &[&Weighed<'_>], missing: &Usage) -> bool {
    missing.iter().all(|(fr, amount)| {
        let freed = chosen.iter().filter_map(|c| c.running.usage.get(fr));
        freed.fold(0_i64, |sum, used| sum.saturating_add(*used)) >= *amount
    })
}
