//! The state in a cluster: durable in Kubernetes' objects; the tables are in memory, for those who read.

use std::path::PathBuf;

use prost::Message as _;
use redb::backends::InMemoryBackend;
use redb::{Database, TableDefinition, WriteTransaction};
use sluice::wire::pb;

use super::open::{builder, initialize};
use super::{
    Batch, DRAINS, META, NODE_FAULTS, Store, StoreError, Stored, TEXTS, WORKLOADS, decisions, read,
};
use crate::k8s::{Change, DECISIONS_MAX, Remote, TakenUp, decision_key};

impl Store {
    /// The store of an arbiter that holds the Lease, with what `remote` has taken up.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn in_cluster(
        remote: Remote,
        taken: &TakenUp,
    ) -> Result<(Self, Stored), StoreError> {
        let path = PathBuf::from(remote.place());
        let failed = |error: redb::Error| StoreError::Failed {
            path: PathBuf::from("in memory"),
            verb: "fill",
            why: error.to_string(),
        };
        let database = fill(taken).map_err(failed)?;
        let stored = read(&database, &path, taken.epoch)?;
        let store = Self { database, path, decisions_max: DECISIONS_MAX, remote: Some(remote) };
        Ok((store, stored))
    }

    /// Makes `batch` durable in the cluster, if this store is in one.
    pub(super) fn commit_in_cluster(&self, batch: &Batch) -> Result<(), StoreError> {
        let Some(remote) = &self.remote else { return Ok(()) };
        let next_sequence = batch.decisions.last().map_or(0, |last| last.sequence + 1);
        Ok(remote.commit(changes(batch), batch.now.0, next_sequence)?)
    }
}

/// The records that a batch sets and removes.
fn changes(batch: &Batch) -> Vec<Change> {
    let change = |key: String, value: Option<Vec<u8>>| Change { key, value };
    let workloads = batch.workloads.iter().map(|(name, workload)| {
        change(format!("w/{name}"), workload.as_ref().map(pb::Workload::encode_to_vec))
    });
    let drains = batch
        .drains
        .iter()
        .map(|(id, drain)| change(format!("d/{id}"), drain.as_ref().map(pb::Drain::encode_to_vec)));
    let decisions = batch
        .decisions
        .iter()
        .map(|decision| change(decision_key(decision.sequence), Some(decision.encode_to_vec())));
    let frozen = batch
        .frozen
        .iter()
        .map(|why| change("t/frozen".to_owned(), why.as_ref().map(|why| why.clone().into_bytes())));
    let faults = batch.node_faults.iter().map(|(name, faults)| {
        change(format!("f/{name}"), faults.as_ref().map(pb::NodeFaults::encode_to_vec))
    });
    let wave = batch.wave.iter().flat_map(|(is_open, known)| {
        let number = |name: &str, value: u64| {
            change(format!("m/{name}"), Some(value.to_string().into_bytes()))
        };
        [number("wave_open", u64::from(*is_open)), number("known_nodes", *known as u64)]
    });
    let others = decisions.chain(frozen).chain(faults).chain(wave);
    workloads.chain(drains).chain(others).collect()
}

fn fill(taken: &TakenUp) -> Result<Database, redb::Error> {
    let database = builder().create_with_backend(InMemoryBackend::new())?;
    initialize(&database)?;
    let transaction = database.begin_write()?;
    {
        let mut meta = transaction.open_table(META)?;
        meta.insert("epoch", taken.epoch)?;
        meta.insert("last_now", taken.last_now_ms)?;
        meta.insert("next_sequence", taken.next_sequence)?;
        for (key, value) in records(taken, "m/") {
            // A number that cannot be read is of another version: less is known, and nothing wrong.
            if let Ok(number) = String::from_utf8_lossy(value).parse::<u64>() {
                meta.insert(key, number)?;
            }
        }
    }
    set(&transaction, WORKLOADS, taken, "w/")?;
    set(&transaction, DRAINS, taken, "d/")?;
    set(&transaction, NODE_FAULTS, taken, "f/")?;
    {
        let mut texts = transaction.open_table(TEXTS)?;
        for (key, value) in records(taken, "t/") {
            texts.insert(key, String::from_utf8_lossy(value).as_ref())?;
        }
    }
    // A decision that cannot be read is of another version: skipping it loses one line.
    let known = records(taken, "n/").filter_map(|(_, value)| pb::Decision::decode(value).ok());
    let mut known: Vec<pb::Decision> = known.collect();
    known.sort_by_key(|decision| decision.sequence);
    decisions::append(&transaction, &known, DECISIONS_MAX)?;
    transaction.commit()?;
    Ok(database)
}

fn records<'a>(taken: &'a TakenUp, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    let record = move |(key, value): &'a (String, Vec<u8>)| {
        Some((key.strip_prefix(prefix)?, value.as_slice()))
    };
    taken.records.iter().filter_map(record)
}

fn set(
    transaction: &WriteTransaction,
    table: TableDefinition<'_, &str, &[u8]>,
    taken: &TakenUp,
    prefix: &str,
) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(table)?;
    for (name, value) in records(taken, prefix) {
        table.insert(name, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sluice::wire::record;
    use sluice_core::arbiter::{Faults, NodeFaults};
    use sluice_core::id::NodeName;
    use sluice_core::unit::Time;

    use super::*;

    #[test]
    fn what_a_batch_stores_is_taken_up_the_same() {
        let decision = pb::Decision { sequence: 7, workload: "a".into(), ..Default::default() };
        let node: NodeName = "n1".parse().unwrap();
        let devices = ["gpu-0".parse().unwrap()].into();
        let faults = NodeFaults { devices, at: Some(Time(4)) };
        let batch = Batch {
            workloads: BTreeMap::from([("b".parse().unwrap(), None)]),
            decisions: vec![decision.clone()],
            frozen: Some(Some("storm".to_owned())),
            node_faults: [(node.clone(), Some(record::faults_out(&node, &faults)))].into(),
            wave: Some((true, 5)),
            now: Time(5),
            ..Batch::default()
        };
        let changes = changes(&batch);
        let keys: Vec<&str> = changes.iter().map(|change| change.key.as_str()).collect();
        let expected =
            ["w/b", "n/00000000000000000007", "t/frozen", "f/n1", "m/wave_open", "m/known_nodes"];
        assert_eq!(keys, expected);
        let records = changes.into_iter().filter_map(|c| Some((c.key, c.value?))).collect();
        let taken = TakenUp { epoch: 3, last_now_ms: 5, next_sequence: 8, records };
        let database = fill(&taken).unwrap();
        let stored = read(&database, &PathBuf::new(), taken.epoch).unwrap();
        let expected = Stored {
            epoch: 3,
            frozen: Some("storm".to_owned()),
            last_now: Time(5),
            workloads: Vec::new(),
            drains: Vec::new(),
            faults: Faults { is_open: true, known: 5, nodes: [(node, faults)].into() },
            next_sequence: 8,
        };
        assert_eq!(stored, expected);
        let store =
            Store { database, path: PathBuf::new(), decisions_max: DECISIONS_MAX, remote: None };
        assert_eq!(store.decisions_about("a", 9).unwrap(), [decision]);
    }
}
