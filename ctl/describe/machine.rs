//! Nodes, devices, volumes and queues in full.

use super::{checkpoint, reason, yes};
use crate::get::{connection, health};
use crate::paint::dim;
use crate::table::Sheet;
use crate::text::{
    NOTHING, age_or_dash, bytes, count, or_dash, permille, safe, span, span_or_unknown,
};
use crate::view::node::{DeviceView, NodeView, PressureView, VolumeView, WorkerView};
use crate::view::queue::QueueView;

pub(super) fn node(node: &NodeView) -> String {
    let mut sheet = Sheet::new();
    sheet.field("Name", safe(&node.name)).field("Status", connection(node.connected));
    reason(&mut sheet, "Reason", &node.reason);
    sheet.optional("Last heard of", node.last_seen_ms.map(|ms| format!("{} ago", span(ms))));
    sheet.field("Agent version", or_dash(node.agent_version.as_deref().unwrap_or_default()));
    sheet.field("Node uid", or_dash(node.node_uid.as_deref().unwrap_or_default()));
    sheet.field("Boot id", or_dash(node.boot_id.as_deref().unwrap_or_default()));
    sheet.field("Simulated", yes(node.simulated));
    let labels = node.labels.iter().map(|(key, value)| safe(&format!("{key}={value}")));
    sheet.field("Labels", or_dash(&labels.collect::<Vec<_>>().join(", ")));
    node_parts(&mut sheet, node);
    sheet.finish()
}

/// Devices, volumes, workers and pressure of a node, as sections.
pub(crate) fn node_parts(sheet: &mut Sheet, node: &NodeView) {
    let rows: Vec<Vec<String>> = node.devices.iter().map(device_line).collect();
    let titles = ["NAME", "INDEX", "KIND", "HEALTH", "AGE", "SOURCE", "PIDS", "WHY"];
    sheet.section("Devices").table(&titles, &rows);
    if let Some(health) = &node.health {
        super::fault::node(sheet, health);
    }
    let (volumes, empty): (Vec<_>, Vec<_>) = node.volumes.iter().partition(|v| v.size_bytes > 0);
    let rows: Vec<Vec<String>> = volumes.into_iter().map(volume_line).collect();
    let titles = [
        "NAME",
        "KIND",
        "SIZE",
        "READ-AHEAD",
        "READ/S",
        "WRITE/S",
        "BUSY",
        "LIMITED-BY",
        "AGE",
        "MOUNT",
    ];
    sheet.section("Volumes").table(&titles, &rows);
    if !empty.is_empty() {
        sheet.lines(&dim(&format!("({} without any space are not shown)", empty.len())));
    }
    sheet.section("Workers");
    if node.workers.is_empty() {
        sheet.lines("none");
    }
    for worker in &node.workers {
        sheet.lines(&worker_lines(worker));
    }
    if let Some(pressure) = &node.pressure {
        sheet.section("Pressure (share of the last 10 s, 60 s, 300 s in which tasks stalled)");
        pressure_lines(sheet, pressure);
    }
}

fn device_line(device: &DeviceView) -> Vec<String> {
    let pids: Vec<String> = device.holder_pids.iter().take(8).map(u32::to_string).collect();
    vec![
        safe(&device.id),
        device.index.to_string(),
        or_dash(&device.kind),
        health(device.health),
        age_or_dash(device.age_ms),
        or_dash(&device.source),
        or_dash(&pids.join(",")),
        or_dash(&device.health_reason.message),
    ]
}

fn volume_line(volume: &VolumeView) -> Vec<String> {
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
    let rates = volume.rates.as_ref();
    let mounts: Vec<&str> = volume.mounts.iter().take(3).map(|m| m.mount_point.as_str()).collect();
    vec![
        safe(&volume.device),
        or_dash(&volume.kind),
        bytes(volume.size_bytes),
        crate::get::read_ahead(volume),
        or_nothing(rates.map(|r| bytes(r.read_bytes_per_second))),
        or_nothing(rates.map(|r| bytes(r.write_bytes_per_second))),
        or_nothing(rates.map(|r| permille(r.busy_permille))),
        crate::get::limited_by(volume),
        age_or_dash(volume.age_ms),
        or_dash(&mounts.join(",")),
    ]
}

fn worker_lines(worker: &WorkerView) -> String {
    let devices = or_dash(&worker.devices.join(","));
    let processes = count(usize::try_from(worker.processes).unwrap_or(usize::MAX), "process");
    let processes = processes.replace("processs", "processes");
    let ran = match worker.state {
        "Running" => format!(" for {}", span(worker.running_ms)),
        _ => String::new(),
    };
    let mut text = format!(
        "{}: {}{ran}, pid {}, {processes}, devices {devices}\n",
        safe(&worker.id()),
        worker.state,
        worker.pid,
    );
    let newest = worker.checkpoint.as_ref().map(|c| checkpoint(c, worker.checkpoint_age_ms));
    let newest = newest.unwrap_or_else(|| "none seen complete".to_owned());
    text.push_str(&format!("  newest checkpoint: {newest}\n"));
    if let Some(incomplete) = &worker.incomplete_checkpoint {
        text.push_str(&format!("  not complete: {}\n", safe(incomplete)));
    }
    if let Some(fault) = &worker.device_fault {
        text.push_str(&format!("  device: {}\n", safe(&fault.message)));
    }
    if let Some(problem) = &worker.checkpoint_problem {
        text.push_str(&format!("  problem: {}\n", safe(&problem.message)));
    }
    text.push_str(&format!(
        "  step takes {}, saved every {}, save takes {}\n",
        span_or_unknown(worker.step_ms),
        span_or_unknown(worker.save_interval_ms),
        span_or_unknown(worker.save_ms)
    ));
    text
}

fn pressure_lines(sheet: &mut Sheet, pressure: &PressureView) {
    let lines = [
        ("CPU, some", pressure.cpu_some),
        ("Memory, some", pressure.memory_some),
        ("Memory, all", pressure.memory_full),
        ("I/O, some", pressure.io_some),
        ("I/O, all", pressure.io_full),
    ];
    for (name, line) in lines {
        let shown = line.map(|l| {
            let shares = [l.avg10_permille, l.avg60_permille, l.avg300_permille];
            shares.map(permille).join("  ")
        });
        sheet.optional(name, shown);
    }
}

pub(super) fn device(device: &DeviceView) -> String {
    let mut sheet = Sheet::new();
    sheet.field("Name", safe(&device.id)).field("Node", safe(&device.node));
    sheet.field("Index", device.index.to_string());
    sheet.field("Kind", or_dash(&device.kind)).field("Resource", or_dash(&device.resource));
    sheet.field("Simulated", yes(device.simulated)).field("Health", health(device.health));
    reason(&mut sheet, "Reason", &device.health_reason);
    sheet.field("To be done", device.action);
    sheet.field("PCI", or_dash(device.pci_bus_id.as_deref().unwrap_or_default()));
    sheet.field("Memory", device.memory_bytes.map_or("unknown".to_owned(), bytes));
    sheet.field("Workload", or_dash(device.workload.as_deref().unwrap_or_default()));
    let pids: Vec<String> = device.holder_pids.iter().map(u32::to_string).collect();
    sheet.field("Held by pids", or_dash(&pids.join(", ")));
    sheet.field("Source", or_dash(&device.source));
    sheet.field("Age", span_or_unknown(device.age_ms));
    super::fault::table(&mut sheet, "Faults", &device.faults);
    sheet.finish()
}

pub(super) fn volume(volume: &VolumeView) -> String {
    let text = |text: &Option<String>| or_dash(text.as_deref().unwrap_or_default());
    let mut sheet = Sheet::new();
    sheet.field("Name", safe(&volume.device)).field("Node", safe(&volume.node));
    sheet.field("Number", &*volume.number).field("Kind", or_dash(&volume.kind));
    sheet.field("Cloud disk", text(&volume.cloud_disk));
    sheet.field("Model", text(&volume.model)).field("Serial", text(&volume.serial));
    sheet.field("Size", bytes(volume.size_bytes));
    let (logical, physical) = (volume.logical_sector_bytes, volume.physical_sector_bytes);
    sheet.field("Sectors", format!("{logical} B logical, {physical} B physical"));
    sheet.field("Read-only", yes(volume.read_only)).field("Rotational", yes(volume.rotational));
    sheet.field("Read-ahead", volume.read_ahead_bytes.map_or("unknown".to_owned(), bytes));
    sheet.field("Scheduler", text(&volume.scheduler));
    sheet.field("Below", or_dash(&volume.below.join(", ")));
    sheet.field("Source", or_dash(&volume.source));
    sheet.field("Age", span_or_unknown(volume.age_ms));
    if let Some(rates) = &volume.rates {
        sheet.section(&format!("Rates (over {})", span(rates.interval_ms)));
        let per_second = |milli: u64| format!("{}.{:03}/s", milli / 1_000, milli % 1_000);
        let us = |us: Option<u64>| us.map_or_else(|| NOTHING.to_owned(), |us| format!("{us} us"));
        let read = (rates.read_bytes_per_second, rates.reads_per_second_milli);
        let write = (rates.write_bytes_per_second, rates.writes_per_second_milli);
        let shown = |(bytes_per_second, milli): (u64, u64), await_us| {
            let await_us = us(await_us);
            format!(
                "{}/s, {} requests, {await_us} each",
                bytes(bytes_per_second),
                per_second(milli)
            )
        };
        sheet.field("Reads", shown(read, rates.read_await_us));
        sheet.field("Writes", shown(write, rates.write_await_us));
        let queue = rates.queue_length_milli;
        sheet.field("Queue length", format!("{}.{:03}", queue / 1_000, queue % 1_000));
        sheet.field("Busy", permille(rates.busy_permille));
    }
    super::volume::judgement(&mut sheet, volume);
    super::volume::shared(&mut sheet, volume);
    super::volume::mounts(&mut sheet, volume);
    sheet.finish()
}

pub(super) fn queue(queue: &QueueView) -> String {
    let mut sheet = Sheet::new();
    sheet.field("Name", safe(&queue.name));
    sheet.field("Cohort", or_dash(queue.cohort.as_deref().unwrap_or_default()));
    sheet.field("Local queues", or_dash(&queue.local_queues.join(", ")));
    sheet.field("May preempt", yes(queue.preempts));
    sheet.field("Waiting", queue.pending.to_string());
    sheet.field("Admitted", queue.admitted.to_string());
    let rows: Vec<Vec<String>> = queue
        .usage
        .iter()
        .map(|u| {
            let limit = u.borrowing_limit.map_or_else(|| NOTHING.to_owned(), |l| l.to_string());
            vec![safe(&u.flavor), safe(&u.resource), u.used.to_string(), u.nominal_words(), limit]
        })
        .collect();
    let titles = ["FLAVOR", "RESOURCE", "USED", "NOMINAL", "BORROWING LIMIT"];
    sheet.section("Quota").table(&titles, &rows);
    sheet.finish()
}
