//! Lists: asked for, filtered by name, and printed.

use jiff::Timestamp;
use serde::Serialize;

use super::{
    devices, drains, nodes as node_lines, not_found, queues, shared, slices, volumes,
    workloads as workload_lines,
};
use crate::ask;
use crate::connect::Arbiter;
use crate::failure::Failure;
use crate::output::{Document, Items};
use crate::table::{Column, lay_out};
use crate::view::drain::DrainView;
use crate::view::node::{DeviceView, NodeView, VolumeView};
use crate::view::queue::QueueView;
use crate::view::slice::SliceView;
use crate::view::workload::WorkloadView;

/// What can be listed and described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Machines with an agent.
    #[value(aliases = ["node", "no"])]
    Nodes,
    /// Accelerators.
    #[value(aliases = ["device", "dev"])]
    Devices,
    /// Block devices with their read-ahead and throughput.
    #[value(aliases = ["volume", "vol"])]
    Volumes,
    /// Quotas and their use.
    #[value(aliases = ["queue", "q"])]
    Queues,
    /// Gangs of workers: waiting, running, ended.
    #[value(aliases = ["workload", "wl"])]
    Workloads,
    /// How gangs were made to end with their work saved.
    #[value(aliases = ["drain", "dr"])]
    Drains,
    /// Slices of TPUs that hold hosts.
    #[value(aliases = ["slice", "sl"])]
    Slices,
}

impl Kind {
    /// For sentences.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Devices => "devices",
            Self::Volumes => "volumes",
            Self::Queues => "queues",
            Self::Workloads => "workloads",
            Self::Drains => "drains",
            Self::Slices => "slices",
        }
    }

    /// One of them, for sentences.
    pub(crate) fn singular(self) -> &'static str {
        self.word().strip_suffix('s').expect("every word is a plural")
    }

    /// The kind in JSON of one of them, and of a list.
    pub(crate) fn kinds(self) -> (&'static str, &'static str) {
        match self {
            Self::Nodes => ("Node", "NodeList"),
            Self::Devices => ("Device", "DeviceList"),
            Self::Volumes => ("Volume", "VolumeList"),
            Self::Queues => ("Queue", "QueueList"),
            Self::Workloads => ("Workload", "WorkloadList"),
            Self::Drains => ("Drain", "DrainList"),
            Self::Slices => ("Slice", "SliceList"),
        }
    }

    /// Why a list may be empty.
    pub(super) fn empty_hint(self) -> &'static str {
        match self {
            Self::Workloads | Self::Drains => " that are open; --all shows the others, too",
            Self::Nodes | Self::Devices | Self::Volumes => {
                "; is sluice-agent running? see sluice doctor"
            }
            Self::Queues => "; the arbiter was started without queues",
            Self::Slices => "; sluice slice map shows what is free",
        }
    }

    fn columns(self) -> &'static [Column] {
        match self {
            Self::Nodes => node_lines::COLUMNS,
            Self::Devices => devices::COLUMNS,
            Self::Volumes => volumes::COLUMNS,
            Self::Queues => queues::COLUMNS,
            Self::Workloads => workload_lines::COLUMNS,
            Self::Drains => drains::COLUMNS,
            Self::Slices => slices::COLUMNS,
        }
    }
}

/// One thing of any kind.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum Item {
    /// A node.
    Node(Box<NodeView>),
    /// A device.
    Device(Box<DeviceView>),
    /// A volume.
    Volume(Box<VolumeView>),
    /// A queue.
    Queue(QueueView),
    /// A workload.
    Workload(Box<WorkloadView>),
    /// A drain.
    Drain(Box<DrainView>),
    /// A slice.
    Slice(Box<SliceView>),
}

impl Item {
    /// The names by which it can be asked for.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Node(node) => vec![node.name.clone()],
            Self::Device(device) => {
                vec![device.id.clone(), format!("{}/{}", device.node, device.id)]
            }
            Self::Volume(volume) => {
                vec![volume.device.clone(), format!("{}/{}", volume.node, volume.device)]
            }
            Self::Queue(queue) => vec![queue.name.clone()],
            Self::Workload(workload) => vec![workload.name.clone()],
            Self::Drain(drain) => vec![drain.id.clone()],
            Self::Slice(slice) => vec![slice.name.clone()],
        }
    }

    /// Its lines in a table: a queue has one for each resource, everything else has one.
    fn lines(&self) -> Vec<Vec<String>> {
        match self {
            Self::Node(node) => vec![node_lines::cells(node)],
            Self::Device(device) => vec![devices::cells(device)],
            Self::Volume(volume) => vec![volumes::cells(volume)],
            Self::Queue(queue) => queues::lines(queue),
            Self::Workload(workload) => vec![workload_lines::cells(workload)],
            Self::Drain(drain) => vec![drains::cells(drain)],
            Self::Slice(slice) => vec![slices::cells(slice)],
        }
    }
}

/// One thing of a list.
#[derive(Debug)]
pub(crate) struct Row {
    /// The thing.
    pub(crate) item: Item,
    /// Its lines: a cell for each column of its kind.
    pub(crate) lines: Vec<Vec<String>>,
}

/// A list.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Of what.
    pub(crate) kind: Kind,
    /// The things, in the arbiter's order.
    pub(crate) rows: Vec<Row>,
}

impl Listing {
    pub(super) fn new(kind: Kind, items: Vec<Item>) -> Self {
        let row = |item: Item| Row { lines: item.lines(), item };
        Self { kind, rows: items.into_iter().map(row).collect() }
    }

    /// Keeps only what has one of `names`; all if there are none.
    ///
    /// # Errors
    /// Nothing has one of the names.
    pub(crate) fn keep(&mut self, names: &[String]) -> Result<(), Failure> {
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            if !self.rows.iter().any(|r| r.item.names().contains(name)) {
                return Err(not_found(self.kind, name));
            }
        }
        self.rows.retain(|r| r.item.names().iter().any(|n| names.contains(n)));
        Ok(())
    }

    /// As JSON or YAML.
    pub(crate) fn document(&self) -> Document<Items<&Item>> {
        let items = self.rows.iter().map(|r| &r.item).collect();
        Document::new(self.kind.kinds().1, Items { items })
    }

    /// As columns.
    pub(crate) fn table(&self, wide: bool) -> String {
        let lines: Vec<&[String]> =
            self.rows.iter().flat_map(|r| &r.lines).map(Vec::as_slice).collect();
        table_of(self.kind, &lines, wide)
    }
}

/// Lines of one kind as columns.
fn table_of(kind: Kind, lines: &[&[String]], wide: bool) -> String {
    let shown = |c: &&Column| wide || !c.is_wide;
    let titles: Vec<&str> = kind.columns().iter().filter(shown).map(|c| c.title).collect();
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|cells| {
            let pairs = cells.iter().zip(kind.columns());
            pairs.filter(|(_, c)| shown(c)).map(|(cell, _)| cell.clone()).collect()
        })
        .collect();
    lay_out(&titles, &rows)
}

/// What `--watch` compares: a line without what changes by itself.
pub(super) fn comparable(kind: Kind, lines: &[Vec<String>]) -> Vec<Vec<String>> {
    let strip = |cells: &Vec<String>| {
        let pairs = cells.iter().zip(kind.columns());
        pairs.filter(|(_, c)| !c.is_age).map(|(cell, _)| cell.clone()).collect()
    };
    lines.iter().map(strip).collect()
}

/// Asks the arbiter for a list; `all` with what has ended and with volumes that have no space.
///
/// # Errors
/// It does not answer.
pub(crate) async fn fetch(arbiter: &Arbiter, kind: Kind, all: bool) -> Result<Listing, Failure> {
    let now = Timestamp::now();
    let items: Vec<Item> = match kind {
        Kind::Nodes => nodes(arbiter).await?.into_iter().map(|n| Item::Node(Box::new(n))).collect(),
        Kind::Devices => {
            let mut nodes = nodes(arbiter).await?;
            let workloads = workloads(arbiter, false, now).await?;
            devices::assign(&mut nodes, &workloads);
            let devices = nodes.into_iter().flat_map(|n| n.devices);
            devices.map(|d| Item::Device(Box::new(d))).collect()
        }
        Kind::Volumes => {
            let nodes = nodes(arbiter).await?;
            let mut volumes: Vec<_> = nodes.into_iter().flat_map(|n| n.volumes).collect();
            shared::join(&mut volumes);
            // Loop devices without a file and the like.
            let volumes = volumes.into_iter().filter(|v| all || v.size_bytes > 0);
            volumes.map(|v| Item::Volume(Box::new(v))).collect()
        }
        Kind::Queues => {
            let queues = ask::queues(arbiter).await?;
            queues.iter().map(QueueView::of).map(Item::Queue).collect()
        }
        Kind::Workloads => {
            let workloads = workloads(arbiter, all, now).await?.into_iter();
            workloads.map(|w| Item::Workload(Box::new(w))).collect()
        }
        Kind::Drains => {
            let drains = ask::drains(arbiter, all).await?;
            drains.iter().map(|d| Item::Drain(Box::new(DrainView::of(d, now)))).collect()
        }
        Kind::Slices => {
            let slices = ask::slices(arbiter).await?.slices;
            slices.iter().map(|s| Item::Slice(Box::new(SliceView::of(s)))).collect()
        }
    };
    Ok(Listing::new(kind, items))
}

async fn nodes(arbiter: &Arbiter) -> Result<Vec<NodeView>, Failure> {
    Ok(ask::nodes(arbiter).await?.iter().map(NodeView::of).collect())
}

async fn workloads(
    arbiter: &Arbiter,
    all: bool,
    now: Timestamp,
) -> Result<Vec<WorkloadView>, Failure> {
    let workloads = ask::workloads(arbiter, all).await?;
    Ok(workloads.iter().map(|w| WorkloadView::of(w, now)).collect())
}
