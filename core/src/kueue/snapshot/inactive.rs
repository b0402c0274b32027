//! Why a queue admits nothing.

use std::fmt;

use super::super::name::{CheckName, CohortName, FlavorName};
use super::cohorts::COHORT_DEPTH_MAX;

/// Why a queue admits nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InactiveReason {
    /// It is stopped.
    Stopped,
    /// It offers a flavor that does not exist.
    FlavorNotFound(FlavorName),
    /// It offers a flavor whose topology does not exist.
    TopologyNotFound(FlavorName),
    /// It names an admission check that does not exist.
    CheckNotFound(CheckName),
    /// The controller of one of its admission checks is not there.
    CheckInactive(CheckName),
    /// Its cohorts form a circle or nest deeper than [`COHORT_DEPTH_MAX`].
    CohortsUnusable(CohortName),
}

impl InactiveReason {
    /// A stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Stopped => "Stopped",
            Self::FlavorNotFound(_) => "FlavorNotFound",
            Self::TopologyNotFound(_) => "TopologyNotFound",
            Self::CheckNotFound(_) => "AdmissionCheckNotFound",
            Self::CheckInactive(_) => "AdmissionCheckInactive",
            Self::CohortsUnusable(_) => "CohortsUnusable",
        }
    }
}

impl fmt::Display for InactiveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => write!(f, "the queue is stopped; set its stop policy to None"),
            Self::FlavorNotFound(flavor) => {
                write!(f, "flavor \"{flavor}\" does not exist; create it or drop it from the queue")
            }
            Self::TopologyNotFound(flavor) => {
                write!(f, "the topology of flavor \"{flavor}\" does not exist; create it")
            }
            Self::CheckNotFound(check) => {
                write!(
                    f,
                    "admission check \"{check}\" does not exist; create it or drop it from the queue"
                )
            }
            Self::CheckInactive(check) => {
                write!(f, "admission check \"{check}\" is not active; start its controller")
            }
            Self::CohortsUnusable(cohort) => write!(
                f,
                "the cohorts above \"{cohort}\" form a circle or nest deeper than {COHORT_DEPTH_MAX}; fix a parent name"
            ),
        }
    }
}
