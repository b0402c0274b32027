//! Agents that do nothing but be connected: a stream each, with eight devices, heartbeats as assigned.

use std::time::Duration;

use anyhow::{Context, Result};
use sluice::net::{self, Address};
use sluice::wire::pb::agent_message::Body;
use sluice::wire::pb::agents_client::AgentsClient;
use sluice::wire::pb::arbiter_message::Body as Said;
use sluice::wire::{PROTOCOL, pb};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

/// Messages on their way; one heartbeat at a time.
const SENDING_MAX: usize = 4;

/// Connects so many; they stay until the set is dropped.
pub(crate) async fn connect(arbiter: &Address, count: usize) -> Result<JoinSet<Result<()>>> {
    let mut streams = JoinSet::new();
    let (ready, mut is_ready) = mpsc::channel(1);
    for number in 0..count {
        streams.spawn(stay(arbiter.clone(), format!("idle-{number}"), ready.clone()));
    }
    drop(ready);
    for connected in 0..count {
        is_ready
            .recv()
            .await
            .with_context(|| format!("only {connected} of {count} agents connected"))?;
    }
    Ok(streams)
}

async fn stay(arbiter: Address, node: String, ready: mpsc::Sender<()>) -> Result<()> {
    let mut client = AgentsClient::new(net::connect(&arbiter).await?);
    let (sender, receiver) = mpsc::channel(SENDING_MAX);
    let hello = pb::Hello {
        node: node.clone(),
        node_uid: format!("uid-of-{node}"),
        protocol: PROTOCOL,
        simulated: true,
        ..pb::Hello::default()
    };
    sender.send(pb::AgentMessage { seq: 1, body: Some(Body::Hello(hello)) }).await?;
    let mut inbound = client.connect(ReceiverStream::new(receiver)).await?.into_inner();
    let mut interval = Duration::from_secs(2);
    let mut seq = 1;
    let mut heartbeat_at = tokio::time::Instant::now() + interval;
    loop {
        let body = tokio::select! {
            message = inbound.message() => match message?.and_then(|m| m.body) {
                Some(Said::Welcome(welcome)) => {
                    interval = Duration::from_millis(welcome.heartbeat_interval_ms);
                    ready.send(()).await?;
                    Body::Report(report(&node))
                }
                Some(Said::Ack(ack)) if ack.heartbeat_interval_ms > 0 => {
                    interval = Duration::from_millis(ack.heartbeat_interval_ms);
                    continue;
                }
                Some(_) => continue,
                None => return Ok(()),
            },
            () = tokio::time::sleep_until(heartbeat_at) => {
                heartbeat_at += interval;
                Body::Heartbeat(pb::Heartbeat { state_hash: None })
            }
        };
        seq += 1;
        sender.send(pb::AgentMessage { seq, body: Some(body) }).await?;
    }
}

fn report(node: &str) -> pb::Report {
    let device = |index: u32| pb::Device {
        id: format!("sim-{node}-{index}"),
        index,
        resource: "nvidia.com/gpu".to_owned(),
        kind: "nvidia-h100".to_owned(),
        simulated: true,
        health: pb::Health::Healthy.into(),
        source: "simulated".to_owned(),
        ..pb::Device::default()
    };
    pb::Report { full: true, devices: (0..8).map(device).collect(), ..pb::Report::default() }
}
