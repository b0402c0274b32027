//! Why a workload waits, and why a flavor cannot be used for it.

use std::fmt;

use super::matching::Taint;
use super::name::{FlavorName, FlavorResource, ResourceName};
use super::tas::Failure;

/// Why a workload has no quota yet. Later variants are more severe when several apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PendingReason {
    /// Nothing decided it this time; it will be looked at again.
    PendingEvaluation,
    /// Quota would do, but its pods cannot be placed as the topology requires.
    TopologyPlacementFailed,
    /// Quota is used by others.
    WaitingForQuota,
    /// It asks for more than its queue could ever have.
    ExceedsMaxQuota,
    /// No flavor of its queue suits its pods.
    NoMatchingFlavor,
    /// Victims have been chosen; it waits until they are gone.
    WaitingForPreemptedWorkloads,
    /// Its namespace may not use the queue, or the queue does not exist.
    Misconfigured,
    /// Its queue is stopped or unusable.
    Suspended,
}

impl PendingReason {
    /// Kueue's stable name of the reason, as in the condition `QuotaReserved=False`.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::PendingEvaluation => "PendingEvaluation",
            Self::TopologyPlacementFailed => "TopologyPlacementFailed",
            Self::WaitingForQuota => "WaitingForQuota",
            Self::ExceedsMaxQuota => "ExceedsMaxQuota",
            Self::NoMatchingFlavor => "NoMatchingFlavor",
            Self::WaitingForPreemptedWorkloads => "WaitingForPreemptedWorkloads",
            Self::Misconfigured => "Misconfigured",
            Self::Suspended => "Suspended",
        }
    }
}

/// Why a flavor cannot be used at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlavorReason {
    /// No flavor of the queue covers the resource.
    ResourceNotOffered(ResourceName),
    /// The flavor does not exist.
    FlavorNotFound(FlavorName),
    /// The workload's allowed flavors do not include it.
    NotAllowed(FlavorName),
    /// It was not the flavor chosen earlier in this cycle.
    NotNominated(FlavorName),
    /// Its nodes carry a taint that the pods do not tolerate.
    UntoleratedTaint {
        /// The flavor.
        flavor: FlavorName,
        /// Its taint.
        taint: Taint,
    },
    /// The pods insist on other node labels.
    AffinityMismatch(FlavorName),
    /// The pods ask for a topology and the flavor has none, or not the level they name.
    TopologyNotOffered(FlavorName),
    /// The flavor places by topology only, and the pods do not ask for it.
    TopologyOnly(FlavorName),
    /// The request, with what the same workload already takes, is more than the queue could ever have.
    ExceedsMaxQuota {
        /// What is asked for.
        fr: FlavorResource,
        /// How much, in the resource's unit.
        requested: i64,
        /// The most the queue could have.
        max: i64,
    },
    /// Too much is in use.
    InsufficientQuota {
        /// What is asked for.
        fr: FlavorResource,
        /// How much more would be needed, in the resource's unit.
        missing: i64,
    },
    /// Quota would do, but the pods cannot be placed.
    Placement(Failure),
    /// The pod set's resources were given flavors of no topology, or of several.
    NoSingleTopology,
}

impl FlavorReason {
    /// A stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::ResourceNotOffered(_) => "ResourceNotOffered",
            Self::FlavorNotFound(_) => "FlavorNotFound",
            Self::NotAllowed(_) => "FlavorNotAllowed",
            Self::NotNominated(_) => "FlavorNotNominated",
            Self::UntoleratedTaint { .. } => "UntoleratedTaint",
            Self::AffinityMismatch(_) => "AffinityMismatch",
            Self::TopologyNotOffered(_) => "TopologyNotOffered",
            Self::TopologyOnly(_) => "TopologyOnly",
            Self::ExceedsMaxQuota { .. } => "ExceedsMaxQuota",
            Self::InsufficientQuota { .. } => "InsufficientQuota",
            Self::Placement(failure) => failure.code(),
            Self::NoSingleTopology => "NoSingleTopology",
        }
    }
}

impl fmt::Display for FlavorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ResourceNotOffered(resource) => write!(
                f,
                "resource \"{resource}\" is in no group of the queue; add it to a resource group or do not request it"
            ),
            Self::FlavorNotFound(flavor) => {
                write!(f, "flavor \"{flavor}\" does not exist; create it or drop it from the queue")
            }
            Self::NotAllowed(flavor) => {
                write!(f, "flavor \"{flavor}\" is not among the workload's allowed flavors")
            }
            Self::NotNominated(flavor) => {
                write!(f, "flavor \"{flavor}\" was not chosen earlier in this cycle")
            }
            Self::UntoleratedTaint { flavor, taint } => write!(
                f,
                "flavor \"{flavor}\" has taint \"{}={}\" that the pods do not tolerate; add a toleration",
                taint.key, taint.value
            ),
            Self::AffinityMismatch(flavor) => write!(
                f,
                "flavor \"{flavor}\" has other labels than the pods' node selector or affinity asks for"
            ),
            Self::TopologyNotOffered(flavor) => write!(
                f,
                "flavor \"{flavor}\" has no topology with the level that the pods ask for"
            ),
            Self::TopologyOnly(flavor) => write!(
                f,
                "flavor \"{flavor}\" places by topology only; ask for a topology or use another flavor"
            ),
            Self::ExceedsMaxQuota { fr, requested, max } => write!(
                f,
                "{requested} of {fr} requested but the queue can have {max} at most; ask for less or raise its quota"
            ),
            Self::InsufficientQuota { fr, missing } => {
                write!(f, "{missing} more of {fr} needed; others use it now")
            }
            Self::Placement(failure) => write!(f, "{failure}"),
            Self::NoSingleTopology => write!(
                f,
                "the pod set's resources have flavors of no topology or of several; put them into one resource group"
            ),
        }
    }
}
