//! Starting and stopping: opens the store, binds, serves, and ends cleanly within a bound.

#[cfg(feature = "kubernetes")]
mod cluster;

use std::future::Future;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use sluice::net::{self, Incoming, Listener};
use sluice::wire::{DESCRIPTORS, pb};
use sluice_core::arbiter::Arbiter;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tonic::transport::Server;
use tracing::info;

use crate::admin::AdminService;
use crate::agents::{Agents, AgentsService};
use crate::audit;
use crate::config::Config;
use crate::metrics::{self, Metrics};
use crate::record::Recorder;
use crate::run::{Clock, Engine, Handle, Running, Watchers};
use crate::store::{Store, StoreError, Stored};

/// Longest time from SIGTERM to the end. Kubernetes gives 30 s.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long streams are given to end by themselves once agents were told to go away.
const DRAIN_STREAMS: Duration = Duration::from_secs(2);
/// Longest unary call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest message taken. A full report of 16 devices, 100 volumes and 1,000 workers has 400 kB.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// HTTP/2 window of one stream and of one connection. Unit: bytes. hyper's 1 MiB each would let
/// 65,000 connections hold 65 GB of what nobody has read yet.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 128 << 10;
/// Most streams of one connection: an agent has one, the command line a few.
const STREAMS_MAX: u32 = 64;
/// Largest set of headers. Unit: bytes. h2's own limit is 16 MiB.
const HEADER_BYTES_MAX: u32 = 16 << 10;
/// HTTP/2 pings on idle connections, and the silence after one that ends the connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(60);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs the arbiter until SIGTERM or SIGINT.
///
/// # Errors
/// The store cannot be opened or written, or an address cannot be bound.
pub(crate) fn run(config: Config) -> anyhow::Result<()> {
    // One thread for the network; deciding and writing have another.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start the runtime")?;
    let result = runtime.block_on(serve(config));
    // Tasks that hang are left behind.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let stop = stop_signal()?;
    #[cfg(feature = "kubernetes")]
    if let Some(settings) = &config.cluster {
        return cluster::serve(&config, settings, stop).await;
    }
    // Bound before the store is opened: an arbiter that cannot serve changes nothing.
    let listeners = Listeners::bind(&config).await?;
    let parts = Parts::start(&config, Store::open(&config.paths.arbiter_state())?)?;
    parts.serve(listeners, stop).await
}

/// Where the arbiter is reached.
struct Listeners {
    grpc: Listener,
    metrics: Option<Listener>,
}

impl Listeners {
    async fn bind(config: &Config) -> anyhow::Result<Self> {
        let grpc = net::listen(&config.listen, config.insecure_listen).await?;
        let metrics = match &config.listen_metrics {
            Some(address) => Some(net::listen(address, config.insecure_listen).await?),
            None => None,
        };
        Ok(Self { grpc, metrics })
    }

    /// The line by which whoever started the arbiter knows that it serves.
    fn announce(&self, epoch: u64) -> anyhow::Result<()> {
        let metrics = self.metrics.as_ref();
        let metrics = metrics.map_or_else(|| "off".to_owned(), |l| l.address().to_string());
        let grpc = self.grpc.address();
        tell(&format!("sluice-arbiter ready: grpc={grpc} metrics={metrics} epoch={epoch}\n"))
    }
}

fn tell(line: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(line.as_bytes()).context("could not write to stdout")
}

/// Done at the first SIGTERM or SIGINT.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("could not watch for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("could not watch for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => info!("SIGTERM: stopping"),
            _ = interrupt.recv() => info!("SIGINT: stopping"),
        }
    })
}

/// The running arbiter.
pub(crate) struct Parts {
    epoch: u64,
    handle: Handle,
    agents: Arc<Agents>,
    store: Arc<Store>,
    watchers: Arc<Watchers>,
    metrics: Arc<Metrics>,
    last_decision: watch::Receiver<u64>,
    running: Running,
}

impl Parts {
    /// Takes up what is in the store and starts the arbiter's thread.
    pub(crate) fn start(config: &Config, (store, stored): (Store, Stored)) -> anyhow::Result<Self> {
        let Stored { epoch, frozen, last_now, workloads, drains, faults, next_sequence } = stored;
        info!(epoch, workloads = workloads.len(), drains = drains.len(), state = %store.path().display(), "state taken up");
        let core = sluice_core::arbiter::Config { epoch, ..config.core.clone() };
        let clock = Clock::start(last_now);
        let mut arbiter = Arbiter::new(clock.now(), core, workloads, drains, frozen);
        arbiter.take_up_faults(faults);
        let recorder =
            match config.record {
                true => Some(Recorder::start(&config.paths.arbiter_record_dir()).context(
                    "could not start the record of inputs; --record off does without it",
                )?),
                false => None,
            };
        let store = Arc::new(store);
        let audit = match &config.audit_log {
            Some(path) => Some(audit::open(path, &store, next_sequence).with_context(|| {
                format!("could not open the audit log \"{}\" (--audit-log)", path.display())
            })?),
            None => None,
        };
        let agents = Agents::new(config.agents, &config.asked);
        let watchers = Arc::new(Watchers::default());
        let metrics = Arc::new(Metrics::new(arbiter.drains()));
        let (sender, last_decision) = watch::channel(next_sequence.saturating_sub(1));
        let (handle, requests) = Handle::new();
        let engine = Engine {
            arbiter,
            clock,
            store: store.clone(),
            agents: agents.clone(),
            watchers: watchers.clone(),
            metrics: metrics.clone(),
            recorder,
            audit,
            next_sequence,
            last_decision: sender,
            wake: None,
        };
        let running = engine.spawn(requests).context("could not start the arbiter's thread")?;
        Ok(Self { epoch, handle, agents, store, watchers, metrics, last_decision, running })
    }

    async fn serve(
        self,
        listeners: Listeners,
        stop: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        listeners.announce(self.epoch)?;
        let Listeners { grpc, metrics: metrics_listener } = listeners;
        let (stopping, stopped) = watch::channel(false);
        let mut servers = tokio::task::JoinSet::new();
        servers.spawn(self.serve_grpc(grpc.incoming(), stopped.clone()).await);
        if let Some(listener) = metrics_listener {
            let Self { metrics, agents, handle, .. } = &self;
            let (metrics, agents, handle) = (metrics.clone(), agents.clone(), handle.clone());
            servers.spawn(async move {
                metrics::serve(listener, metrics, agents, handle, until(stopped)).await?;
                Ok(())
            });
        }
        let Self { agents, running: Running { stop: stop_engine, mut ended }, .. } = self;
        tokio::select! {
            () = stop => {}
            result = &mut ended => return Err(broken(result)),
            Some(result) = servers.join_next() => {
                result.context("a server ended in a bug")??;
                bail!("a server ended by itself");
            }
        }
        agents.go_away();
        stopping.send_replace(true);
        end_servers(servers).await;
        drop(stop_engine);
        finish(ended).await
    }

    /// The gRPC server, as a future to run.
    pub(crate) async fn serve_grpc(
        &self,
        incoming: Incoming,
        stopped: watch::Receiver<bool>,
    ) -> impl Future<Output = anyhow::Result<()>> + Send + 'static {
        let admin = AdminService::new(
            self.handle.clone(),
            self.agents.clone(),
            self.store.clone(),
            self.watchers.clone(),
            self.last_decision.clone(),
            stopped.clone(),
        );
        let agents = AgentsService::new(self.agents.clone(), self.handle.clone(), self.epoch);
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<pb::admin_server::AdminServer<AdminService>>().await;
        health.set_serving::<pb::agents_server::AgentsServer<AgentsService>>().await;
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let v1 = reflection().build_v1().expect("our own descriptors are well-formed");
        let v1alpha = reflection().build_v1alpha().expect("our own descriptors are well-formed");
        let admin = pb::admin_server::AdminServer::new(admin);
        let agents = pb::agents_server::AgentsServer::new(agents);
        let serving = Server::builder()
            .timeout(CALL_TIMEOUT)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_concurrent_streams(STREAMS_MAX)
            .http2_max_header_list_size(HEADER_BYTES_MAX)
            .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
            .tcp_nodelay(true)
            .add_service(health_service)
            .add_service(v1)
            .add_service(v1alpha)
            .add_service(admin.max_decoding_message_size(MESSAGE_BYTES_MAX))
            .add_service(agents.max_decoding_message_size(MESSAGE_BYTES_MAX))
            .serve_with_incoming_shutdown(incoming, until(stopped));
        async move { serving.await.context("the gRPC server failed") }
    }
}

/// Done when the arbiter stops.
async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone, which is a stop as well.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// The engine ended though nobody told it to.
fn broken(result: Result<Result<(), StoreError>, oneshot::error::RecvError>) -> anyhow::Error {
    match result {
        Ok(Ok(())) => anyhow::anyhow!("the arbiter's thread ended by itself"),
        Ok(Err(error)) => anyhow::Error::new(error).context("state could not be stored"),
        Err(_) => anyhow::anyhow!("the arbiter's thread ended in a bug"),
    }
}

/// Waits for streams to end by themselves and then cuts off the rest: watchers come back to the next
/// arbiter.
async fn end_servers(mut servers: tokio::task::JoinSet<anyhow::Result<()>>) {
    let all = async { while servers.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_STREAMS, all).await.is_err() {
        servers.abort_all();
    }
}

/// Waits for the last write.
async fn finish(ended: oneshot::Receiver<Result<(), StoreError>>) -> anyhow::Result<()> {
    match tokio::time::timeout(STOP_TIMEOUT, ended).await {
        Ok(Ok(Ok(()))) => {
            info!("stopped");
            Ok(())
        }
        Ok(result) => Err(broken(result)),
        Err(_) => bail!("the arbiter did not stop within {} s", STOP_TIMEOUT.as_secs()),
    }
}
