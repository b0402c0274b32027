//! What came of each flavor that was tried.

use crate::arbiter::engine::quantity_of;
use crate::arbiter::waits::resource_of;
use crate::kueue::flavor::{Attempt, Mode};
use crate::kueue::reason::FlavorReason;
use crate::reason::Reason;
use crate::scheduler::FlavorsTried;

/// A flavor that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlavorTried {
    /// For how many ranks: those that reach the same nodes are tried together.
    pub ranks: u32,
    /// The flavor.
    pub flavor: String,
    /// How it could be had.
    pub mode: Mode,
    /// Whether it is the one that would be taken.
    pub is_chosen: bool,
    /// Why, or why not: at least one.
    pub reasons: Vec<Reason>,
}

/// The flavors that were tried for some ranks.
pub(super) fn tried(tried: &FlavorsTried) -> Vec<FlavorTried> {
    let flavor = |attempt: &Attempt| {
        let name = attempt.flavor.as_str();
        let choices = tried.chosen.iter().filter(|(_, c)| c.flavor == attempt.flavor);
        let chosen = choices.map(|(_, choice)| choice.mode).min();
        // That its pods find no place is known only once a flavor was chosen.
        let is_place = |reason: &&FlavorReason| match reason {
            FlavorReason::Placement(_) | FlavorReason::NoSingleTopology => true,
            FlavorReason::ResourceNotOffered(_)
            | FlavorReason::FlavorNotFound(_)
            | FlavorReason::NotAllowed(_)
            | FlavorReason::NotNominated(_)
            | FlavorReason::UntoleratedTaint { .. }
            | FlavorReason::AffinityMismatch(_)
            | FlavorReason::TopologyNotOffered(_)
            | FlavorReason::TopologyOnly(_)
            | FlavorReason::ExceedsMaxQuota { .. }
            | FlavorReason::InsufficientQuota { .. } => false,
        };
        let places = tried.reasons.iter().filter(is_place);
        let places = places.filter(|reason| chosen.is_some() && !attempt.details.contains(reason));
        let lacks = attempt.details.iter().chain(places).map(|reason| why(name, reason));
        let mut reasons: Vec<Reason> = lacks.collect();
        let mode = chosen.map_or(attempt.mode, |mode| mode.min(attempt.mode));
        if reasons.is_empty() {
            let flavor = name.to_owned();
            reasons.push(match mode {
                Mode::Fit => Reason::FlavorFits { flavor },
                Mode::Preempt | Mode::NoFit => Reason::FlavorNeedsVictims { flavor },
            });
        }
        let is_chosen = chosen.is_some();
        FlavorTried { ranks: tried.pods, flavor: name.to_owned(), mode, is_chosen, reasons }
    };
    tried.attempts.iter().map(flavor).collect()
}

fn why(flavor: &str, reason: &FlavorReason) -> Reason {
    let flavor = flavor.to_owned();
    match reason {
        FlavorReason::InsufficientQuota { fr, missing } => Reason::FlavorLacksQuota {
            flavor,
            resource: resource_of(fr),
            missing: quantity_of(&fr.resource, *missing),
        },
        FlavorReason::ExceedsMaxQuota { fr, requested, max } => Reason::FlavorExceedsQuota {
            flavor,
            resource: resource_of(fr),
            requested: quantity_of(&fr.resource, *requested),
            maximum: quantity_of(&fr.resource, *max),
        },
        FlavorReason::Placement(failure) => Reason::FlavorNotPlaced {
            flavor,
            failure: failure.code().to_owned(),
            why: failure.to_string(),
        },
        FlavorReason::ResourceNotOffered(_)
        | FlavorReason::FlavorNotFound(_)
        | FlavorReason::NotAllowed(_)
        | FlavorReason::NotNominated(_)
        | FlavorReason::UntoleratedTaint { .. }
        | FlavorReason::AffinityMismatch(_)
        | FlavorReason::TopologyNotOffered(_)
        | FlavorReason::TopologyOnly(_)
        | FlavorReason::NoSingleTopology => Reason::FlavorUnsuitable {
            flavor,
            mismatch: reason.code().to_owned(),
            why: reason.to_string(),
        },
    }
}
