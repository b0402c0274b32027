//! An arbiter in the test's own process: real store, real sockets on loopback, real streams.

use std::path::Path;
use std::sync::Arc;

use sluice::net;
use sluice::paths::Paths;
use sluice::wire::pb;
use sluice::wire::pb::admin_client::AdminClient;
use sluice::wire::pb::agents_client::AgentsClient;
use sluice::wire::pb::arbiter_message::Body;
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::config::{AgentTimes, Config};
use crate::server::Parts;
use crate::store::Store;
use sluice_core::queue::Queues;

/// A running arbiter.
pub(crate) struct InProcess {
    /// Ends the arbiter when it is dropped.
    _parts: (Parts, watch::Sender<bool>),
    channel: Channel,
    dir: Arc<TempDir>,
}

/// A configuration as without flags, with state in `dir`.
pub(crate) fn config(dir: &Path) -> Config {
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        insecure_listen: false,
        listen_metrics: None,
        paths: Paths::find(Some(dir)).unwrap(),
        log: "off".parse().unwrap(),
        audit_log: None,
        record: false,
        agents: AgentTimes { lost_ms: 60_000, heartbeat_ms: 0 },
        core: sluice_core::arbiter::Config {
            queues: Queues::without_file(),
            ..sluice_core::arbiter::Config::default()
        },
        #[cfg(feature = "kubernetes")]
        cluster: None,
    }
}

impl InProcess {
    /// Starts one with a new state directory.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// The same, with another configuration.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        Self::start_in(dir, change).await
    }

    async fn start_in(dir: Arc<TempDir>, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config(dir.path());
        change(&mut config);
        let listener = net::listen(&config.listen, false).await.unwrap();
        let address = listener.address().clone();
        let opened = Store::open(&config.paths.arbiter_state()).unwrap();
        let parts = Parts::start(&config, opened).unwrap();
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(parts.serve_grpc(listener.incoming(), stopped).await);
        let channel = net::connect(&address).await.unwrap();
        Self { _parts: (parts, stop), channel, dir }
    }

    /// What a kill would leave: the state as it is on the disk now, taken up by another arbiter.
    pub(crate) async fn killed_and_restarted(&self) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let [from, to] = [&self.dir, &dir].map(|d| d.path().join("arbiter"));
        std::fs::create_dir(&to).unwrap();
        std::fs::copy(from.join("state.redb"), to.join("state.redb")).unwrap();
        Self::start_in(dir, |_| {}).await
    }

    /// A client of its Admin service.
    pub(crate) fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.channel.clone())
    }

    /// Connects an agent that says `hello`.
    pub(crate) async fn agent(&self, hello: pb::Hello) -> FakeAgent {
        let (outbox, messages) = mpsc::channel(64);
        let mut client = AgentsClient::new(self.channel.clone());
        let inbound = client.connect(ReceiverStream::new(messages)).await.unwrap().into_inner();
        let mut agent = FakeAgent { outbox, inbound, seq: 0 };
        agent.say(pb::agent_message::Body::Hello(hello)).await;
        agent
    }

    /// Connects an agent of `node` with one device, and waits until that is known.
    pub(crate) async fn ready_agent(&self, node: &str) -> FakeAgent {
        let mut agent = self.agent(hello(node, "uid")).await;
        agent.hear_welcome().await;
        let report =
            pb::Report { full: true, devices: vec![device("GPU-0")], ..pb::Report::default() };
        agent.say(pb::agent_message::Body::Report(report)).await;
        agent.hear_ack(2).await;
        agent
    }
}

/// The other end of an agent's stream.
pub(crate) struct FakeAgent {
    outbox: mpsc::Sender<pb::AgentMessage>,
    inbound: Streaming<pb::ArbiterMessage>,
    seq: u64,
}

impl FakeAgent {
    /// Sends a message with the next sequence number.
    pub(crate) async fn say(&mut self, body: pb::agent_message::Body) {
        self.seq += 1;
        let message = pb::AgentMessage { seq: self.seq, body: Some(body) };
        // The arbiter may have ended the stream: the next message heard tells.
        let _ = self.outbox.send(message).await;
    }

    /// The next message; `None` at the end of the stream.
    pub(crate) async fn hear(&mut self) -> Result<Option<Body>, Status> {
        Ok(self.inbound.message().await?.map(|message| message.body.unwrap()))
    }

    /// The answer to Hello, and its acknowledgement.
    pub(crate) async fn hear_welcome(&mut self) -> pb::Welcome {
        let Body::Welcome(welcome) = self.hear().await.unwrap().unwrap() else {
            panic!("no Welcome");
        };
        self.hear_ack(1).await;
        welcome
    }

    /// An acknowledgement of `seq`; orders before it are returned.
    pub(crate) async fn hear_ack(&mut self, seq: u64) -> Vec<pb::Order> {
        let mut orders = Vec::new();
        loop {
            match self.hear().await.unwrap().unwrap() {
                Body::Ack(ack) => {
                    assert_eq!(ack.seq, seq);
                    return orders;
                }
                Body::Order(order) => orders.push(order),
                other => panic!("{other:?} instead of an ack"),
            }
        }
    }

    /// Why the stream ended.
    pub(crate) async fn hear_end(&mut self) -> Status {
        loop {
            match self.hear().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok("ended"),
                Err(status) => return status,
            }
        }
    }
}

/// A Hello of this version.
pub(crate) fn hello(node: &str, uid: &str) -> pb::Hello {
    pb::Hello {
        node: node.to_owned(),
        node_uid: uid.to_owned(),
        boot_id: "boot".to_owned(),
        instance: "instance".to_owned(),
        protocol: sluice::wire::PROTOCOL,
        version: "0.0.0-test".to_owned(),
        simulated: true,
        ..pb::Hello::default()
    }
}

/// A healthy simulated device.
pub(crate) fn device(id: &str) -> pb::Device {
    pb::Device {
        id: id.to_owned(),
        resource: "nvidia.com/gpu".to_owned(),
        kind: "nvidia-l4".to_owned(),
        simulated: true,
        health: pb::Health::Healthy.into(),
        age_ms: Some(0),
        ..pb::Device::default()
    }
}
