//! What an earlier process of this agent left in the journal.

use std::collections::BTreeMap;

use sluice_core::agent::{Hand, Registration};
use sluice_core::id::WorkerId;
use sluice_core::unit::Time;
use tracing::error;

use super::record::Record;
use crate::journal::{Journal, JournalError};

/// What an earlier process of this agent left.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// Workers, whether they still live or not.
    pub(crate) registrations: Vec<Registration>,
    /// Drains.
    pub(crate) hands: Vec<Hand>,
    /// Which boot each registration is from.
    pub(super) boot_ids: BTreeMap<WorkerId, String>,
}

/// Reads the journal. What cannot be read has been moved aside and is reported as an error: a person must look.
///
/// # Errors
/// The journal's directory cannot be read.
pub(crate) fn recover(
    journal: &Journal,
    boot_id: &str,
    now: Time,
) -> Result<Recovered, JournalError> {
    let (records, corrupt) = journal.load::<Record>()?;
    for file in corrupt {
        error!(path = %file.path.display(), key = file.key, "journal file could not be read and was kept: {}", file.detail);
    }
    let mut recovered =
        Recovered { registrations: Vec::new(), hands: Vec::new(), boot_ids: BTreeMap::new() };
    for (key, record) in records {
        let taken = match record {
            Record::Hand(hand) => hand.hand(boot_id, now).map(|hand| recovered.hands.push(hand)),
            Record::Worker(worker) => worker.registration().map(|registration| {
                recovered.boot_ids.insert(registration.worker.clone(), worker.boot_id.clone());
                recovered.registrations.push(registration);
            }),
        };
        if let Err(why) = taken {
            error!(key, "journal record is not used and was kept: {why}");
        }
    }
    Ok(recovered)
}
