//! Read-ahead of the machine's own loop devices: drift is seen, mended, read back and given back, whatever ends the agent.
//!
//! A small file system on a loop device is mounted where kubelet would mount it. That needs root and a kernel that lends
//! loop devices; elsewhere these tests say that they are skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use sluice::wire::pb;

use crate::cluster::{Cluster, Setup};
use crate::process::wait_for;

const HANDLE: &str = "projects/p/zones/z/disks/model1";

/// A file system on a loop device, mounted as kubelet mounts volumes of pods. Unmounted and detached when dropped.
struct Volume {
    device: PathBuf,
    mount: PathBuf,
}

impl Volume {
    /// `None`, with a line saying why, where this machine has none to give.
    fn mount(kubelet: &Path, options: &str) -> Option<Self> {
        let skip = |what: &str| println!("skipped: {what}");
        if !nix::unistd::geteuid().is_root() {
            skip("needs root");
            return None;
        }
        let volume = kubelet.join("pods/0a1b/volumes/kubernetes.io~csi/model1");
        let mount = volume.join("mount");
        fs::create_dir_all(&mount).unwrap();
        let data = format!(
            r#"{{"driverName":"pd.csi.storage.gke.io","volumeHandle":"{HANDLE}","specVolID":"model1"}}"#
        );
        fs::write(volume.join("vol_data.json"), data).unwrap();
        let image = kubelet.join("image");
        fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let run = |program: &str, words: &[&str]| {
            Command::new(program).args(words).output().ok().filter(|o| o.status.success())
        };
        let image = image.to_str().unwrap();
        if run("mkfs.ext4", &["-q", "-F", image]).is_none() {
            skip("no file system can be made (mkfs.ext4)");
            return None;
        }
        let Some(attached) = run("losetup", &["--find", "--show", image]) else {
            skip("no loop device can be set up");
            return None;
        };
        let device = String::from_utf8(attached.stdout).unwrap().trim().to_owned();
        let volume = Self { device: device.clone().into(), mount };
        if run("mount", &["-o", options, &device, volume.mount.to_str().unwrap()]).is_none() {
            skip("nothing can be mounted");
            return None;
        }
        if fs::write(volume.file(), "128").is_err() {
            skip("settings of devices cannot be written here");
            return None;
        }
        Some(volume)
    }

    fn name(&self) -> &str {
        self.device.file_name().unwrap().to_str().unwrap()
    }

    fn file(&self) -> PathBuf {
        Path::new("/sys/block").join(self.name()).join("queue/read_ahead_kb")
    }

    /// Read-ahead in force. Unit: KiB.
    fn in_force(&self) -> u64 {
        fs::read_to_string(self.file()).unwrap().trim().parse().unwrap()
    }

    fn wait_in_force(&self, kib: u64) {
        wait_for(&format!("a read-ahead of {kib} KiB"), || (self.in_force() == kib).then_some(()));
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Not mounted if setting up ended before.
        let _ = Command::new("umount").arg(&self.mount).output();
        let detached = Command::new("losetup").arg("--detach").arg(&self.device).status();
        assert!(detached.unwrap().success());
    }
}

/// An arbiter that knows the volume's PersistentVolume, and an agent with `flags`.
fn start(flags: &str, options: &str, asked_kib: u64) -> Option<(Volume, Cluster)> {
    let mut cluster = Cluster::unstarted(Setup::nodes(&[("n1", 0)]));
    let kubelet = cluster.path("kubelet");
    let volume = Volume::mount(&kubelet, options)?;
    let volumes = cluster.path("volumes.yaml");
    let text = format!(
        "kind: PersistentVolume\nmetadata: {{name: model1}}\nspec:\n  mountOptions: [read_ahead_kb={asked_kib}]\n  csi:\n    \
         driver: pd.csi.storage.gke.io\n    volumeHandle: {HANDLE}\n"
    );
    fs::write(&volumes, text).unwrap();
    let words = |words: [&str; 2]| words.map(str::to_owned);
    cluster.setup.arbiter_flags.extend(words(["--persistent-volumes", volumes.to_str().unwrap()]));
    cluster.setup.agent_flags = flags.split_whitespace().map(str::to_owned).collect();
    cluster.setup.agent_flags.extend(words(["--kubelet-root", kubelet.to_str().unwrap()]));
    cluster.setup.agent_flags.extend(words(["--disk-interval-ms", "200"]));
    cluster.start_arbiter();
    cluster.start_agent("n1");
    Some((volume, cluster))
}

const REPAIR: &str = "--set-read-ahead repair --read-ahead-on-loops";

/// State of the volume's read-ahead and codes of what there is to say about it, as the agent tells.
fn told(cluster: &Cluster, volume: &Volume) -> (String, Vec<String>) {
    let report = cluster.report_of("n1").report.unwrap();
    let found = report.volumes.into_iter().find(|v| v.device == volume.name());
    let found: pb::Volume = found.unwrap_or_default();
    let codes = found.findings.into_iter().filter_map(|f| Some(f.reason?.code)).collect();
    (found.read_ahead_state, codes)
}

fn wait_told(cluster: &Cluster, volume: &Volume, state: &str, code: &str) {
    cluster.wait(&format!("{state} and {code}"), |cluster| {
        let (seen, codes) = told(cluster, volume);
        (seen == state && codes.iter().any(|c| c == code)).then_some(())
    });
}

#[test]
fn real_drift_is_mended_to_what_the_volume_asks_for_and_given_back_at_the_end() {
    let Some((volume, mut cluster)) = start(REPAIR, "ro", 4_096) else { return };
    volume.wait_in_force(4_096);
    wait_told(&cluster, &volume, "as-asked", "read-ahead-set");
    let agent = cluster.agent("n1");
    agent.signal(Signal::SIGTERM);
    agent.wait();
    assert_eq!(volume.in_force(), 128);
}

#[test]
fn real_read_ahead_that_a_killed_agent_has_set_is_given_back_at_the_next_start() {
    let Some((volume, mut cluster)) = start(REPAIR, "ro", 2_048) else { return };
    volume.wait_in_force(2_048);
    cluster.kill_agent("n1");
    assert_eq!(volume.in_force(), 2_048);
    // The next agent only observes.
    cluster.setup.agent_flags.retain(|flag| flag != "--set-read-ahead" && flag != "repair");
    cluster.start_agent("n1");
    // What it tells depends on whether it has looked before or after it gave the value back.
    volume.wait_in_force(128);
}

#[test]
fn value_that_somebody_sets_meanwhile_stays_at_the_end() {
    let Some((volume, mut cluster)) = start(REPAIR, "ro", 4_096) else { return };
    volume.wait_in_force(4_096);
    fs::write(volume.file(), "1024").unwrap();
    let agent = cluster.agent("n1");
    agent.signal(Signal::SIGTERM);
    agent.wait();
    assert_eq!(volume.in_force(), 1_024);
}

#[test]
fn real_drift_is_only_told_by_an_agent_that_observes() {
    let Some((volume, cluster)) = start("--read-ahead-on-loops", "ro", 4_096) else { return };
    wait_told(&cluster, &volume, "drifted", "read-ahead-never-set");
    assert_eq!(volume.in_force(), 128);
}

#[test]
fn writable_volumes_and_loops_that_nobody_allowed_are_left_alone() {
    for (flags, options, asked_kib) in
        [(REPAIR, "rw", 4_096), ("--set-read-ahead repair", "ro", 4_096), (REPAIR, "ro", 3)]
    {
        let Some((volume, cluster)) = start(flags, options, asked_kib) else { return };
        wait_told(&cluster, &volume, "drifted", "read-ahead-left-alone");
        assert_eq!(volume.in_force(), 128, "{flags} {options} {asked_kib}");
    }
}
