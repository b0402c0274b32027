//! Pods found in trees as each driver and runtime makes them, and in the cgroups of this machine.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::*;

const UID: &str = "4d6ec2c1-8a5b-4d3e-9d0a-6f5b1c2d3e4f";

fn uid() -> PodUid {
    UID.parse().unwrap()
}

/// The id of a container: a digit 64 times.
fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

/// A host in a directory.
struct Host {
    root: tempfile::TempDir,
}

/// A process of it.
#[derive(Clone, Copy)]
struct Process<'a> {
    pid: u32,
    parent: u32,
    comm: &'a str,
    environ: &'a str,
    device: bool,
}

const PLAIN: Process<'_> =
    Process { pid: 0, parent: 50, comm: "python", environ: "A=1", device: false };

impl Host {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::create_dir_all(root.path().join("sys/fs/cgroup")).unwrap();
        let host = Self { root };
        host.process(
            "0::/system.slice/containerd.service",
            Process { pid: 50, parent: 1, comm: "shim", ..PLAIN },
        );
        host
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    /// A cgroup with these processes; `hierarchy` is empty for the second version.
    fn cgroup(&self, hierarchy: &str, path: &str, pids: &[u32]) {
        let dir = self.path(&format!("sys/fs/cgroup/{hierarchy}/{path}"));
        fs::create_dir_all(&dir).unwrap();
        let pids: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
        fs::write(dir.join("cgroup.procs"), pids).unwrap();
        if hierarchy.is_empty() {
            fs::write(self.path("sys/fs/cgroup/cgroup.controllers"), "cpu memory\n").unwrap();
        }
    }

    fn process(&self, cgroup: &str, process: Process<'_>) {
        let Process { pid, parent, comm, environ, device } = process;
        let dir = self.path(&format!("proc/{pid}"));
        fs::create_dir_all(dir.join("fd")).unwrap();
        // Fields 5 to 8, flags, 10 to 21, the start time, 23 to 49, the environment's place.
        let zeros = |count: usize| "0 ".repeat(count);
        let start = 1_000 + pid;
        let stat = format!(
            "{pid} ({comm}) S {parent} {}0 {}{start} {}4096",
            zeros(4),
            zeros(12),
            zeros(27)
        );
        fs::write(dir.join("stat"), stat).unwrap();
        fs::write(dir.join("status"), "Uid:\t0\t0\t0\t0\nSigBlk:\t0\nSigIgn:\t0\nSigCgt:\t0\n")
            .unwrap();
        fs::write(dir.join("environ"), environ.replace(' ', "\0")).unwrap();
        fs::write(dir.join("cgroup"), format!("{cgroup}\n")).unwrap();
        if device {
            symlink("/dev/nvidia0", dir.join("fd/9")).unwrap();
        }
    }

    fn find(&self, container: Option<&str>) -> Result<FoundPod, PodError> {
        let pods = Pods::new(self.root.path(), "/var/lib/kubelet".as_ref(), CGROUP_ROOT.as_ref());
        pods.find(&uid(), container)
    }

    /// A pod as kubelet makes it: the sandbox and one container, in whose cgroup these processes run.
    fn pod(&self, hierarchy: &str, pod: &str, container: &str, processes: &[Process<'_>]) {
        let runtime = |digit: char| container.replace('C', &id(digit));
        let line = |path: &str| match hierarchy {
            "" => format!("0::/{path}"),
            name => format!("7:{name}:/{path}\n0::/"),
        };
        let sandbox = format!("{pod}/{}", runtime('a'));
        self.cgroup(hierarchy, pod, &[]);
        self.cgroup(hierarchy, &sandbox, &[60]);
        self.process(&line(&sandbox), Process { pid: 60, comm: "pause", ..PLAIN });
        let main = format!("{pod}/{}", runtime('b'));
        self.cgroup(hierarchy, &main, &processes.iter().map(|p| p.pid).collect::<Vec<_>>());
        for process in processes {
            self.process(&line(&main), *process);
        }
    }
}

/// `bash -c torchrun`, two ranks, and a data loader that has inherited all of its rank.
fn training() -> [Process<'static>; 5] {
    let rank = |pid, environ| Process { pid, parent: 71, environ, device: true, ..PLAIN };
    [
        Process { pid: 70, comm: "bash", ..PLAIN },
        Process { pid: 71, parent: 70, comm: "torchrun", ..PLAIN },
        rank(72, "RANK=0 LOCAL_RANK=0"),
        rank(73, "RANK=1 LOCAL_RANK=1"),
        Process { pid: 74, parent: 72, environ: "RANK=0 LOCAL_RANK=0", device: true, ..PLAIN },
    ]
}

fn key(pid: u32) -> ProcessKey {
    ProcessKey { pid, start_time_ticks: u64::from(1_000 + pid) }
}

const SYSTEMD: &str = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod4d6ec2c1_8a5b_4d3e_9d0a_6f5b1c2d3e4f.slice";
const CGROUPFS: &str = "kubepods/burstable/pod4d6ec2c1-8a5b-4d3e-9d0a-6f5b1c2d3e4f";

#[test]
fn ranks_of_a_pod_are_told_from_launchers_and_loaders_with_each_driver_runtime_and_version() {
    for (hierarchy, pod, container) in [
        ("", SYSTEMD, "cri-containerd-C.scope"),
        ("", SYSTEMD, "crio-C.scope"),
        (
            "",
            "kubepods.slice/kubepods-pod4d6ec2c1_8a5b_4d3e_9d0a_6f5b1c2d3e4f.slice",
            "crio-C.scope",
        ),
        ("", CGROUPFS, "C"),
        (
            "",
            "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod4d6ec2c1_8a5b_4d3e_9d0a_6f5b1c2d3e4f.slice",
            "cri-containerd-C.scope",
        ),
        ("systemd", SYSTEMD, "cri-containerd-C.scope"),
        ("pids", CGROUPFS, "C"),
        (
            "memory",
            "docker/node/kubelet/kubepods/besteffort/pod4d6ec2c1-8a5b-4d3e-9d0a-6f5b1c2d3e4f",
            "crio-C",
        ),
    ] {
        let host = Host::new();
        host.pod(hierarchy, pod, container, &training());
        // A neighbour, and what CRI-O keeps beside its containers.
        let neighbour = pod.replace("4d6ec2c1", "99999999");
        host.cgroup(hierarchy, &format!("{neighbour}/{}", id('c')), &[90]);
        host.cgroup(hierarchy, &format!("{pod}/crio-conmon-{}.scope", id('b')), &[91]);
        let place = container.replace('C', &id('b'));
        let dir = if hierarchy.is_empty() { String::new() } else { format!("/{hierarchy}") };
        let expected = FoundPod {
            container: id('b'),
            cgroup: format!("{dir}/{pod}/{place}"),
            main: key(70),
            ranks: vec![key(72), key(73)],
        };
        assert_eq!(host.find(None).unwrap(), expected, "{hierarchy} {pod}");
        assert_eq!(host.find(Some(&id('b'))).unwrap(), expected, "{hierarchy} {pod}");
    }
}

#[test]
fn a_container_that_nests_cgroups_is_found_with_all_its_processes() {
    let host = Host::new();
    host.pod("", SYSTEMD, "crio-C.scope", &training()[..2]);
    let nested = format!("{SYSTEMD}/crio-{}.scope/container/ranks", id('b'));
    host.cgroup("", &nested, &[72]);
    host.process(&format!("0::/../../{nested}"), training()[2]);
    let found = host.find(None).unwrap();
    assert_eq!((found.main, found.ranks), (key(70), vec![key(72)]));
}

#[test]
fn where_the_pod_gives_local_rank_to_all_the_ranks_are_those_that_hold_devices() {
    let host = Host::new();
    let mut processes = training();
    for process in &mut processes {
        process.environ = "LOCAL_RANK=0";
    }
    host.pod("", CGROUPFS, "C", &processes);
    assert_eq!(host.find(None).unwrap().ranks, [key(72), key(73)]);
    // And without any: whoever holds one.
    let host = Host::new();
    for process in &mut processes {
        process.environ = "A=1";
    }
    host.pod("", CGROUPFS, "C", &processes);
    assert_eq!(host.find(None).unwrap().ranks, [key(72), key(73)]);
    // One process that shows nothing is the only rank there can be.
    let host = Host::new();
    host.pod("", CGROUPFS, "C", &[Process { pid: 70, ..PLAIN }]);
    assert_eq!(host.find(None).unwrap().ranks, [key(70)]);
}

#[test]
fn what_cannot_be_found_is_told_with_what_to_do() {
    let said = |host: &Host, container: Option<&str>| host.find(container).unwrap_err().to_string();
    let host = Host::new();
    assert!(said(&host, None).contains("is it on this node"), "{}", said(&host, None));
    host.cgroup("", SYSTEMD, &[]);
    assert!(said(&host, None).contains("once its container has started"));
    // Another namespace of processes: the kernel writes 0.
    host.cgroup("", &format!("{SYSTEMD}/crio-{}.scope", id('b')), &[0, 0]);
    assert!(said(&host, None).contains("hostPID"), "{}", said(&host, None));

    let host = Host::new();
    host.pod("", CGROUPFS, "C", &[Process { pid: 70, ..PLAIN }]);
    let sidecar = format!("{CGROUPFS}/{}", id('d'));
    host.cgroup("", &sidecar, &[80]);
    host.process(&format!("0::/{sidecar}"), Process { pid: 80, comm: "gcsfuse", ..PLAIN });
    let several = said(&host, None);
    assert!(
        several.contains(&format!(
            "2 containers that may be the worker ({}, {})",
            id('b'),
            id('d')
        )),
        "{several}"
    );
    assert_eq!(host.find(Some(&id('b'))).unwrap().main, key(70));
    let missing = said(&host, Some(&id('e')));
    assert!(missing.contains("has no container eeee"), "{missing}");
    // A sidecar beside ranks is none.
    host.process(
        &format!("0::/{CGROUPFS}/{}", id('b')),
        Process { pid: 70, environ: "LOCAL_RANK=0", ..PLAIN },
    );
    assert_eq!(host.find(None).unwrap().container, id('b'));
}

#[test]
fn directories_are_found_outside_of_the_pod_and_never_outside_of_what_is_mounted_there() {
    // This process as the pod: what it has mounted the host has.
    let pid = std::process::id();
    let pods = Pods::new("/".as_ref(), "/var/lib/kubelet".as_ref(), CGROUP_ROOT.as_ref());
    let dir = tempfile::tempdir().unwrap();
    let real = fs::canonicalize(dir.path()).unwrap();
    let (inner, link) = (real.join("a b"), real.join("link"));
    fs::create_dir(&inner).unwrap();
    symlink(&inner, &link).unwrap();
    let found = pods.directory(pid, link.to_str().unwrap()).unwrap();
    assert_eq!(found, inner.to_str().unwrap());
    let missing = pods.directory(pid, real.join("no").to_str().unwrap()).unwrap_err();
    assert!(missing.to_string().contains("must be there"), "{missing}");
    fs::write(real.join("file"), "").unwrap();
    assert!(pods.directory(pid, real.join("file").to_str().unwrap()).is_err());
}

#[test]
fn an_empty_dir_is_found_by_its_name_alone() {
    let host = Host::new();
    let volumes = host.path(&format!("var/lib/kubelet/pods/{UID}/volumes/kubernetes.io~empty-dir"));
    fs::create_dir_all(volumes.join("sluice")).unwrap();
    symlink("/etc", volumes.join("link")).unwrap();
    let pods = Pods::new(host.root.path(), "/var/lib/kubelet".as_ref(), CGROUP_ROOT.as_ref());
    assert_eq!(pods.empty_dir(&uid(), "sluice").unwrap(), volumes.join("sluice").to_str().unwrap());
    for bad in ["link", "missing", "..", "a/b", "", "UPPER"] {
        assert!(pods.empty_dir(&uid(), bad).is_err(), "{bad:?}");
    }
}

/// A cgroup of this machine for a test, with what was made for it; gone with its end.
struct RealCgroup {
    dirs: Vec<PathBuf>,
    child: Child,
}

impl RealCgroup {
    /// A process in a pod's container below `hierarchy`; why it cannot be, if so.
    fn start(hierarchy: &Path, pod: &str, container: &str) -> Result<Self, String> {
        let top = hierarchy.join(format!("sluice-test-{}", std::process::id()));
        let whole = top.join(pod).join(container);
        fs::create_dir_all(&whole).map_err(|e| format!("{}: {e}", whole.display()))?;
        let below = whole.ancestors().take_while(|dir| *dir != hierarchy);
        let dirs = below.map(Path::to_owned).collect();
        let child =
            Command::new("sleep").arg("600").env("LOCAL_RANK", "0").stdin(Stdio::null()).spawn();
        let this = Self { dirs, child: child.map_err(|e| e.to_string())? };
        let written = fs::write(whole.join("cgroup.procs"), this.child.id().to_string());
        written.map_err(|e| format!("{}: {e}", whole.display()))?;
        Ok(this)
    }
}

impl Drop for RealCgroup {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for dir in &self.dirs {
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Real cgroups, of each version that this machine has mounted.
#[test]
fn a_process_in_a_real_cgroup_is_found_and_gone_with_it() {
    let skip = |why: &str| {
        let told = format!("skipped: real cgroups cannot be made here: {why}\n");
        std::io::stderr().write_all(told.as_bytes()).unwrap();
    };
    let root = Path::new(CGROUP_ROOT);
    let mut hierarchies = vec!["", "unified", "pids", "systemd"];
    hierarchies.retain(|name| root.join(name).join("cgroup.procs").exists());
    if hierarchies.is_empty() {
        return skip("none are mounted");
    }
    for name in hierarchies {
        let (pod, container) =
            (SYSTEMD.replace("4d6ec2c1", "4d6ec2c2"), format!("crio-{}.scope", id('b')));
        let made = match RealCgroup::start(&root.join(name), &pod, &container) {
            Ok(made) => made,
            Err(why) => return skip(&why),
        };
        let pods = Pods::new("/".as_ref(), "/var/lib/kubelet".as_ref(), root);
        let uid: PodUid = UID.replace("4d6ec2c1", "4d6ec2c2").parse().unwrap();
        let found = pods.find(&uid, None).unwrap();
        assert_eq!((found.main.pid, &found.container), (made.child.id(), &id('b')), "{name:?}");
        assert_eq!(found.ranks, [found.main]);
        let worker = |container: String| PodWorker {
            uid: uid.clone(),
            container,
            name: String::new(),
            is_ended_by_kubelet: false,
        };
        let target =
            crate::signals::Target::open(found.main.pid, found.main.start_time_ticks).unwrap();
        target.check_pod(&worker(id('b'))).unwrap();
        assert_eq!(target.check_pod(&worker(id('f'))).unwrap_err().code(), "stale_target");
        assert!(pods.is_populated(&worker(id('b'))));
        drop(made);
        assert!(!pods.is_populated(&worker(id('b'))), "{name:?}");
        assert!(matches!(pods.find(&uid, None), Err(PodError::NoSuchPod { .. })), "{name:?}");
    }
}
