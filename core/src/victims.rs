//! Which gangs to drain so that a workload fits: the cheapest set, by work lost.
//!
//! Wanted properties: the set is enough; no member of it is superfluous; among up to
//! [`EXACT_CANDIDATES_MAX`] candidates no cheaper set is enough; the same question has the same answer.

#[cfg(test)]
mod tests;

/// Up to this many candidates every subset is weighed (2^12 = 4,096 checks); beyond, greedy and give back.
pub const EXACT_CANDIDATES_MAX: usize = 12;

/// A gang that may be drained. Its place in the slice is its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Work lost under the best mode plus restart. Unit: device-milliseconds.
    pub cost_device_ms: u64,
    /// Work in no checkpoint now. Unit: device-milliseconds.
    pub at_risk_device_ms: u64,
    /// Devices that it holds, at least 1.
    pub devices: u64,
}

/// Order of preference among sets: compared field by field, top to bottom.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    /// 1. Lose least.
    cost_device_ms: u64,
    /// 2. Of equal cost, put least at risk.
    at_risk_device_ms: u64,
    /// 3. Disturb few gangs.
    gangs: u32,
    /// 4. Ties: the earliest candidates.
    members: Vec<usize>,
}

/// Picks the victims among `candidates`; `enough` tells whether a set makes room.
///
/// The answer is in ascending order; `None` if even all together do not make room.
#[must_use]
pub fn choose(candidates: &[Cost], enough: impl Fn(&[usize]) -> bool) -> Option<Vec<usize>> {
    let all: Vec<usize> = (0..candidates.len()).collect();
    if candidates.is_empty() || !enough(&all) {
        return None;
    }
    if candidates.len() <= EXACT_CANDIDATES_MAX {
        exact(candidates, &enough)
    } else {
        Some(greedy(candidates, &enough))
    }
}

fn exact(candidates: &[Cost], enough: &impl Fn(&[usize]) -> bool) -> Option<Vec<usize>> {
    let subsets = 1u32..1 << candidates.len();
    let mut scores: Vec<Score> = subsets.map(|mask| score(candidates, mask)).collect();
    scores.sort();
    scores.into_iter().map(|score| score.members).find(|members| enough(members))
}

fn score(candidates: &[Cost], mask: u32) -> Score {
    let members: Vec<usize> = (0..candidates.len()).filter(|i| mask & (1 << i) != 0).collect();
    let sum = |field: fn(&Cost) -> u64| {
        members.iter().fold(0u64, |sum, i| sum.saturating_add(field(&candidates[*i])))
    };
    Score {
        cost_device_ms: sum(|c| c.cost_device_ms),
        at_risk_device_ms: sum(|c| c.at_risk_device_ms),
        gangs: mask.count_ones(),
        members,
    }
}

/// Cheapest per device first until it is enough, then the dearest that are not needed are given back.
fn greedy(candidates: &[Cost], enough: &impl Fn(&[usize]) -> bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    // a/b < c/d without division: costs and counts stay far below 2^63.
    order.sort_by(|&a, &b| {
        let (x, y) = (candidates[a], candidates[b]);
        let left = u128::from(x.cost_device_ms) * u128::from(y.devices.max(1));
        let right = u128::from(y.cost_device_ms) * u128::from(x.devices.max(1));
        left.cmp(&right).then(x.at_risk_device_ms.cmp(&y.at_risk_device_ms)).then(a.cmp(&b))
    });
    let mut chosen = first_enough(&order, enough);
    let mut back = chosen.clone();
    back.sort_by_key(|&i| (std::cmp::Reverse(candidates[i].cost_device_ms), i));
    for candidate in back {
        let without: Vec<usize> = chosen.iter().copied().filter(|&i| i != candidate).collect();
        if enough(&without) {
            chosen = without;
        }
    }
    chosen
}

/// The shortest prefix of `order` that is enough, sorted. More victims never make less room, so that
/// the length can be found by halving.
fn first_enough(order: &[usize], enough: &impl Fn(&[usize]) -> bool) -> Vec<usize> {
    let sorted = |length: usize| {
        let mut prefix = order[..length].to_vec();
        prefix.sort_unstable();
        prefix
    };
    let (mut low, mut high) = (1, order.len());
    while low < high {
        let middle = low.midpoint(high);
        if enough(&sorted(middle)) { high = middle } else { low = middle + 1 }
    }
    sorted(low)
}
