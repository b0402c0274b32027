//! Measures how long a submission that needs a preemption takes to become an order at the victim's agent.
//!
//! `scale-preempt DIR REPETITIONS AGENTS`: DIR holds the programs; AGENTS more streams are connected and heartbeating
//! beside the one real agent. The arbiter, the agent and the workers are real processes on one machine, so both ends
//! read the same clock. The order is timed by the agent's log line, written when it hears it. What the machine itself
//! needs for a call and for a flush to disk is measured in the same run, before and after.

mod idle;
mod yardstick;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use jiff::Timestamp;
use sluice::net::{self, Address};
use sluice::wire::pb;
use sluice::wire::pb::admin_client::AdminClient;
use sluice::wire::pb::workers_client::WorkersClient;
use tonic::Streaming;
use tonic::transport::Channel;

/// Longest wait for anything: far above what is measured, so that a fault ends the run instead of hanging it.
const PATIENCE: Duration = Duration::from_secs(30);

const NODE: &str = "measured";
const DEVICES: u64 = 8;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let programs = arguments.next().context("usage: scale-preempt DIR REPETITIONS AGENTS")?;
    let mut number =
        || -> Result<usize> { Ok(arguments.next().context("a number is missing")?.parse()?) };
    let (repetitions, idle) = (number()?, number()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(Path::new(&programs), repetitions, idle))
}

async fn measure(programs: &Path, repetitions: usize, idle: usize) -> Result<()> {
    let state = tempfile::tempdir()?;
    let mut bench = Bench::start(programs, state.path()).await?;
    let _streams = idle::connect(&bench.arbiter, idle).await?;
    let before = bench.arbiter_process.usage()?;
    yardstick::print(&mut bench.admin, state.path()).await?;
    let mut heard = Vec::new();
    let mut accepted = Vec::new();
    for number in 0..repetitions {
        let times = bench.preempt(number).await.with_context(|| format!("repetition {number}"))?;
        heard.push(times.heard_us);
        accepted.push(times.accepted_us);
    }
    yardstick::print(&mut bench.admin, state.path()).await?;
    let after = bench.arbiter_process.usage()?;
    println!("{idle} agents beside the real one; {repetitions} preemptions");
    yardstick::print_times("submission -> order at the victim's agent", &mut heard);
    yardstick::print_times("submission -> order accepted and journalled", &mut accepted);
    let cpu =
        100.0 * (after.cpu_seconds - before.cpu_seconds) / (after.at - before.at).as_secs_f64();
    println!("arbiter meanwhile: RSS {:.1} MiB, {cpu:.1} % of a core", after.resident_mib);
    Ok(())
}

/// A program that is ended when this is dropped.
struct Program {
    child: Child,
}

/// What a process has used.
struct Usage {
    at: std::time::Instant,
    cpu_seconds: f64,
    resident_mib: f64,
}

impl Program {
    /// Starts it, and waits for its ready line.
    fn start(command: &mut Command) -> Result<(Self, String)> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let program = Self { child };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if !line.contains(" ready: ") {
            bail!("said {line:?} instead of being ready");
        }
        Ok((program, line))
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn usage(&self) -> Result<Usage> {
        let stat = procfs::process::Process::new(i32::try_from(self.child.id())?)?.stat()?;
        let ticks = (stat.utime + stat.stime) as f64;
        Ok(Usage {
            at: std::time::Instant::now(),
            cpu_seconds: ticks / procfs::ticks_per_second() as f64,
            resident_mib: (stat.rss * procfs::page_size()) as f64 / 1_048_576.0,
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A line of the agent's log that is timed.
struct Line {
    at: Timestamp,
    message: String,
    worker: String,
    /// The order's verb, or the drain's stage.
    what: String,
}

fn line(text: &str) -> Option<Line> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let field =
        |name: &str| value.get(name).and_then(|v| v.as_str()).unwrap_or_default().to_owned();
    let what = if field("verb").is_empty() { field("stage") } else { field("verb") };
    let at = field("timestamp").parse().ok()?;
    Some(Line { at, message: field("message"), worker: field("worker"), what })
}

struct Times {
    heard_us: u64,
    accepted_us: u64,
}

struct Bench {
    arbiter: Address,
    admin: AdminClient<Channel>,
    workers: WorkersClient<Channel>,
    lines: mpsc::Receiver<Line>,
    arbiter_process: Program,
    _agent: Program,
}

impl Bench {
    async fn start(programs: &Path, state: &Path) -> Result<Self> {
        let mut command = Command::new(programs.join("sluice-arbiter"));
        command.args(["--listen", "127.0.0.1:0", "--log", "warn", "--state-dir"]).arg(state);
        let (arbiter_process, ready) = Program::start(&mut command).context("sluice-arbiter")?;
        let arbiter = word(&ready, "grpc=")?;
        let mut command = Command::new(programs.join("sluice-agent"));
        command.args(["--node", NODE, "--simulate", &format!("nvidia-h100={DEVICES}")]);
        command
            .args(["--arbiter", &arbiter, "--log", "info,sluice_agent=debug", "--state-dir"])
            .arg(state);
        let (mut agent, ready) =
            Program::start(command.stderr(Stdio::piped())).context("sluice-agent")?;
        let stderr = agent.child.stderr.take().context("stderr is piped")?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let read = BufReader::new(stderr).lines().map_while(std::result::Result::ok);
            read.filter_map(|text| line(&text)).try_for_each(|line| sender.send(line))
        });
        let arbiter: Address = arbiter.parse()?;
        let socket = format!("unix:{}", word(&ready, "socket=")?).parse()?;
        Ok(Self {
            admin: AdminClient::new(net::connect(&arbiter).await?),
            workers: WorkersClient::new(net::connect(&socket).await?),
            arbiter,
            lines,
            arbiter_process,
            _agent: agent,
        })
    }

    /// One victim, one preemptor, and everything ended again.
    async fn preempt(&mut self, number: usize) -> Result<Times> {
        let (victim, preemptor) = (format!("victim-{number}"), format!("preemptor-{number}"));
        let mut watch = self.submit(&victim, 0).await?;
        let workload = reach(&mut watch, pb::Phase::Admitted).await?;
        let mut worker = self.start_worker(&victim, &workload).await?;
        reach(&mut watch, pb::Phase::Running).await?;
        let submitted_at = Timestamp::now();
        let mut watch_preemptor = self.submit(&preemptor, 100).await?;
        let marker = format!("{victim}/1/0");
        let heard_us = self.seen("order", &marker, "Prepare", submitted_at)?;
        let accepted_us = self.seen("drain", &marker, "prepared", submitted_at)?;
        // The worker ends by the drain; a child that nobody waits for would count as alive.
        worker.wait()?;
        reach(&mut watch_preemptor, pb::Phase::Admitted).await?;
        for name in [preemptor, victim] {
            self.admin.cancel_workload(pb::CancelWorkloadRequest { name }).await?;
        }
        Ok(Times { heard_us, accepted_us })
    }

    /// Submits and attaches, as `sluice run` does.
    async fn submit(
        &mut self,
        name: &str,
        priority: i32,
    ) -> Result<Streaming<pb::WatchWorkloadResponse>> {
        let spec = pb::WorkloadSpec {
            name: name.to_owned(),
            queue: "default".to_owned(),
            priority,
            nnodes: 1,
            resources: [("nvidia.com/gpu".to_owned(), DEVICES)].into(),
            command: vec!["sleep".to_owned()],
            ..pb::WorkloadSpec::default()
        };
        let launcher = format!("launcher-of-{name}");
        let nodes = vec![NODE.to_owned()];
        let request =
            pb::SubmitRequest { spec: Some(spec), rank: 0, launcher: launcher.clone(), nodes };
        self.admin.submit(request).await?;
        let request = pb::WatchWorkloadRequest { name: name.to_owned(), launcher, rank: 0 };
        Ok(self.admin.watch_workload(request).await?.into_inner())
    }

    async fn start_worker(&mut self, name: &str, workload: &pb::Workload) -> Result<Child> {
        let assigned = workload.members.first().and_then(|m| m.assignment.clone());
        let worker = Command::new("sleep")
            .arg("1000")
            .env("SLUICE_WORKER", format!("{name}/{}/0", workload.attempt))
            .spawn()?;
        let request = pb::RegisterRequest {
            workload: name.to_owned(),
            attempt: workload.attempt,
            rank: 0,
            world_size: 1,
            pid: worker.id(),
            devices: assigned.map(|a| a.devices).unwrap_or_default(),
            ..pb::RegisterRequest::default()
        };
        self.workers.register(request).await?;
        Ok(worker)
    }

    /// Time from `since` to the agent's log line. Unit: µs.
    fn seen(&self, message: &str, worker: &str, what: &str, since: Timestamp) -> Result<u64> {
        loop {
            let line = self
                .lines
                .recv_timeout(PATIENCE)
                .map_err(|_| anyhow!("no {what:?} of {worker}"))?;
            if line.message == message && line.worker == worker && line.what.starts_with(what) {
                return Ok(u64::try_from(line.at.as_microsecond() - since.as_microsecond())?);
            }
        }
    }
}

async fn reach(
    watch: &mut Streaming<pb::WatchWorkloadResponse>,
    phase: pb::Phase,
) -> Result<pb::Workload> {
    let reaching = async {
        while let Some(seen) = watch.message().await? {
            let workload = seen.workload.unwrap_or_default();
            if workload.phase() == phase {
                return Ok(workload);
            }
        }
        Err(anyhow!("the watch ended"))
    };
    tokio::time::timeout(PATIENCE, reaching)
        .await
        .with_context(|| format!("waiting for {phase:?}"))?
}

/// The value of a word of the ready line.
fn word(ready: &str, key: &str) -> Result<String> {
    let found = ready.split_whitespace().find_map(|word| word.strip_prefix(key));
    Ok(found.with_context(|| format!("{ready:?} has no {key}"))?.to_owned())
}
