use super::*;

const UID: &str = "4d6ec2c1-8a5b-4d3e-9d0a-6f5b1c2d3e4f";
const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// `U`: the uid with underscores, `D`: with dashes, `C`: the container's id.
fn path(pattern: &str) -> String {
    pattern.replace('U', &UID.replace('-', "_")).replace('D', UID).replace('C', ID)
}

fn found(pattern: &str) -> Option<(String, Option<String>)> {
    of_cgroup(&path(pattern)).map(|c| (c.pod.to_string(), c.container))
}

#[test]
fn containers_are_found_with_each_driver_runtime_and_class() {
    for pattern in [
        "/kubepods.slice/kubepods-podU.slice/cri-containerd-C.scope",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU.slice/cri-containerd-C.scope",
        "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podU.slice/crio-C.scope",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU.slice/docker-C.scope",
        "/kubepods/podD/C",
        "/kubepods/burstable/podD/C",
        "/kubepods/besteffort/podD/crio-C",
        // crun makes another below it on the second version; a trainer may do so, too.
        "/kubepods.slice/kubepods-podU.slice/crio-C.scope/container",
        "/kubepods/burstable/podD/C/trainer.slice/rank-0",
        // Drivers that differ.
        "/system.slice/containerd.service/kubepods-burstable-podU.slice:cri-containerd:C",
        // kubelet's --cgroup-root, a node that is a container, and a namespace of cgroups.
        "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-podU.slice/cri-containerd-C.scope",
        "/docker/abc/kubelet/kubepods/besteffort/podD/C",
        "/../../kubepods-besteffort-podU.slice/cri-containerd-C.scope",
    ] {
        assert_eq!(found(pattern), Some((UID.to_owned(), Some(ID.to_owned()))), "{pattern}");
    }
}

#[test]
fn what_is_no_container_is_none() {
    let pod = Some((UID.to_owned(), None));
    assert_eq!(found("/kubepods/burstable/podD"), pod);
    assert_eq!(found("/kubepods.slice/kubepods-podU.slice/crio-conmon-C.scope"), pod);
    assert_eq!(found("/kubepods.slice/kubepods-podU.slice/init.scope"), pod);
    for pattern in [
        "/",
        "",
        "/system.slice/ssh.service",
        "/kubepods.slice/kubepods-burstable.slice",
        "/user.slice/podman-C.scope",
        "/kubepods/burstable/podnothing/C",
        "/kubepods/burstable/podD0/C",
    ] {
        assert_eq!(found(pattern), None, "{pattern}");
    }
}

#[test]
fn a_static_pod_has_the_hash_of_its_manifest() {
    let hash = "f2b1a0c9d8e7f6a5b4c3d2e1f0a9b8c7";
    for pattern in
        ["/kubepods/burstable/podH/C", "/kubepods.slice/kubepods-podH.slice/crio-C.scope"]
    {
        let found = of_cgroup(&path(pattern).replace('H', hash)).unwrap();
        assert_eq!((found.pod.as_str(), found.container.as_deref()), (hash, Some(ID)), "{pattern}");
    }
}

#[test]
fn any_hierarchy_of_the_first_version_that_knows_the_pod_is_enough() {
    let lines = path("9:name=systemd:/\n8:pids:/kubepods/podD\n4:memory:/kubepods/podD/C\n0::/\n");
    let worker = PodWorker {
        uid: UID.parse().unwrap(),
        container: ID.to_owned(),
        name: "team/train-0".to_owned(),
        is_ended_by_kubelet: false,
    };
    assert!(worker.has(&lines));
    assert!(!worker.has("0::/\n"));
    let other = PodWorker { container: "f".repeat(64), ..worker };
    assert!(!other.has(&lines));
}

#[test]
fn uids_and_container_ids_are_read_as_kubernetes_writes_them() {
    let uid: PodUid = UID.to_uppercase().parse().unwrap();
    assert_eq!(uid.as_str(), UID);
    for bad in
        ["", "x", "4d6ec2c1-8a5b-4d3e-9d0a-6f5b1c2d3e4", "../../../../../../../../../../../../../"]
    {
        assert_eq!(bad.parse::<PodUid>(), Err(BadPodUid), "{bad:?}");
    }
    assert_eq!(container_id(&format!("containerd://{ID}")), Some(ID));
    assert_eq!(container_id(&format!("cri-o://{ID}")), Some(ID));
    assert_eq!(container_id(ID), Some(ID));
    for bad in ["", "containerd://", "containerd://x", "crio-conmon-C"] {
        assert_eq!(container_id(&path(bad)), None, "{bad:?}");
    }
}
