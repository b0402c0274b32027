//! The arbiter's whole state.

use sluice_core::arbiter::{Config, Node, NodeFaults, Snapshot};
use sluice_core::drain::Drain;
use sluice_core::id::NodeName;
use sluice_core::queue::Queues;
use sluice_core::scheduler::{Rule, Rules};
use sluice_core::unit::Time;
use sluice_core::workload::Workload;

use crate::queues;
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
            wave_open: snapshot.wave_open,
            known_before: snapshot.known_before as u64,
            recalled: snapshot.recalled.iter().map(|(name, f)| faults_out(name, f)).collect(),
            dirty: snapshot.dirty,
            hold_offs: snapshot
                .hold_offs
                .iter()
                .map(|(n, at)| (n.to_string(), hold_off(*at)))
                .collect(),
        }
    }
}

fn hold_off(free_since: Option<Time>) -> pb::RecordHoldOff {
    pb::RecordHoldOff { free_since: free_since.map(field::timestamp) }
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
        let hold_offs = start.hold_offs.iter().map(|(name, hold_off)| {
            let since = field::optional_time("hold_offs", hold_off.free_since.as_ref())?;
            Ok((field::name("hold_offs", name)?, since))
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
            hold_offs: hold_offs.collect::<Result<_, WireError>>()?,
            breaker_open: start.breaker_open,
            wave_open: start.wave_open,
            known_before: usize::try_from(start.known_before).unwrap_or(usize::MAX),
            recalled: start.recalled.iter().map(faults_in).collect::<Result<_, _>>()?,
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
        labels: node.labels.clone(),
        fault_at: node.fault_at.map(field::timestamp),
        joined_at: Some(field::timestamp(node.joined_at)),
    }
}

/// Faults of a node, as they are stored.
#[must_use]
pub fn faults_out(node: &NodeName, faults: &NodeFaults) -> pb::NodeFaults {
    pb::NodeFaults {
        node: node.to_string(),
        devices: field::texts(&faults.devices),
        at: faults.at.map(field::timestamp),
    }
}

/// Faults of a node, as they were stored.
///
/// # Errors
/// At the first field that cannot be used.
pub fn faults_in(message: &pb::NodeFaults) -> Result<(NodeName, NodeFaults), WireError> {
    let faults = NodeFaults {
        devices: field::names("devices", &message.devices)?,
        at: field::optional_time("at", message.at.as_ref())?,
    };
    Ok((field::name("node", &message.node)?, faults))
}

fn node_in(message: &pb::RecordNode) -> Result<(NodeName, Node), WireError> {
    let since = field::required_time("since", message.since.as_ref())?;
    // Records of versions that did not know it: the last connection was taken for it.
    let joined_at = field::optional_time("joined_at", message.joined_at.as_ref())?;
    let value = Node {
        connected: message.connected,
        since,
        joined_at: joined_at.unwrap_or(since),
        devices: message.devices.iter().map(node::device_in).collect::<Result<_, _>>()?,
        workers: message.workers.iter().map(node::worker_in).collect::<Result<_, _>>()?,
        labels: message.labels.clone(),
        fault_at: field::optional_time("fault_at", message.fault_at.as_ref())?,
    };
    Ok((field::name("name", &message.name)?, value))
}

impl From<&Config> for pb::RecordConfig {
    fn from(config: &Config) -> Self {
        Self {
            epoch: config.epoch,
            queues_source: config.queues.source.clone(),
            fair_sharing: config.fair_sharing,
            rules: config.rules.iter().map(|rule| rule.to_string()).collect(),
            hold_off_ms_max: config.hold_off_ms_max,
            drain_deadline_ms: config.drain_deadline_ms,
            drain_deadlines_ms: config.drain_deadlines_ms.clone(),
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
            queues: queues_in(&config.queues_source)?,
            // Facts of the program, not of the record.
            generations: crate::slices::table(),
            fair_sharing: config.fair_sharing,
            rules: rules_in(&config.rules)?,
            hold_off_ms_max: config.hold_off_ms_max,
            drain_deadline_ms: config.drain_deadline_ms,
            drain_deadlines_ms: config.drain_deadlines_ms.clone(),
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

fn queues_in(source: &str) -> Result<Queues, WireError> {
    if source.is_empty() {
        return Ok(Queues::without_file());
    }
    let expected = |problem: String| format!("a queues file without problems: {problem}");
    queues::served("queues_source", source.to_owned())
        .map_err(|problem| WireError::new("queues_source", "a text", expected(problem.to_string())))
}

fn rules_in(names: &[String]) -> Result<Rules, WireError> {
    let rule = |name: &String| {
        name.parse::<Rule>().map_err(|problem| WireError::new("rules", name, problem))
    };
    names.iter().map(rule).collect()
}
