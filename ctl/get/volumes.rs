//! Volumes as lines.

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
    Column::new("MOUNT"),
    Column::age("AGE"),
    Column::wide("CLOUD-DISK"),
    Column::wide("SCHEDULER"),
    Column::wide("READ-AWAIT"),
    Column::wide("WRITE-AWAIT"),
    Column::wide("MODEL"),
    Column::wide("BELOW"),
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
        or_nothing(volume.read_ahead_bytes.map(bytes)),
        or_nothing(rates.map(|r| bytes(r.read_bytes_per_second))),
        or_nothing(rates.map(|r| bytes(r.write_bytes_per_second))),
        or_nothing(rates.map(|r| permille(r.busy_permille))),
        mounts(volume),
        age_or_dash(volume.age_ms),
        text(&volume.cloud_disk),
        text(&volume.scheduler),
        await_us(rates.and_then(|r| r.read_await_us)),
        await_us(rates.and_then(|r| r.write_await_us)),
        text(&volume.model),
        or_dash(&volume.below.join(",")),
    ]
}

/// The first mount and how many more there are.
fn mounts(volume: &VolumeView) -> String {
    match volume.mounts.as_slice() {
        [] => NOTHING.to_owned(),
        [only] => safe(&only.mount_point),
        [first, more @ ..] => format!("{} +{}", safe(&first.mount_point), more.len()),
    }
}
