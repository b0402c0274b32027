//! Whose going makes room for all pod sets of a workload.

use super::super::name::FlavorName;
use super::super::snapshot::Running;
use super::super::tas::Holder;
use super::super::whatif::WhatIf;
use super::TopologyDemand;

/// Positions in a list of candidates, in order of cost.
type Way = Vec<usize>;

impl TopologyDemand<'_> {
    /// Sets of `candidates` (each with what its going would cost), by position and in order of cost, whose going makes
    /// room that lies together; likely cheapest first. Quota is not looked at.
    pub(in crate::kueue) fn ways_to_free(
        &self,
        whatif: &WhatIf<'_>,
        candidates: &[(&Running, u64)],
    ) -> Vec<Way> {
        let mut all: Vec<Way> = Vec::new();
        for (flavor, wanted) in &self.by_flavor {
            let Some(topology) = whatif.topology(flavor) else { continue };
            let (positions, holders) = holders(whatif, flavor, candidates);
            for wanted in wanted {
                let mut ways = topology.ways_to_free(&wanted.request, &holders);
                ways.iter_mut().flatten().for_each(|member| *member = positions[*member]);
                all = join(all, ways);
            }
        }
        all
    }
}

/// Those of `candidates` who have pods in the nodes of `flavor`: their positions, and what they take there.
fn holders<'w>(
    whatif: &WhatIf<'w>,
    flavor: &FlavorName,
    candidates: &[(&Running, u64)],
) -> (Vec<usize>, Vec<Holder<'w>>) {
    let snapshot = whatif.snapshot();
    let holder = |(position, (running, cost)): (usize, &(&Running, u64))| {
        let placed = snapshot.placed(running)?;
        let placed: Vec<_> =
            placed.all().filter(|(name, _)| name == flavor).map(|(_, usage)| usage).collect();
        (!placed.is_empty()).then_some((position, Holder { cost: *cost, placed }))
    };
    candidates.iter().enumerate().filter_map(holder).unzip()
}

/// Ways for two needs at once: each for the one with the cheapest for the other.
fn join(a: Vec<Way>, b: Vec<Way>) -> Vec<Way> {
    let (Some(cheapest_a), Some(cheapest_b)) = (a.first(), b.first()) else {
        return [a, b].concat();
    };
    let both = |way: &Way, other: &Way| {
        let new = other.iter().filter(|member| !way.contains(member));
        way.iter().chain(new).copied().collect::<Way>()
    };
    let of_b = b.iter().map(|way| both(way, cheapest_a));
    let of_a = a.iter().skip(1).map(|way| both(way, cheapest_b));
    of_b.chain(of_a).collect()
}
