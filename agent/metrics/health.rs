//! Health of devices and how the kernel's log is read, as metrics.

use std::fmt::Error;

use sluice::wire::pb;

use super::encode::{Families, seconds};
use crate::health::HealthView;

/// Labels by which a device is found in other systems, too.
type DeviceLabels = [(&'static str, String); 3];

/// Everything about health.
pub(super) fn health(
    families: &mut Families<'_>,
    report: &pb::NodeReport,
    judged: &HealthView,
) -> Result<(), Error> {
    devices(families, &report.devices)?;
    xids(families, &report.devices, judged)?;
    if let Some(health) = &report.health {
        node(families, health)?;
    }
    Ok(())
}

fn labels(device: &pb::Device) -> DeviceLabels {
    [
        ("uuid", device.id.clone()),
        ("index", device.index.to_string()),
        ("pci_bus_id", device.pci_bus_id.clone()),
    ]
}

fn devices(families: &mut Families<'_>, devices: &[pb::Device]) -> Result<(), Error> {
    let faults = || devices.iter().flat_map(|d| d.faults.iter().map(move |fault| (d, fault)));
    let label = |(device, fault): (&pb::Device, &pb::Fault)| {
        let reason = fault.reason.as_ref();
        let code = reason.map(|reason| reason.code.clone()).unwrap_or_default();
        let xid = reason.and_then(|reason| reason.values.get("xid").cloned()).unwrap_or_default();
        let [uuid, index, bus] = labels(device);
        [uuid, index, bus, ("code", code), ("xid", xid), ("source", fault.source.clone())]
    };
    let seen = faults().map(|of| (label(of), of.1.count));
    families.gauges("device_fault_messages", "How often a standing fault was seen", seen)?;
    let since = faults().map(|of| (label(of), seconds(of.1.since_age_ms)));
    families.gauges(
        "device_fault_age_seconds",
        "Time since a standing fault was first seen",
        since,
    )?;
    let actions = devices.iter().filter(|d| d.action() > pb::Action::None).map(|device| {
        let [uuid, index, bus] = labels(device);
        let action = device.action().as_str_name().trim_start_matches("ACTION_").to_lowercase();
        ([uuid, index, bus, ("action", action.replace('_', "-"))], 1_u64)
    });
    families.gauges("device_action_wanted", "1 for what is to be done with the device", actions)
}

/// Also of devices that nobody lists any more.
fn xids(
    families: &mut Families<'_>,
    devices: &[pb::Device],
    judged: &HealthView,
) -> Result<(), Error> {
    let series = judged.xids.iter().map(|((pci, code), count)| {
        let bus = pci.to_string();
        let device = devices.iter().find(|device| device.pci_bus_id == bus);
        let uuid = device.map(|device| device.id.clone()).unwrap_or_default();
        let index = device.map(|device| device.index.to_string()).unwrap_or_default();
        ([("uuid", uuid), ("index", index), ("pci_bus_id", bus), ("xid", code.to_string())], *count)
    });
    families.counters(
        "device_xids",
        "Messages of the driver in the kernel's log of this boot",
        series,
    )
}

fn node(families: &mut Families<'_>, health: &pb::NodeHealth) -> Result<(), Error> {
    let faults = health.faults.iter().map(|fault| {
        let code = fault.reason.as_ref().map(|reason| reason.code.clone()).unwrap_or_default();
        ([("code", code), ("source", fault.source.clone())], fault.count)
    });
    families.gauges(
        "node_fault_messages",
        "How often a standing fault of the node was seen",
        faults,
    )?;
    let Some(log) = &health.kernel_log else { return Ok(()) };
    let is_read = u64::from(log.problem.is_empty());
    families.gauge("kernel_log_readable", "1 while the kernel's log is read", is_read)?;
    for (name, help, value) in [
        ("kernel_log_records", "Records read", log.records),
        ("kernel_log_malformed", "Records that are no records", log.malformed),
        (
            "kernel_log_unparsed",
            "Messages of the driver that could not be understood",
            log.unparsed,
        ),
        ("kernel_log_foreign", "Messages that did not come from the kernel", log.foreign),
        ("kernel_log_missed", "Records that were overwritten before they were read", log.missed),
        ("kernel_log_overruns", "Times the kernel said so", log.overruns),
        ("kernel_log_alike", "Messages that only raised the count of an event", log.alike),
        ("kernel_log_events", "Events about devices", log.events),
    ] {
        families.counter(name, help, value)?;
    }
    Ok(())
}
