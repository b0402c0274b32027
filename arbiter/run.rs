//! The one task that owns the arbiter's state.
//!
//! Others send it [`Request`]s through a bounded channel. It takes what is waiting (at most
//! [`BATCH_MAX`]), steps core once for each input, makes everything that is to be stored durable in
//! one transaction, and only then sends orders, wakes watchers and answers. So nobody ever sees what
//! a crash could undo.

mod clock;
mod effects;

use std::sync::Arc;
use std::time::Instant;

use sluice::audit::Audit;
use sluice_core::arbiter::{Arbiter, Input, Reply};
use sluice_core::unit::Time;
use tokio::sync::{mpsc, oneshot, watch};

use crate::agents::Agents;
use crate::metrics::Metrics;
use crate::record::Recorder;
use crate::store::{Batch, Store, StoreError};

pub(crate) use clock::Clock;
use effects::Effects;
pub(crate) use effects::Watchers;

/// Most requests waiting. Whoever sends more waits: agents and launchers then wait for their answers.
const REQUESTS_MAX: usize = 4_096;
/// Most requests stored together. One write to the disk takes some ms, in which a busy cluster
/// sends tens of inputs; a larger batch would only make the first of them wait longer.
const BATCH_MAX: usize = 64;

/// What is done with the state after the inputs of a batch are durable.
type Then = Box<dyn FnOnce(&View<'_>, Option<Reply>) + Send>;

/// Something to do: an input, or a look at the state, or both.
pub(crate) struct Request {
    input: Option<Input>,
    then: Then,
}

/// The state as it is after everything seen is durable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    /// Core.
    pub arbiter: &'a Arbiter,
    /// Now, on the arbiter's clock.
    pub now: Time,
}

/// The arbiter has ended or is ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

impl From<Stopped> for tonic::Status {
    fn from(_: Stopped) -> Self {
        Self::unavailable("the arbiter is stopping; try again in a moment")
    }
}

/// Where requests are sent.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    requests: mpsc::Sender<Request>,
}

impl Handle {
    /// A handle and the other end of its channel, for [`Engine::spawn`].
    pub(crate) fn new() -> (Self, mpsc::Receiver<Request>) {
        let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
        (Self { requests }, receiver)
    }

    /// Sends `input` and returns once it stands in line; the receiver tells when it is durable.
    pub(crate) async fn post(&self, input: Input) -> Result<oneshot::Receiver<()>, Stopped> {
        let (sender, receiver) = oneshot::channel();
        // Whoever no longer waits for the answer does not need it.
        let then: Then = Box::new(|_, _| {
            let _ = sender.send(());
        });
        let request = Request { input: Some(input), then };
        self.requests.send(request).await.map_err(|_| Stopped)?;
        Ok(receiver)
    }

    /// Sends `input` and waits until what follows from it is durable.
    pub(crate) async fn step(&self, input: Input) -> Result<(), Stopped> {
        self.post(input).await?.await.map_err(|_| Stopped)
    }

    /// Looks at the state.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        self.send(None, |view, _| look(view)).await
    }

    /// Sends `input` and looks at the state and at core's reply once both are durable.
    pub(crate) async fn step_then<T: Send + 'static>(
        &self,
        input: Input,
        look: impl FnOnce(&View<'_>, Option<Reply>) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        self.send(Some(input), look).await
    }

    async fn send<T: Send + 'static>(
        &self,
        input: Option<Input>,
        look: impl FnOnce(&View<'_>, Option<Reply>) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (sender, receiver) = oneshot::channel();
        let then: Then = Box::new(|view, reply| drop(sender.send(look(view, reply))));
        self.requests.send(Request { input, then }).await.map_err(|_| Stopped)?;
        receiver.await.map_err(|_| Stopped)
    }
}

/// The engine's thread.
#[derive(Debug)]
pub(crate) struct Running {
    /// Ends it; so does dropping this.
    pub stop: oneshot::Sender<()>,
    /// How it ended.
    pub ended: oneshot::Receiver<Result<(), StoreError>>,
}

/// The arbiter with everything that its outputs reach.
#[derive(Debug)]
pub(crate) struct Engine {
    /// Core.
    pub arbiter: Arbiter,
    /// The time.
    pub clock: Clock,
    /// Where state becomes durable.
    pub store: Arc<Store>,
    /// Where orders go.
    pub agents: Arc<Agents>,
    /// Who is told of changes.
    pub watchers: Arc<Watchers>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where inputs are recorded, if they are.
    pub recorder: Option<Recorder>,
    /// Where decisions are written as lines, if they are.
    pub audit: Option<Audit>,
    /// Number of the next decision.
    pub next_sequence: u64,
    /// Tells the number of the last durable decision.
    pub last_decision: watch::Sender<u64>,
    /// When core wants to be woken.
    pub wake: Option<Time>,
}

impl Engine {
    /// Runs on a thread of its own until it is stopped or the store fails.
    ///
    /// A thread, because writing to the disk blocks and must not hold up the network.
    pub(crate) fn spawn(
        mut self,
        mut requests: mpsc::Receiver<Request>,
    ) -> std::io::Result<Running> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (sender, ended) = oneshot::channel();
        let (stop, mut stopped) = oneshot::channel();
        std::thread::Builder::new().name("arbiter".to_owned()).spawn(move || {
            let result = runtime.block_on(self.serve(&mut requests, &mut stopped));
            // If nobody waits for the end any more, the process is ending.
            drop(sender.send(result));
        })?;
        Ok(Running { stop, ended })
    }

    async fn serve(
        &mut self,
        requests: &mut mpsc::Receiver<Request>,
        stopped: &mut oneshot::Receiver<()>,
    ) -> Result<(), StoreError> {
        // The first tick takes up what was stored.
        self.process(Vec::new())?;
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => batch.push(request),
                    None => return self.end(),
                },
                _ = &mut *stopped => return self.end(),
                () = self.clock.sleep_until(self.wake) => {}
            }
            while batch.len() < BATCH_MAX
                && let Ok(request) = requests.try_recv()
            {
                batch.push(request);
            }
            self.process(batch)?;
        }
    }

    /// Steps, stores, performs and answers one batch. A tick comes first where one is due, or where
    /// there is nothing else.
    fn process(&mut self, requests: Vec<Request>) -> Result<(), StoreError> {
        let mut effects = Effects::default();
        let due = self.wake.is_some_and(|wake| wake <= self.clock.now());
        if requests.is_empty() || due {
            self.wake = None;
            self.step(Input::Tick, &mut effects);
        }
        let mut answers = Vec::with_capacity(requests.len());
        for Request { input, then } in requests {
            let reply = input.and_then(|input| self.step(input, &mut effects));
            answers.push((then, reply));
        }
        self.store(&effects)?;
        self.perform(effects);
        let view = View { arbiter: &self.arbiter, now: self.clock.now() };
        for (then, reply) in answers {
            then(&view, reply);
        }
        Ok(())
    }

    fn step(&mut self, input: Input, effects: &mut Effects) -> Option<Reply> {
        let now = self.clock.now();
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(&mut self.arbiter, now, &input);
        }
        effects.note_input(&input);
        let started = Instant::now();
        let outputs = self.arbiter.step(now, input);
        self.metrics.stepped(started.elapsed());
        if let Some(recorder) = &mut self.recorder {
            recorder.end(&self.arbiter, &outputs);
        }
        self.collect(now, outputs, effects)
    }

    fn store(&mut self, effects: &Effects) -> Result<(), StoreError> {
        let batch = effects.batch(&self.arbiter, self.clock.now());
        if batch.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        self.store.commit(&batch)?;
        self.metrics.committed(started.elapsed());
        Ok(())
    }

    /// The record is written out and the time stored once more, so that it never goes back.
    fn end(&mut self) -> Result<(), StoreError> {
        if let Some(recorder) = self.recorder.take() {
            recorder.finish();
        }
        if let Some(audit) = self.audit.take() {
            audit.finish();
        }
        self.store.commit(&Batch { now: self.clock.now(), ..Batch::default() })
    }
}
