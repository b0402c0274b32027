//! What is wrong with a device or a node.

use serde::Serialize;
use sluice::wire::pb;

use super::ReasonView;
use super::node::health_word;

/// Something that was seen of a device or node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FaultView {
    /// What.
    pub(crate) reason: ReasonView,
    /// What it makes of the device; `Healthy`: worth knowing, no more.
    pub(crate) health: &'static str,
    /// What is to be done.
    pub(crate) action: &'static str,
    /// Links between devices are down.
    pub(crate) urgent: bool,
    /// Where it was learned.
    pub(crate) source: String,
    /// Time since it was first seen.
    pub(crate) since_age_ms: u64,
    /// Time since it was last seen.
    pub(crate) seen_age_ms: u64,
    /// How often it was seen.
    pub(crate) count: u64,
}

/// A node as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct NodeHealthView {
    /// Its health.
    pub(crate) health: &'static str,
    /// What is to be done.
    pub(crate) action: &'static str,
    /// What is wrong with it, worst first.
    pub(crate) faults: Vec<FaultView>,
    /// How its kernel's log is read.
    pub(crate) kernel_log: Option<KernelLogView>,
}

/// How the kernel's log of a node is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct KernelLogView {
    /// Why it is not read; `null` while it is.
    pub(crate) problem: Option<String>,
    /// Records read.
    pub(crate) records: u64,
    /// Events about devices.
    pub(crate) events: u64,
    /// Messages that only raised the count of an event.
    pub(crate) alike: u64,
    /// Messages of the driver that could not be understood.
    pub(crate) unparsed: u64,
    /// Records that were overwritten before they could be read.
    pub(crate) missed: u64,
    /// Messages that did not come from the kernel.
    pub(crate) foreign: u64,
}

impl FaultView {
    /// As its agent tells it.
    pub(crate) fn of(fault: &pb::Fault) -> Self {
        Self {
            reason: ReasonView::of(fault.reason.as_ref()),
            health: health_word(fault.health()),
            action: action_word(fault.action()),
            urgent: fault.urgent,
            source: fault.source.clone(),
            since_age_ms: fault.since_age_ms,
            seen_age_ms: fault.seen_age_ms,
            count: fault.count,
        }
    }
}

impl NodeHealthView {
    /// As its agent tells it.
    pub(crate) fn of(health: &pb::NodeHealth) -> Self {
        Self {
            health: health_word(health.health()),
            action: action_word(health.action()),
            faults: health.faults.iter().map(FaultView::of).collect(),
            kernel_log: health.kernel_log.as_ref().map(|log| KernelLogView {
                problem: super::workload::non_empty(&log.problem),
                records: log.records,
                events: log.events,
                alike: log.alike,
                unparsed: log.unparsed,
                missed: log.missed,
                foreign: log.foreign,
            }),
        }
    }
}

/// The word for what is to be done.
pub(crate) fn action_word(action: pb::Action) -> &'static str {
    match action {
        pb::Action::Unspecified | pb::Action::None => "none",
        pb::Action::RestartApp => "restart-app",
        pb::Action::RunDiagnostics => "run-diagnostics",
        pb::Action::RestartFabricManager => "restart-fabric-manager",
        pb::Action::ContactSupport => "contact-support",
        pb::Action::DrainAndReset => "drain-and-reset",
        pb::Action::Reset => "reset",
        pb::Action::Reboot => "reboot",
        pb::Action::Replace => "replace",
    }
}
