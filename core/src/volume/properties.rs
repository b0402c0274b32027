//! Properties that hold for any input from a host, however odd.

use proptest::prelude::*;

use super::bottleneck::{Setting, Watch};
use super::claim::{DiskHandle, DiskPlace, MountRole, kubelet_mount};
use super::limits::tests::limits;
use super::plan::{Ask, plan};
use super::read_ahead::{Case, Mounted, State, intent, judge};
use super::{Mib, Severity};
use crate::sample::VolumeRates;

const ROOT: &[u8] = b"/var/lib/kubelet";

/// Bytes that look like a path of kubelet more often than chance would have it.
fn paths() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just(b"pods".to_vec()),
        Just(b"volumes".to_vec()),
        Just(b"volume-subpaths".to_vec()),
        Just(b"plugins".to_vec()),
        Just(b"kubernetes.io".to_vec()),
        Just(b"csi".to_vec()),
        Just(b"volumeDevices".to_vec()),
        Just(b"globalmount".to_vec()),
        Just(b"mount".to_vec()),
        Just(b"..".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..6),
    ];
    proptest::collection::vec(part, 0..8).prop_map(|parts| {
        let mut path = ROOT.to_vec();
        for part in parts {
            path.push(b'/');
            path.extend(part);
        }
        path
    })
}

fn rates() -> impl Strategy<Value = Option<VolumeRates>> {
    let figures = (1_u64..20_000, any::<u32>(), any::<u16>(), any::<Option<u32>>(), any::<u32>());
    proptest::option::of(figures.prop_map(|(interval_ms, bytes, ios, await_us, queue)| {
        VolumeRates {
            interval_ms,
            read_bytes_per_second: bytes.into(),
            read_ios_per_second: ios.into(),
            read_await_us: await_us.map(u64::from),
            queue_length_milli: queue.into(),
            ..VolumeRates::default()
        }
    }))
}

proptest! {
    #[test]
    fn no_path_names_a_pod_that_could_lead_elsewhere(path in paths()) {
        let Some(mount) = kubelet_mount(&path, ROOT) else { return Ok(()) };
        prop_assert!(mount.data_dir.is_none_or(|dir| path.starts_with(dir) && dir.len() < path.len()));
        if let MountRole::Pod { pod_uid, volume } = mount.role {
            for name in [pod_uid, volume] {
                let is_plain = !name.is_empty() && !name.contains('/') && name != "..";
                prop_assert!(is_plain, "{name:?}");
            }
        }
    }

    #[test]
    fn handle_is_read_as_it_was_written(
        project in "[a-z][a-z0-9:.-]{0,20}", zone in "[a-z]{1,8}-[a-z0-9]{1,8}", disk in "[a-z][a-z0-9-]{0,30}",
    ) {
        prop_assume!(zone != "multi-zone");
        let handle = DiskHandle::parse(&format!("projects/{project}/zones/{zone}/disks/{disk}")).unwrap();
        prop_assert_eq!(handle.place, DiskPlace::Zone(zone));
        prop_assert_eq!((handle.project, handle.disk), (Some(project), disk));
    }

    #[test]
    fn no_text_is_a_handle_by_chance(text in ".{0,200}") {
        prop_assert_eq!(DiskHandle::parse(&text), None);
    }

    #[test]
    fn options_never_ask_for_what_they_do_not_say(options in "[a-z_=0-9,-]{0,60}") {
        if let Ok(Some(asked)) = intent(options.split(',')) {
            prop_assert!(options.contains("read_ahead_kb="));
            prop_assert!(asked.expected_kib() <= asked.asked_kib);
        }
    }

    #[test]
    fn drift_always_has_a_cause_and_what_is_as_asked_none(
        asked_kib in 0_u64..100_000, actual_kib in 0_u64..100_000, sector in any::<u32>(), flags in any::<[bool; 4]>(),
    ) {
        let [is_read_only, is_without_journal, is_block, was_as_asked] = flags;
        let option = format!("read_ahead_kb={asked_kib}");
        let case = Case {
            intent: intent([option.as_str()]).unwrap(),
            actual_kib: Some(actual_kib),
            logical_sector_bytes: Some(sector),
            is_persistent_disk: true,
            holder: None,
            mounted: Mounted { fs_type: None, is_read_only, is_without_journal, is_block },
            was_as_asked,
        };
        let verdict = judge(&case);
        let remarks = usize::from(case.intent.unwrap().remark().is_some());
        let causes = verdict.findings.len() - remarks;
        prop_assert_eq!(causes, usize::from(verdict.state == State::Drifted));
    }

    #[test]
    fn bottleneck_has_a_finding_exactly_when_somebody_is_named(
        samples in proptest::collection::vec((rates(), any::<Option<u16>>()), 0..80),
    ) {
        use super::bottleneck::Bottleneck::{Cgroup, Hung, Node, ReadAhead, Volume};
        let setting = Setting {
            node_limit: Some(Mib(2_400)),
            read_ahead_kib: Some(128),
            ..Setting::default()
        };
        let mut watch = Watch::default();
        for (rates, in_flight) in samples {
            watch.update(rates.as_ref(), in_flight.map(u32::from), &setting);
            let is_named = matches!(watch.bottleneck(), Cgroup | Hung | Node | ReadAhead | Volume);
            prop_assert_eq!(watch.finding().is_some(), is_named);
        }
    }

    #[test]
    fn nearest_legal_throughput_is_legal(
        size_gib in 4_u64..=65_536, readers in 1_u64..=30, mib in 0_u64..3_000_000,
    ) {
        let limits = limits();
        let ask = |mib| Ask {
            disk: "hyperdisk-ml".to_owned(),
            size_gib,
            readers,
            load_bytes: 1 << 30,
            throughput: Some(Mib(mib)),
            streams: 1,
            ..Ask::default()
        };
        match plan(&limits, &ask(mib)) {
            Ok(plan) => prop_assert!(plan.findings.iter().all(|f| f.severity() < Severity::Error)),
            Err(findings) => prop_assert!(findings.iter().all(|f| f.severity() == Severity::Error)),
        }
        let advised = plan(&limits, &ask(readers.max(4) * 100)).unwrap_or_else(|_| {
            let least = limits.disk("hyperdisk-ml").unwrap().throughput_min(size_gib).0;
            plan(&limits, &ask(least.max(readers * 100))).unwrap()
        });
        let again = plan(&limits, &ask(advised.advised.throughput.0));
        prop_assert!(again.is_ok(), "{:?} {again:?}", advised.advised);
    }
}
