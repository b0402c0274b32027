//! The arbiter's durable state: one redb file.
//!
//! Workloads and drains are kept as the contract's messages, so that a reader of another version
//! finds fields by number. A file that cannot be read is never replaced: the arbiter says why and
//! does not start. The epoch is raised and durable before anything is served.

#[cfg(feature = "kubernetes")]
mod cluster;
mod decisions;
mod open;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prost::Message as _;
use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError,
    TableHandle as _, WriteTransaction,
};
use sluice::wire::{WireError, pb, record};
use sluice_core::arbiter::Faults;
use sluice_core::drain::Drain;
use sluice_core::id::{DrainId, NodeName, WorkloadName};
use sluice_core::unit::Time;
use sluice_core::workload::Workload;

pub(crate) use open::StoreError;

/// Version of the tables below. Raised when an older arbiter could not use them any more.
pub(crate) const VERSION: u64 = 1;

/// Numbers by name: `version`, `epoch`, `last_now` (ms), `next_sequence`, `wave_open` (1: the breaker for waves of faults
/// was open), `known_nodes`.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Texts by name: `frozen` (why), absent while not frozen.
const TEXTS: TableDefinition<'_, &str, &str> = TableDefinition::new("texts");
/// `sluice.v1.Workload` by name.
const WORKLOADS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("workloads");
/// `sluice.v1.Drain` by id.
const DRAINS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("drains");
/// `sluice.v1.NodeFaults` by node. Absent in files of arbiters that knew none.
const NODE_FAULTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("node_faults");

/// What an earlier arbiter left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The epoch of this arbiter: already one more than the last.
    pub epoch: u64,
    /// Why decisions were frozen by hand, if they were.
    pub frozen: Option<String>,
    /// Latest time at which something was stored.
    pub last_now: Time,
    /// All workloads.
    pub workloads: Vec<Workload>,
    /// All drains.
    pub drains: Vec<Drain>,
    /// What was known of failing nodes.
    pub faults: Faults,
    /// Number of the next decision.
    pub next_sequence: u64,
}

/// What is to become durable at once.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Workloads by name; `None` removes.
    pub workloads: BTreeMap<WorkloadName, Option<pb::Workload>>,
    /// Drains by id; `None` removes.
    pub drains: BTreeMap<DrainId, Option<pb::Drain>>,
    /// Decisions in order, with their sequence numbers.
    pub decisions: Vec<pb::Decision>,
    /// Frozen by hand (why) or not any more; the outer `None` leaves it as it is.
    pub frozen: Option<Option<String>>,
    /// Faults by node; `None` removes.
    pub node_faults: BTreeMap<NodeName, Option<pb::NodeFaults>>,
    /// Whether the breaker for waves of faults is open, and how many nodes are known; `None` leaves both as they are.
    pub wave: Option<(bool, usize)>,
    /// Now.
    pub now: Time,
}

impl Batch {
    /// True if there is nothing worth a write to the disk.
    pub(crate) fn is_empty(&self) -> bool {
        self.workloads.is_empty()
            && self.drains.is_empty()
            && self.decisions.is_empty()
            && self.frozen.is_none()
            && self.node_faults.is_empty()
            && self.wave.is_none()
    }
}

/// The open file. Locked against other arbiters while it is open.
#[derive(Debug)]
pub(crate) struct Store {
    database: Database,
    path: PathBuf,
    /// Most decisions kept.
    decisions_max: u64,
    /// Where it is durable in a cluster; the database is in memory then.
    #[cfg(feature = "kubernetes")]
    remote: Option<crate::k8s::Remote>,
}

impl Store {
    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes `batch` durable.
    ///
    /// # Errors
    /// The disk is full or failing, or the cluster refuses. Nothing of the batch is stored then.
    pub(crate) fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        #[cfg(feature = "kubernetes")]
        self.commit_in_cluster(batch)?;
        self.write(batch).map_err(|error| self.error("write", &error))
    }

    fn error(&self, verb: &'static str, error: &redb::Error) -> StoreError {
        StoreError::Failed { path: self.path.clone(), verb, why: error.to_string() }
    }

    fn write(&self, batch: &Batch) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        {
            let mut table = transaction.open_table(WORKLOADS)?;
            for (name, workload) in &batch.workloads {
                match workload {
                    Some(value) => {
                        table.insert(name.as_str(), value.encode_to_vec().as_slice())?;
                    }
                    None => drop(table.remove(name.as_str())?),
                }
            }
            let mut table = transaction.open_table(DRAINS)?;
            for (id, drain) in &batch.drains {
                match drain {
                    Some(value) => {
                        table.insert(id.as_str(), value.encode_to_vec().as_slice())?;
                    }
                    None => drop(table.remove(id.as_str())?),
                }
            }
        }
        decisions::append(&transaction, &batch.decisions, self.decisions_max)?;
        write_faults(&transaction, batch)?;
        write_meta(&transaction, batch)?;
        transaction.commit()?;
        Ok(())
    }
}

fn write_faults(transaction: &WriteTransaction, batch: &Batch) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(NODE_FAULTS)?;
    for (name, faults) in &batch.node_faults {
        match faults {
            Some(value) => drop(table.insert(name.as_str(), value.encode_to_vec().as_slice())?),
            None => drop(table.remove(name.as_str())?),
        }
    }
    Ok(())
}

fn write_meta(transaction: &WriteTransaction, batch: &Batch) -> Result<(), redb::Error> {
    let mut meta = transaction.open_table(META)?;
    meta.insert("last_now", batch.now.0)?;
    if let Some(last) = batch.decisions.last() {
        meta.insert("next_sequence", last.sequence + 1)?;
    }
    if let Some((open, known)) = batch.wave {
        meta.insert("wave_open", u64::from(open))?;
        meta.insert("known_nodes", known as u64)?;
    }
    let mut texts = transaction.open_table(TEXTS)?;
    match &batch.frozen {
        Some(Some(why)) => drop(texts.insert("frozen", why.as_str())?),
        Some(None) => drop(texts.remove("frozen")?),
        None => {}
    }
    Ok(())
}

/// Reads everything that core takes up.
fn read(database: &Database, path: &Path, epoch: u64) -> Result<Stored, StoreError> {
    let failed = |error: redb::Error| StoreError::Failed {
        path: path.to_owned(),
        verb: "read",
        why: error.to_string(),
    };
    let Raw { meta, texts, workloads, drains, faults } = read_raw(database).map_err(failed)?;
    let bad = |what: String, error: WireError| StoreError::BadRecord {
        path: path.to_owned(),
        what,
        error,
    };
    let workload = |(name, bytes): (String, Vec<u8>)| {
        decode::<pb::Workload>(&bytes)
            .and_then(|message| Workload::try_from(&message))
            .map_err(|error| bad(format!("workload \"{name}\""), error))
    };
    let drain = |(id, bytes): (String, Vec<u8>)| {
        decode::<pb::Drain>(&bytes)
            .and_then(|message| Drain::try_from(&message))
            .map_err(|error| bad(format!("drain \"{id}\""), error))
    };
    let node_faults = |(name, bytes): (String, Vec<u8>)| {
        decode::<pb::NodeFaults>(&bytes)
            .and_then(|message| record::faults_in(&message))
            .map_err(|error| bad(format!("record of faults of node \"{name}\""), error))
    };
    let is_open = meta.get("wave_open").is_some_and(|open| *open != 0);
    let known = meta.get("known_nodes").copied().unwrap_or(0);
    let known = usize::try_from(known).unwrap_or(usize::MAX);
    let nodes = faults.into_iter().map(node_faults).collect::<Result<_, _>>()?;
    Ok(Stored {
        epoch,
        frozen: texts.get("frozen").cloned(),
        last_now: Time(meta.get("last_now").copied().unwrap_or(0)),
        workloads: workloads.into_iter().map(workload).collect::<Result<_, _>>()?,
        drains: drains.into_iter().map(drain).collect::<Result<_, _>>()?,
        faults: Faults { is_open, known, nodes },
        next_sequence: meta.get("next_sequence").copied().unwrap_or(1),
    })
}

fn decode<T: prost::Message + Default>(bytes: &[u8]) -> Result<T, WireError> {
    T::decode(bytes).map_err(|error| WireError::new("the record", error, "a message"))
}

type Records = Vec<(String, Vec<u8>)>;

struct Raw {
    meta: BTreeMap<String, u64>,
    texts: BTreeMap<String, String>,
    workloads: Records,
    drains: Records,
    faults: Records,
}

fn read_raw(database: &Database) -> Result<Raw, redb::Error> {
    let transaction = database.begin_read()?;
    let mut meta = BTreeMap::new();
    for entry in transaction.open_table(META)?.iter()? {
        let (key, value) = entry?;
        meta.insert(key.value().to_owned(), value.value());
    }
    let mut texts = BTreeMap::new();
    for entry in transaction.open_table(TEXTS)?.iter()? {
        let (key, value) = entry?;
        texts.insert(key.value().to_owned(), value.value().to_owned());
    }
    let records = |definition: TableDefinition<'_, &str, &[u8]>| -> Result<Records, redb::Error> {
        let mut records = Vec::new();
        let table = match transaction.open_table(definition) {
            Err(TableError::TableDoesNotExist(_)) if definition.name() == NODE_FAULTS.name() => {
                return Ok(records);
            }
            table => table?,
        };
        for entry in table.iter()? {
            let (key, value) = entry?;
            records.push((key.value().to_owned(), value.value().to_vec()));
        }
        Ok(records)
    };
    Ok(Raw {
        meta,
        texts,
        workloads: records(WORKLOADS)?,
        drains: records(DRAINS)?,
        faults: records(NODE_FAULTS)?,
    })
}
