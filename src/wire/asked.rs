//! What PersistentVolumes ask for, as the arbiter tells its agents.

use sluice_core::volume::claim::DiskHandle;
use sluice_core::volume::read_ahead::{Asked, Intent};

use super::pb;
use crate::volumes::persistent::ASKED_MAX;

/// As it is told.
#[must_use]
pub fn told(asked: &Asked) -> Vec<pb::VolumeIntent> {
    let intent = |(handle, intent): (&String, &Intent)| pb::VolumeIntent {
        volume_handle: handle.clone(),
        read_ahead_kb: intent.asked_kib,
    };
    asked.iter().map(intent).collect()
}

/// As it is heard: what is no handle is passed over, and so is what is beyond the bound.
#[must_use]
pub fn heard(told: Vec<pb::VolumeIntent>) -> Asked {
    let intent = |intent: pb::VolumeIntent| {
        DiskHandle::parse(&intent.volume_handle)?;
        Some((intent.volume_handle, Intent { asked_kib: intent.read_ahead_kb }))
    };
    told.into_iter().take(ASKED_MAX).filter_map(intent).collect()
}

#[cfg(test)]
mod tests {
    use super::{ASKED_MAX, heard, told};
    use crate::wire::pb;
    use sluice_core::volume::read_ahead::{Asked, Intent};

    #[test]
    fn what_volumes_ask_for_comes_back_the_same() {
        let of = |i: u64| (format!("projects/p/zones/z/disks/d{i}"), Intent { asked_kib: i });
        let asked: Asked = (0..3).map(of).collect();
        assert_eq!(heard(told(&asked)), asked);
    }

    #[test]
    fn foreign_handles_and_endless_lists_are_passed_over() {
        let intent = |handle: String| pb::VolumeIntent { volume_handle: handle, read_ahead_kb: 4 };
        let foreign = intent("../../etc".to_owned());
        let many = (0..2_000).map(|i| intent(format!("projects/p/zones/z/disks/d{i}")));
        let heard = heard(std::iter::once(foreign).chain(many).collect());
        assert_eq!(heard.len(), ASKED_MAX - 1);
    }
}
