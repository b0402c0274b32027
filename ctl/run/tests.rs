use std::path::PathBuf;
use std::time::Duration;

use clap::Parser as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice::wire::pb;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::fakes::Fake;
use crate::args::{Cli, Command};
use crate::failure::Failure;

fn workload(phase: pb::Phase, attempt: u32) -> pb::Workload {
    let assignment = pb::Assignment {
        node: "a".to_owned(),
        devices: vec!["d1".to_owned()],
        ..Default::default()
    };
    let member = pb::Member {
        assignment: (phase == pb::Phase::Admitted).then_some(assignment),
        ..pb::Member::default()
    };
    pb::Workload { phase: phase.into(), attempt, members: vec![member], ..pb::Workload::default() }
}

/// A fake arbiter and agent at sockets in a directory of their own.
struct World {
    dir: TempDir,
    fake: Fake,
    arbiter: JoinHandle<()>,
}

impl World {
    async fn new(first: pb::Workload) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let fake = Fake::new(first);
        let arbiter = fake.serve_arbiter(&dir.path().join("arbiter.sock")).await;
        fake.serve_agent(&dir.path().join("agent.sock")).await;
        Self { dir, fake, arbiter }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Begins `sluice run` of a shell script; `$DIR` in it is the world's directory.
    fn run(&self, script: &str) -> JoinHandle<Result<u8, Failure>> {
        let script = script.replace("$DIR", &self.dir.path().display().to_string());
        let arbiter = format!("unix:{}", self.path("arbiter.sock").display());
        let agent = self.path("agent.sock").display().to_string();
        let line = [
            "sluice",
            "run",
            "--arbiter",
            &arbiter,
            "--agent-socket",
            &agent,
            "--quiet",
            "--name",
            "w",
            "--",
            "sh",
            "-c",
            &script,
        ];
        let cli = Cli::try_parse_from(line).expect("parses");
        let Command::Run(args) = cli.command else { panic!("is not run") };
        tokio::spawn(async move { super::run(&cli.global, *args).await })
    }
}

async fn ended(running: JoinHandle<Result<u8, Failure>>) -> Result<u8, Failure> {
    let ended = tokio::time::timeout(Duration::from_secs(60), running).await;
    ended.expect("ends within a minute").expect("does not panic")
}

#[tokio::test]
async fn the_workers_exit_status_is_the_launchers() {
    let world = World::new(workload(pb::Phase::Admitted, 1)).await;
    let script = "printenv SLUICE_WORKER SLUICE_DEVICES CUDA_VISIBLE_DEVICES >$DIR/env; \
                  until test -e $DIR/go; do sleep 0.01; done; exit 3";
    let running = world.run(script);
    world.fake.until(|asked| asked.registered.len() == 1).await;
    std::fs::write(world.path("go"), "").expect("written");
    assert_eq!(ended(running).await, Ok(3));
    let environment = std::fs::read_to_string(world.path("env")).expect("the worker wrote it");
    assert_eq!(environment, "w/1/0\nd1\n1\n");
    let asked = world.fake.asked();
    assert_eq!(asked.submitted[0].nodes, ["a"]);
    assert_eq!((asked.registered[0].attempt, asked.registered[0].world_size), (1, 1));
    assert_eq!(asked.exits[0].exit, Some(pb::WorkerExit { code: Some(3), signal: None }));
}

#[tokio::test]
async fn a_drained_worker_is_started_again_with_the_next_attempt() {
    let world = World::new(workload(pb::Phase::Admitted, 1)).await;
    world.fake.answer(pb::ExitVerdict::Wait);
    let running = world.run("echo $SLUICE_WORKER >>$DIR/starts");
    world.fake.until(|asked| asked.exits.len() == 1).await;
    world.fake.show(workload(pb::Phase::Pending, 1));
    world.fake.answer(pb::ExitVerdict::Finished);
    world.fake.show(workload(pb::Phase::Admitted, 2));
    assert_eq!(ended(running).await, Ok(0));
    let starts = std::fs::read_to_string(world.path("starts")).expect("the worker wrote it");
    assert_eq!(starts, "w/1/0\nw/2/0\n");
}

#[tokio::test]
async fn a_cancelled_workload_ends_its_worker() {
    let world = World::new(workload(pb::Phase::Admitted, 1)).await;
    let running = world.run("exec sleep 1000");
    world.fake.until(|asked| asked.registered.len() == 1).await;
    world.fake.show(workload(pb::Phase::Cancelled, 1));
    assert_eq!(ended(running).await, Ok(1));
    let exit = world.fake.asked().exits[0].exit;
    assert_eq!(exit, Some(pb::WorkerExit { code: None, signal: Some(15) }));
}

#[tokio::test]
async fn a_worker_of_an_older_attempt_is_replaced() {
    let world = World::new(workload(pb::Phase::Admitted, 1)).await;
    let running = world.run("test $SLUICE_WORKER = w/1/0 && exec sleep 1000; exit 7");
    world.fake.until(|asked| asked.registered.len() == 1).await;
    world.fake.show(workload(pb::Phase::Admitted, 2));
    assert_eq!(ended(running).await, Ok(7));
    let attempts: Vec<u32> = world.fake.asked().exits.iter().map(|e| e.attempt).collect();
    assert_eq!(attempts, [1, 2]);
}

#[tokio::test]
async fn an_arbiter_that_is_away_hears_of_the_exit_when_it_is_back() {
    let world = World::new(workload(pb::Phase::Admitted, 1)).await;
    let running = world.run("until test -e $DIR/go; do sleep 0.01; done; exit 4");
    world.fake.until(|asked| asked.registered.len() == 1).await;
    world.arbiter.abort();
    // The connections of the arbiter's process end with it.
    std::fs::remove_file(world.path("arbiter.sock")).expect("was there");
    std::fs::write(world.path("go"), "").expect("written");
    tokio::task::yield_now().await;
    assert_eq!(world.fake.asked().exits.len(), 0);
    let _arbiter = world.fake.serve_arbiter(&world.path("arbiter.sock")).await;
    assert_eq!(ended(running).await, Ok(4));
    assert_eq!(world.fake.asked().exits.len(), 1);
}

#[tokio::test]
async fn a_worker_that_died_of_a_signal_says_so() {
    let world = World::new(workload(pb::Phase::Admitted, 1)).await;
    let running = world.run("exec sleep 1000");
    world.fake.until(|asked| asked.registered.len() == 1).await;
    let pid = i32::try_from(world.fake.asked().registered[0].pid).expect("is a pid");
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it lives");
    assert_eq!(ended(running).await, Ok(137));
}

#[tokio::test]
async fn a_workload_that_fails_while_it_waits_is_left() {
    let world = World::new(workload(pb::Phase::Pending, 0)).await;
    let running = world.run("exit 0");
    world.fake.until(|asked| asked.submitted.len() == 1).await;
    world.fake.show(workload(pb::Phase::Failed, 0));
    assert_eq!(ended(running).await, Ok(1));
    assert_eq!(world.fake.asked().exits.len(), 0, "nothing was started");
}

#[tokio::test]
async fn without_an_agent_nothing_is_submitted() {
    let world = World::new(workload(pb::Phase::Pending, 0)).await;
    let arbiter = format!("unix:{}", world.path("arbiter.sock").display());
    let agent = world.path("nobody.sock").display().to_string();
    let line = ["sluice", "run", "--arbiter", &arbiter, "--agent-socket", &agent, "--", "true"];
    let cli = Cli::try_parse_from(line).expect("parses");
    let Command::Run(args) = cli.command else { panic!("is not run") };
    let failure = super::run(&cli.global, *args).await.expect_err("cannot run");
    assert_eq!(failure.exit, 69);
    assert_eq!(world.fake.asked().submitted.len(), 0);
}
