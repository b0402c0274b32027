//! Puts the agent together, and owns its state: one task takes every input, in order, and performs every output.

mod node_uid;
pub(crate) mod sensors;
mod stop;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluice::audit::Audit;
use sluice::net::{self, Address, ListenError, Listener};
use sluice::paths::create_private_dir;
use sluice_core::agent::{Agent, Input, Output};
use sluice_core::unit::Time;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tracing::{error, info};

use crate::clock;
use crate::config::Config;
use crate::executor::{self, DRAIN_NAME_BYTES_MAX, Executor, Message, Parts, Trail, journal_bytes};
use crate::health;
use crate::journal::{Journal, JournalError};
use crate::metrics;
use crate::node_api::{self, Drills, NodeService, WorkersService};
use crate::pods::Pods;
use crate::report::{Counters, Identity, Reporter, View, count};
use crate::uplink::{Outbox, Uplink, UplinkStatus};

use self::sensors::Sensors;
use self::stop::StopSignals;

/// Inputs that wait for the owner of the state. Each is small; a thousand are a second's work of a hundred workers.
const MESSAGES_MAX: usize = 1_024;

/// Threads that may block: all looks into checkpoint directories, which may hang, and some for the journal and others.
const BLOCKING_THREADS_MAX: usize = executor::LOOKS_MAX + 32;

/// How long calls that are being served may take to finish when the agent stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the process that asks the GPUs' driver may take to close it. One that is killed in the middle of a call may
/// leave a GPU that hangs.
const GPU_STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest time without a tick, so that what core forgets by age alone is forgotten.
const TICK_MS_MAX: u64 = 10_000;

/// Shortest time to a tick: a bound on how often a mistake could make the loop turn.
const TICK_MS_MIN: u64 = 1;

/// Time between two attempts to write a journal that could not be written.
const JOURNAL_RETRY: Duration = Duration::from_secs(1);

/// Why the agent could not start, in one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// It was told to do something that it must not do.
    #[error("{0}")]
    Usage(String),
    /// The machine does not let it.
    #[error("{0}")]
    Failed(String),
}

impl From<String> for StartError {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<ListenError> for StartError {
    fn from(why: ListenError) -> Self {
        match why {
            ListenError::NotLoopback { .. } | ListenError::PathTooLong { .. } => {
                Self::Usage(why.to_string())
            }
            ListenError::SocketInUse { .. }
            | ListenError::NotASocket { .. }
            | ListenError::System { .. } => Self::Failed(why.to_string()),
        }
    }
}

/// Runs the agent until it is told to stop.
///
/// # Errors
/// It could not start.
pub(crate) fn run(config: Config) -> Result<(), StartError> {
    let runtime: Runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
        .map_err(|e| format!("could not start the runtime: {e}; raise the limit on open files"))?;
    let result = runtime.block_on(start_and_serve(config));
    // Threads that hang in a file system are left behind; the process ends anyway.
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}

async fn start_and_serve(config: Config) -> Result<(), StartError> {
    let stop_signals = StopSignals::new()?;
    let started = clock::now();
    let agent_dir = config.paths.agent_dir(&config.node);
    create_private_dir(&agent_dir).map_err(|e| e.to_string())?;
    let journal_dir = config.paths.agent_journal_dir(&config.node);
    let journal = Journal::open(journal_dir).map_err(|e| e.to_string())?;
    let identity = identity(&config, &agent_dir)?;
    let socket = listen_on_socket(&config.socket).await?;
    let scraped = match &config.metrics {
        Some(address) => Some(net::listen(address, config.is_insecure_allowed).await?),
        None => None,
    };
    let recovered =
        executor::recover(&journal, &identity.boot_id, clock::now()).map_err(|e| e.to_string())?;
    let (watched, watched_reader) = watch::channel(Vec::new());
    let sensors = Sensors::start(&config, &agent_dir, &identity.node_uid, watched_reader)?;
    let (messages, inbox) = mpsc::channel(MESSAGES_MAX);
    let (outbox, counters) = (Outbox::default(), Arc::new(Counters::default()));
    let pods = Pods::new(&config.host_root, &config.volumes.kubelet_root, &config.cgroup_root);
    let mut executor = Executor::start(Parts {
        journal,
        boot_id: identity.boot_id.clone(),
        node_uid: identity.node_uid.clone(),
        host_root: config.host_root.clone(),
        devices_dir: config.paths.agent_devices_dir(&config.node),
        quarantine_torn: config.quarantine_torn,
        audit: open_audit(&config)?,
        messages: messages.clone(),
        watched,
        processes: sensors.processes.clone(),
        gpus: sensors.gpus.clone(),
        pods: pods.clone(),
        outbox: outbox.clone(),
        counters: counters.clone(),
    })?;
    executor.take_up(&recovered);
    let now = clock::now();
    let agent = Agent::new(now, config.node.clone(), recovered.registrations, recovered.hands);
    let (view, view_reader) = watch::channel(Arc::new(View { agent: agent.clone(), at: now }));
    let (uplink_status, uplink_reader) = watch::channel(UplinkStatus::default());
    let parts = health::Parts::of(&identity, &sensors, &view_reader);
    let health = health::start(&config, &agent_dir, parts)?;
    let reporter = Reporter {
        identity: Arc::new(identity),
        sensors,
        view: view_reader,
        health: health.view,
        uplink: uplink_reader,
        counters: counters.clone(),
        arbiter: config.arbiter.to_string().into(),
        started,
        device_interval_ms: clock::whole_ms(config.device_interval),
    };
    let uplink = Uplink::new(
        config.arbiter.clone(),
        reporter.clone(),
        messages.clone(),
        outbox.clone(),
        uplink_status,
    );
    let owner = Owner { agent, executor, inbox, view, wake: None, counters };
    let metrics_address = scraped.as_ref().map(|l| l.address().clone());
    let drills =
        Drills { requests: health.requests, is_injection_allowed: config.is_injection_allowed };
    let served = Served { reporter, messages, outbox, socket, scraped, drills, pods };
    announce(&config, metrics_address.as_ref());
    serve(owner, uplink, served, stop_signals).await;
    Ok(())
}

fn open_audit(config: &Config) -> Result<Option<Trail>, String> {
    let Some(path) = &config.audit_log else { return Ok(None) };
    let audit = Audit::open(path).map_err(|error| {
        let shown = path.display();
        format!("could not open the audit log \"{shown}\" (--audit-log): {error}")
    })?;
    Ok(Some(Trail::new(audit, config.node.clone())))
}

fn identity(config: &Config, agent_dir: &Path) -> Result<Identity, String> {
    Ok(Identity {
        node: config.node.to_string(),
        node_uid: node_uid::read_or_create(agent_dir, &config.paths.agent_node_uid(&config.node))?,
        boot_id: clock::boot_id()?,
        instance: node_uid::random()?,
        is_simulated: !config.simulated.is_empty(),
        labels: config.labels.clone(),
    })
}

async fn listen_on_socket(path: &Path) -> Result<Listener, StartError> {
    if let Some(dir) = path.parent() {
        create_private_dir(dir).map_err(|e| e.to_string())?;
    }
    Ok(net::listen(&Address::Unix(path.to_owned()), false).await?)
}

/// The one line on stdout by which others know that the agent serves.
fn announce(config: &Config, metrics: Option<&Address>) {
    let (node, socket) = (&config.node, config.socket.display());
    let metrics = metrics.map_or_else(|| "off".to_owned(), ToString::to_string);
    // Nobody need read it.
    let _ = writeln!(
        std::io::stdout(),
        "sluice-agent ready: node={node} socket={socket} metrics={metrics}"
    );
    info!(%node, %socket, metrics, arbiter = %config.arbiter, "agent serves");
}

/// What is served, and from what.
struct Served {
    reporter: Reporter,
    messages: mpsc::Sender<Message>,
    outbox: Outbox,
    socket: Listener,
    scraped: Option<Listener>,
    drills: Drills,
    pods: Pods,
}

/// Serves until a stop signal; then ends what is open. Workers are left running.
async fn serve(mut owner: Owner, uplink: Uplink, served: Served, mut signals: StopSignals) {
    let (stop, stopped) = watch::channel(false);
    let node = NodeService::new(served.reporter.clone(), served.drills, stopped.clone());
    let workers = WorkersService::new(served.reporter.clone(), served.messages, served.pods);
    let mut api_stopped = stopped.clone();
    let api = tokio::spawn(node_api::serve(served.socket, node, workers, async move {
        // An error means that the agent has stopped.
        let _ = api_stopped.wait_for(|stop| *stop).await;
    }));
    let gpus = served.reporter.sensors.gpus.clone();
    let metrics = served
        .scraped
        .map(|l| tokio::spawn(metrics::serve(l, served.reporter, served.outbox, stopped)));
    let uplink = tokio::spawn(uplink.run());
    let name = tokio::select! {
        name = signals.next() => name,
        () = owner.run() => "the end of its inputs",
    };
    info!("stopping on {name}; workers go on");
    uplink.abort();
    owner.executor.finish();
    stop.send_replace(true);
    let finish = async {
        // How these tasks ended is in the log.
        let _ = api.await;
        if let Some(metrics) = metrics {
            let _ = metrics.await;
        }
        if let Some(gpus) = gpus {
            gpus.stop(GPU_STOP_TIMEOUT).await;
        }
    };
    if timeout(STOP_TIMEOUT, finish).await.is_err() {
        info!(
            "calls were still open {} s after the agent was told to stop",
            STOP_TIMEOUT.as_secs()
        );
    }
}

/// The single owner of the agent's state.
struct Owner {
    agent: Agent,
    executor: Executor,
    inbox: mpsc::Receiver<Message>,
    view: watch::Sender<Arc<View>>,
    wake: Option<Time>,
    counters: Arc<Counters>,
}

impl Owner {
    /// Takes inputs for as long as there may be any.
    async fn run(&mut self) {
        // What was journalled by an earlier process is taken up with the first step.
        self.step(Input::Tick).await;
        loop {
            while let Some(input) = self.executor.next_follow_up() {
                self.step(input).await;
            }
            let until_tick = self.until_tick();
            tokio::select! {
                message = self.inbox.recv() => match message {
                    Some(message) => self.take(message).await,
                    None => return,
                },
                () = sleep(until_tick) => self.step(Input::Tick).await,
            }
        }
    }

    fn until_tick(&self) -> Duration {
        let now = clock::now();
        let ms = self.wake.map_or(TICK_MS_MAX, |wake| wake.ms_since(now));
        Duration::from_millis(ms.clamp(TICK_MS_MIN, TICK_MS_MAX))
    }

    async fn take(&mut self, message: Message) {
        match message {
            Message::Register { registration, target, reply } => {
                let worker = registration.worker.clone();
                self.executor.looked_up(worker.clone(), target);
                self.step(Input::Register(registration)).await;
                self.executor.forget_looked_up();
                if self.agent.workers().contains_key(&worker) {
                    // The caller may have given up waiting; the registration stands.
                    let _ = reply.send(());
                }
            }
            Message::Order(order) if journal_bytes(order.drain.as_str()) > DRAIN_NAME_BYTES_MAX => {
                error!(drain = %order.drain, "an order is ignored: its drain's name is too long for the journal");
            }
            Message::Order(order) => {
                let facts = self.executor.facts(&order).await;
                self.step(Input::Order { order, facts }).await;
            }
            Message::Input(input) => self.step(input).await,
        }
    }

    async fn step(&mut self, input: Input) {
        let is_tick = input == Input::Tick;
        let outputs = self.agent.step(clock::now(), input);
        self.wake = outputs.iter().filter_map(wake_at).min();
        let is_quiet = outputs.iter().all(|output| wake_at(output).is_some());
        for output in &outputs {
            if !self.perform(output).await {
                break;
            }
        }
        if !(is_tick && is_quiet) {
            let view = View { agent: self.agent.clone(), at: clock::now() };
            self.view.send_replace(Arc::new(view));
        }
    }

    /// Performs an output, if need be again and again: nothing may follow what is not durable. Reports, the socket and
    /// the stream to the arbiter go on meanwhile. `false`: it never can be.
    async fn perform(&mut self, output: &Output) -> bool {
        let mut attempts: u64 = 0;
        loop {
            match self.executor.perform(&self.agent, output).await {
                Ok(()) => return true,
                Err(why @ (JournalError::BadKey { .. } | JournalError::BadValue { .. })) => {
                    error!("this and what follows from it is not done: {why}");
                    return false;
                }
                Err(why) => {
                    count(&self.counters.journal_failures);
                    if attempts.is_multiple_of(60) {
                        error!(
                            attempts,
                            "drains stand still until the journal can be written: {why}"
                        );
                    }
                    attempts += 1;
                    sleep(JOURNAL_RETRY).await;
                }
            }
        }
    }
}

fn wake_at(output: &Output) -> Option<Time> {
    match output {
        Output::WakeAt(time) => Some(*time),
        Output::Journal(_)
        | Output::Unjournal { .. }
        | Output::SaveWorker(_)
        | Output::ForgetWorker(_)
        | Output::Send(_)
        | Output::Signal { .. }
        | Output::TellClient { .. }
        | Output::CheckHolders(_)
        | Output::WatchEvery { .. }
        | Output::WorkerChanged(_) => None,
    }
}
