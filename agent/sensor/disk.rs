//! Block devices of the host: what they are, how they are set, and what passes through them.
//!
//! Costs matter, as this runs every second: a sample reads `/proc/diskstats` once and two small
//! attributes per device; everything else is read when a device is new and once a minute.

mod cgroup;
mod diskstats;
mod google;
mod identity;
mod judge;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sluice_core::sample::{VolumeCounters, VolumeIdentity, VolumeSample, VolumeTableSample};

use self::google::ById;
use super::tree::HostTree;

pub(crate) use self::judge::{VolumeJudge, VolumePolicy};

/// Where sysfs lists every block device, partitions and hidden ones included.
const CLASS_DIR: &str = "sys/class/block";

/// Most devices looked at: 128 disks with 15 partitions each, and room to spare.
const VOLUMES_MAX: usize = 4096;

/// Most bytes taken of `/proc/diskstats`: `VOLUMES_MAX` lines of 256 bytes.
const DISKSTATS_BYTES_MAX: u64 = 1 << 20;

/// How long what does not change is believed. Links of udev and the driver appear some time after
/// their device, and schedulers are changed by hand; a minute late is early enough for both, and
/// costs 0.01 % of a core.
const IDENTITY_PERIOD: Duration = Duration::from_secs(60);

/// Samples all block devices below a host's root.
#[derive(Debug)]
pub(crate) struct DiskSensor {
    tree: HostTree,
    known: BTreeMap<String, Known>,
    by_id: ById,
    identities_read_at: Option<Duration>,
}

/// A device as it was at the previous sample.
#[derive(Debug)]
struct Known {
    identity: VolumeIdentity,
    counters: Option<VolumeCounters>,
    counted_at: Duration,
    /// A counter went back: on kernels without `diskseq` the only sign of another disk under the
    /// same name.
    is_doubtful: bool,
}

impl DiskSensor {
    /// `host_root` is where the host's `/` is seen.
    pub(crate) fn new(host_root: &Path) -> Self {
        DiskSensor {
            tree: HostTree::new(host_root),
            known: BTreeMap::new(),
            by_id: ById::default(),
            identities_read_at: None,
        }
    }

    /// All block devices now, with rates since the previous call.
    ///
    /// # Errors
    /// `/proc/diskstats` or `/sys/class/block` cannot be read, or the clock cannot be.
    pub(crate) fn sample(&mut self) -> Result<VolumeTableSample, String> {
        let now = clock_gettime(ClockId::CLOCK_BOOTTIME)
            .map_err(|error| format!("could not read the clock CLOCK_BOOTTIME: {error}"))?;
        self.sample_at(Duration::from(now))
    }

    /// As `sample`, at `now` since boot, time suspended included.
    fn sample_at(&mut self, now: Duration) -> Result<VolumeTableSample, String> {
        let stats = self.tree.read("proc/diskstats", DISKSTATS_BYTES_MAX).map(diskstats::parse);
        let (lines, malformed_lines) =
            stats.map_err(|error| self.could_not_read("proc/diskstats", &error))?;
        let listed = self.tree.names(CLASS_DIR, VOLUMES_MAX);
        let listed = listed.map_err(|error| self.could_not_read(CLASS_DIR, &error))?;

        let mut counters: BTreeMap<String, VolumeCounters> =
            lines.into_iter().map(|line| (line.name, line.counters)).collect();
        let mut names: BTreeSet<String> =
            listed.into_iter().map(|name| name.replace('!', "/")).collect();
        names.extend(counters.keys().take(VOLUMES_MAX).cloned());

        let is_due = self.identities_read_at.is_none_or(|read_at| now >= read_at + IDENTITY_PERIOD);
        if is_due || names.iter().any(|name| !self.known.contains_key(name)) {
            self.by_id.read(&self.tree);
        }
        if is_due {
            self.identities_read_at = Some(now);
        }
        self.known.retain(|name, _| names.contains(name));
        let volumes = names
            .into_iter()
            .map(|name| {
                let counters = counters.remove(&name);
                self.sample_volume(name, counters, now, is_due)
            })
            .collect();
        Ok(VolumeTableSample { volumes, malformed_lines, ..VolumeTableSample::default() })
    }

    fn sample_volume(
        &mut self,
        name: String,
        counters: Option<VolumeCounters>,
        now: Duration,
        is_due: bool,
    ) -> VolumeSample {
        let before = self.known.remove(&name);
        let is_same = before.as_ref().is_some_and(|known| self.is_same_disk(&known.identity));
        let identity = match &before {
            Some(known) if is_same && !is_due && !known.is_doubtful => known.identity.clone(),
            Some(_) | None => identity::read(&mut self.tree, &self.by_id, &name),
        };
        let baseline = before.filter(|known| is_same && known.identity.diskseq == identity.diskseq);
        let interval_ms = baseline.as_ref().map_or(0, |known| elapsed_ms(known.counted_at, now));
        let counted = baseline.and_then(|known| known.counters).zip(counters);
        let rates = counted.and_then(|(old, new)| diskstats::rates(&old, &new, interval_ms));
        let known = Known {
            identity: identity.clone(),
            counters,
            counted_at: now,
            is_doubtful: counted.is_some() && rates.is_none() && interval_ms > 0,
        };
        let read_ahead_kb = self.tree.number(&format!(
            "{CLASS_DIR}/{}/queue/read_ahead_kb",
            sysfs_name(&identity.queue_owner)
        ));
        self.known.insert(name, known);
        VolumeSample { identity, read_ahead_kb, counters, rates }
    }

    /// Whether a name still means the disk it meant before.
    fn is_same_disk(&mut self, identity: &VolumeIdentity) -> bool {
        let file = format!("{CLASS_DIR}/{}/diskseq", sysfs_name(&identity.queue_owner));
        self.tree.number::<u64>(&file) == identity.diskseq
    }

    fn could_not_read(&self, file: &str, error: &std::io::Error) -> String {
        format!(
            "could not read \"{}\": {error}; mount the host's /proc and /sys at --host-root",
            self.tree.path(file).display()
        )
    }
}

fn elapsed_ms(since: Duration, now: Duration) -> u64 {
    u64::try_from(now.saturating_sub(since).as_millis()).unwrap_or(u64::MAX)
}

/// sysfs writes a slash in a device's name as an exclamation mark: `cciss!c0d0`.
fn sysfs_name(name: &str) -> String {
    name.replace('/', "!")
}
