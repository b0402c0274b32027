//! What makes a plan impossible, and what could be better about a possible one.

use super::{Ask, Plan, is_read_only};
use crate::volume::limits::DiskRules;
use crate::volume::{Finding, Mib};

/// Everything that cannot be, each with the nearest that can.
pub(super) fn illegal(disk: &DiskRules, ask: &Ask) -> Vec<Finding> {
    let mut found = Vec::new();
    let size_gib = ask.size_gib;
    if !(disk.size_min_gib..=disk.size_max_gib).contains(&size_gib) {
        found.push(Finding::VolumeSizeIllegal {
            disk: disk.name.clone(),
            size_gib,
            min_gib: disk.size_min_gib,
            max_gib: disk.size_max_gib,
            nearest_gib: size_gib.clamp(disk.size_min_gib, disk.size_max_gib),
        });
        // Every other rule depends on the size.
        return found;
    }
    found.extend(ask.throughput.and_then(|asked| throughput(disk, size_gib, asked)));
    found.extend(readers(disk, ask));
    if let Some(machine) = &ask.machine
        && disk.is_attachable(machine) == Some(false)
    {
        let disk = disk.name.clone();
        found.push(Finding::VolumeMachineUnsupported { disk, machine: machine.clone() });
    }
    found
}

fn throughput(disk: &DiskRules, size_gib: u64, asked: Mib) -> Option<Finding> {
    if !disk.throughput.is_settable {
        return Some(Finding::VolumeThroughputNotSettable { disk: disk.name.clone() });
    }
    let (min, max) = (disk.throughput_min(size_gib), disk.throughput_max(size_gib));
    if asked > max {
        let too_high = match disk.size_for(asked) {
            Some(needed_gib) => {
                Finding::VolumeThroughputTooHigh { mib: asked, max, size_gib, needed_gib }
            }
            None => Finding::VolumeThroughputBeyondType {
                mib: asked,
                type_max: disk.throughput.max,
                nearest: max,
                disk: disk.name.clone(),
            },
        };
        return Some(too_high);
    }
    (asked < min).then_some(Finding::VolumeThroughputTooLow { mib: asked, min, size_gib })
}

fn readers(disk: &DiskRules, ask: &Ask) -> Option<Finding> {
    let (readers, size_gib) = (ask.readers.max(1), ask.size_gib);
    let max = disk.machines_max(size_gib)?;
    if readers > max {
        if max <= 1 {
            return Some(Finding::VolumeNotShareable { disk: disk.name.clone(), readers });
        }
        let smaller = match disk.size_for_machines(readers) {
            Some(gib) if gib >= disk.size_min_gib => format!("; or a volume of at most {gib} GiB"),
            Some(_) | None => String::new(),
        };
        let copies = readers.div_ceil(max);
        return Some(Finding::VolumeReadersTooMany { readers, max, size_gib, copies, smaller });
    }
    let floor = disk.floor.filter(|floor| readers > floor.readers_above)?;
    let needed = Mib(floor.each.0.saturating_mul(readers));
    let mib = ask.throughput.or_else(|| disk.throughput_default(size_gib))?;
    (mib < needed).then_some(Finding::VolumeShareBelowFloor {
        readers,
        mib,
        needed,
        each: floor.each,
    })
}

/// What is to be known of a legal plan.
pub(super) fn advice(disk: &DiskRules, ask: &Ask, plan: &Plan) -> Vec<Finding> {
    let mut found = Vec::new();
    let wanted = plan.advised.throughput;
    match (ask.throughput, plan.throughput_default) {
        (None, Some(default)) if default != wanted && disk.throughput.is_settable => {
            found.push(Finding::VolumeDefaultThroughput { default, wanted });
        }
        (Some(mib), _) => found.extend(provisioned(ask, plan, mib, wanted)),
        (None, _) => {}
    }
    if let Some(kib) = ask.read_ahead_kib
        && plan.advised.binding == super::Binding::ReadAhead
    {
        let rate = Mib(plan.advised.reader_bytes_per_second / crate::volume::MIB_BYTES);
        let wanted_kib = super::advised_read_ahead(plan.node.throughput);
        if kib < wanted_kib {
            found.push(Finding::VolumeReadAheadBinds { kib, rate, wanted_kib });
        }
    }
    if let Some(machine) = &ask.machine {
        found.extend(of_machine(disk, machine));
    }
    if is_read_only(disk) && ask.readers > 1 {
        found.push(Finding::VolumeReadOnlyForGood { disk: disk.name.clone() });
    }
    let hours = (disk.throughput_change_hours, disk.size_change_hours);
    if let (Some(throughput_hours), Some(size_hours)) = hours {
        found.push(Finding::VolumeChangeSlow { throughput_hours, size_hours });
    }
    found
}

fn provisioned(ask: &Ask, plan: &Plan, mib: Mib, wanted: Mib) -> Option<Finding> {
    let usable = Mib(plan.node.throughput.0.saturating_mul(ask.readers.max(1)));
    let usable = usable.max(plan.throughput_min);
    if mib > usable {
        return Some(Finding::VolumeThroughputWasted { mib, usable });
    }
    let share = Mib(mib.0 / ask.readers.max(1));
    (mib < wanted).then_some(Finding::VolumeThroughputShort { mib, wanted, share })
}

fn of_machine(disk: &DiskRules, machine: &str) -> Option<Finding> {
    if let Some(day) = disk.must_be_made_after(machine) {
        let (machine, made_after) = (machine.to_owned(), day.to_owned());
        return Some(Finding::VolumeMadeTooEarly { machine, made_after });
    }
    let is_unknown = disk.is_attachable(machine).is_none();
    is_unknown.then(|| Finding::VolumeSeriesUnknown {
        disk: disk.name.clone(),
        machine: machine.to_owned(),
    })
}
