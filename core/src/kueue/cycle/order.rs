//! In which order the entries of a cycle are processed.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::super::whatif::WhatIf;
use super::super::workload::Workload;
use super::nominate::Entry;
use super::tournament::Tournament;
use super::{Options, Rule};

/// Entries still to be processed.
#[derive(Debug)]
pub(super) enum Order<'a> {
    /// In a fixed order.
    Classical(VecDeque<Entry<'a>>),
    /// By a tournament before every step.
    FairSharing(Tournament<'a>),
}

impl<'a> Order<'a> {
    pub(super) fn new(mut entries: Vec<Entry<'a>>, options: &'a Options<'a>) -> Self {
        entries.sort_by(|a, b| compare(a, b, options));
        if options.is_fair_sharing() {
            Self::FairSharing(Tournament::new(entries, options))
        } else {
            Self::Classical(entries.into())
        }
    }

    /// The entry to process next, as things are in `whatif`, which is left as it was.
    pub(super) fn next(&mut self, whatif: &mut WhatIf<'a>) -> Option<Entry<'a>> {
        match self {
            Self::Classical(entries) => entries.pop_front(),
            Self::FairSharing(tournament) => tournament.next(whatif),
        }
    }
}

/// Those that hold quota first, then those that borrow from nearer by, higher priority, longer waiting.
fn compare(a: &Entry<'_>, b: &Entry<'_>, options: &Options<'_>) -> Ordering {
    let rank = |entry: &Entry<'_>| {
        (entry.workload.reservation.is_none(), entry.plan.assignment.borrow_height)
    };
    rank(a).cmp(&rank(b)).then_with(|| compare_seniority(a.workload, b.workload, options))
}

/// Higher priority first, then longer waiting.
pub(super) fn compare_seniority(a: &Workload, b: &Workload, options: &Options<'_>) -> Ordering {
    let by_priority = if options.is_on(Rule::PriorityFirst) {
        b.effective_priority().cmp(&a.effective_priority())
    } else {
        Ordering::Equal
    };
    by_priority.then_with(|| a.queued_at_ms().cmp(&b.queued_at_ms()))
}
