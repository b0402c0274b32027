//! How many pods and slices of one shape fit into every domain, where no leader is placed with them, and which domains
//! have room for how many.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::count::{Counter, Tally};
use super::failure::Exclusions;
use super::shape::Cut;
use super::tree::{DomainId, Tree, ix};

/// See the module.
pub(super) struct Counts {
    pub(super) counter: Arc<Counter>,
    pub(super) tally: Tally,
    cut: Cut,
    fits: Fits,
    /// Level by level, the domains by what fits into them; of domains into which nothing fits some may be missing.
    classes: Vec<BTreeMap<Bare, Domains>>,
}

/// What fits into a domain without a leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bare {
    /// 0 below the level of the slices.
    pub(super) slices: i64,
    pub(super) pods: i64,
}

/// What fits into which domain.
enum Fits {
    /// Domain by domain.
    All(Vec<Bare>),
    /// Nothing fits into others.
    Some(BTreeMap<DomainId, Bare>),
}

/// A set of domains, in words of 64 neighbours.
#[derive(Default)]
pub(super) struct Domains {
    words: BTreeMap<u32, u64>,
    count: i64,
}

impl Counts {
    /// `fits` is domain by domain.
    pub(super) fn of_all(
        tree: &Tree,
        counter: Arc<Counter>,
        cut: Cut,
        fits: Vec<Bare>,
        tally: Tally,
    ) -> Self {
        let classes = (0..tree.levels.len()).map(|level| classify(&fits, tree.level(level)));
        let classes = classes.collect();
        Self { counter, tally, cut, fits: Fits::All(fits), classes }
    }

    /// As if nothing fitted anywhere, until [`Counts::set_leaf`] tells otherwise.
    pub(super) fn of_none(tree: &Tree, counter: Arc<Counter>, cut: Cut, tally: Tally) -> Self {
        let classes = tree.levels.iter().map(|_| BTreeMap::new()).collect();
        Self { counter, tally, cut, fits: Fits::Some(BTreeMap::new()), classes }
    }

    /// Sets how many pods fit into a leaf, and what that means for the domains above it.
    pub(super) fn set_leaf(&mut self, tree: &Tree, leaf: DomainId, pods: i64) {
        let lowest = tree.levels.len() - 1;
        let (mut domain, mut fit) = (leaf, self.cut.bare(lowest, pods, 0));
        for level in (0..=lowest).rev() {
            let before = self.fits.replace(domain, fit);
            if before == fit {
                return;
            }
            let classes = &mut self.classes[level];
            if let Some(domains) = classes.get_mut(&before) {
                domains.remove(domain);
                if domains.count == 0 {
                    classes.remove(&before);
                }
            }
            classes.entry(fit).or_default().insert(domain);
            if let Some(above) = level.checked_sub(1) {
                let gained = self.cut.whole(level, fit.pods) - self.cut.whole(level, before.pods);
                let gained_slices = fit.slices - before.slices;
                domain = tree.ancestor(domain, 1);
                let sum = self.fits.get(domain);
                fit = self.cut.bare(above, sum.pods + gained, sum.slices + gained_slices);
            }
        }
    }

    pub(super) fn fit(&self, domain: DomainId) -> Bare {
        self.fits.get(domain)
    }

    pub(super) fn exclusions(&self) -> Exclusions {
        self.counter.exclusions(&self.tally)
    }

    /// The domains of a level by what fits into them: the fewest slices first, then the fewest pods.
    pub(super) fn classes(&self, level: usize) -> &BTreeMap<Bare, Domains> {
        &self.classes[level]
    }

    /// Slices that fit into all domains of a level together.
    pub(super) fn slices(&self, level: usize) -> i64 {
        self.classes[level].iter().map(|(fit, domains)| fit.slices * domains.count).sum()
    }
}

impl Fits {
    fn get(&self, domain: DomainId) -> Bare {
        match self {
            Self::All(fits) => fits[ix(domain)],
            Self::Some(fits) => fits.get(&domain).copied().unwrap_or_default(),
        }
    }

    /// Sets what fits; returns what did before.
    fn replace(&mut self, domain: DomainId, fit: Bare) -> Bare {
        match self {
            Self::All(fits) => std::mem::replace(&mut fits[ix(domain)], fit),
            Self::Some(fits) => fits.insert(domain, fit).unwrap_or_default(),
        }
    }
}

/// These domains by what fits into them. Few values are common among neighbours, so each word is collected first.
fn classify(fits: &[Bare], domains: Range<DomainId>) -> BTreeMap<Bare, Domains> {
    let mut classes: BTreeMap<Bare, Domains> = BTreeMap::new();
    let mut word: Vec<(Bare, u64)> = Vec::new();
    for domain in domains.clone() {
        let (fit, bit) = (fits[ix(domain)], 1 << (domain % 64));
        match word.iter_mut().find(|(known, _)| *known == fit) {
            Some((_, bits)) => *bits |= bit,
            None => word.push((fit, bit)),
        }
        if domain % 64 == 63 || domain + 1 == domains.end {
            for (fit, bits) in word.drain(..) {
                classes.entry(fit).or_default().insert_word(domain / 64, bits);
            }
        }
    }
    classes
}

impl Domains {
    fn insert(&mut self, domain: DomainId) {
        self.insert_word(domain / 64, 1 << (domain % 64));
    }

    fn insert_word(&mut self, position: u32, bits: u64) {
        let word = self.words.entry(position).or_insert(0);
        self.count += i64::from((bits & !*word).count_ones());
        *word |= bits;
    }

    fn remove(&mut self, domain: DomainId) {
        let bit = 1 << (domain % 64);
        if let Some(word) = self.words.get_mut(&(domain / 64)) {
            self.count -= i64::from(*word & bit != 0);
            *word &= !bit;
            if *word == 0 {
                self.words.remove(&(domain / 64));
            }
        }
    }

    /// In order.
    pub(super) fn iter(&self) -> impl Iterator<Item = DomainId> {
        self.words.iter().flat_map(|(position, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| position * 64 + bit)
        })
    }
}
