//! Workers that are asked to save through their files: good ones, liars, deaf ones, and those that flood the files.

use std::path::PathBuf;

use nix::unistd::Pid;
use sluice::wire::pb::{DrainMode, DrainState, Phase};

use crate::ask::{has_been, story};
use crate::cluster::{Cluster, Setup};

/// The directory of the client.
pub(crate) fn clients() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("clients/python")
}

/// A training of `clients/python/tests/trainer.py` on one device, and what it has logged.
pub(crate) struct Plain {
    log: PathBuf,
}

impl Plain {
    pub(crate) fn start(cluster: &mut Cluster, run_flags: &str, flags: &str) -> Self {
        Self::named(cluster, "train", run_flags, flags)
    }

    pub(crate) fn named(cluster: &mut Cluster, name: &str, run_flags: &str, flags: &str) -> Self {
        let python = std::process::Command::new("python3").arg("--version").output();
        assert!(python.is_ok(), "the program python3 is missing; install Python 3.8 or newer");
        let (dir, log) = (cluster.path(name), cluster.path(name).with_extension("log"));
        let script = clients().join("tests/trainer.py").display().to_string();
        let (dir, logs) = (dir.display().to_string(), log.display().to_string());
        let run_flags = format!(
            "--resource nvidia.com/gpu=1 --checkpoint-dir {dir} --checkpoint-format rename {run_flags}"
        );
        let mut command = vec!["python3", "-u", &script, "--log", &logs];
        command.extend(flags.split_whitespace());
        cluster.run(name, &run_flags, &command);
        Self { log }
    }

    /// One that was started otherwise and logs to this file.
    pub(crate) fn at(log: PathBuf) -> Self {
        Self { log }
    }

    /// Lines that begin with `word`, oldest first.
    pub(crate) fn lines(&self, word: &str) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().filter(|line| line.starts_with(word)).map(str::to_owned).collect()
    }

    pub(crate) fn wait(&self, cluster: &Cluster, word: &str, count: usize) -> Vec<String> {
        cluster.wait(&format!("{count} times {word:?} in the log"), |_| {
            Some(self.lines(word)).filter(|lines| lines.len() >= count)
        })
    }

    /// The steps that the lines with `word` speak of.
    pub(crate) fn steps(&self, word: &str) -> Vec<u64> {
        let step = |line: &String| line.split_whitespace().find_map(|w| w.parse().ok());
        self.lines(word).iter().filter_map(step).collect()
    }
}

/// Waits until the drain of `victim` that came after drain `before` is in `state`.
pub(crate) fn wait_after(
    cluster: &Cluster,
    victim: &str,
    before: &str,
    state: DrainState,
) -> sluice::wire::pb::Drain {
    cluster.wait(&format!("the drain of {victim} after {before} to be {state:?}"), |cluster| {
        let drain = cluster.drain_of(victim).filter(|d| d.id != before)?;
        (drain.state() == state).then_some(drain)
    })
}

/// Waits until the arbiter knows that the worker can be asked.
pub(crate) fn wait_for_client(cluster: &Cluster) {
    cluster.wait("the worker's hello to be known", |cluster| {
        let report = cluster.node("n1")?.report?;
        report.workers.iter().any(|w| w.workload == "train" && w.has_client).then_some(())
    });
}

fn main_pid(cluster: &Cluster) -> Pid {
    *cluster.worker_pids("train/1/0").first().expect("the worker runs")
}

#[test]
fn worker_that_is_asked_through_its_files_saves_parks_and_resumes_from_there() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let trainer = Plain::start(&mut cluster, "", "--client good");
    wait_for_client(&cluster);
    cluster.serve("serve", 1, "");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(drain.mode(), DrainMode::Client, "{}", story(&drain));
    let saved = drain.saved.as_ref().expect("a checkpoint").step;
    assert_eq!(trainer.steps("parks"), [saved], "{}", story(&drain));
    assert_eq!(trainer.steps("goes on"), [0_u64; 0]);
    assert!(!drain.members[0].killed, "{}", story(&drain));
    cluster.cancel("serve");
    trainer.wait(&cluster, "started", 2);
    assert_eq!(trainer.steps("started"), [0, saved]);
}

/// S13, while parked: the same process goes on.
#[test]
fn demand_withdrawn_while_the_worker_is_parked_lets_the_same_process_go_on() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    // It parks without having saved: so it stays parked for as long as its checkpoint is looked for.
    let trainer = Plain::start(&mut cluster, "", "--client lies");
    wait_for_client(&cluster);
    let pid = main_pid(&cluster);
    cluster.serve("serve", 1, "");
    trainer.wait(&cluster, "parks", 1);
    cluster.cancel("serve");
    trainer.wait(&cluster, "goes on", 1);
    let drain = cluster.wait_drain("train", DrainState::Aborted);
    assert!(!has_been(&drain, DrainState::Releasing), "{}", story(&drain));
    let workload = cluster.wait_phase("train", Phase::Running);
    assert_eq!((workload.attempt, main_pid(&cluster)), (1, pid));
}

#[test]
fn worker_that_claims_a_checkpoint_that_is_not_there_is_found_out_and_not_released_for_it() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let trainer = Plain::start(&mut cluster, "", "--client lies");
    wait_for_client(&cluster);
    let pid = main_pid(&cluster);
    cluster.serve("serve", 1, "");
    let drain = cluster.wait_drain("train", DrainState::Aborted);
    let failure = drain.history.iter().find(|t| t.state() == DrainState::SaveFailed);
    let reason = failure.and_then(|t| t.reason.clone()).expect("a failure");
    assert_eq!(reason.values["code"], "claim-not-confirmed", "{}", story(&drain));
    assert!(!has_been(&drain, DrainState::Durable), "{}", story(&drain));
    trainer.wait(&cluster, "goes on", 1);
    assert_eq!(main_pid(&cluster), pid);
    assert!(cluster.workload("train").unwrap().profile.unwrap().client_unproven);
}

#[test]
fn worker_that_says_it_could_not_save_goes_on() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let trainer = Plain::start(&mut cluster, "", "--client fails");
    wait_for_client(&cluster);
    cluster.serve("serve", 1, "");
    let drain = cluster.wait_drain("train", DrainState::Aborted);
    let failure = drain.history.iter().find(|t| t.state() == DrainState::SaveFailed);
    let reason = failure.and_then(|t| t.reason.clone()).expect("a failure");
    assert_eq!(reason.values["code"], "client-failed", "{}", story(&drain));
    assert!(reason.values["detail"].contains("disk full"), "{reason:?}");
    trainer.wait(&cluster, "goes on", 1);
}

/// It ends of itself while it is asked: without a checkpoint for the drain its exit is what it says.
#[test]
fn worker_that_is_done_while_it_is_asked_has_succeeded_and_is_not_started_again() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let trainer = Plain::start(&mut cluster, "", "--client is-done");
    wait_for_client(&cluster);
    cluster.serve("serve", 1, "");
    trainer.wait(&cluster, "is done", 1);
    cluster.wait_phase("train", Phase::Succeeded);
    let launcher = cluster.launcher("train", 0);
    let status = crate::process::wait_for("the launcher to leave", || launcher.exited());
    assert_eq!(status.code(), Some(0), "{}", cluster.launcher("train", 0).tail());
    let drain = cluster.drain_of("train").expect("a drain");
    assert!(!has_been(&drain, DrainState::Releasing), "{}", story(&drain));
    cluster.wait_phase("serve", Phase::Running);
    assert_eq!(trainer.steps("started"), [0]);
}

/// S17: in evaluation for longer than anybody waits for a sign; its next periodic checkpoint is the one that counts.
#[test]
fn worker_that_does_not_heed_is_waited_for_at_its_next_periodic_checkpoint() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let boundary = cluster.path("boundary");
    let flags = format!("--client deaf --save-when {}", boundary.display());
    Plain::start(&mut cluster, "", &flags);
    wait_for_client(&cluster);
    cluster.serve("serve", 1, "--drain-deadline 300s");
    cluster.wait("the asking to be given up", |cluster| {
        let drain = cluster.drain_of("train")?;
        assert!(!has_been(&drain, DrainState::Durable), "{}", story(&drain));
        (drain.mode() == DrainMode::Boundary).then_some(())
    });
    std::fs::write(&boundary, "").unwrap();
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(drain.mode(), DrainMode::Boundary, "{}", story(&drain));
    let refused: Vec<_> = drain.refused_modes.iter().map(|r| (r.mode(), &*r.code)).collect();
    assert_eq!(refused, [(DrainMode::Client, "no-progress")]);
    assert!(has_been(&drain, DrainState::Durable), "{}", story(&drain));
    assert!(cluster.workload("train").unwrap().profile.unwrap().client_unproven);
}

#[test]
fn agent_killed_while_the_worker_is_asked_finds_its_save_when_it_is_back() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let trainer = Plain::start(&mut cluster, "", "--client good --save-seconds 2");
    wait_for_client(&cluster);
    cluster.serve("serve", 1, "");
    cluster.wait_drain("train", DrainState::Saving);
    cluster.kill_agent("n1");
    cluster.start_agent("n1");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert!(has_been(&drain, DrainState::Durable), "{}", story(&drain));
    assert_eq!(trainer.steps("parks"), [drain.saved.unwrap().step], "it was asked once");
}

/// Garbage, huge files, links, pipes and a flood of names: said with a reason, and nothing else suffers.
#[test]
fn worker_that_floods_its_files_is_told_of_and_disturbs_nobody() {
    let mut cluster = Setup::nodes(&[("n1", 2)]).start();
    let flood = r#"
cd "$SLUICE_DRAIN_DIR"
head -c 200000 /dev/zero > hello.0.json
ln -s /etc/passwd hello.1.json
mkfifo hello.2.json
printf '{"rank":7}' > hello.3.json
printf 'not json' > hello.4.json
printf '{"rank":5}' > hello.5.json
printf '{"rank":5,"drain_id":"x y","phase":"saved"}' > ack.5.json
i=0; while [ $i -lt 1500 ]; do : > "rubbish.$i"; i=$((i + 1)); done
while :; do printf '{"rank":5,"n":%s}' $i > t; mv t hello.5.json; i=$((i + 1)); done"#;
    cluster.run("flood", "--resource nvidia.com/gpu=1", &["sh", "-c", flood]);
    let trainer = Plain::start(&mut cluster, "", "--client good");
    cluster.wait("the flood to be told of", |cluster| {
        let report = cluster.node("n1")?.report?;
        let worker = report.workers.into_iter().find(|w| w.workload == "flood")?;
        (worker.client_problem?.code == "client-too-many-files").then_some(())
    });
    wait_for_client(&cluster);
    cluster.serve("serve", 2, "");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(drain.mode(), DrainMode::Client, "{}", story(&drain));
    assert_eq!(trainer.steps("parks").len(), 1);
    assert_eq!(cluster.agent("n1").exited(), None);
}

/// The program of the README's first example, as it stands there.
#[test]
fn plain_example_is_drained_through_its_client_and_resumes() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let dir = cluster.path("train").display().to_string();
    let script = clients().join("examples/plain.py").display().to_string();
    let flags =
        format!("--resource nvidia.com/gpu=1 --checkpoint-dir {dir} --checkpoint-format rename");
    cluster.run("train", &flags, &["python3", "-u", &script, "--save-steps", "100000"]);
    wait_for_client(&cluster);
    cluster.serve("serve", 1, "");
    let drain = cluster.wait_drain("train", DrainState::HandedOver);
    assert_eq!(drain.mode(), DrainMode::Client, "{}", story(&drain));
    let saved = drain.saved.expect("a checkpoint").step;
    cluster.cancel("serve");
    let expected = format!("starts from step {saved}");
    cluster.wait_phase("train", Phase::Running);
    let launcher = cluster.launcher("train", 0);
    crate::process::wait_for("the second start", || {
        launcher.stdout().contains(&expected).then_some(())
    });
}

#[test]
fn facts_of_the_python_client_hold() {
    let output = std::process::Command::new("python3")
        .args(["-B", "-m", "unittest", "discover", "-s", "tests"])
        .current_dir(clients())
        .output()
        .expect("the program python3 is missing; install Python 3.8 or newer");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("OK"), "{told}");
}
