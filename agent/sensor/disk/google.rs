//! Which Google disk a block device is, as far as a guest can tell without asking the device
//! itself.
//!
//! The device's own word counts first, then udev's database (filled from the device when it
//! appeared), then the links in `/dev/disk/by-id`, which can be stale. A guest cannot tell
//! Hyperdisk from Persistent Disk.

use std::collections::BTreeMap;

use sluice_core::sample::{DiskClass, GoogleDisk, IdentitySource, VolumeIdentity, VolumeKind};

use crate::sensor::tree::HostTree;

const BY_ID_DIR: &str = "dev/disk/by-id";

/// Most links looked at: a VM has up to 128 disks with a handful of links and partitions each.
const LINKS_MAX: usize = 8192;

/// Most links kept for one device; ordinary is one.
const LINKS_PER_DEVICE_MAX: usize = 16;

/// A record of udev has at most a few dozen lines.
const UDEV_BYTES_MAX: u64 = 64 << 10;

/// Longer than any name that can be given to a disk (63) or a device (63), with `_regional`.
const DEVICE_NAME_BYTES_MAX: usize = 128;

/// The links `google-*` of `/dev/disk/by-id`, by the device they point to.
#[derive(Debug, Default)]
pub(super) struct ById {
    links: BTreeMap<String, Vec<String>>,
}

impl ById {
    /// Reads all links anew. Without the directory (no udev) there are none.
    pub(super) fn read(&mut self, tree: &HostTree) {
        self.links.clear();
        for link in tree.names(BY_ID_DIR, LINKS_MAX).unwrap_or_default() {
            if !link.starts_with("google-") {
                continue;
            }
            if let Some(device) = tree.link_name(&format!("{BY_ID_DIR}/{link}")) {
                let links = self.links.entry(device).or_default();
                if links.len() < LINKS_PER_DEVICE_MAX {
                    links.push(link);
                }
            }
        }
    }

    pub(super) fn links_to(&self, name: &str) -> Vec<String> {
        self.links.get(name).cloned().unwrap_or_default()
    }
}

/// What one source says.
struct Claim {
    device_name: Option<String>,
    class: DiskClass,
    source: IdentitySource,
}

/// The Google disk behind a device; layers above disks (dm, md, loop) are none themselves.
pub(super) fn identify(tree: &mut HostTree, identity: &VolumeIdentity) -> Option<GoogleDisk> {
    let partition = match &identity.kind {
        VolumeKind::Disk | VolumeKind::Nvme => None,
        VolumeKind::Partition { number, .. } => Some(*number),
        VolumeKind::NvmePath
        | VolumeKind::Loop { .. }
        | VolumeKind::DeviceMapper { .. }
        | VolumeKind::Raid
        | VolumeKind::Memory
        | VolumeKind::Optical => return None,
    };
    let linked: Vec<&str> =
        identity.by_id.iter().filter_map(|link| linked_name(link, partition)).collect();
    let from_model = from_nvme_model(tree, identity);
    let claim = from_wwid(identity)
        .or_else(|| from_udev(tree, identity))
        .or_else(|| from_links(&linked, from_model.as_ref().map(|model| model.class)))
        .or(from_model)?;
    let has_by_id_mismatch = claim.source != IdentitySource::ById
        && claim.device_name.is_some()
        && linked.iter().any(|name| Some(*name) != claim.device_name.as_deref());
    Some(GoogleDisk {
        device_name: claim.device_name,
        class: claim.class,
        source: claim.source,
        has_by_id_mismatch,
    })
}

/// `t10.Google  PersistentDisk  pvc-8ee0cf44`
fn from_wwid(identity: &VolumeIdentity) -> Option<Claim> {
    let mut words = identity.wwid.as_deref()?.strip_prefix("t10.Google")?.split_whitespace();
    let class = class_of(words.next()?)?;
    let device_name = words.next().and_then(checked_name);
    Some(Claim { device_name, class, source: IdentitySource::Wwid })
}

/// `E:ID_SERIAL=Google_PersistentDisk_model1` and `E:ID_SERIAL_SHORT=model1`
fn from_udev(tree: &mut HostTree, identity: &VolumeIdentity) -> Option<Claim> {
    let bytes = tree.read(&format!("run/udev/data/b{}", identity.number?), UDEV_BYTES_MAX).ok()?;
    let value = |name: &str| {
        let lines = bytes.split(|byte| *byte == b'\n');
        let mut values = lines.filter_map(|line| line.strip_prefix(name.as_bytes()));
        values.next().and_then(|value| std::str::from_utf8(value).ok())
    };
    let serial = value("E:ID_SERIAL=")?.strip_prefix("Google_")?;
    let (class, long_name) = serial.split_once('_')?;
    let device_name = value("E:ID_SERIAL_SHORT=").and_then(checked_name);
    Some(Claim {
        device_name: device_name.or_else(|| checked_name(long_name)),
        class: class_of(class)?,
        source: IdentitySource::UdevData,
    })
}

fn from_links(linked: &[&str], class: Option<DiskClass>) -> Option<Claim> {
    let name = linked.iter().find_map(|name| checked_name(name))?;
    let class = class.unwrap_or(if name.starts_with("local-") {
        DiskClass::LocalSsd
    } else {
        DiskClass::Persistent
    });
    Some(Claim { device_name: Some(name), class, source: IdentitySource::ById })
}

/// `nvme_card-pd`, or `nvme_card<controller>` for Local SSDs, which are numbered through all
/// controllers.
fn from_nvme_model(tree: &mut HostTree, identity: &VolumeIdentity) -> Option<Claim> {
    let model = identity.model.as_deref().or(identity.serial.as_deref())?;
    let rest = model.strip_prefix("nvme_card")?;
    let claim =
        |device_name, class| Some(Claim { device_name, class, source: IdentitySource::NvmeModel });
    if rest == "-pd" {
        return claim(None, DiskClass::Persistent);
    }
    let controller: u32 = if rest.is_empty() { 0 } else { rest.parse().ok()? };
    let nsid_file = format!("{}/{}/nsid", super::CLASS_DIR, identity.queue_owner);
    let number = tree
        .number::<u32>(&nsid_file)
        .and_then(|nsid| controller.checked_add(nsid)?.checked_sub(1));
    claim(number.map(|number| format!("local-nvme-ssd-{number}")), DiskClass::LocalSsd)
}

fn class_of(word: &str) -> Option<DiskClass> {
    match word {
        "PersistentDisk" => Some(DiskClass::Persistent),
        "EphemeralDisk" => Some(DiskClass::LocalSsd),
        _ => None,
    }
}

/// The device name in a link's name. A disk may itself be called `x-part1`, so the suffix counts
/// only where the device is that partition.
fn linked_name(link: &str, partition: Option<u32>) -> Option<&str> {
    let name = link.strip_prefix("google-")?;
    match partition {
        Some(number) => name.strip_suffix(&format!("-part{number}")),
        None => Some(name),
    }
}

/// Names come from outside and end up in messages and paths: anything but plain characters is
/// refused.
fn checked_name(name: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_fit =
        !name.is_empty() && name.len() <= DEVICE_NAME_BYTES_MAX && name.chars().all(is_plain);
    is_fit.then(|| name.to_owned())
}
