//! The arbiter's whole state.

use std::collections::BTreeMap;

use sluice_core::arbiter::{Config, Node, Snapshot};
use sluice_core::drain::Drain;
use sluice_core::id::NodeName;
use sluice_core::queue::{Queue, Quota};
use sluice_core::workload::Workload;

use crate::wire::{WireError, field, node, pb};

impl From<&Snapshot> for pb::RecordStart {
    fn from(snapshot: &Snapshot) -> Self {
        let avoided = snapshot.avoid_until.iter();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: Some((&snapshot.config).into()),
            now: Some(field::timestamp(snapshot.now)),
            started_at: Some(field::timestamp(snapshot.started_at)),
            nodes: snapshot.nodes.iter().map(|(name, node)| node_out(name, node)).collect(),
            workloads: snapshot.workloads.values().map(Into::into).collect(),
            drains: snapshot.drains.values().map(Into::into).collect(),
            avoid_until: avoided.map(|(n, at)| (n.to_string(), field::timestamp(*at))).collect(),
            next_drain: snapshot.next_drain,
            frozen_by_hand: snapshot.frozen_by_hand.clone(),
            awaited: field::texts(&snapshot.awaited),
            retry_at: snapshot.retry_at.map(field::timestamp),
            breaker_open: snapshot.breaker_open,
            dirty: snapshot.dirty,
        }
    }
}

impl TryFrom<&pb::RecordStart> for Snapshot {
    type Error = WireError;

    fn try_from(start: &pb::RecordStart) -> Result<Self, WireError> {
        let config = Config::try_from(field::required("config", start.config.as_ref())?);
        let workload = |w| Workload::try_from(w).map(|w| (w.spec.name.clone(), w));
        let drain = |d| Drain::try_from(d).map(|d| (d.id.clone(), d));
        let avoided = start.avoid_until.iter().map(|(name, at)| {
            Ok((field::name("avoid_until", name)?, field::time("avoid_until", at)?))
        });
        Ok(Self {
            config: config.map_err(|error| error.within("config"))?,
            now: field::required_time("now", start.now.as_ref())?,
            started_at: field::required_time("started_at", start.started_at.as_ref())?,
            nodes: start.nodes.iter().map(node_in).collect::<Result<_, _>>()?,
            workloads: start.workloads.iter().map(workload).collect::<Result<_, _>>()?,
            drains: start.drains.iter().map(drain).collect::<Result<_, _>>()?,
            avoid_until: avoided.collect::<Result<_, _>>()?,
            next_drain: start.next_drain,
            frozen_by_hand: start.frozen_by_hand.clone(),
            awaited: field::names("awaited", &start.awaited)?,
            retry_at: field::optional_time("retry_at", start.retry_at.as_ref())?,
            breaker_open: start.breaker_open,
            dirty: start.dirty,
        })
    }
}

fn node_out(name: &NodeName, node: &Node) -> pb::RecordNode {
    pb::RecordNode {
        name: name.to_string(),
        connected: node.connected,
        since: Some(field::timestamp(node.since)),
        devices: node.devices.iter().map(|(id, d)| node::device_out(id, d)).collect(),
        workers: node.workers.iter().map(|(id, w)| node::worker_out(id, w)).collect(),
    }
}

fn node_in(message: &pb::RecordNode) -> Result<(NodeName, Node), WireError> {
    let value = Node {
        connected: message.connected,
        since: field::required_time("since", message.since.as_ref())?,
        devices: message.devices.iter().map(node::device_in).collect::<Result<_, _>>()?,
        workers: message.workers.iter().map(node::worker_in).collect::<Result<_, _>>()?,
    };
    Ok((field::name("name", &message.name)?, value))
}

impl From<&Config> for pb::RecordConfig {
    fn from(config: &Config) -> Self {
        Self {
            epoch: config.epoch,
            queues: config.queues.iter().map(queue_out).collect(),
            drain_deadline_ms: config.drain_deadline_ms,
            arm_timeout_ms: config.arm_timeout_ms,
            release_grace_ms: config.release_grace_ms,
            start_timeout_ms: config.start_timeout_ms,
            launcher_gone_ms: config.launcher_gone_ms,
            recovery_ms: config.recovery_ms,
            productive_floor_ms: config.productive_floor_ms,
            drains_per_hour: config.drains_per_hour,
            restart_assumed_ms: config.restart_assumed_ms,
            unseen_work_ms_max: config.unseen_work_ms_max,
            checkpoint_drain: config.checkpoint_drain,
        }
    }
}

impl TryFrom<&pb::RecordConfig> for Config {
    type Error = WireError;

    fn try_from(config: &pb::RecordConfig) -> Result<Self, WireError> {
        Ok(Self {
            epoch: config.epoch,
            queues: config.queues.iter().map(queue_in).collect::<Result<_, _>>()?,
            drain_deadline_ms: config.drain_deadline_ms,
            arm_timeout_ms: config.arm_timeout_ms,
            release_grace_ms: config.release_grace_ms,
            start_timeout_ms: config.start_timeout_ms,
            launcher_gone_ms: config.launcher_gone_ms,
            recovery_ms: config.recovery_ms,
            productive_floor_ms: config.productive_floor_ms,
            drains_per_hour: config.drains_per_hour,
            restart_assumed_ms: config.restart_assumed_ms,
            unseen_work_ms_max: config.unseen_work_ms_max,
            checkpoint_drain: config.checkpoint_drain,
        })
    }
}

fn queue_out(queue: &Queue) -> pb::RecordQueue {
    let quota = |quota: &Quota| pb::RecordQuota {
        nominal: quota.nominal,
        borrowing_limit: quota.borrowing_limit,
    };
    pb::RecordQueue {
        name: queue.name.to_string(),
        aliases: queue.aliases.iter().map(ToString::to_string).collect(),
        cohort: queue.cohort.clone(),
        quotas: queue.quotas.iter().map(|(name, q)| (name.to_string(), quota(q))).collect(),
        preempts_lower_priority: queue.preempts_lower_priority,
        reclaims_within_cohort: queue.reclaims_within_cohort,
    }
}

fn queue_in(queue: &pb::RecordQueue) -> Result<Queue, WireError> {
    let quota = |(name, quota): (&String, &pb::RecordQuota)| {
        let value = Quota { nominal: quota.nominal, borrowing_limit: quota.borrowing_limit };
        Ok((field::name("quotas", name)?, value))
    };
    let aliases = queue.aliases.iter().map(|alias| field::name("aliases", alias));
    Ok(Queue {
        name: field::name("name", &queue.name)?,
        aliases: aliases.collect::<Result<_, _>>()?,
        cohort: queue.cohort.clone(),
        quotas: queue.quotas.iter().map(quota).collect::<Result<BTreeMap<_, _>, WireError>>()?,
        preempts_lower_priority: queue.preempts_lower_priority,
        reclaims_within_cohort: queue.reclaims_within_cohort,
    })
}
