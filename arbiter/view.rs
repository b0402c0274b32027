//! The state as people are shown it: core's values with what depends on the moment of asking.

use sluice::wire::pb;
use sluice_core::arbiter::{Arbiter, Candidate, Node, QueueUsage};
use sluice_core::drain::DrainState;
use sluice_core::id::{NodeName, QueueName, WorkloadName};
use sluice_core::kueue::model::{ClusterQueue, PreemptionPolicy};
use sluice_core::workload::{Phase, Workload};

use crate::agents::Agents;
use crate::run::View;

/// Most names in `Workload.ahead`; the count tells how many there are.
const AHEAD_MAX: usize = 16;

/// A workload with its place in the queue and the ages of things.
pub(crate) fn workload(view: &View<'_>, workload: &Workload) -> pb::Workload {
    let now = view.now;
    let mut message = pb::Workload::from(workload);
    message.checkpoint_age_ms = workload.checkpoint_at.map(|at| now.ms_since(at));
    message.told_to_end = was_told_to_end(view.arbiter, workload);
    if workload.phase == Phase::Pending {
        let ahead = view.arbiter.ahead_of(&workload.spec.name);
        message.ahead_count = u32::try_from(ahead.len()).unwrap_or(u32::MAX);
        message.ahead = ahead.iter().take(AHEAD_MAX).map(ToString::to_string).collect();
        message.waited_ms = Some(now.ms_since(workload.phase_since));
    }
    message
}

/// True if a release of its present workers was ordered. It is carried through whatever becomes of the workload.
fn was_told_to_end(arbiter: &Arbiter, workload: &Workload) -> bool {
    let drain = workload.last_drain.as_ref().and_then(|id| arbiter.drain(id));
    drain.is_some_and(|drain| {
        drain.attempt == workload.attempt
            && drain.history.iter().any(|t| t.state == DrainState::Releasing)
    })
}

/// A workload by name; `None` if there is none.
pub(crate) fn workload_named(view: &View<'_>, name: &WorkloadName) -> Option<pb::Workload> {
    view.arbiter.workload(name).map(|found| workload(view, found))
}

/// A node: what core knows of it and what its agent has reported.
pub(crate) fn node(
    view: &View<'_>,
    agents: &Agents,
    name: &NodeName,
    node: &Node,
) -> pb::NodeSummary {
    let mut known = agents.view(name);
    let silent_ms = view.now.ms_since(node.since);
    let reason = pb::Reason::from(&view.arbiter.node_reason(name));
    if let Some(known) = known.as_mut().filter(|_| !node.connected) {
        forget_health(&mut known.report, &reason);
    }
    pb::NodeSummary {
        name: name.to_string(),
        connected: node.connected,
        reason: Some(reason),
        last_seen_ms: known.as_ref().map_or(silent_ms, |k| k.last_seen_ms),
        version: known.as_ref().map(|k| k.version.clone()).unwrap_or_default(),
        session: known.as_ref().map_or(0, |k| k.session),
        report: known.map(|k| k.report),
    }
}

/// What was last heard of a silent node says nothing about how its devices are now.
fn forget_health(report: &mut pb::NodeReport, silence: &pb::Reason) {
    for device in &mut report.devices {
        device.set_health(pb::Health::Unknown);
        device.health_reason = Some(silence.clone());
    }
}

/// Queues with their use and the numbers of their workloads.
pub(crate) fn queues(arbiter: &Arbiter) -> Vec<pb::Queue> {
    let queue = |queue: &ClusterQueue| {
        let name: QueueName = queue.name.as_str().parse().ok()?;
        let count = |counts: fn(Phase) -> bool| {
            let in_it = |w: &&Workload| counts(w.phase) && w.spec.queue == name;
            let found = arbiter.workloads().values().filter(in_it).count();
            u32::try_from(found).unwrap_or(u32::MAX)
        };
        let policies = &queue.preemption;
        let preempts = policies.within_queue != PreemptionPolicy::Never
            || policies.reclaim_within_cohort != PreemptionPolicy::Never;
        Some(pb::Queue {
            name: name.to_string(),
            cohort: queue.cohort.as_ref().map(ToString::to_string).unwrap_or_default(),
            usage: arbiter.usage(&name).iter().map(usage).collect(),
            pending: count(|phase| phase == Phase::Pending),
            admitted: count(Phase::holds_devices),
            preempts,
            local_queues: arbiter.queues().local_to(queue).map(ToString::to_string).collect(),
        })
    };
    arbiter.queues().setup.queues.iter().filter_map(queue).collect()
}

fn usage(usage: &QueueUsage) -> pb::QueueUsage {
    pb::QueueUsage {
        flavor: usage.flavor.clone(),
        resource: usage.resource.to_string(),
        nominal: usage.nominal,
        used: usage.used,
        borrowing_limit: usage.borrowing_limit,
    }
}

/// A workload that could make room.
pub(crate) fn candidate(candidate: &Candidate) -> pb::Candidate {
    pb::Candidate {
        workload: candidate.workload.to_string(),
        priority: candidate.priority,
        devices: candidate.devices,
        cost_device_ms: candidate.cost_device_ms,
        at_risk_device_ms: candidate.at_risk_device_ms,
        chosen: candidate.chosen,
        reason: Some((&candidate.reason).into()),
        assumed_restart_ms: candidate.assumed_restart_ms,
    }
}
