use super::{DiskHandle, DiskPlace, MountRole, kubelet_mount};

const ROOT: &[u8] = b"/var/lib/kubelet";

fn role(path: &str) -> Option<(MountRole, Option<String>)> {
    let mount = kubelet_mount(path.as_bytes(), ROOT)?;
    let data_dir = mount.data_dir.map(|dir| String::from_utf8(dir.to_vec()).unwrap());
    Some((mount.role, data_dir))
}

fn pod(pod_uid: &str, volume: &str) -> MountRole {
    MountRole::Pod { pod_uid: pod_uid.to_owned(), volume: volume.to_owned() }
}

#[test]
fn staging_of_any_age_is_known_with_its_data() {
    for dir in [
        "/var/lib/kubelet/plugins/kubernetes.io/csi/pd.csi.storage.gke.io/9f86d081884c",
        "/var/lib/kubelet/plugins/kubernetes.io/csi/pv/hdml-static-pv",
    ] {
        let seen = role(&format!("{dir}/globalmount"));
        assert_eq!(seen, Some((MountRole::Staged, Some(dir.to_owned()))));
    }
}

#[test]
fn volume_of_a_pod_names_pod_and_volume() {
    let dir = "/var/lib/kubelet/pods/0c7a-11/volumes/kubernetes.io~csi/hdml-static-pv";
    let seen = role(&format!("{dir}/mount"));
    assert_eq!(seen, Some((pod("0c7a-11", "hdml-static-pv"), Some(dir.to_owned()))));
    let other = role("/var/lib/kubelet/pods/0c7a-11/volumes/kubernetes.io~empty-dir/cache");
    assert_eq!(other, Some((pod("0c7a-11", "cache"), None)));
}

#[test]
fn subpath_names_the_container() {
    let seen = role("/var/lib/kubelet/pods/0c7a/volume-subpaths/models/server/0");
    let expected = MountRole::SubPath {
        pod_uid: "0c7a".to_owned(),
        volume: "models".to_owned(),
        container: "server".to_owned(),
    };
    assert_eq!(seen, Some((expected, None)));
}

#[test]
fn block_volume_names_what_its_path_names() {
    let block = |volume: &str, uid: Option<&str>| {
        let (volume, pod_uid) = (Some(volume.to_owned()), uid.map(str::to_owned));
        Some((MountRole::Block { volume, pod_uid }, None))
    };
    let base = "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices";
    assert_eq!(role(&format!("{base}/publish/pvc-1/uid-7")), block("pvc-1", Some("uid-7")));
    assert_eq!(role(&format!("{base}/staging/pvc-1/x")), block("pvc-1", None));
    assert_eq!(role(&format!("{base}/pvc-1/dev/uid-7")), block("pvc-1", Some("uid-7")));
    let pods = "/var/lib/kubelet/pods/uid-7/volumeDevices/kubernetes.io~csi/pvc-1";
    assert_eq!(role(pods), block("pvc-1", Some("uid-7")));
}

#[test]
fn root_of_kubelet_may_be_elsewhere() {
    let path = b"/var/data/kubelet/pods/u/volumes/kubernetes.io~csi/pv/mount";
    assert_eq!(kubelet_mount(path, ROOT), None);
    assert_eq!(kubelet_mount(path, b"/var/data/kubelet/").unwrap().role, pod("u", "pv"));
    assert_eq!(role("/var/lib/kubelet2/pods/u/volumes/kubernetes.io~csi/pv/mount"), None);
}

#[test]
fn hostile_paths_belong_to_nobody() {
    for path in [
        "/",
        "/var/lib/kubelet",
        "/var/lib/kubelet/pods",
        "/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi",
        "/var/lib/kubelet/pods/../volumes/kubernetes.io~csi/pv/mount",
        "/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi//mount",
        "/var/lib/kubelet/pods/u\n2/volumes/kubernetes.io~csi/pv/mount",
    ] {
        assert_eq!(role(path), None, "{path}");
    }
    let bytes = b"/var/lib/kubelet/pods/\xff/volumes/kubernetes.io~csi/pv/mount";
    assert_eq!(kubelet_mount(bytes, ROOT), None);
}

#[test]
fn handle_of_a_zone_names_the_device() {
    let handle = DiskHandle::parse("projects/p/zones/us-central1-a/disks/model1").unwrap();
    assert_eq!(
        handle,
        DiskHandle {
            project: Some("p".to_owned()),
            place: DiskPlace::Zone("us-central1-a".to_owned()),
            disk: "model1".to_owned(),
        }
    );
    assert_eq!(handle.device_name(), "model1");
    assert_eq!(handle.key(None).as_deref(), Some("p/us-central1-a/model1"));
}

#[test]
fn multi_zone_handle_means_the_disk_of_the_nodes_zone() {
    let handle = DiskHandle::parse("projects/p/zones/multi-zone/disks/d").unwrap();
    assert_eq!(handle.place, DiskPlace::EachZone);
    assert_eq!(handle.key(Some("us-central1-c")).as_deref(), Some("p/us-central1-c/d"));
    assert_eq!(handle.key(None), None);
}

#[test]
fn regional_and_unspecified_handles_are_read() {
    let regional = DiskHandle::parse("projects/p/regions/us-central1/disks/d").unwrap();
    assert_eq!(regional.device_name(), "d_regional");
    assert_eq!(regional.key(None).as_deref(), Some("p/us-central1/d"));
    let nowhere = DiskHandle::parse("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d").unwrap();
    assert_eq!((nowhere.device_name(), nowhere.key(Some("z"))), ("d".to_owned(), None));
    assert_eq!(nowhere.place, DiskPlace::Unknown);
}

#[test]
fn what_is_no_handle_is_refused() {
    let long = format!("projects/p/zones/z/disks/{}", "x".repeat(1 << 20));
    for handle in [
        "",
        "projects/p/zones/z/disks",
        "projects/p/zones/z/disks/d/e",
        "projects/p/planets/z/disks/d",
        "../../etc",
        "projects/../zones/z/disks/d",
        "projects/p/zones/z/disks/..",
        "projects/p/zones/z/disks/",
        "projects/p/zones/z/disks/a b",
        &long,
    ] {
        assert_eq!(DiskHandle::parse(handle), None, "{handle:.40}");
    }
}
