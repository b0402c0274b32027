//! Limits of disk types and machines: a table that the caller hands in, and questions to it.

use super::Mib;

#[cfg(test)]
pub(in crate::volume) mod tests;

/// Where a row comes from, for people who doubt it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// A document, a measurement, or "assumed".
    pub source: String,
    /// When it was so: `YYYY-MM-DD`.
    pub as_of: String,
}

/// The whole table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Types of disks.
    pub disks: Vec<DiskRules>,
    /// What one machine can move; the first row whose pattern fits decides.
    pub machines: Vec<MachineRule>,
    /// What one reader gets by read-ahead, ordered by [`ReaderRate::read_ahead_kib`].
    pub readers: Vec<ReaderRate>,
}

/// One type of disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskRules {
    /// As in a StorageClass: `hyperdisk-ml`.
    pub name: String,
    /// Smallest. Unit: GiB.
    pub size_min_gib: u64,
    /// Largest. Unit: GiB.
    pub size_max_gib: u64,
    /// Throughput that can be provisioned.
    pub throughput: ThroughputRule,
    /// Most IOPS that can be provisioned.
    pub iops_max: u64,
    /// IOPS for each MiB/s, where they follow from the throughput.
    pub iops_per_mib: Option<u64>,
    /// Who else may attach it.
    pub sharing: Sharing,
    /// Above so many readers each must have so much.
    pub floor: Option<ShareFloor>,
    /// Time between two changes of the throughput. Unit: hours.
    pub throughput_change_hours: Option<u32>,
    /// Time between two changes of the size. Unit: hours.
    pub size_change_hours: Option<u32>,
    /// Series of machines that attach it: `a3`, `ct6e`. Empty: the table does not know.
    pub series: Vec<String>,
    /// Series known not to.
    pub series_not: Vec<String>,
    /// Series that attach only volumes made on or after [`DiskRules::made_after`].
    pub series_new_only: Vec<String>,
    /// See [`DiskRules::series_new_only`]: `YYYY-MM-DD`.
    pub made_after: String,
    /// Where the row comes from.
    pub origin: Origin,
}

/// How throughput depends on size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThroughputRule {
    /// Can be asked for; if not, it follows from the IOPS.
    pub is_settable: bool,
    /// Least of any size.
    pub min: Mib,
    /// Least by size. Unit: thousandths of a MiB/s a GiB.
    pub min_milli_per_gib: u64,
    /// Most of any size.
    pub max: Mib,
    /// Most by size. `None`: the size does not matter.
    pub max_per_gib: Option<Mib>,
    /// What a volume gets that asks for nothing. `None`: the table does not know.
    pub default: Option<DefaultThroughput>,
}

/// `max(at_least, per_gib × size)`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultThroughput {
    /// Least.
    pub at_least: Mib,
    /// By size.
    pub per_gib: Mib,
}

/// Who may attach a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// One machine.
    #[default]
    One,
    /// Many, read-only; how many depends on the size. Ordered by size.
    ReadOnly(Vec<AttachStep>),
    /// So many, writing. `None`: the table does not know how many.
    ReadWrite(Option<u64>),
}

/// Up to a size, so many machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachStep {
    /// Largest size of this step. Unit: GiB.
    pub up_to_gib: u64,
    /// Most machines.
    pub machines_max: u64,
}

/// Above [`ShareFloor::readers_above`] readers each must have [`ShareFloor::each`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareFloor {
    /// So many need nothing.
    pub readers_above: u64,
    /// For each of more.
    pub each: Mib,
}

/// What one machine moves, all its disks together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineRule {
    /// Machine types it is for, with `*` for anything: `c4-*-288`.
    pub pattern: String,
    /// Types of disks it is for. Empty: all.
    pub disks: Vec<String>,
    /// The limit.
    pub throughput: Mib,
    /// Most volumes of that type on one machine. `None`: the table does not know.
    pub volumes_max: Option<u64>,
    /// Nobody has published or measured it.
    pub is_assumed: bool,
    /// Where the row comes from.
    pub origin: Origin,
}

/// What one sequential reader gets through the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderRate {
    /// Read-ahead of the device. Unit: KiB.
    pub read_ahead_kib: u64,
    /// Throughput.
    pub rate: Mib,
}

impl Limits {
    /// The rules of a disk type.
    #[must_use]
    pub fn disk(&self, name: &str) -> Option<&DiskRules> {
        self.disks.iter().find(|disk| disk.name == name)
    }

    /// The limit of `machine` for `disk`. A family without its size (`a3-highgpu`) finds rows of its members.
    #[must_use]
    pub fn machine(&self, machine: &str, disk: &str) -> Option<&MachineRule> {
        let of_disk = |rule: &&MachineRule| {
            rule.disks.is_empty() || rule.disks.iter().any(|name| name == disk)
        };
        let family = format!("{machine}-");
        let fits = |rule: &&MachineRule| {
            matches(rule.pattern.as_bytes(), machine.as_bytes())
                || (rule.pattern != "*" && matches(rule.pattern.as_bytes(), family.as_bytes()))
        };
        self.machines.iter().filter(of_disk).find(fits)
    }

    /// Throughput of `streams` sequential readers of one machine at a read-ahead. Between two rows it rises evenly;
    /// outside of them the nearest row counts. `None` where the table has no rows.
    #[must_use]
    pub fn reader_rate(&self, read_ahead_kib: u64, streams: u64) -> Option<Mib> {
        let above = self.readers.iter().position(|row| row.read_ahead_kib >= read_ahead_kib);
        let rate = match above {
            Some(0) => self.readers[0].rate.0,
            Some(index) => {
                let (low, high) = (self.readers[index - 1], self.readers[index]);
                let way = u128::from(read_ahead_kib - low.read_ahead_kib);
                let whole = u128::from((high.read_ahead_kib - low.read_ahead_kib).max(1));
                let rise = u128::from(high.rate.0.saturating_sub(low.rate.0)) * way / whole;
                low.rate.0.saturating_add(u64::try_from(rise).unwrap_or(u64::MAX))
            }
            None => self.readers.last()?.rate.0,
        };
        Some(Mib(rate.saturating_mul(streams.max(1))))
    }
}

impl DiskRules {
    /// Least that a volume of `size_gib` must have.
    #[must_use]
    pub fn throughput_min(&self, size_gib: u64) -> Mib {
        let by_size = size_gib.saturating_mul(self.throughput.min_milli_per_gib).div_ceil(1_000);
        self.throughput.min.max(Mib(by_size)).min(self.throughput_max(size_gib))
    }

    /// Most that a volume of `size_gib` may have.
    #[must_use]
    pub fn throughput_max(&self, size_gib: u64) -> Mib {
        let by_size = self.throughput.max_per_gib.map(|per| Mib(per.0.saturating_mul(size_gib)));
        by_size.map_or(self.throughput.max, |by_size| by_size.min(self.throughput.max))
    }

    /// What a volume of `size_gib` gets that asks for nothing.
    #[must_use]
    pub fn throughput_default(&self, size_gib: u64) -> Option<Mib> {
        let default = self.throughput.default?;
        let by_size = Mib(default.per_gib.0.saturating_mul(size_gib));
        Some(by_size.max(default.at_least).min(self.throughput_max(size_gib)))
    }

    /// Smallest size that may have `throughput`. Unit: GiB. `None` where no size may.
    #[must_use]
    pub fn size_for(&self, throughput: Mib) -> Option<u64> {
        if throughput > self.throughput.max {
            return None;
        }
        let by_throughput =
            self.throughput.max_per_gib.map_or(0, |per| throughput.0.div_ceil(per.0.max(1)));
        Some(by_throughput.max(self.size_min_gib))
    }

    /// Most machines that may attach a volume of `size_gib`. `None`: the table does not know.
    #[must_use]
    pub fn machines_max(&self, size_gib: u64) -> Option<u64> {
        match &self.sharing {
            Sharing::One => Some(1),
            Sharing::ReadWrite(machines) => *machines,
            Sharing::ReadOnly(steps) => {
                let step = steps.iter().find(|step| size_gib <= step.up_to_gib);
                step.or(steps.last()).map(|step| step.machines_max)
            }
        }
    }

    /// Largest size that so many machines may attach. Unit: GiB. `None` where no size is known to.
    #[must_use]
    pub fn size_for_machines(&self, machines: u64) -> Option<u64> {
        let Sharing::ReadOnly(steps) = &self.sharing else { return None };
        let fits = steps.iter().rev().find(|step| step.machines_max >= machines)?;
        Some(fits.up_to_gib)
    }

    /// Whether machines of the series of `machine` attach it. `None`: the table does not say.
    #[must_use]
    pub fn is_attachable(&self, machine: &str) -> Option<bool> {
        let series = series(machine);
        let has = |list: &[String]| list.iter().any(|name| name == series);
        if has(&self.series) {
            return Some(true);
        }
        has(&self.series_not).then_some(false)
    }

    /// The day from which on volumes must have been made for `machine` to attach them.
    #[must_use]
    pub fn must_be_made_after(&self, machine: &str) -> Option<&str> {
        let series = series(machine);
        self.series_new_only.iter().any(|name| name == series).then_some(self.made_after.as_str())
    }
}

/// `a3-highgpu-8g` is of the series `a3`.
fn series(machine: &str) -> &str {
    machine.split('-').next().unwrap_or(machine)
}

/// Whether `text` fits `pattern`, in which `*` stands for any run of bytes. In time linear in `text` for each `*`.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return pattern == text };
    let (head, rest) = (&pattern[..star], &pattern[star + 1..]);
    let Some(mut text) = text.strip_prefix(head) else { return false };
    let mut parts: Vec<&[u8]> = rest.split(|byte| *byte == b'*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        if part.is_empty() {
            continue;
        }
        let Some(at) = text.windows(part.len()).position(|window| window == part) else {
            return false;
        };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}
