//! How good a flavor is for a request, and which of two is better.

use super::super::model::{FlavorPreference, FlavorSearch, Fungibility};
use super::Mode;
use super::oracle::Possibility;

/// How a flavor could be had, in more detail than [`Mode`]. Later variants are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    NoFit,
    /// Quota would do, but nobody can be preempted.
    NoCandidates,
    /// By preempting in the own queue too.
    Preempt,
    /// By preempting in other queues only.
    Reclaim,
    Fit,
}

impl From<Possibility> for Way {
    fn from(possibility: Possibility) -> Self {
        match possibility {
            Possibility::NoCandidates => Self::NoCandidates,
            Possibility::Preempt => Self::Preempt,
            Possibility::Reclaim => Self::Reclaim,
        }
    }
}

impl Way {
    pub(super) fn mode(self) -> Mode {
        match self {
            Self::NoFit => Mode::NoFit,
            Self::NoCandidates | Self::Preempt | Self::Reclaim => Mode::Preempt,
            Self::Fit => Mode::Fit,
        }
    }
}

/// How good a flavor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grade {
    pub way: Way,
    /// From how far quota would come; 0 is the queue itself.
    pub borrow_height: u32,
}

impl Grade {
    pub(super) const BEST: Self = Self { way: Way::Fit, borrow_height: 0 };
    pub(super) const WORST: Self = Self { way: Way::NoFit, borrow_height: u32::MAX };

    /// Whether this grade is better than `other`.
    pub(super) fn is_preferred_to(self, other: Self, fungibility: &Fungibility) -> bool {
        if self.way == Way::NoFit || other.way == Way::NoFit {
            return self.way != Way::NoFit;
        }
        // Without candidates nothing happens in this cycle, whatever the preference is.
        let is_stuck = |grade: Self| grade.way == Way::NoCandidates;
        if is_stuck(self) != is_stuck(other) {
            return is_stuck(other);
        }
        let by_way = self.way.cmp(&other.way);
        let by_height = other.borrow_height.cmp(&self.borrow_height);
        match fungibility.preference {
            FlavorPreference::BorrowingOverPreemption => by_way.then(by_height),
            FlavorPreference::PreemptionOverBorrowing => by_height.then(by_way),
        }
        .is_gt()
    }

    /// Whether the search goes on although this flavor is there.
    pub(super) fn asks_for_more(self, fungibility: &Fungibility) -> bool {
        match self.way {
            Way::NoFit | Way::NoCandidates => true,
            Way::Preempt | Way::Reclaim
                if fungibility.when_can_preempt == FlavorSearch::TryNextFlavor =>
            {
                true
            }
            Way::Preempt | Way::Reclaim | Way::Fit => {
                self.borrow_height > 0 && fungibility.when_can_borrow == FlavorSearch::TryNextFlavor
            }
        }
    }
}
