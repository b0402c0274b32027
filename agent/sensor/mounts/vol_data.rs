//! `vol_data.json`: what kubelet wrote down about a CSI volume beside its mount. It may be empty or torn after a crash.

use serde::Deserialize;
use sluice_core::sample::VolumeData;

use crate::sensor::tree::HostTree;

/// Longest file that is believed; kubelet writes some hundred bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Longest driver or handle that is believed.
const TEXT_BYTES_MAX: usize = 1_024;

#[derive(Deserialize)]
struct File {
    #[serde(rename = "driverName")]
    driver_name: String,
    #[serde(rename = "volumeHandle")]
    volume_handle: String,
}

/// What kubelet wrote into the directory `dir` of the host.
pub(super) fn read(tree: &mut HostTree, dir: &[u8]) -> VolumeData {
    let Ok(dir) = std::str::from_utf8(dir) else { return VolumeData::Unreadable };
    let file = format!("{}/vol_data.json", dir.trim_start_matches('/'));
    match tree.read(&file, FILE_BYTES_MAX) {
        Ok(bytes) => parse(bytes),
        Err(_) => VolumeData::Unreadable,
    }
}

fn parse(bytes: &[u8]) -> VolumeData {
    let Ok(file) = serde_json::from_slice::<File>(bytes) else { return VolumeData::Unreadable };
    let is_fit = |text: &str| {
        !text.is_empty() && text.len() <= TEXT_BYTES_MAX && !text.chars().any(char::is_control)
    };
    if !is_fit(&file.driver_name) || !is_fit(&file.volume_handle) {
        return VolumeData::Unreadable;
    }
    VolumeData::Read { driver: file.driver_name, handle: file.volume_handle }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use sluice_core::sample::VolumeData;

    #[test]
    fn file_of_kubelet_names_driver_and_handle() {
        let text = r#"{"attachmentID":"csi-f68a","driverName":"pd.csi.storage.gke.io","nodeName":"n1",
            "specVolID":"hdml-static-pv","volumeHandle":"projects/p/zones/us-central1-a/disks/model1",
            "volumeLifecycleMode":"Persistent"}"#;
        let expected = VolumeData::Read {
            driver: "pd.csi.storage.gke.io".to_owned(),
            handle: "projects/p/zones/us-central1-a/disks/model1".to_owned(),
        };
        assert_eq!(parse(text.as_bytes()), expected);
    }

    #[test]
    fn empty_torn_and_hostile_files_are_unreadable() {
        let long = format!(r#"{{"driverName":"d","volumeHandle":"{}"}}"#, "x".repeat(2_000));
        for text in [
            "",
            r#"{"driverName":"pd.c"#,
            r#"{"driverName":"pd.csi.storage.gke.io"}"#,
            r#"{"driverName":"","volumeHandle":"h"}"#,
            r#"{"driverName":"d","volumeHandle":"a\nb"}"#,
            "[]",
            &long,
        ] {
            assert_eq!(parse(text.as_bytes()), VolumeData::Unreadable, "{text:.40}");
        }
    }
}
