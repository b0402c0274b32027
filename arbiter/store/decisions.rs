//! The log of decisions: by number, and by workload. Bounded; the oldest are dropped.

use prost::Message as _;
use redb::{ReadableDatabase as _, ReadableTable as _, TableDefinition, WriteTransaction};
use sluice::wire::pb;

use super::{Store, StoreError};

/// Most decisions kept. At some 300 bytes each this is 30 MB; a busy cluster makes 100,000 in days.
pub(crate) const DECISIONS_MAX: u64 = 100_000;

/// `sluice.v1.Decision` by sequence number.
const DECISIONS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("decisions");
/// The numbers of the decisions about each workload.
const BY_WORKLOAD: TableDefinition<'_, (&str, u64), ()> =
    TableDefinition::new("decisions_by_workload");

/// Makes the tables.
pub(super) fn create(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(DECISIONS)?;
    transaction.open_table(BY_WORKLOAD)?;
    Ok(())
}

/// Appends `decisions` and drops the oldest beyond `limit`.
pub(super) fn append(
    transaction: &WriteTransaction,
    decisions: &[pb::Decision],
    limit: u64,
) -> Result<(), redb::Error> {
    let Some(last) = decisions.last() else { return Ok(()) };
    let mut table = transaction.open_table(DECISIONS)?;
    let mut index = transaction.open_table(BY_WORKLOAD)?;
    for decision in decisions {
        table.insert(decision.sequence, decision.encode_to_vec().as_slice())?;
        if !decision.workload.is_empty() {
            index.insert((decision.workload.as_str(), decision.sequence), ())?;
        }
    }
    let kept_from = (last.sequence + 1).saturating_sub(limit);
    let mut dropped = Vec::new();
    for entry in table.range(..kept_from)? {
        let (sequence, bytes) = entry?;
        let workload = pb::Decision::decode(bytes.value()).map(|d| d.workload).unwrap_or_default();
        dropped.push((sequence.value(), workload));
    }
    for (sequence, workload) in dropped {
        table.remove(sequence)?;
        index.remove((workload.as_str(), sequence))?;
    }
    Ok(())
}

impl Store {
    /// The first decisions with a number above `after`, oldest first, at most `limit`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn decisions_after(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<pb::Decision>, StoreError> {
        let read = || -> Result<Vec<pb::Decision>, redb::Error> {
            let table = self.database.begin_read()?.open_table(DECISIONS)?;
            let mut found = Vec::new();
            for entry in table.range(after.saturating_add(1)..)?.take(limit) {
                // A decision that cannot be read is of another version: skipping it loses one line.
                found.extend(pb::Decision::decode(entry?.1.value()).ok());
            }
            Ok(found)
        };
        read().map_err(|error| self.error("read", &error))
    }

    /// The newest decisions about `workload`, oldest first, at most `limit`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn decisions_about(
        &self,
        workload: &str,
        limit: usize,
    ) -> Result<Vec<pb::Decision>, StoreError> {
        let read = || -> Result<Vec<pb::Decision>, redb::Error> {
            let transaction = self.database.begin_read()?;
            let index = transaction.open_table(BY_WORKLOAD)?;
            let table = transaction.open_table(DECISIONS)?;
            let mut found = Vec::new();
            for entry in index.range((workload, 0)..=(workload, u64::MAX))?.rev().take(limit) {
                let (_, sequence) = entry?.0.value();
                if let Some(bytes) = table.get(sequence)? {
                    found.extend(pb::Decision::decode(bytes.value()).ok());
                }
            }
            found.reverse();
            Ok(found)
        };
        read().map_err(|error| self.error("read", &error))
    }
}
