//! Explanations on the wire.

use sluice_core::arbiter::{Change, Explanation, FlavorTried, QuotaLevel, Remedy};
use sluice_core::reason::Reason;

use crate::wire::{field, pb};

/// Most what-if changes of one question.
const CHANGES_MAX: usize = 16;

/// What the request wants to be different.
///
/// # Errors
/// [`Reason::BadWhatIf`] for the first text that cannot be read, [`Reason::LimitReached`] for too many.
pub fn changes(request: &pb::ExplainRequest) -> Result<Vec<Change>, Reason> {
    if request.what_if.len() > CHANGES_MAX {
        let what = "what-if changes of one question".to_owned();
        return Err(Reason::LimitReached { what, limit: CHANGES_MAX as u64 });
    }
    request.what_if.iter().map(|text| text.parse()).collect()
}

/// Adds all of `explanation` but its candidates.
pub fn add_explanation(answer: &mut pb::ExplainResponse, explanation: &Explanation) {
    answer.outcome = Some((&explanation.outcome).into());
    answer.decider = Some(pb::Decider {
        kueue: explanation.decider.kueue.as_str().to_owned(),
        sluice: explanation.decider.sluice.iter().map(ToString::to_string).collect(),
    });
    answer.flavors = explanation.flavors.iter().map(flavor).collect();
    answer.quota = explanation.quota.iter().map(level).collect();
    answer.remedies = explanation.remedies.iter().map(remedy).collect();
}

fn flavor(tried: &FlavorTried) -> pb::FlavorTried {
    pb::FlavorTried {
        ranks: tried.ranks,
        flavor: tried.flavor.clone(),
        mode: tried.mode.code().to_owned(),
        chosen: tried.is_chosen,
        reasons: tried.reasons.iter().map(Into::into).collect(),
    }
}

fn level(level: &QuotaLevel) -> pb::QuotaLevel {
    pb::QuotaLevel {
        name: level.name.clone(),
        cohort: level.is_cohort,
        flavor: level.flavor.clone(),
        resource: level.resource.clone(),
        nominal: level.nominal,
        borrowing_limit: level.borrowing_limit,
        lending_limit: level.lending_limit,
        subtree: level.subtree,
        used: level.used,
        available: level.available,
    }
}

fn remedy(remedy: &Remedy) -> pb::Remedy {
    pb::Remedy {
        what_if: remedy.what_if.iter().map(ToString::to_string).collect(),
        reason: Some((&remedy.reason).into()),
        outcome: Some((&remedy.outcome).into()),
        at: remedy.at.map(field::timestamp),
    }
}
