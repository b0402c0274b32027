//! What was made of volumes, and whose their mounts are, as it is told.

use sluice_core::sample::{MountSample, VolumeData, VolumeJudgement};
use sluice_core::volume::Finding;
use sluice_core::volume::claim::MountRole;

use super::pb;

/// Adds what was made of a volume.
pub(super) fn judged(volume: &mut pb::Volume, judgement: &VolumeJudgement) {
    let read_ahead = &judgement.read_ahead;
    volume.read_ahead_wanted_bytes = read_ahead.expected_kib.map(|kib| kib.saturating_mul(1_024));
    volume.read_ahead_state = read_ahead.state.as_str().to_owned();
    volume.bottleneck = judgement.bottleneck.as_str().to_owned();
    let findings = read_ahead.findings.iter().chain(&judgement.bottleneck_finding);
    volume.findings = findings.map(Into::into).collect();
}

impl From<&Finding> for pb::VolumeFinding {
    fn from(finding: &Finding) -> Self {
        Self { reason: Some(finding.into()), severity: finding.severity().as_str().to_owned() }
    }
}

impl From<&Finding> for pb::Reason {
    fn from(finding: &Finding) -> Self {
        let values = finding.values().into_iter().map(|(name, v)| (name.to_owned(), v));
        Self {
            code: finding.code().to_owned(),
            message: finding.to_string(),
            hint: finding.hint(),
            values: values.collect(),
        }
    }
}

/// Whose a mount is; everything else of it is left empty.
pub(super) fn owner(mount: &MountSample) -> pb::Mount {
    let mut told = pb::Mount::default();
    match &mount.role {
        None => {}
        Some(MountRole::Staged) => "staged".clone_into(&mut told.role),
        Some(MountRole::Pod { pod_uid, volume }) => {
            "pod".clone_into(&mut told.role);
            (told.pod_uid, told.volume) = (pod_uid.clone(), volume.clone());
        }
        Some(MountRole::SubPath { pod_uid, volume, container }) => {
            "subpath".clone_into(&mut told.role);
            (told.pod_uid, told.volume) = (pod_uid.clone(), volume.clone());
            told.container.clone_from(container);
        }
        Some(MountRole::Block { volume, pod_uid }) => {
            "block".clone_into(&mut told.role);
            told.volume = volume.clone().unwrap_or_default();
            told.pod_uid = pod_uid.clone().unwrap_or_default();
        }
    }
    match &mount.data {
        None => {}
        Some(VolumeData::Read { driver, handle }) => {
            (told.driver, told.volume_handle) = (driver.clone(), handle.clone());
        }
        Some(VolumeData::Unreadable) => {
            let path = mount.mount_point_lossy();
            let path = path.rsplit_once('/').map_or(path.as_str(), |(dir, _)| dir).to_owned();
            told.problem = Some((&Finding::VolumeDataUnreadable { path }).into());
        }
    }
    told
}
