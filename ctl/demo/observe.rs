//! Looks at an act while it is played: the trainer's log, the arbiter's decisions and record, and
//! who holds which accelerator; and waits for things to happen, never for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use sluice::net::Address;
use sluice::wire::pb;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::cast::Lookout;
use super::narrator::{Narrator, Who};
use super::stage::Stage;
use super::training::{Follower, Training};
use crate::args::Global;
use crate::connect::{self, Arbiter};
use crate::failure::Failure;
use crate::paint;
use crate::text::safe;
use crate::view::drain::DrainView;

/// Pause between two looks. A quarter of a step: nothing that the story tells lasts shorter.
const LOOK_PAUSE: Duration = Duration::from_millis(30);
/// How long one question to the arbiter may take.
const ASK_PATIENCE: Duration = Duration::from_secs(5);
/// Decisions that may wait to be told. An act has some forty.
const DECISIONS_MAX: usize = 1_024;

/// One accelerator of the stage, in the order of the strip.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Device {
    node: String,
    id: String,
}

/// An act and those who watch it.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub(super) stage: &'a mut Stage,
    pub(super) narrator: &'a mut Narrator,
    pub(super) training: Training,
    follower: Follower,
    lookout: Lookout,
    devices: Vec<Device>,
    strip: String,
    told_checkpoint: u64,
    /// Looks at who holds what.
    pub(super) samples: u64,
    /// Accelerators that two workers held at the same time.
    pub(super) held_twice: BTreeSet<String>,
    steps: u64,
    arbiter: Option<Arbiter>,
    decisions: Option<(mpsc::Receiver<pb::Decision>, JoinHandle<()>)>,
}

impl<'a> Scene<'a> {
    /// Watches the act that is on stage; `steps` is how far the trainer is to go.
    pub(super) fn new(stage: &'a mut Stage, narrator: &'a mut Narrator, steps: u64) -> Self {
        let follower = Follower::new(&stage.act_dir().join("training.jsonl"));
        let lookout = Lookout::new(&stage.mark());
        Self {
            stage,
            narrator,
            training: Training::default(),
            follower,
            lookout,
            devices: Vec::new(),
            strip: String::new(),
            told_checkpoint: 0,
            samples: 0,
            held_twice: BTreeSet::new(),
            steps,
            arbiter: None,
            decisions: None,
        }
    }

    /// Connects to the arbiter and listens to its decisions from the first on.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) async fn attend(&mut self, address: Address) -> Result<(), Failure> {
        let global = Global {
            arbiter: address,
            agent_sockets: Vec::new(),
            state_dir: None,
            timeout: ASK_PATIENCE,
            color: paint::When::Never,
        };
        let arbiter = Arbiter::connect(&global).await?;
        let (sender, receiver) = mpsc::channel(DECISIONS_MAX);
        let mut client = arbiter.admin();
        let request = pb::WatchDecisionsRequest { after_sequence: 0 };
        let opening = tokio::time::timeout(ASK_PATIENCE, client.watch_decisions(request)).await;
        let opening = opening.unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded("")));
        let mut stream = opening
            .map_err(|s| Failure::of_status("could not watch decisions", "the arbiter", &s))?
            .into_inner();
        let task = tokio::spawn(async move {
            while let Ok(Some(message)) = stream.message().await {
                let Some(decision) = message.decision else { continue };
                if sender.send(decision).await.is_err() {
                    return;
                }
            }
        });
        self.arbiter = Some(arbiter);
        self.decisions = Some((receiver, task));
        Ok(())
    }

    /// Looks until `look` finds what it looks for.
    ///
    /// # Errors
    /// It does not within `patience`, a program that is needed ends, or a log cannot be read. The
    /// error ends with the log of `suspect`.
    pub(super) async fn until<T>(
        &mut self,
        what: &str,
        suspect: &str,
        patience: Duration,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        let deadline = Instant::now() + patience;
        loop {
            self.observe()?;
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                let (seconds, tail) = (patience.as_secs(), self.stage.tail(suspect));
                return Err(Failure::runtime(format!("{what}: not within {seconds} s{tail}")));
            }
            sleep(LOOK_PAUSE).await;
        }
    }

    /// Goes on looking for a while.
    pub(super) async fn linger(&mut self, span: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + span;
        while Instant::now() < deadline {
            self.observe()?;
            sleep(LOOK_PAUSE).await;
        }
        Ok(())
    }

    /// One look at everything.
    pub(super) fn observe(&mut self) -> Result<(), Failure> {
        if self.narrator.is_alone {
            return Err(Failure::reader_gone());
        }
        self.stage.check_servers()?;
        self.tell_decisions();
        self.follower.follow(&mut self.training)?;
        self.tell_checkpoints();
        self.look_at_devices();
        if !self.strip.is_empty() {
            let live = format!("{}  {}", self.strip, self.progress());
            self.narrator.live(&live);
        }
        Ok(())
    }

    fn tell_decisions(&mut self) {
        let Some((receiver, _)) = &mut self.decisions else { return };
        while let Ok(decision) = receiver.try_recv() {
            self.narrator.decision(&decision);
        }
    }

    fn tell_checkpoints(&mut self) {
        let saved = self.training.last_run().and_then(|run| run.saved.last());
        let Some(step) = saved.map(|p| p.step).filter(|step| *step != self.told_checkpoint) else {
            return;
        };
        self.told_checkpoint = step;
        let progress = self.progress();
        self.narrator.say(Who::Trainer, &format!("checkpoint-{step} is written, {progress}"));
    }

    /// How far the trainer is.
    fn progress(&self) -> String {
        let Some(run) = self.training.last_run() else { return "no training yet".to_owned() };
        let loss = run.last_loss.map(|loss| format!(", loss {loss:.3}")).unwrap_or_default();
        format!("step {} of {}{loss}", run.step(), self.steps)
    }

    fn look_at_devices(&mut self) {
        let holders = self.lookout.holders();
        self.samples += 1;
        for (device, workers) in holders.iter().filter(|(_, workers)| workers.len() > 1) {
            let workers: Vec<&str> = workers.iter().map(String::as_str).collect();
            self.held_twice.insert(format!("{device} by {}", workers.join(" and ")));
        }
        let strip = strip(&self.devices, &holders);
        if strip != self.strip {
            self.strip.clone_from(&strip);
            self.narrator.say(Who::Gpus, &strip);
        }
    }

    /// Waits until the nodes with all accelerators are there.
    ///
    /// # Errors
    /// They are not in time.
    pub(super) async fn gather(&mut self, count: usize, patience: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + patience;
        loop {
            self.observe()?;
            let arbiter = self.arbiter().clone();
            let mut client = arbiter.admin();
            let request = pb::ListNodesRequest::default();
            let call = client.list_nodes(connect::request(request, ASK_PATIENCE));
            let nodes = arbiter.ask("could not list nodes", call).await?.nodes;
            let connected = nodes.into_iter().filter(|n| n.connected).filter_map(|n| n.report);
            let devices: Vec<Device> = connected
                .flat_map(|r| r.devices.into_iter().map(move |d| (r.node.clone(), d.id)))
                .map(|(node, id)| Device { node, id })
                .collect();
            if devices.len() == count {
                self.devices = devices;
                return Ok(());
            }
            if Instant::now() >= deadline {
                let (have, tails) = (devices.len(), self.stage.tails());
                let what = format!("only {have} of {count} accelerators came up{tails}");
                return Err(Failure::runtime(what));
            }
            sleep(LOOK_PAUSE).await;
        }
    }

    /// The record of the one drain of this act, with what happened since.
    ///
    /// # Errors
    /// The arbiter does not answer, or has recorded another number of drains.
    pub(super) async fn drain(&mut self) -> Result<DrainView, Failure> {
        let arbiter = self.arbiter().clone();
        let mut client = arbiter.admin();
        let request = pb::ListAllDrainsRequest { include_closed: true, ..Default::default() };
        let call = client.list_drains(connect::request(request, ASK_PATIENCE));
        let drains = arbiter.ask("could not list drains", call).await?.drains;
        match drains.as_slice() {
            [drain] => Ok(DrainView::of(drain, Timestamp::now())),
            drains => Err(Failure::runtime(format!(
                "the arbiter has recorded {} drains in this act, where the story has one: {}",
                drains.len(),
                drains.iter().map(|d| safe(&d.id)).collect::<Vec<_>>().join(", ")
            ))),
        }
    }

    fn arbiter(&self) -> &Arbiter {
        self.arbiter.as_ref().expect("the act begins with attend()")
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        if let Some((_, task)) = &self.decisions {
            task.abort();
        }
    }
}

/// The accelerators node by node with their holders: `demo-a [S1 S1]  demo-b [T0 T0]  demo-c [.. ..]`.
fn strip(devices: &[Device], holders: &BTreeMap<String, BTreeSet<String>>) -> String {
    let mut nodes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for device in devices {
        let workers = holders.get(&device.id).into_iter().flatten();
        let marks: Vec<String> = workers.map(|w| mark(w)).collect();
        let shown = if marks.is_empty() { paint::dim("..") } else { marks.join("+") };
        nodes.entry(&device.node).or_default().push(shown);
    }
    let nodes = nodes.iter().map(|(node, marks)| format!("{} [{}]", safe(node), marks.join(" ")));
    nodes.collect::<Vec<_>>().join("  ")
}

/// A short name for a worker: `S2` for `serve-2`, `T1` for rank 1 of the trainer.
fn mark(worker: &str) -> String {
    let mut parts = worker.split('/');
    let (workload, rank) = (parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default());
    match workload.strip_prefix("serve-") {
        Some(number) => paint::good(&format!("S{}", safe(number))),
        None => paint::warn(&format!("T{}", safe(rank))),
    }
}

#[cfg(test)]
mod tests;
