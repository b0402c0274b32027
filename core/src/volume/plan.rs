//! A plan for a volume: is it legal, what does each reader get, how long does a load take, and what should be set.

use super::limits::{DiskRules, Limits, MachineRule, Sharing};
use super::{Finding, MIB_BYTES, Mib, Severity};

mod check;
#[cfg(test)]
mod tests;

/// Read-ahead of a kernel that nobody has told anything. Unit: KiB.
pub const READ_AHEAD_DEFAULT_KIB: u64 = 128;

/// From this limit of the machine on, one reader needs twice the read-ahead.
const FAST_MACHINE: Mib = Mib(4_000);

/// What somebody would like to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Disk type: `hyperdisk-ml`.
    pub disk: String,
    /// Unit: GiB.
    pub size_gib: u64,
    /// Machines that read at the same time, at least 1.
    pub readers: u64,
    /// What each of them reads. Unit: bytes.
    pub load_bytes: u64,
    /// Provisioned throughput. `None`: left to Google's default.
    pub throughput: Option<Mib>,
    /// Machine type or family. `None`: not said.
    pub machine: Option<String>,
    /// What one machine moves, where that is known better than the table knows it.
    pub node_limit: Option<Mib>,
    /// Read-ahead that will be set. `None`: the one that the plan advises.
    pub read_ahead_kib: Option<u64>,
    /// Threads of one machine that read sequentially at the same time, at least 1.
    pub streams: u64,
    /// A load should take at most so long. Unit: milliseconds.
    pub load_within_ms: Option<u64>,
}

/// What binds a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// The reader's own read-ahead.
    ReadAhead,
    /// The limit of the machine.
    Node,
    /// The volume, although nobody else reads.
    Volume,
    /// The volume, shared with the other readers.
    OtherReaders,
}

impl Binding {
    /// As it is printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadAhead => "read-ahead",
            Self::Node => "node",
            Self::Volume => "volume",
            Self::OtherReaders => "other readers",
        }
    }
}

/// One load by all readers at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Provisioned throughput.
    pub throughput: Mib,
    /// Read-ahead. Unit: KiB.
    pub read_ahead_kib: u64,
    /// What each reader gets of the volume if all read: throughput ÷ readers. Unit: bytes a second.
    pub share_bytes_per_second: u64,
    /// What each reader reads. Unit: bytes a second.
    pub reader_bytes_per_second: u64,
    /// Time until the last reader has everything. Unit: milliseconds.
    pub load_ms: u64,
    /// What would have to rise for it to be faster.
    pub binding: Binding,
    /// Machines that the volume serves at full speed at the same time, at least 1.
    pub full_speed_readers: u64,
    /// Mean time until a reader has everything, if only so many load at once. Unit: milliseconds.
    pub staggered_mean_ms: u64,
}

/// The limit of one machine, and how it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLimit {
    /// The limit, all its disks together.
    pub throughput: Mib,
    /// Nobody has published or measured it.
    pub is_assumed: bool,
    /// Where it comes from.
    pub source: String,
    /// Most volumes of that type on one machine.
    pub volumes_max: Option<u64>,
}

/// A legal plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Least throughput of that size.
    pub throughput_min: Mib,
    /// Most throughput of that size.
    pub throughput_max: Mib,
    /// What Google gives if nothing is set.
    pub throughput_default: Option<Mib>,
    /// Throughput can be asked for; if not, it follows from the IOPS.
    pub is_throughput_settable: bool,
    /// Most machines that may attach it.
    pub machines_max: Option<u64>,
    /// IOPS that come with the advised throughput.
    pub iops: Option<u64>,
    /// One machine's limit.
    pub node: NodeLimit,
    /// With the throughput asked for, or Google's default.
    pub asked: Option<Forecast>,
    /// The same with a kernel's own read-ahead.
    pub untuned: Option<Forecast>,
    /// With what the plan advises.
    pub advised: Forecast,
    /// What is to be known, most severe first.
    pub findings: Vec<Finding>,
}

/// Makes a plan.
///
/// # Errors
/// Everything that makes it impossible, each with the nearest possible value.
pub fn plan(limits: &Limits, ask: &Ask) -> Result<Plan, Vec<Finding>> {
    let Some(disk) = limits.disk(&ask.disk) else {
        let known: Vec<&str> = limits.disks.iter().map(|disk| disk.name.as_str()).collect();
        let known = known.join(", ");
        return Err(vec![Finding::VolumeTypeUnknown { disk: ask.disk.clone(), known }]);
    };
    let mut findings = check::illegal(disk, ask);
    if !findings.is_empty() {
        return Err(findings);
    }
    let node = node_limit(limits, ask, &mut findings);
    let throughput_default = disk.throughput_default(ask.size_gib);
    let read_ahead_kib = ask.read_ahead_kib.unwrap_or_else(|| advised_read_ahead(node.throughput));
    let reader = limits.reader_rate(read_ahead_kib, ask.streams);
    let each = reader.map_or(node.throughput, |reader| reader.min(node.throughput));
    let advised_throughput = advised_throughput(disk, ask, each);
    let forecast = |throughput, kib| forecast(limits, ask, node.throughput, throughput, kib);
    let set = ask.throughput.or(throughput_default);
    let plan = Plan {
        throughput_min: disk.throughput_min(ask.size_gib),
        throughput_max: disk.throughput_max(ask.size_gib),
        throughput_default,
        is_throughput_settable: disk.throughput.is_settable,
        machines_max: disk.machines_max(ask.size_gib),
        iops: disk
            .iops_per_mib
            .map(|each| advised_throughput.0.saturating_mul(each).min(disk.iops_max)),
        asked: set.map(|set| forecast(set, read_ahead_kib)),
        untuned: set.map(|set| forecast(set, READ_AHEAD_DEFAULT_KIB)),
        advised: forecast(advised_throughput, read_ahead_kib),
        node,
        findings: Vec::new(),
    };
    findings.extend(check::advice(disk, ask, &plan));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
    debug_assert!(findings.iter().all(|finding| finding.severity() < Severity::Error));
    Ok(Plan { findings, ..plan })
}

/// The machine's limit: what was said, else the table's, else the table's row for any machine.
fn node_limit(limits: &Limits, ask: &Ask, findings: &mut Vec<Finding>) -> NodeLimit {
    let machine = ask.machine.as_deref().unwrap_or("an unnamed machine");
    let row = limits.machine(machine, &ask.disk).cloned().unwrap_or_else(|| MachineRule {
        throughput: Mib(u64::MAX / MIB_BYTES),
        is_assumed: true,
        ..MachineRule::default()
    });
    if let Some(throughput) = ask.node_limit {
        let source = "as given".to_owned();
        return NodeLimit { throughput, is_assumed: false, source, volumes_max: row.volumes_max };
    }
    let source = format!("{}, {}", row.origin.source, row.origin.as_of);
    if row.is_assumed {
        findings.push(Finding::VolumeMachineAssumed {
            machine: machine.to_owned(),
            mib: row.throughput,
            source: source.clone(),
        });
    }
    NodeLimit {
        throughput: row.throughput,
        is_assumed: row.is_assumed,
        source,
        volumes_max: row.volumes_max,
    }
}

/// So much that every reader gets the most that it can take (`each_max`), or loads within the time asked for; within what
/// is legal.
fn advised_throughput(disk: &DiskRules, ask: &Ask, each_max: Mib) -> Mib {
    let readers = ask.readers.max(1);
    let each = match ask.load_within_ms {
        Some(within_ms) => {
            let rate = u128::from(ask.load_bytes) * 1_000 / u128::from(within_ms.max(1));
            let rate = Mib(u64::try_from(rate.div_ceil(u128::from(MIB_BYTES))).unwrap_or(u64::MAX));
            rate.min(each_max)
        }
        None => each_max,
    };
    let floor = disk.floor.filter(|floor| readers > floor.readers_above);
    let each = floor.map_or(each, |floor| each.max(floor.each));
    let wanted = Mib(each.0.saturating_mul(readers));
    wanted.clamp(disk.throughput_min(ask.size_gib), disk.throughput_max(ask.size_gib))
}

/// What one sequential reader needs to reach the machine's limit.
fn advised_read_ahead(node: Mib) -> u64 {
    if node >= FAST_MACHINE { 8_192 } else { 4_096 }
}

fn forecast(
    limits: &Limits,
    ask: &Ask,
    node: Mib,
    throughput: Mib,
    read_ahead_kib: u64,
) -> Forecast {
    let readers = ask.readers.max(1);
    let share = throughput.bytes_per_second() / readers;
    let node_rate = node.bytes_per_second();
    let client = limits.reader_rate(read_ahead_kib, ask.streams).map(Mib::bytes_per_second);
    let volume = if readers == 1 { Binding::Volume } else { Binding::OtherReaders };
    // Of equals, the one that is easiest to change is named last.
    let mut slowest = (node_rate, Binding::Node);
    if share < slowest.0 {
        slowest = (share, volume);
    }
    if let Some(client) = client.filter(|client| *client < slowest.0) {
        slowest = (client, Binding::ReadAhead);
    }
    let (reader, binding) = slowest;
    let alone = client.map_or(node_rate, |client| client.min(node_rate)).max(1);
    let full_speed_readers = (throughput.bytes_per_second() / alone).clamp(1, readers);
    Forecast {
        throughput,
        read_ahead_kib,
        share_bytes_per_second: share,
        reader_bytes_per_second: reader,
        load_ms: load_ms(ask.load_bytes, reader),
        binding,
        full_speed_readers,
        staggered_mean_ms: staggered_mean_ms(ask, throughput, alone, full_speed_readers),
    }
}

/// Time to read `bytes`, rounded to the nearest. Unit: milliseconds. Without any throughput: the longest there is.
#[must_use]
pub fn load_ms(bytes: u64, bytes_per_second: u64) -> u64 {
    let Some(rate) = std::num::NonZeroU64::new(bytes_per_second) else { return u64::MAX };
    let rate = u128::from(rate.get());
    let ms = (u128::from(bytes) * 1_000 + rate / 2) / rate;
    u64::try_from(ms).unwrap_or(u64::MAX)
}

/// Readers go in groups of `at_once`: the first group is done after one load, the second after two.
fn staggered_mean_ms(ask: &Ask, throughput: Mib, alone: u64, at_once: u64) -> u64 {
    let readers = ask.readers.max(1);
    let rate = (throughput.bytes_per_second() / at_once.max(1)).min(alone);
    let one = u128::from(load_ms(ask.load_bytes, rate));
    let groups = u128::from(readers.div_ceil(at_once));
    let (at_once, readers) = (u128::from(at_once), u128::from(readers));
    let full = groups - 1;
    // Σ over full groups of at_once × index, and the last group with whoever is left.
    let total = at_once * full * (full + 1) / 2 + (readers - full * at_once) * groups;
    u64::try_from(one.saturating_mul(total) / readers).unwrap_or(u64::MAX)
}

/// Whether readers share it and must not write.
fn is_read_only(disk: &DiskRules) -> bool {
    matches!(disk.sharing, Sharing::ReadOnly(_))
}
