//! Workers of pods: started by nobody of Sluice's, in real cgroups as kubelet makes them, found and drained all the same.
//!
//! The test plays kubelet and whoever submits. Where it may not make cgroups it says so on the terminal, past the
//! capture of the test runner, and passes for that reason alone.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice::net::{self, Address};
use sluice::wire::pb;
use sluice::wire::pb::workers_client::WorkersClient;
use sluice::wire::pb::{DrainMode, DrainState, Phase, PodEnding};

use crate::ask::{has_been, request, story};
use crate::client::{Plain, clients};
use crate::cluster::{Cluster, Setup};
use crate::process::{Process, wait_for};

/// Where a hierarchy of cgroups is mounted that this user may use, by preference the second version.
fn hierarchy() -> Option<PathBuf> {
    let candidates = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"];
    let is_usable = |dir: &PathBuf| {
        let probe = dir.join(format!("sluice-probe-{}", std::process::id()));
        dir.join("cgroup.procs").exists()
            && std::fs::create_dir(&probe).is_ok()
            && std::fs::remove_dir(&probe).is_ok()
    };
    candidates.iter().map(PathBuf::from).find(is_usable)
}

/// A cluster of one node with two devices, a pod's cgroup and its emptyDir.
struct Scene {
    cluster: Cluster,
    /// The pod's uid.
    uid: String,
    /// Its cgroup.
    pod: PathBuf,
    containers: Vec<PathBuf>,
    processes: Vec<Process>,
    /// Keeps the workload's launcher present.
    watches: Vec<tonic::Streaming<pb::WatchWorkloadResponse>>,
}

impl Scene {
    /// `None`: cgroups cannot be made here.
    fn start() -> Option<Self> {
        let Some(hierarchy) = hierarchy() else {
            let told = "skipped: pods need cgroups, and none can be made here; run as root\n";
            std::io::stderr().write_all(told.as_bytes()).unwrap();
            return None;
        };
        let mut cluster = Cluster::unstarted(Setup::nodes(&[("n1", 1)]));
        let kubelet = cluster.path("kubelet").display().to_string();
        cluster.setup.agent_flags = vec!["--kubelet-root".to_owned(), kubelet];
        cluster.start_arbiter();
        cluster.start_agent("n1");
        cluster.wait("the agent to report", |c| c.node("n1")?.report);
        // Other tests have pods at the same time, in trees of their own as kubelets of several nodes would.
        let unique = cluster.root().file_name().unwrap().to_string_lossy().into_owned();
        let digits: String = unique.bytes().rev().take(6).map(|b| format!("{b:02x}")).collect();
        let uid = format!("4d6ec2c1-8a5b-4d3e-9d0a-{digits}");
        let pod = hierarchy.join(unique).join("kubepods/burstable").join(format!("pod{uid}"));
        std::fs::create_dir_all(&pod).unwrap();
        let scene = Self {
            cluster,
            uid,
            pod,
            containers: Vec::new(),
            processes: Vec::new(),
            watches: Vec::new(),
        };
        std::fs::create_dir_all(scene.empty_dir()).unwrap();
        std::fs::create_dir_all(scene.checkpoints()).unwrap();
        Some(scene)
    }

    fn empty_dir(&self) -> PathBuf {
        let volumes = format!("kubelet/pods/{}/volumes/kubernetes.io~empty-dir/sluice", self.uid);
        self.cluster.path(&volumes)
    }

    fn checkpoints(&self) -> PathBuf {
        self.cluster.path("train")
    }

    fn log(&self) -> Plain {
        Plain::at(self.cluster.path("train.log"))
    }

    /// Submits the workload and waits for its admission; its devices.
    fn admitted(&mut self, spec: pb::WorkloadSpec) -> Vec<String> {
        let submit = pb::SubmitRequest {
            spec: Some(spec),
            rank: 0,
            launcher: "controller".to_owned(),
            nodes: vec!["n1".to_owned()],
        };
        let mut admin = self.cluster.admin();
        self.cluster.block_on(admin.submit(request(submit))).unwrap();
        let watch = pb::WatchWorkloadRequest {
            name: "train".to_owned(),
            launcher: "controller".to_owned(),
            rank: 0,
        };
        let stream = self.cluster.block_on(admin.watch_workload(watch)).unwrap();
        self.watches.push(stream.into_inner());
        self.devices(1)
    }

    fn devices(&self, attempt: u32) -> Vec<String> {
        self.cluster.wait("the admission", |cluster| {
            let workload = cluster.workload("train")?;
            let assignment = workload.members.first()?.assignment.clone()?;
            (workload.attempt == attempt).then_some(assignment.devices)
        })
    }

    /// Starts a container of the pod with this command in it; its id.
    fn container(&mut self, command: &[&str]) -> String {
        let digit = char::from_digit(u32::try_from(self.containers.len()).unwrap() + 1, 16);
        let id = digit.unwrap().to_string().repeat(64);
        let cgroup = self.pod.join(&id);
        std::fs::create_dir(&cgroup).unwrap();
        // No marker and none of Sluice's variables but where its files are: as in a pod of somebody else's.
        let mut container = self.cluster.command("sh");
        container.args(["-c", r#"echo $$ > "$0/cgroup.procs" && exec "$@""#]).arg(&cgroup);
        container.args(command).env("SLUICE_DRAIN_DIR", self.empty_dir());
        let process = self.cluster.spawn("container", &mut container);
        self.processes.push(process);
        self.containers.push(cgroup.clone());
        wait_for("the container to be in its cgroup", || (!pids(&cgroup).is_empty()).then_some(()));
        id
    }

    fn trainer(&self, flags: &str) -> Vec<String> {
        let script = clients().join("tests/trainer.py").display().to_string();
        let (dir, log) = (self.checkpoints(), self.cluster.path("train.log"));
        let (dir, log) = (dir.display().to_string(), log.display().to_string());
        let mut command =
            ["python3", "-u", &script, "--dir", &dir, "--log", &log].map(str::to_owned).to_vec();
        command.extend(flags.split_whitespace().map(str::to_owned));
        command
    }

    fn start_trainer(&mut self, flags: &str) -> String {
        let command = self.trainer(flags);
        self.container(&command.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn registration(&self, attempt: u32, devices: &[String]) -> pb::RegisterPodRequest {
        pb::RegisterPodRequest {
            pod_uid: self.uid.clone(),
            pod_namespace: "team".to_owned(),
            pod_name: "train-0".to_owned(),
            workload: "train".to_owned(),
            attempt,
            world_size: 1,
            checkpoint_dir: self.checkpoints().display().to_string(),
            checkpoint_format: pb::CheckpointFormat::Rename.into(),
            devices: devices.to_vec(),
            drain_volume: "sluice".to_owned(),
            ending: PodEnding::Agent.into(),
            ..pb::RegisterPodRequest::default()
        }
    }

    fn register(
        &self,
        message: pb::RegisterPodRequest,
    ) -> Result<pb::RegisterPodResponse, tonic::Status> {
        let address = Address::Unix(self.cluster.agent_socket("n1"));
        self.cluster.block_on(async {
            let mut client = WorkersClient::new(net::connect(&address).await.unwrap());
            client.register_pod(request(message)).await.map(tonic::Response::into_inner)
        })
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for cgroup in &self.containers {
            for pid in pids(cgroup) {
                // It may have ended.
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
        for process in &mut self.processes {
            process.kill();
        }
        for cgroup in &self.containers {
            wait_for("the cgroup to be empty", || {
                pids(cgroup).is_empty().then(|| std::fs::remove_dir(cgroup).ok()).flatten()
            });
        }
        for dir in self.pod.ancestors().take(4) {
            let _ = std::fs::remove_dir(dir);
        }
    }
}

fn pids(cgroup: &Path) -> Vec<Pid> {
    let text = std::fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    text.lines().map(|line| Pid::from_raw(line.parse().unwrap())).collect()
}

fn spec() -> pb::WorkloadSpec {
    pb::WorkloadSpec {
        name: "train".to_owned(),
        queue: "default".to_owned(),
        nnodes: 1,
        resources: BTreeMap::from([("nvidia.com/gpu".to_owned(), 1)]),
        // As the container has it; the agent is told where that is when the pod is registered.
        checkpoint_dir: "/checkpoints".to_owned(),
        checkpoint_format: pb::CheckpointFormat::Rename.into(),
        command: vec!["pod".to_owned()],
        ..pb::WorkloadSpec::default()
    }
}

/// The files lie in the pod's emptyDir, and nothing of the pod was started by Sluice.
#[test]
fn pod_is_asked_through_its_empty_dir_drained_and_resumes_in_its_next_container() {
    let Some(mut scene) = Scene::start() else { return };
    let devices = scene.admitted(spec());
    let id = scene.start_trainer("--client good");
    let told = scene.register(scene.registration(1, &devices)).unwrap();
    let main = u32::try_from(scene.processes[0].pid().as_raw()).unwrap();
    assert_eq!((&told.container_id, told.pid, &*told.rank_pids), (&id, main, &[main][..]));
    assert_eq!(told.checkpoint_dir, scene.checkpoints().canonicalize().unwrap().to_str().unwrap());
    assert_eq!(told.drain_dir, scene.empty_dir().to_str().unwrap());
    assert_eq!(scene.register(scene.registration(1, &devices)).unwrap(), told, "safe to repeat");
    scene.cluster.wait_phase("train", Phase::Running);
    crate::client::wait_for_client(&scene.cluster);
    let worker = scene.cluster.node("n1").unwrap().report.unwrap().workers.remove(0);
    assert_eq!((&*worker.pod, &*worker.pod_uid), ("team/train-0", &*scene.uid));

    scene.cluster.serve("serve", 1, "");
    let drain = scene.cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(drain.mode(), DrainMode::Client, "{}", story(&drain));
    let saved = drain.saved.as_ref().expect("a checkpoint").step;
    assert_eq!(scene.log().steps("parks"), [saved], "{}", story(&drain));
    assert!(!drain.members[0].killed, "{}", story(&drain));
    assert!(pids(&scene.containers[0]).is_empty());

    scene.cluster.cancel("serve");
    let devices = scene.devices(2);
    scene.start_trainer("--client good");
    scene.register(scene.registration(2, &devices)).unwrap();
    scene.cluster.wait_phase("train", Phase::Running);
    scene.log().wait(&scene.cluster, "started", 2);
    assert_eq!(scene.log().steps("started"), [0, saved]);
}

/// A child that has left its parent, its session and its environment is in the cgroup all the same.
#[test]
fn ranks_of_a_pod_are_signalled_and_what_has_left_its_parents_is_found_by_the_cgroup() {
    let Some(mut scene) = Scene::start() else { return };
    let signal = pb::WorkloadSpec { save_signal: 10, save_signal_proven: true, ..spec() };
    let devices = scene.admitted(signal);
    let trainer = scene.trainer("--launcher");
    // A daemon of the container: `env -i` and `setsid` hide it from every search by marker or descent.
    let script = r#"(env -i setsid -f sleep 600); exec "$@""#;
    let mut command = vec!["sh", "-c", script, "entrypoint"];
    command.extend(trainer.iter().map(String::as_str));
    scene.container(&command);
    scene.log().wait(&scene.cluster, "started", 2);
    let told = scene.register(scene.registration(1, &devices)).unwrap();
    assert_eq!(told.rank_pids.len(), 2, "{told:?}");
    scene.cluster.wait_phase("train", Phase::Running);
    // Ranks are found by a pass over the process table that knows of the pod.
    let registered = std::time::Instant::now();
    scene.cluster.wait("a look at the processes since", |cluster| {
        let sensors = cluster.report_of("n1").status?.sensors;
        let age_ms = sensors.iter().find(|sensor| sensor.name == "process")?.age_ms?;
        (u128::from(age_ms) + 100 < registered.elapsed().as_millis()).then_some(())
    });
    scene.cluster.serve("serve", 1, "");
    let drain = scene.cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(drain.mode(), DrainMode::Signal, "{}", story(&drain));
    let signalled = scene.log().lines("signalled");
    assert_eq!(signalled.len(), 2, "each rank once, no loader: {signalled:?}");
    for rank in told.rank_pids {
        assert!(signalled.iter().any(|line| line.contains(&format!("pid={rank} "))), "{rank}");
    }
    assert!(drain.members[0].killed, "the daemon hears no SIGTERM: {}", story(&drain));
    assert!(pids(&scene.containers[0]).is_empty(), "handed over with the daemon alive");
}

#[test]
fn pod_that_kubelet_ends_gets_no_signal_from_the_agent() {
    let Some(mut scene) = Scene::start() else { return };
    let devices = scene.admitted(spec());
    scene.start_trainer("--client good");
    let ending = PodEnding::Kubelet.into();
    let message = pb::RegisterPodRequest { ending, ..scene.registration(1, &devices) };
    scene.register(message).unwrap();
    scene.cluster.wait_phase("train", Phase::Running);
    crate::client::wait_for_client(&scene.cluster);
    scene.cluster.serve("serve", 1, "");
    scene.cluster.wait_drain("train", DrainState::Releasing);
    // kubelet's turn, long after the agent's grace would have been over.
    let main = scene.processes[0].pid();
    scene.cluster.kill_agent("n1");
    scene.cluster.start_agent("n1");
    scene.cluster.wait("the agent to watch on", |cluster| {
        let drains = cluster.node_drains("n1", "train");
        drains.iter().any(|drain| drain.stage == "releasing").then_some(())
    });
    assert_eq!(pids(&scene.containers[0]), [main]);
    kill(main, Signal::SIGTERM).unwrap();
    let drain = scene.cluster.wait_drain("train", DrainState::HandedOver);
    assert!(has_been(&drain, DrainState::Durable), "{}", story(&drain));
    assert!(!drain.members[0].killed, "{}", story(&drain));
}

#[test]
fn pod_that_cannot_be_a_worker_is_refused_with_what_to_do() {
    let Some(mut scene) = Scene::start() else { return };
    let devices = scene.admitted(spec());
    let whole = scene.registration(1, &devices);
    let refused =
        |scene: &Scene, message| scene.register(message).unwrap_err().message().to_owned();
    assert!(refused(&scene, whole.clone()).contains("once its container has started"));
    scene.container(&["sleep", "600"]);
    for (message, named) in [
        (pb::RegisterPodRequest { pod_uid: "x".to_owned(), ..whole.clone() }, "pod_uid"),
        (
            pb::RegisterPodRequest { pod_uid: scene.uid.replace('4', "5"), ..whole.clone() },
            "is it on this node",
        ),
        (
            pb::RegisterPodRequest { container_id: "f".repeat(64), ..whole.clone() },
            "has no container ffff",
        ),
        (
            pb::RegisterPodRequest { container_id: "containerd://x".to_owned(), ..whole.clone() },
            "container_id",
        ),
        (
            pb::RegisterPodRequest { checkpoint_dir: "/not/there".to_owned(), ..whole.clone() },
            "must be there when the pod is registered",
        ),
        (pb::RegisterPodRequest { drain_volume: "../x".to_owned(), ..whole.clone() }, "emptyDir"),
        (
            pb::RegisterPodRequest { drain_volume: "other".to_owned(), ..whole.clone() },
            "declare it",
        ),
        (pb::RegisterPodRequest { pod_name: "a\nb".to_owned(), ..whole.clone() }, "pod_name"),
        (pb::RegisterPodRequest { rank: 3, ..whole.clone() }, "rank"),
    ] {
        let said = refused(&scene, message);
        assert!(said.contains(named), "{named}: {said}");
    }
    scene.register(whole).unwrap();
}
