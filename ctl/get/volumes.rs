//! Volumes as lines.

use crate::paint::{bad, warn};
use crate::table::Column;
use crate::text::{NOTHING, age_or_dash, bytes, or_dash, permille, safe};
use crate::view::node::VolumeView;

pub(super) const COLUMNS: &[Column] = &[
    Column::new("NAME"),
    Column::new("NODE"),
    Column::new("KIND"),
    Column::new("SIZE"),
    Column::new("READ-AHEAD"),
    Column::new("READ/S"),
    Column::new("WRITE/S"),
    Column::new("BUSY"),
    Column::new("LIMITED-BY"),
    Column::new("MOUNT"),
    Column::age("AGE"),
    Column::wide("CLOUD-DISK"),
    Column::wide("SCHEDULER"),
    Column::wide("READ-AWAIT"),
    Column::wide("WRITE-AWAIT"),
    Column::wide("MODEL"),
    Column::wide("BELOW"),
    Column::wide("PV"),
    Column::wide("PODS"),
];

pub(super) fn cells(volume: &VolumeView) -> Vec<String> {
    let rates = volume.rates.as_ref();
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
    let await_us = |us: Option<u64>| or_nothing(us.map(|us| format!("{us} us")));
    let text = |text: &Option<String>| or_dash(text.as_deref().unwrap_or_default());
    vec![
        safe(&volume.device),
        safe(&volume.node),
        format!("{}{}", or_dash(&volume.kind), if volume.read_only { " (ro)" } else { "" }),
        bytes(volume.size_bytes),
        read_ahead(volume),
        or_nothing(rates.map(|r| bytes(r.read_bytes_per_second))),
        or_nothing(rates.map(|r| bytes(r.write_bytes_per_second))),
        or_nothing(rates.map(|r| permille(r.busy_permille))),
        limited_by(volume),
        mounts(volume),
        age_or_dash(volume.age_ms),
        text(&volume.cloud_disk),
        text(&volume.scheduler),
        await_us(rates.and_then(|r| r.read_await_us)),
        await_us(rates.and_then(|r| r.write_await_us)),
        text(&volume.model),
        or_dash(&volume.below.join(",")),
        or_dash(&volume.persistent_volumes().join(",")),
        or_dash(&volume.pods().join(",")),
    ]
}

/// What is in force, and what was asked for if that is something else.
pub(crate) fn read_ahead(volume: &VolumeView) -> String {
    let Some(actual) = volume.read_ahead_bytes.map(bytes) else { return NOTHING.to_owned() };
    match (volume.read_ahead_state.as_deref(), volume.read_ahead_wanted_bytes) {
        (Some("drifted"), Some(wanted)) => warn(&format!("{actual} (not {})", bytes(wanted))),
        _ => actual,
    }
}

/// Who holds it up; coloured where that is somebody.
pub(crate) fn limited_by(volume: &VolumeView) -> String {
    match volume.bottleneck.as_deref() {
        None | Some("unknown" | "idle") => NOTHING.to_owned(),
        Some("none") => "nobody".to_owned(),
        Some("hung") => bad("hung"),
        Some(who) => warn(&safe(who)),
    }
}

/// The first mount and how many more there are.
fn mounts(volume: &VolumeView) -> String {
    match volume.mounts.as_slice() {
        [] => NOTHING.to_owned(),
        [only] => safe(&only.mount_point),
        [first, more @ ..] => format!("{} +{}", safe(&first.mount_point), more.len()),
    }
}
