//! Dominant resource share: how far above its quota a queue or cohort is, compared with what there is to borrow.
//!
//! For each resource: what the node uses above its quota (over all flavors), divided by what its parent could lend;
//! the largest of these, divided by the node's weight. All comparisons are exact; there are no floats and no rounding.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::name::{FlavorResource, ResourceName};
use super::quota::{Ledger, NodeId};
use super::weight::FairWeight;
use super::workload::Usage;

/// A non-negative fraction; the denominator is positive.
#[derive(Clone, Copy, Debug)]
struct Fraction {
    numerator: u128,
    denominator: u128,
}

impl Fraction {
    const ZERO: Self = Self { numerator: 0, denominator: 1 };

    /// Compares exactly without multiplying, so that no size of terms can overflow: whole parts first, then the
    /// reciprocals of what is left, as in Euclid's algorithm (at most some 180 steps for 128-bit terms).
    fn compare(self, other: Self) -> Ordering {
        let (mut a, mut b) = (self, other);
        let mut flipped = false;
        loop {
            let wholes = (a.numerator / a.denominator).cmp(&(b.numerator / b.denominator));
            let (rest_a, rest_b) = (a.numerator % a.denominator, b.numerator % b.denominator);
            let order = match (wholes, rest_a, rest_b) {
                (Ordering::Equal, 0, 0) => Ordering::Equal,
                (Ordering::Equal, 0, _) => Ordering::Less,
                (Ordering::Equal, _, 0) => Ordering::Greater,
                (Ordering::Equal, _, _) => {
                    a = Self { numerator: a.denominator, denominator: rest_a };
                    b = Self { numerator: b.denominator, denominator: rest_b };
                    flipped = !flipped;
                    continue;
                }
                (Ordering::Less | Ordering::Greater, _, _) => wholes,
            };
            return if flipped { order.reverse() } else { order };
        }
    }
}

/// The dominant resource share of one node.
///
/// A lower share goes first when workloads are admitted; a higher one gives way first when workloads are preempted.
#[derive(Clone, Debug)]
pub struct Share {
    weight: FairWeight,
    /// Largest of borrowed / lendable over the resources, before the weight counts.
    unweighted: Fraction,
    borrowed: BTreeSet<FlavorResource>,
}

impl Share {
    /// The share of `node` as `ledger` shows it. A root has none, and so has a queue without a cohort.
    #[must_use]
    pub fn of(ledger: &Ledger<'_>, node: NodeId) -> Self {
        let tree = ledger.tree();
        let mut share = Self {
            weight: tree.weight(node),
            unweighted: Fraction::ZERO,
            borrowed: BTreeSet::new(),
        };
        let Some(parent) = tree.parent(node) else { return share };
        let mut borrowed: BTreeMap<&ResourceName, i64> = BTreeMap::new();
        for (fr, quota) in tree.subtree_quotas(node) {
            let above = ledger.usage(node, fr).saturating_sub(quota);
            if above > 0 {
                let total = borrowed.entry(&fr.resource).or_insert(0);
                *total = total.saturating_add(above);
                share.borrowed.insert(fr.clone());
            }
        }
        if borrowed.is_empty() {
            return share;
        }
        let lendable = tree.lendable(parent);
        for (resource, amount) in borrowed {
            let limit = lendable.get(resource).copied().unwrap_or(0);
            if limit > 0 {
                let ratio = Fraction {
                    numerator: u128::from(amount.unsigned_abs()),
                    denominator: u128::from(limit.unsigned_abs()),
                };
                if ratio.compare(share.unweighted).is_gt() {
                    share.unweighted = ratio;
                }
            }
        }
        share
    }

    /// Whether the share is 0. A node that borrows only what its cohort lends none of has a share of 0 and borrows.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.unweighted.numerator == 0
    }

    /// Whether the node is above its quota on any of `requested` that is more than 0.
    #[must_use]
    pub fn borrows_any(&self, requested: &Usage) -> bool {
        requested.iter().any(|(fr, &amount)| amount > 0 && self.borrowed.contains(fr))
    }

    /// Whether the share is infinite: a node of weight 0 that borrows.
    #[must_use]
    pub fn is_infinite(&self) -> bool {
        self.weight == FairWeight::ZERO && !self.borrowed.is_empty()
    }

    /// Compares two shares; two infinite ones by what they are without their weights.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self.is_infinite(), other.is_infinite()) {
            (true, true) => self.unweighted.compare(other.unweighted),
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.weighted().compare(other.weighted()),
        }
    }

    /// The share divided by the weight; numerator below 2^93 and denominator below 2^127.
    fn weighted(&self) -> Fraction {
        if self.is_zero() {
            return Fraction::ZERO;
        }
        let weight = u128::from(self.weight.nano_units());
        assert!(weight > 0, "a share that is neither 0 nor infinite has a weight");
        Fraction {
            numerator: self.unweighted.numerator * u128::from(FairWeight::ONE.nano_units()),
            denominator: self.unweighted.denominator * weight,
        }
    }
}

#[cfg(test)]
mod tests;
