//! Whose a mount is: pods, PersistentVolumes and cloud disks, from the paths and files that kubelet leaves on a node.
//!
//! Paths and contents are chosen by others: nothing here is used to open anything, and what does not look as kubelet
//! writes it is refused.

#[cfg(test)]
mod tests;

/// Longest identifier that is believed: names in Kubernetes have at most 253 bytes, handles of other drivers more.
const TEXT_BYTES_MAX: usize = 1_024;

/// Google's driver for Persistent Disk and Hyperdisk.
pub const DRIVER: &str = "pd.csi.storage.gke.io";

/// What kubelet uses a mount for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MountRole {
    /// Staged for all pods of the node: `…/plugins/kubernetes.io/csi/…/globalmount`.
    Staged,
    /// A volume of a pod: `…/pods/UID/volumes/kubernetes.io~csi/NAME/mount`.
    Pod {
        /// The pod's uid.
        pod_uid: String,
        /// The volume's name in the node's books: the PersistentVolume for CSI.
        volume: String,
    },
    /// A part of a volume: `…/pods/UID/volume-subpaths/VOLUME/CONTAINER/INDEX`.
    SubPath {
        /// The pod's uid.
        pod_uid: String,
        /// The volume's name in the pod.
        volume: String,
        /// The container.
        container: String,
    },
    /// A device handed to a pod as it is: `…/plugins/kubernetes.io/csi/volumeDevices/…`.
    Block {
        /// The PersistentVolume, where the path names one.
        volume: Option<String>,
        /// The pod's uid, where the path names one.
        pod_uid: Option<String>,
    },
}

/// A mount point of kubelet, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletMount<'a> {
    /// What it is for.
    pub role: MountRole,
    /// Where kubelet keeps `vol_data.json` for it, as a mount point prefix. `None`: nowhere.
    pub data_dir: Option<&'a [u8]>,
}

/// What a mount point is to kubelet, whose root (`/var/lib/kubelet`) may be anywhere. `None`: not kubelet's.
///
/// Paths are bytes; names that are not UTF-8 are shown lossily and belong to nobody's pod.
#[must_use]
pub fn kubelet_mount<'a>(mount_point: &'a [u8], kubelet_root: &[u8]) -> Option<KubeletMount<'a>> {
    let root = kubelet_root.strip_suffix(b"/").unwrap_or(kubelet_root);
    let below = mount_point.strip_prefix(root)?.strip_prefix(b"/")?;
    let parts: Vec<&[u8]> = below.split(|byte| *byte == b'/').collect();
    let role = match parts.as_slice() {
        [b"plugins", b"kubernetes.io", b"csi", b"volumeDevices", rest @ ..] => block(rest)?,
        [b"plugins", b"kubernetes.io", b"csi", .., b"globalmount"] => MountRole::Staged,
        [b"pods", uid, b"volumes", _, volume, ..] => {
            MountRole::Pod { pod_uid: text(uid)?, volume: text(volume)? }
        }
        [b"pods", uid, b"volume-subpaths", volume, container, ..] => MountRole::SubPath {
            pod_uid: text(uid)?,
            volume: text(volume)?,
            container: text(container)?,
        },
        [b"pods", uid, b"volumeDevices", _, volume, ..] => {
            MountRole::Block { volume: Some(text(volume)?), pod_uid: Some(text(uid)?) }
        }
        _ => return None,
    };
    let is_csi_pod =
        matches!(parts.as_slice(), [b"pods", _, b"volumes", b"kubernetes.io~csi", _, b"mount"]);
    let data_dir = if role == MountRole::Staged || is_csi_pod { parent(mount_point) } else { None };
    Some(KubeletMount { role, data_dir })
}

/// `publish/PV/UID`, `staging/PV/…`, `PV/dev/UID`, `PV/data`
fn block(rest: &[&[u8]]) -> Option<MountRole> {
    let (volume, uid) = match rest {
        [b"publish", volume, uid, ..] => (*volume, Some(*uid)),
        [b"staging" | b"publish", volume, ..] => (*volume, None),
        [volume, b"dev", uid, ..] => (*volume, Some(*uid)),
        [volume, ..] => (*volume, None),
        [] => return None,
    };
    let pod_uid = match uid {
        Some(uid) => Some(text(uid)?),
        None => None,
    };
    Some(MountRole::Block { volume: Some(text(volume)?), pod_uid })
}

fn text(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_fit = !text.is_empty()
        && text.len() <= TEXT_BYTES_MAX
        && !matches!(text, "." | "..")
        && !text.chars().any(char::is_control);
    is_fit.then(|| text.to_owned())
}

fn parent(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().rposition(|byte| *byte == b'/')?;
    Some(&path[..slash])
}

/// A Google disk, as a PersistentVolume's handle names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskHandle {
    /// Its project. `None`: not told (volumes that came from elsewhere).
    pub project: Option<String>,
    /// Where it is.
    pub place: DiskPlace,
    /// Its name.
    pub disk: String,
}

/// Where a disk is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskPlace {
    /// In one zone.
    Zone(String),
    /// In several zones a disk of the same name: the one of the node's zone is meant.
    EachZone,
    /// In a region, kept twice.
    Region(String),
    /// Not told.
    Unknown,
}

impl DiskHandle {
    /// Reads a handle: `projects/P/zones/Z/disks/D` or `projects/P/regions/R/disks/D`, exactly six parts of plain
    /// characters. `None`: it is none.
    #[must_use]
    pub fn parse(handle: &str) -> Option<Self> {
        if handle.len() > TEXT_BYTES_MAX {
            return None;
        }
        let parts: Vec<&str> = handle.split('/').collect();
        let ["projects", project, kind, place, "disks", disk] = parts.as_slice() else {
            return None;
        };
        if ![project, place, disk].into_iter().all(|part| is_plain(part)) {
            return None;
        }
        let place = match (*kind, *place) {
            ("zones" | "regions", "UNSPECIFIED") => DiskPlace::Unknown,
            ("zones", "multi-zone") => DiskPlace::EachZone,
            ("zones", zone) => DiskPlace::Zone(zone.to_owned()),
            ("regions", region) => DiskPlace::Region(region.to_owned()),
            _ => return None,
        };
        let project = (*project != "UNSPECIFIED").then(|| (*project).to_owned());
        Some(Self { project, place, disk: (*disk).to_owned() })
    }

    /// The name by which the guest sees it.
    #[must_use]
    pub fn device_name(&self) -> String {
        match self.place {
            DiskPlace::Region(_) => format!("{}_regional", self.disk),
            DiskPlace::Zone(_) | DiskPlace::EachZone | DiskPlace::Unknown => self.disk.clone(),
        }
    }

    /// What tells a shared volume from all others: project, zone (the node's, where each has its own) and disk.
    /// `None` where the handle does not say enough.
    #[must_use]
    pub fn key(&self, node_zone: Option<&str>) -> Option<String> {
        let project = self.project.as_deref()?;
        let place = match &self.place {
            DiskPlace::Zone(place) | DiskPlace::Region(place) => place.as_str(),
            DiskPlace::EachZone => node_zone?,
            DiskPlace::Unknown => return None,
        };
        Some(format!("{project}/{place}/{}", self.disk))
    }
}

/// What projects, zones and disks are called; a domain's project has a colon.
fn is_plain(part: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    !part.is_empty() && part.len() <= 128 && part != "." && part != ".." && part.chars().all(plain)
}
