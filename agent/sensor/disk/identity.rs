//! What a block device is, from sysfs.

use sluice_core::sample::{DeviceNumber, VolumeIdentity, VolumeKind};

use super::google::{self, ById};
use super::{CLASS_DIR, sysfs_name};
use crate::sensor::mounts::parse_number;
use crate::sensor::tree::{HostTree, words};

/// Most devices below or above one device: RAID sets are far smaller.
const LAYER_MAX: usize = 256;

/// Reads everything that stays while the device is attached. A device without a place in sysfs gets
/// what its name says.
pub(super) fn read(tree: &mut HostTree, by_id: &ById, name: &str) -> VolumeIdentity {
    let dir = format!("{CLASS_DIR}/{}", sysfs_name(name));
    let kind = read_kind(tree, &dir, name);
    let owner = match &kind {
        VolumeKind::Partition { parent, .. } => parent.as_str(),
        VolumeKind::Disk
        | VolumeKind::Nvme
        | VolumeKind::NvmePath
        | VolumeKind::Loop { .. }
        | VolumeKind::DeviceMapper { .. }
        | VolumeKind::Raid
        | VolumeKind::Memory
        | VolumeKind::Optical => name,
    }
    .to_owned();
    let disk_dir = format!("{CLASS_DIR}/{}", sysfs_name(&owner));
    let number = read_number(tree, &dir);
    let mut identity = VolumeIdentity {
        name: name.to_owned(),
        number,
        diskseq: tree.number(&format!("{disk_dir}/diskseq")),
        slaves: layer(tree, &format!("{dir}/slaves")),
        holders: layer(tree, &format!("{dir}/holders")),
        size_bytes: size_bytes(tree, &dir),
        logical_sector_bytes: tree.number(&format!("{disk_dir}/queue/logical_block_size")),
        physical_sector_bytes: tree.number(&format!("{disk_dir}/queue/physical_block_size")),
        is_rotational: flag(tree, &format!("{disk_dir}/queue/rotational")),
        is_read_only: flag(tree, &format!("{dir}/ro")),
        model: tree.text(&format!("{disk_dir}/device/model")),
        serial: serial(tree, &disk_dir),
        wwid: wwid(tree, &disk_dir),
        by_id: by_id.links_to(name),
        google: None,
        scheduler: scheduler(tree, &disk_dir),
        nr_requests: tree.number(&format!("{disk_dir}/queue/nr_requests")),
        queue_owner: owner,
        kind,
    };
    identity.google = google::identify(tree, &identity);
    identity
}

fn read_kind(tree: &mut HostTree, dir: &str, name: &str) -> VolumeKind {
    if let Some(number) = tree.number(&format!("{dir}/partition")) {
        let parent = tree.parent_name(dir).map(|parent| parent.replace('!', "/"));
        return VolumeKind::Partition { parent: parent.unwrap_or_else(|| name.to_owned()), number };
    }
    let is_numbered = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if is_numbered("nvme") {
        return if is_nvme_path(name) { VolumeKind::NvmePath } else { VolumeKind::Nvme };
    }
    if is_numbered("loop") {
        return VolumeKind::Loop { backing_file: backing_file(tree, dir) };
    }
    if is_numbered("dm-") {
        return VolumeKind::DeviceMapper { name: tree.text(&format!("{dir}/dm/name")) };
    }
    if is_numbered("md") || tree.exists(&format!("{dir}/md")) {
        return VolumeKind::Raid;
    }
    if is_numbered("ram") || is_numbered("zram") {
        return VolumeKind::Memory;
    }
    if is_numbered("sr") { VolumeKind::Optical } else { VolumeKind::Disk }
}

/// `nvme0c1n2`: namespace 2 of subsystem 0 through controller 1.
fn is_nvme_path(name: &str) -> bool {
    let rest = name.trim_start_matches("nvme").trim_start_matches(|c: char| c.is_ascii_digit());
    rest.strip_prefix('c').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn backing_file(tree: &mut HostTree, dir: &str) -> Option<Vec<u8>> {
    let bytes = tree.attribute(&format!("{dir}/loop/backing_file"))?;
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    (!bytes.is_empty()).then(|| bytes.to_vec())
}

fn read_number(tree: &mut HostTree, dir: &str) -> Option<DeviceNumber> {
    let bytes = tree.attribute(&format!("{dir}/dev"))?;
    parse_number(bytes.trim_ascii())
}

fn layer(tree: &HostTree, dir: &str) -> Vec<String> {
    let names = tree.names(dir, LAYER_MAX).unwrap_or_default();
    names.into_iter().map(|name| name.replace('!', "/")).collect()
}

/// Sectors of 512 bytes, on 4Kn devices too.
fn size_bytes(tree: &mut HostTree, dir: &str) -> Option<u64> {
    tree.number::<u64>(&format!("{dir}/size"))?.checked_mul(512)
}

fn flag(tree: &mut HostTree, file: &str) -> Option<bool> {
    tree.number::<u8>(file).map(|value| value != 0)
}

/// NVMe and MMC; virtio; SCSI, whose page 0x80 has a header of four bytes that ends with the
/// length.
fn serial(tree: &mut HostTree, dir: &str) -> Option<String> {
    if let Some(serial) = tree.text(&format!("{dir}/device/serial")) {
        return Some(serial);
    }
    if let Some(serial) = tree.text(&format!("{dir}/serial")) {
        return Some(serial);
    }
    let page = tree.attribute(&format!("{dir}/device/vpd_pg80"))?;
    let text = page.get(4..4 + usize::from(*page.get(3)?))?;
    let text = std::str::from_utf8(text).ok()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn wwid(tree: &mut HostTree, dir: &str) -> Option<String> {
    if let Some(wwid) = tree.text(&format!("{dir}/wwid")) {
        return Some(wwid);
    }
    if let Some(wwid) = tree.text(&format!("{dir}/device/wwid")) {
        return Some(wwid);
    }
    tree.text(&format!("{dir}/dm/uuid"))
}

/// `[mq-deadline] kyber none`: the one in brackets; a lone word where there is no choice.
fn scheduler(tree: &mut HostTree, dir: &str) -> Option<String> {
    let text = tree.text(&format!("{dir}/queue/scheduler"))?;
    let chosen =
        words(text.as_bytes()).find_map(|word| word.strip_prefix(b"[")?.strip_suffix(b"]"));
    match chosen {
        Some(chosen) => String::from_utf8(chosen.to_vec()).ok(),
        None => Some(text),
    }
}
