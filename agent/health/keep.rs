//! What lasts over a restart of the agent: the place in the kernel's log, counts, and the faults that were read there.
//!
//! All in one small file that is replaced whole, so that a record is counted once: whoever starts from a file starts at
//! the record after the last one in it. After a restart of the machine the place and the counts begin anew; the faults
//! are the judge's to keep or drop. A file that cannot be read is put aside: the log, read from the start of the boot,
//! tells again what it held of this boot.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sluice_core::health::kmsg::LogCounters;
use sluice_core::health::{Action, Fault, FaultKey, Source, Standing};
use sluice_core::protocol::Health;
use sluice_core::reason::Reason;
use sluice_core::sample::PciAddress;
use sluice_core::unit::Time;
use tracing::{error, warn};

/// Largest file that is read. A full one has some hundred faults of half a KiB.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// What lasts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// Number of the newest record read in this boot.
    pub(super) last: Option<u64>,
    /// What was counted.
    pub(super) counters: LogCounters,
    /// How often each Xid was printed of each device.
    pub(super) xids: BTreeMap<(PciAddress, u32), u64>,
    /// Faults.
    pub(super) standing: Vec<Standing>,
    /// The machine was restarted since the file was written.
    pub(super) has_rebooted: bool,
}

/// What waits to be written.
#[derive(Debug, Default)]
struct Queue {
    is_writing: bool,
    next: Option<Kept>,
}

/// Writes the file.
#[derive(Debug)]
pub(super) struct Keeper {
    path: PathBuf,
    boot_id: String,
    queue: Mutex<Queue>,
}

impl Keeper {
    /// Reads what there is.
    ///
    /// # Errors
    /// The file is there and cannot be read or put aside.
    pub(super) fn open(path: PathBuf, boot_id: String) -> Result<(Arc<Self>, Kept), String> {
        let kept = match read(&path, &boot_id) {
            Ok(kept) => kept,
            Err(why) => {
                let aside = path.with_extension("unreadable");
                fs::rename(&path, &aside).map_err(|error| {
                    format!("could not put \"{}\" aside, which {why}: {error}", path.display())
                })?;
                warn!("\"{}\" {why}; it is now \"{}\"", path.display(), aside.display());
                Kept::default()
            }
        };
        Ok((Arc::new(Self { path, boot_id, queue: Mutex::default() }), kept))
    }

    /// Takes what is to be written. `true`: the caller has to see to it that [`Self::write_all`] is called; `false`:
    /// that is being done.
    pub(super) fn submit(&self, kept: Kept) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.next = Some(kept);
        !std::mem::replace(&mut queue.is_writing, true)
    }

    /// Writes until nothing is left to be written. May hang with the disk.
    pub(super) fn write_all(&self) {
        while let Some(kept) = self.next() {
            if let Err(error) = self.write(&kept) {
                error!(
                    "could not write \"{}\": {error}; after a restart the agent reads the kernel's log again",
                    self.path.display()
                );
            }
        }
    }

    fn next(&self) -> Option<Kept> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let next = queue.next.take();
        queue.is_writing = next.is_some();
        next
    }

    fn write(&self, kept: &Kept) -> io::Result<()> {
        let text = serde_json::to_vec(&FileForm::of(kept, &self.boot_id))?;
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)
    }
}

fn read(path: &Path, boot_id: &str) -> Result<Kept, String> {
    let bytes = match fs::metadata(path) {
        Ok(metadata) if metadata.len() > FILE_BYTES_MAX => return Err("is too large".to_owned()),
        Ok(_) => fs::read(path).map_err(|error| format!("cannot be read: {error}"))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kept::default()),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let form: FileForm =
        serde_json::from_slice(&bytes).map_err(|error| format!("cannot be understood: {error}"))?;
    Ok(form.kept(boot_id))
}

#[derive(Serialize, Deserialize)]
struct FileForm {
    boot_id: String,
    last_sequence: Option<u64>,
    /// In the order of [`LogCounters`].
    counters: [u64; 8],
    xids: Vec<(String, u32, u64)>,
    faults: Vec<FaultForm>,
}

#[derive(Serialize, Deserialize)]
struct FaultForm {
    /// `None`: the node.
    pci: Option<String>,
    key: String,
    fault: Option<FactsForm>,
}

#[derive(Serialize, Deserialize)]
struct FactsForm {
    code: String,
    values: BTreeMap<String, String>,
    health: String,
    action: String,
    is_urgent: bool,
    since_ms: u64,
    seen_at_ms: u64,
    count: u64,
    /// Absent in files of agents that did not keep it.
    #[serde(default)]
    awaits_request: bool,
}

impl FileForm {
    fn of(kept: &Kept, boot_id: &str) -> Self {
        let c = kept.counters;
        let xids = kept.xids.iter();
        Self {
            boot_id: boot_id.to_owned(),
            last_sequence: kept.last,
            counters: [
                c.records,
                c.malformed,
                c.unparsed,
                c.foreign,
                c.missed,
                c.overruns,
                c.alike,
                c.events,
            ],
            xids: xids.map(|((pci, code), count)| (pci.to_string(), *code, *count)).collect(),
            faults: kept.standing.iter().map(fault_out).collect(),
        }
    }

    fn kept(self, boot_id: &str) -> Kept {
        let standing = self.faults.iter().filter_map(fault_in).collect();
        if self.boot_id != boot_id {
            return Kept { standing, has_rebooted: true, ..Kept::default() };
        }
        let [records, malformed, unparsed, foreign, missed, overruns, alike, events] =
            self.counters;
        let xid =
            |(pci, code, count): &(String, u32, u64)| Some(((pci.parse().ok()?, *code), *count));
        Kept {
            last: self.last_sequence,
            counters: LogCounters {
                records,
                malformed,
                unparsed,
                foreign,
                missed,
                overruns,
                alike,
                events,
            },
            xids: self.xids.iter().filter_map(xid).collect(),
            standing,
            has_rebooted: false,
        }
    }
}

fn fault_out(standing: &Standing) -> FaultForm {
    let facts = |fault: &Fault| FactsForm {
        code: fault.reason.code().to_owned(),
        values: fault.reason.values().into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
        health: health_word(fault.health).to_owned(),
        action: fault.action.to_string(),
        is_urgent: fault.is_urgent,
        since_ms: fault.since.0,
        seen_at_ms: fault.seen_at.0,
        count: fault.count,
        awaits_request: standing.awaits_request,
    };
    FaultForm {
        pci: standing.pci.map(|pci| pci.to_string()),
        key: key_word(standing.key),
        fault: standing.fault.as_ref().map(facts),
    }
}

/// `None`: of another version, or damaged. The log tells it again if it is of this boot.
fn fault_in(form: &FaultForm) -> Option<Standing> {
    let key = key_of(&form.key)?;
    let facts = |facts: &FactsForm| {
        Some(Fault {
            reason: Reason::from_parts(&facts.code, &facts.values)?,
            health: health_of(&facts.health)?,
            action: facts.action.parse::<Action>().ok()?,
            is_urgent: facts.is_urgent,
            source: source_of(key),
            since: Time(facts.since_ms),
            seen_at: Time(facts.seen_at_ms),
            count: facts.count,
        })
    };
    let awaits_request = form.fault.as_ref().is_some_and(|facts| facts.awaits_request);
    let fault = match &form.fault {
        Some(form) => Some(facts(form)?),
        None => None,
    };
    let pci = match &form.pci {
        Some(pci) => Some(pci.parse().ok()?),
        None => None,
    };
    Some(Standing { pci, key, fault, awaits_request })
}

/// Where a fault that is kept was learned.
fn source_of(key: FaultKey) -> Source {
    if key == FaultKey::EccUncorrected { Source::Nvml } else { Source::KernelLog }
}

/// Only these are kept: no look shows them again.
fn key_word(key: FaultKey) -> String {
    match key {
        FaultKey::Xid(code) => format!("xid-{code}"),
        FaultKey::Switch(code) => format!("sxid-{code}"),
        FaultKey::Action => "action".to_owned(),
        FaultKey::ActionUnknown => "action-unknown".to_owned(),
        FaultKey::EccUncorrected => "ecc-uncorrected".to_owned(),
        FaultKey::Lost
        | FaultKey::Unreachable
        | FaultKey::NotListed
        | FaultKey::NotOnBus
        | FaultKey::RowsPending
        | FaultKey::RowsFailed
        | FaultKey::PagesPending
        | FaultKey::EccCorrected
        | FaultKey::EccSram
        | FaultKey::Throttled
        | FaultKey::PcieWidth
        | FaultKey::PcieReplays
        | FaultKey::Links
        | FaultKey::Fabric
        | FaultKey::Driver => "seen".to_owned(),
    }
}

fn key_of(word: &str) -> Option<FaultKey> {
    match word {
        "action" => return Some(FaultKey::Action),
        "action-unknown" => return Some(FaultKey::ActionUnknown),
        "ecc-uncorrected" => return Some(FaultKey::EccUncorrected),
        _ => {}
    }
    if let Some(code) = word.strip_prefix("xid-") {
        return code.parse().ok().map(FaultKey::Xid);
    }
    word.strip_prefix("sxid-")?.parse().ok().map(FaultKey::Switch)
}

fn health_word(health: Health) -> &'static str {
    match health {
        Health::Healthy => "healthy",
        Health::Degraded => "degraded",
        Health::Unknown => "unknown",
        Health::Unhealthy => "unhealthy",
    }
}

fn health_of(word: &str) -> Option<Health> {
    let all = [Health::Healthy, Health::Degraded, Health::Unknown, Health::Unhealthy];
    all.into_iter().find(|health| health_word(*health) == word)
}
