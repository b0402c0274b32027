//! What is made of a volume, and whose its mounts are.

use crate::get::{limited_by, read_ahead};
use crate::paint::{bad, warn};
use crate::table::Sheet;
use crate::text::{NOTHING, bytes, or_dash, safe};
use crate::view::node::{FindingView, MountView, ReaderView, VolumeView};

/// Nodes listed of a shared volume, who takes most first; `-o json` has all.
const READERS_SHOWN: usize = 20;

/// Read-ahead as it is and as it was asked for, who holds the volume up, and why.
pub(super) fn judgement(sheet: &mut Sheet, volume: &VolumeView) {
    if volume.read_ahead_state.is_none() && volume.bottleneck.is_none() {
        return;
    }
    sheet.section("Judged");
    sheet.field("Read-ahead", read_ahead(volume));
    let asked = volume.read_ahead_wanted_bytes.map_or_else(|| "nothing".to_owned(), bytes);
    let state = or_dash(volume.read_ahead_state.as_deref().unwrap_or_default());
    sheet.field("Asked for", format!("{asked} ({state})"));
    sheet.field("Limited by", limited_by(volume));
    for finding in &volume.findings {
        sheet.lines(&line(finding));
    }
}

fn line(finding: &FindingView) -> String {
    let severity = match finding.severity.as_str() {
        "warning" => warn("warning"),
        "error" => bad("error"),
        other => safe(other),
    };
    let hint = if finding.hint.is_empty() { String::new() } else { format!("; {}", finding.hint) };
    format!("{severity}: {}{} ({})", safe(&finding.message), safe(&hint), safe(&finding.code))
}

/// Mounts, and whose they are where kubelet made them.
pub(super) fn mounts(sheet: &mut Sheet, volume: &VolumeView) {
    let mount = |m: &MountView| {
        let access = if m.read_only { "ro" } else { "rw" };
        vec![safe(&m.mount_point), safe(&m.fs_type), access.to_owned(), safe(&m.options)]
    };
    let rows: Vec<Vec<String>> = volume.mounts.iter().map(mount).collect();
    sheet.section("Mounts").table(&["WHERE", "TYPE", "ACCESS", "OPTIONS"], &rows);
    let text = |text: &Option<String>| or_dash(text.as_deref().unwrap_or_default());
    let used = volume.mounts.iter().filter(|mount| mount.role.is_some());
    let rows: Vec<Vec<String>> = used
        .map(|m| {
            let handle = match &m.problem {
                Some(_) => warn("unreadable"),
                None => m.volume_handle.as_deref().map_or_else(|| NOTHING.to_owned(), safe),
            };
            vec![text(&m.role), text(&m.pod_uid), text(&m.volume), text(&m.container), handle]
        })
        .collect();
    if !rows.is_empty() {
        let titles = ["USE", "POD", "VOLUME", "CONTAINER", "HANDLE"];
        sheet.section("Used by Kubernetes as").table(&titles, &rows);
    }
}

/// Who else has it, as the arbiter knows all nodes.
pub(super) fn shared(sheet: &mut Sheet, volume: &VolumeView) {
    let Some(shared) = &volume.shared else { return };
    let key = volume.shared_key.as_deref().unwrap_or_default();
    sheet.section(&format!("Shared: {}", safe(key)));
    sheet.field("Together", format!("{}/s", bytes(shared.bytes_per_second)));
    let all = shared.readers.len();
    sheet.field("Nodes", format!("{all}, {} of them reading", shared.active_readers));
    let row = |reader: &ReaderView| {
        let by = or_dash(reader.bottleneck.as_deref().unwrap_or_default());
        vec![safe(&reader.node), format!("{}/s", bytes(reader.bytes_per_second)), by]
    };
    let rows: Vec<Vec<String>> = shared.readers.iter().take(READERS_SHOWN).map(row).collect();
    sheet.lines(&crate::table::columns(&["NODE", "TAKES", "LIMITED BY"], &rows));
    if all > READERS_SHOWN {
        sheet.lines(&format!("and {} more", all - READERS_SHOWN));
    }
}
