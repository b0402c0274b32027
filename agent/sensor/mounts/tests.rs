use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use sluice_core::sample::{DeviceNumber, MountSample, MountTableSample, VolumeData, volume_of};
use sluice_core::volume::claim::MountRole;

use super::{MountSensor, parse, unescape};
use crate::sensor::disk::DiskSensor;
use crate::sensor::tests::host;
use crate::sensor::tree::path_bytes;

fn check(line: &str, expected: Option<MountSample>) {
    let table = parse(line.as_bytes());
    let malformed_lines = u32::from(expected.is_none());
    let mounts = expected.into_iter().collect();
    assert_eq!(table, MountTableSample { mounts, malformed_lines, dropped: 0 }, "{line:?}");
}

fn ext4(mount_point: &str) -> MountSample {
    MountSample {
        mount_id: 73,
        parent_id: 67,
        number: DeviceNumber { major: 8, minor: 32 },
        root: b"/".to_vec(),
        mount_point: mount_point.as_bytes().to_vec(),
        fs_type: "ext4".to_owned(),
        source: Some(b"/dev/sdc".to_vec()),
        options: "rw,relatime".to_owned(),
        super_options: "rw".to_owned(),
        is_read_only: false,
        role: None,
        data: None,
    }
}

#[test]
fn escapes_are_exactly_three_octal_digits_undone_once() {
    let cases: [(&str, &[u8]); 8] = [
        (r"/[WorkloadDatastore]\0405137595f", b"/[WorkloadDatastore] 5137595f"),
        (r"/mnt/a\011b\012c\134d", b"/mnt/a\tb\nc\\d"),
        (r"/mnt/x\043y", b"/mnt/x#y"),
        (r"\134040", br"\040"),
        (r"/end\04", br"/end\04"),
        (r"/end\", br"/end\"),
        (r"/no\9a8\400", br"/no\9a8\400"),
        (r"/byte\377", b"/byte\xff"),
    ];
    for (escaped, expected) in cases {
        assert_eq!(unescape(escaped.as_bytes()), expected, "{escaped}");
    }
}

#[test]
fn optional_fields_may_be_absent_unknown_or_many() {
    for optional in ["", "shared:30 ", "foo:7 shared:9 master:1 "] {
        let line = format!("73 67 8:32 / /mnt rw,relatime {optional}- ext4 /dev/sdc rw\n");
        check(&line, Some(ext4("/mnt")));
    }
    check("73 67 8:32 / /mnt rw,relatime -  ext4 /dev/sdc rw", Some(ext4("/mnt")));
}

#[test]
fn empty_source_is_none() {
    let tmpfs = MountSample {
        fs_type: "tmpfs".to_owned(),
        source: None,
        number: DeviceNumber { major: 0, minor: 33 },
        ..ext4("/tmp")
    };
    check("73 67 0:33 / /tmp rw,relatime shared:9 - tmpfs  rw", Some(tmpfs));
}

#[test]
fn read_only_filesystem_makes_a_writable_mount_read_only() {
    let ro = MountSample {
        super_options: "ro,norecovery".to_owned(),
        is_read_only: true,
        ..ext4("/mnt")
    };
    check("73 67 8:32 / /mnt rw,relatime - ext4 /dev/sdc ro,norecovery", Some(ro));
    let rom = MountSample { super_options: "romantic".to_owned(), ..ext4("/mnt") };
    check("73 67 8:32 / /mnt rw,relatime - ext4 /dev/sdc romantic", Some(rom));
}

#[test]
fn cut_off_and_foreign_lines_are_counted() {
    for line in [
        "73 67 8:32 / /mnt rw,relatime ext4 /dev/sdc rw",
        "73 67 8:32 / /mnt rw,relatime - ext4 /dev/sdc",
        "73 67 8:32 / /mnt",
        "73 67 832 / /mnt rw - ext4 /dev/sdc rw",
        "73 -1 8:32 / /mnt rw - ext4 /dev/sdc rw",
        "99999999999 67 8:32 / /mnt rw - ext4 /dev/sdc rw",
        "73",
        " ",
    ] {
        check(line, None);
    }
}

#[test]
fn bad_lines_do_not_hide_the_others() {
    let table = MountSensor::new(&host("host-broken")).sample().unwrap();
    let points: Vec<&[u8]> = table.mounts.iter().map(|m| m.mount_point.as_slice()).collect();
    assert_eq!(points, [b"/".as_slice(), b"/mnt/\xff\xfe", b"/tmp"]);
    assert_eq!(table.mounts[1].mount_point_lossy(), "/mnt/\u{fffd}\u{fffd}");
    assert_eq!((table.malformed_lines, table.dropped), (4, 0));
}

#[test]
fn mounts_of_a_vm_lead_to_their_volumes() {
    let mounts = MountSensor::new(&host("host-gce-a3")).sample().unwrap().mounts;
    let volumes = DiskSensor::new(&host("host-gce-a3")).sample().unwrap().volumes;
    let named = |id: u32| {
        let mount = mounts.iter().find(|mount| mount.mount_id == id).unwrap();
        volume_of(mount, &volumes).map(|volume| volume.identity.name.as_str())
    };
    assert_eq!(named(21), None, "sysfs");
    assert_eq!(named(28), Some("nvme0n1p1"), "root");
    assert_eq!(named(60), Some("nvme0n2"), "staging");
    assert_eq!(named(71), Some("nvme0n2"), "pod");
    assert_eq!(named(88), Some("nvme0n2"), "subpath");
    assert_eq!(named(89), Some("dm-0"), "logical volume");
    assert_eq!(named(90), Some("nvme0n4"), "block volume");
    assert_eq!(named(91), Some("nvme0n3"), "btrfs, by source");
    assert_eq!(mounts.iter().filter(|mount| mount.mount_id == 92).count(), 0, "deleted root");
    assert_eq!(mounts.len(), 8);
}

#[test]
fn own_table_is_read_where_process_1_shows_none() {
    let table = MountSensor::new(&host("host-gce-g2")).sample().unwrap();
    assert_eq!(table.mounts.len(), 1);
    let nowhere = tempfile::tempdir().unwrap();
    let error = MountSensor::new(nowhere.path()).sample().unwrap_err();
    assert!(error.ends_with("; mount the host's /proc at --host-root"), "{error}");
}

#[test]
fn new_mount_is_seen_although_an_unchanged_table_is_not_read_again() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = fs::canonicalize(dir.path()).unwrap();
    let point = dir.join("a b\nc");
    fs::create_dir_all(&point).unwrap();
    // Process 1 may live in another mount namespace than the tests.
    fs::create_dir_all(dir.join("proc/1")).unwrap();
    symlink("/proc/self/mountinfo", dir.join("proc/1/mountinfo")).unwrap();
    let mut sensor = MountSensor::new(&dir);
    let mut is_there = || {
        let table = sensor.sample().unwrap();
        table.mounts.iter().any(|mount| mount.mount_point == path_bytes(&point))
    };
    assert!(!is_there());
    assert!(!is_there());
    let mount = Command::new("mount").args(["-t", "tmpfs", "sluice"]).arg(&point).status();
    if !mount.is_ok_and(|status| status.success()) {
        println!("skipped: this container may not mount");
        return;
    }
    let while_mounted = (is_there(), is_there());
    assert!(Command::new("umount").arg(&point).status().unwrap().success());
    assert_eq!(while_mounted, (true, true));
    assert!(!is_there());
    assert!(sensor.unchanged == 0 && sensor.open.is_some_and(|open| open.is_procfs));
}

#[test]
fn mounts_of_a_vm_name_pods_and_volumes_whatever_kubelets_files_hold() {
    let mounts = MountSensor::new(&host("host-gce-a3")).sample().unwrap().mounts;
    let seen = |id: u32| {
        let mount = mounts.iter().find(|mount| mount.mount_id == id).unwrap();
        (mount.role.clone(), mount.data.clone())
    };
    let (pod_uid, volume) =
        ("5d1b7c0e-6f0b-4f57-9f7f-0c4d4f7f5a11".to_owned(), "hdml-static-pv".to_owned());
    let data = VolumeData::Read {
        driver: "pd.csi.storage.gke.io".to_owned(),
        handle: "projects/p/zones/us-central1-a/disks/model1".to_owned(),
    };
    assert_eq!(seen(60), (Some(MountRole::Staged), Some(data)));
    let pod = MountRole::Pod { pod_uid: pod_uid.clone(), volume: volume.clone() };
    assert_eq!(seen(71), (Some(pod), Some(VolumeData::Unreadable)), "cut off");
    let part = MountRole::SubPath { pod_uid, volume, container: "server".to_owned() };
    assert_eq!(seen(88), (Some(part), None));
    let block =
        MountRole::Block { volume: Some("pvc-1".to_owned()), pod_uid: Some("uid".to_owned()) };
    assert_eq!(seen(90), (Some(block), None));
    assert_eq!(seen(28), (None, None));
}

#[test]
fn kubelet_that_lies_elsewhere_is_found_where_the_operator_says() {
    let elsewhere = MountSensor::new(&host("host-gce-a3")).with_kubelet("/srv/kubelet".as_ref());
    let mounts = { elsewhere }.sample().unwrap().mounts;
    assert!(mounts.iter().all(|mount| mount.role.is_none() && mount.data.is_none()));
}
