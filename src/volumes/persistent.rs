//! What PersistentVolumes ask for: their mount options, from YAML or JSON as `kubectl get pv -o yaml` prints it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use sluice_core::volume::claim::{DRIVER, DiskHandle};
use sluice_core::volume::read_ahead::{self, Asked};

#[cfg(test)]
mod tests;

/// Longest file. A volume takes about 1 kB as the API server prints it.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Most documents of a file: other objects may stand among the volumes.
const DOCUMENTS_MAX: usize = 100_000;

/// Most values of a file, at less than three bytes each: what the largest file can have.
const VALUES_MAX: usize = 3_000_000;

/// Most volumes with a read-ahead of their own. Each agent is told all of them when it connects: at 15,000 agents and 100
/// bytes each, more would delay the restart of an arbiter.
pub const ASKED_MAX: usize = 1_024;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document {
    kind: Option<String>,
    metadata: Metadata,
    spec: Spec,
    items: Vec<Document>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    mount_options: Vec<String>,
    csi: Option<Csi>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Csi {
    driver: String,
    volume_handle: String,
}

/// Reads what the PersistentVolumes of a file ask for, by handle. Other objects, other drivers and volumes that ask for
/// nothing are passed over.
///
/// # Errors
/// The file cannot be read, or a volume asks for what cannot be: which, and why.
pub fn asked(file: &Path) -> Result<Asked, String> {
    let shown = file.display();
    let mut text = String::new();
    File::open(file)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|error| format!("could not read \"{shown}\": {error}"))?;
    if u64::try_from(text.len()).is_ok_and(|length| length > FILE_BYTES_MAX) {
        return Err(format!(
            "\"{shown}\" has more than {FILE_BYTES_MAX} bytes; leave out what asks for no read-ahead"
        ));
    }
    parse(&text).map_err(|why| format!("\"{shown}\": {why}"))
}

fn parse(text: &str) -> Result<Asked, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: DOCUMENTS_MAX,
            max_nodes: VALUES_MAX,
            max_events: 3 * VALUES_MAX,
        },
        with_snippet: false,
    };
    let documents: Vec<Document> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| format!("it is no YAML of PersistentVolumes: {error}"))?;
    let mut asked = BTreeMap::new();
    let all = documents.iter().flat_map(|d| std::iter::once(d).chain(&d.items));
    for volume in all.filter(|d| d.kind.as_deref() == Some("PersistentVolume")) {
        add(volume, &mut asked)?;
    }
    if asked.len() > ASKED_MAX {
        let given = asked.len();
        return Err(format!("{given} volumes ask for a read-ahead; the limit is {ASKED_MAX}"));
    }
    Ok(asked)
}

fn add(volume: &Document, asked: &mut Asked) -> Result<(), String> {
    let Some(csi) = volume.spec.csi.as_ref().filter(|csi| csi.driver == DRIVER) else {
        return Ok(());
    };
    let name = volume.metadata.name.as_deref().unwrap_or("without a name");
    let options = volume.spec.mount_options.iter().flat_map(|option| option.split(','));
    let intent = read_ahead::intent(options)
        .map_err(|finding| format!("PersistentVolume {name:?}: {finding}; {}", finding.hint()))?;
    let Some(intent) = intent else { return Ok(()) };
    let handle = &csi.volume_handle;
    if DiskHandle::parse(handle).is_none() {
        return Err(format!(
            "PersistentVolume {name:?} has the volumeHandle {handle:?}, which is not projects/P/zones/Z/disks/D or \
             projects/P/regions/R/disks/D"
        ));
    }
    match asked.insert(handle.clone(), intent) {
        Some(other) if other != intent => Err(format!(
            "PersistentVolume {name:?} asks for {} KiB of the disk {handle:?}, of which another asks for {}",
            intent.asked_kib, other.asked_kib
        )),
        Some(_) | None => Ok(()),
    }
}
