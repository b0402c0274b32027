//! Nodes with their devices, volumes and workers.

mod volume;

use std::collections::BTreeMap;

use serde::Serialize;
use sluice::wire::pb;

pub(crate) use volume::{FindingView, MountView, ReaderView, SharedView, VolumeView};

use super::health::{FaultView, NodeHealthView, action_word};
use super::workload::non_empty;
use super::{CheckpointView, ReasonView};

/// A node as the arbiter knows it, or as its agent tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct NodeView {
    /// Its name.
    pub(crate) name: String,
    /// Whether its agent's stream is up.
    pub(crate) connected: bool,
    /// Why it is or is not.
    pub(crate) reason: ReasonView,
    /// Time since anything was heard of it; `null` if it never was.
    pub(crate) last_seen_ms: Option<u64>,
    /// Version of its agent.
    pub(crate) agent_version: Option<String>,
    /// Number of the stream since the arbiter's start.
    pub(crate) session: u64,
    /// Identity of the agent's state directory.
    pub(crate) node_uid: Option<String>,
    /// Changes with each boot.
    pub(crate) boot_id: Option<String>,
    /// Whether any of its accelerators is simulated.
    pub(crate) simulated: bool,
    /// Its labels, by which flavors and topologies know it.
    pub(crate) labels: BTreeMap<String, String>,
    /// Its accelerators.
    pub(crate) devices: Vec<DeviceView>,
    /// Its block devices.
    pub(crate) volumes: Vec<VolumeView>,
    /// Its workers.
    pub(crate) workers: Vec<WorkerView>,
    /// The node as a whole; `null` if its agent does not say.
    pub(crate) health: Option<NodeHealthView>,
    /// Pressure-stall information; `null` where the kernel has none.
    pub(crate) pressure: Option<PressureView>,
}

/// An accelerator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DeviceView {
    /// Its node.
    pub(crate) node: String,
    /// Its id there.
    pub(crate) id: String,
    /// Its number there.
    pub(crate) index: u32,
    /// The name by which it is requested.
    pub(crate) resource: String,
    /// Such as `nvidia-l4`. In JSON `kind` is what the whole document is.
    #[serde(rename = "device_kind")]
    pub(crate) kind: String,
    /// Whether it is simulated.
    pub(crate) simulated: bool,
    /// `Healthy`, `Degraded`, `Unhealthy` or `Unknown`; `Unknown` whenever its agent is silent.
    pub(crate) health: &'static str,
    /// Why.
    pub(crate) health_reason: ReasonView,
    /// What is to be done with it.
    pub(crate) action: &'static str,
    /// What is wrong with it or worth knowing, worst first.
    pub(crate) faults: Vec<FaultView>,
    /// Where it is on the PCI bus; `null` if not told.
    pub(crate) pci_bus_id: Option<String>,
    /// Its memory.
    pub(crate) memory_bytes: Option<u64>,
    /// Processes that hold it.
    pub(crate) holder_pids: Vec<u32>,
    /// Where the facts come from.
    pub(crate) source: String,
    /// How old they are; `null` if that is not known.
    pub(crate) age_ms: Option<u64>,
    /// The workload it is assigned to; `null` if none, or if nobody was asked.
    pub(crate) workload: Option<String>,
}

/// A worker process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct WorkerView {
    /// Its workload.
    pub(crate) workload: String,
    /// Which start of it.
    pub(crate) attempt: u32,
    /// Which member of the gang.
    pub(crate) rank: u32,
    /// Its main process.
    pub(crate) pid: u32,
    /// `Running`, `Exited` or `Unknown`.
    pub(crate) state: &'static str,
    /// For how long it has run.
    pub(crate) running_ms: u64,
    /// Live processes that belong to it.
    pub(crate) processes: u32,
    /// Its devices.
    pub(crate) devices: Vec<String>,
    /// Where its checkpoints are; `null` if it did not say.
    pub(crate) checkpoint_dir: Option<String>,
    /// Newest complete checkpoint.
    pub(crate) checkpoint: Option<CheckpointView>,
    /// Time since that was complete.
    pub(crate) checkpoint_age_ms: Option<u64>,
    /// Whether this start of the workload made it.
    pub(crate) checkpoint_is_of_this_attempt: bool,
    /// A newer one that is being written, or torn; `null` if there is none.
    pub(crate) incomplete_checkpoint: Option<String>,
    /// What is wrong with its checkpoints; `null` if nothing is.
    pub(crate) checkpoint_problem: Option<ReasonView>,
    /// The newest error of a device that was its program's own; `null` if there was none.
    pub(crate) device_fault: Option<ReasonView>,
    /// Time of one step, measured from outside.
    pub(crate) step_ms: Option<u64>,
    /// Time between checkpoints.
    pub(crate) save_interval_ms: Option<u64>,
    /// Time one save takes.
    pub(crate) save_ms: Option<u64>,
}

/// Share of the last 10, 60 and 300 s in which tasks were stalled. Unit: permille.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct PressureLineView {
    /// Of 10 s.
    pub(crate) avg10_permille: u32,
    /// Of 60 s.
    pub(crate) avg60_permille: u32,
    /// Of 300 s.
    pub(crate) avg300_permille: u32,
}

/// Pressure-stall information.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PressureView {
    /// Some tasks waited for a CPU.
    pub(crate) cpu_some: Option<PressureLineView>,
    /// Some waited for memory.
    pub(crate) memory_some: Option<PressureLineView>,
    /// All waited for memory.
    pub(crate) memory_full: Option<PressureLineView>,
    /// Some waited for I/O.
    pub(crate) io_some: Option<PressureLineView>,
    /// All waited for I/O.
    pub(crate) io_full: Option<PressureLineView>,
}

impl NodeView {
    /// As the arbiter says it. The health of a silent node's devices is not known, whatever was
    /// reported last.
    pub(crate) fn of(summary: &pb::NodeSummary) -> Self {
        let report = summary.report.clone().unwrap_or_default();
        let mut node = Self::of_report(&report);
        node.name.clone_from(&summary.name);
        node.connected = summary.connected;
        node.reason = ReasonView::of(summary.reason.as_ref());
        node.last_seen_ms = Some(summary.last_seen_ms);
        node.agent_version = non_empty(&summary.version);
        node.session = summary.session;
        for device in &mut node.devices {
            device.node.clone_from(&summary.name);
            if !summary.connected {
                device.health = health_word(pb::Health::Unknown);
                device.health_reason = node.reason.clone();
                device.action = action_word(pb::Action::None);
            }
        }
        for volume in &mut node.volumes {
            volume.node.clone_from(&summary.name);
        }
        node
    }

    /// As its agent tells it.
    pub(crate) fn of_report(report: &pb::NodeReport) -> Self {
        Self {
            name: report.node.clone(),
            connected: true,
            reason: ReasonView::default(),
            last_seen_ms: Some(0),
            agent_version: None,
            session: 0,
            node_uid: non_empty(&report.node_uid),
            boot_id: non_empty(&report.boot_id),
            simulated: report.simulated,
            labels: report.labels.clone().into_iter().collect(),
            devices: report.devices.iter().map(|d| DeviceView::of(d, &report.node)).collect(),
            volumes: volumes(report),
            workers: report.workers.iter().map(WorkerView::of).collect(),
            health: report.health.as_ref().map(NodeHealthView::of),
            pressure: report.pressure.as_ref().map(PressureView::of),
        }
    }

    /// Devices that are healthy.
    pub(crate) fn healthy_devices(&self) -> usize {
        self.devices.iter().filter(|d| d.health == "Healthy").count()
    }
}

fn volumes(report: &pb::NodeReport) -> Vec<VolumeView> {
    let volume = |v: &pb::Volume| VolumeView::of(v, &report.node).on_node(&report.labels);
    report.volumes.iter().map(volume).collect()
}

impl DeviceView {
    fn of(device: &pb::Device, node: &str) -> Self {
        Self {
            node: node.to_owned(),
            id: device.id.clone(),
            index: device.index,
            resource: device.resource.clone(),
            kind: device.kind.clone(),
            simulated: device.simulated,
            health: health_word(device.health()),
            health_reason: ReasonView::of(device.health_reason.as_ref()),
            action: action_word(device.action()),
            faults: device.faults.iter().map(FaultView::of).collect(),
            pci_bus_id: non_empty(&device.pci_bus_id),
            memory_bytes: device.memory_bytes,
            holder_pids: device.holder_pids.clone(),
            source: device.source.clone(),
            age_ms: device.age_ms,
            workload: None,
        }
    }
}

impl WorkerView {
    /// As its agent tells it.
    pub(crate) fn of(worker: &pb::Worker) -> Self {
        let state = match worker.state() {
            pb::WorkerState::Unspecified => "Unknown",
            pb::WorkerState::Running => "Running",
            pb::WorkerState::Exited => "Exited",
        };
        Self {
            workload: worker.workload.clone(),
            attempt: worker.attempt,
            rank: worker.rank,
            pid: worker.pid,
            state,
            running_ms: worker.running_ms,
            processes: worker.processes,
            devices: worker.devices.clone(),
            checkpoint_dir: non_empty(&worker.checkpoint_dir),
            checkpoint: worker.checkpoint.as_ref().map(CheckpointView::of),
            checkpoint_age_ms: worker.checkpoint_age_ms,
            checkpoint_is_of_this_attempt: worker.checkpoint_is_of_this_attempt,
            incomplete_checkpoint: non_empty(&worker.incomplete_checkpoint),
            checkpoint_problem: worker
                .checkpoint_problem
                .as_ref()
                .filter(|p| !p.code.is_empty())
                .map(|p| ReasonView::of(Some(p))),
            device_fault: worker.device_fault.as_ref().map(|f| ReasonView::of(Some(f))),
            step_ms: worker.step_ms,
            save_interval_ms: worker.save_interval_ms,
            save_ms: worker.save_ms,
        }
    }

    /// `<workload>/<attempt>/<rank>`.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}/{}", self.workload, self.attempt, self.rank)
    }
}

impl PressureView {
    fn of(pressure: &pb::Pressure) -> Self {
        let line = |line: Option<&pb::PressureLine>| {
            line.map(|l| PressureLineView {
                avg10_permille: l.avg10_permille,
                avg60_permille: l.avg60_permille,
                avg300_permille: l.avg300_permille,
            })
        };
        Self {
            cpu_some: line(pressure.cpu_some.as_ref()),
            memory_some: line(pressure.memory_some.as_ref()),
            memory_full: line(pressure.memory_full.as_ref()),
            io_some: line(pressure.io_some.as_ref()),
            io_full: line(pressure.io_full.as_ref()),
        }
    }
}

/// The word for a health.
pub(crate) fn health_word(health: pb::Health) -> &'static str {
    match health {
        pb::Health::Healthy => "Healthy",
        pb::Health::Degraded => "Degraded",
        pb::Health::Unhealthy => "Unhealthy",
        pb::Health::Unspecified | pb::Health::Unknown => "Unknown",
    }
}
