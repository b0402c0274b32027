//! What agents are told, and what is refused.

use sluice::wire::digest::EntityHashes;
use sluice::wire::pb;
use sluice::wire::pb::agent_message::Body as Said;
use sluice::wire::pb::arbiter_message::Body;
use sluice_core::protocol::{Order, Verb};
use sluice_core::volume::read_ahead::Asked;
use tonic::Code;

use super::mirror::{DEVICES_MAX, Mirror, VOLUMES_MAX, WORKERS_MAX};
use super::{Agents, End, OUTBOX_MAX};
use crate::config::AgentTimes;
use crate::in_process::{InProcess, device, hello};

async fn nodes(arbiter: &InProcess) -> Vec<pb::NodeSummary> {
    let request = pb::ListNodesRequest::default();
    arbiter.admin().list_nodes(request).await.unwrap().into_inner().nodes
}

/// Waits until the arbiter has seen the state that `is_there` asks for.
async fn wait_for_node(arbiter: &InProcess, is_there: impl Fn(&pb::NodeSummary) -> bool) {
    loop {
        let nodes = nodes(arbiter).await;
        if nodes.iter().any(&is_there) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_new_agent_is_told_the_epoch_and_its_times() {
    let arbiter = InProcess::start().await;
    let mut agent = arbiter.agent(hello("n1", "uid")).await;
    let expected = pb::Welcome {
        epoch: 1,
        resync_full: true,
        heartbeat_interval_ms: 2_000,
        lost_after_ms: 60_000,
        digest_interval_ms: 300_000,
        volumes: Vec::new(),
    };
    assert_eq!(agent.hear_welcome().await, expected);
}

#[tokio::test]
async fn another_protocol_is_refused_with_both_versions() {
    let arbiter = InProcess::start().await;
    let mut agent = arbiter.agent(pb::Hello { protocol: 99, ..hello("n1", "uid") }).await;
    let status = agent.hear_end().await;
    let expected = "the agent speaks protocol 99 (version \"0.0.0-test\"), this arbiter speaks \
                    protocol 1 (version \"0.1.0\"); install the same version of both";
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, expected));
}

#[tokio::test]
async fn a_stream_begins_with_hello_and_says_it_once() {
    let arbiter = InProcess::start().await;
    let mut agent = arbiter.agent(hello("n1", "uid")).await;
    agent.hear_welcome().await;
    agent.say(Said::Hello(hello("n1", "uid"))).await;
    let status = agent.hear_end().await;
    let expected = "Hello was said twice on one stream";
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, expected));
}

#[tokio::test]
async fn a_name_that_is_no_name_is_refused() {
    let arbiter = InProcess::start().await;
    let mut agent = arbiter.agent(hello("no name", "uid")).await;
    let status = agent.hear_end().await;
    let expected = "hello.node is \"no name\" but must be 1 to 253 letters, digits, '-', '_', \
                    '.', '/' or ':'";
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, expected));
}

#[tokio::test]
async fn two_agents_with_one_name_are_told_apart_by_their_uid() {
    let arbiter = InProcess::start().await;
    let mut first = arbiter.ready_agent("n1").await;
    let mut second = arbiter.agent(hello("n1", "other")).await;
    let status = second.hear_end().await;
    let expected = "node \"n1\" is connected with node_uid \"uid\"; node_uid \"other\" says it is \
                    the same node; give one of the two agents another --node name";
    assert_eq!((status.code(), status.message()), (Code::AlreadyExists, expected));
    first.say(Said::Heartbeat(pb::Heartbeat::default())).await;
    first.hear_ack(3).await;
}

#[tokio::test]
async fn an_agent_that_comes_back_replaces_its_older_stream() {
    let arbiter = InProcess::start().await;
    let mut older = arbiter.ready_agent("n1").await;
    let mut newer = arbiter.agent(hello("n1", "uid")).await;
    newer.hear_welcome().await;
    assert_eq!(older.hear_end().await.code(), Code::Aborted);
    assert!(nodes(&arbiter).await[0].connected);
}

#[tokio::test]
async fn a_report_is_known_once_it_is_acknowledged() {
    let arbiter = InProcess::start().await;
    let _agent = arbiter.ready_agent("n1").await;
    let [node] = &nodes(&arbiter).await[..] else { panic!("one node was reported") };
    assert_eq!((node.name.as_str(), node.connected), ("n1", true));
    let report = node.report.as_ref().unwrap();
    let ids: Vec<_> = report.devices.iter().map(|d| d.id.as_str()).collect();
    assert_eq!((ids, report.simulated), (vec!["GPU-0"], true));
}

#[tokio::test]
async fn changes_before_everything_was_told_are_asked_for_in_full() {
    let arbiter = InProcess::start().await;
    let mut agent = arbiter.agent(hello("n1", "uid")).await;
    agent.hear_welcome().await;
    let report = pb::Report { devices: vec![device("GPU-0")], ..pb::Report::default() };
    agent.say(Said::Report(report)).await;
    assert_eq!(agent.hear().await.unwrap(), Some(Body::Resync(pb::Resync {})));
}

#[tokio::test]
async fn drift_found_by_the_digest_is_asked_for_in_full() {
    let arbiter = InProcess::start().await;
    let mut agent = arbiter.ready_agent("n1").await;
    agent.say(Said::Heartbeat(pb::Heartbeat { state_hash: Some(12_345) })).await;
    assert_eq!(agent.hear().await.unwrap(), Some(Body::Resync(pb::Resync {})));
}

#[tokio::test]
async fn an_agent_whose_state_is_known_goes_on_with_changes() {
    let arbiter = InProcess::start().await;
    drop(arbiter.ready_agent("n1").await);
    wait_for_node(&arbiter, |node| !node.connected).await;
    let report = pb::Report { full: true, devices: vec![device("GPU-0")], ..Default::default() };
    let mut hashes = EntityHashes::default();
    hashes.apply(&report);
    let back = pb::Hello { state_hash: hashes.digest(), ..hello("n1", "uid") };
    let mut agent = arbiter.agent(back).await;
    assert!(!agent.hear_welcome().await.resync_full);
    wait_for_node(&arbiter, |node| node.connected).await;
}

#[tokio::test]
async fn a_silent_agent_is_disconnected() {
    let arbiter = InProcess::start_with(|config| {
        config.agents = AgentTimes { lost_ms: 100, heartbeat_ms: 30 };
    })
    .await;
    let mut agent = arbiter.ready_agent("n1").await;
    let status = agent.hear_end().await;
    assert_eq!(status.code(), Code::DeadlineExceeded);
    wait_for_node(&arbiter, |node| !node.connected).await;
}

#[tokio::test]
async fn a_report_beyond_the_limits_ends_the_stream() {
    let arbiter = InProcess::start().await;
    let mut agent = arbiter.agent(hello("n1", "uid")).await;
    agent.hear_welcome().await;
    let devices = (0..=DEVICES_MAX).map(|i| device(&format!("GPU-{i}"))).collect();
    agent.say(Said::Report(pb::Report { full: true, devices, ..Default::default() })).await;
    let status = agent.hear_end().await;
    let expected = "the node reports 65 devices; the limit is 64";
    assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, expected));
}

#[tokio::test]
async fn a_message_beyond_the_limit_ends_the_stream() {
    let arbiter = InProcess::start().await;
    let mut agent = arbiter.agent(hello("n1", "uid")).await;
    agent.hear_welcome().await;
    let large = pb::Device { source: "x".repeat(2 << 20), ..device("GPU-0") };
    let report = pb::Report { full: true, devices: vec![large], ..Default::default() };
    agent.say(Said::Report(report)).await;
    assert_eq!(agent.hear_end().await.code(), Code::OutOfRange);
}

#[tokio::test]
async fn an_agent_that_takes_no_orders_is_disconnected() {
    let agents = Agents::new(AgentTimes { lost_ms: 60_000, heartbeat_ms: 0 }, &Asked::new());
    let node = "n1".parse().unwrap();
    // Nobody reads what is queued; the first place is taken by the welcome.
    let (outbox, _unread) = tokio::sync::mpsc::channel(OUTBOX_MAX);
    let mut joined = agents.join(&node, hello("n1", "uid"), 1, outbox).unwrap();
    let order = Order {
        drain: "drain-1".parse().unwrap(),
        epoch: 1,
        worker: "train/1/0".parse().unwrap(),
        verb: Verb::Commit,
    };
    for _ in 1..OUTBOX_MAX {
        agents.send(&node, &order);
    }
    assert!(joined.ends.try_recv().is_err());
    agents.send(&node, &order);
    assert_eq!(joined.ends.await, Ok(End::Overrun));
}

#[test]
fn the_cadence_grows_with_the_fleet_and_is_given_time() {
    let agents = Agents::new(AgentTimes { lost_ms: 10_000, heartbeat_ms: 0 }, &Asked::new());
    for (fleet, heartbeat_ms, lost_after_ms) in
        [(1, 2_000, 10_000), (500, 2_000, 10_000), (15_000, 60_000, 180_000)]
    {
        assert_eq!(agents.cadence_ms(fleet), heartbeat_ms);
        assert_eq!(agents.lost_after_ms(heartbeat_ms), lost_after_ms);
    }
}

#[test]
fn each_kind_of_thing_has_its_limit() {
    let volume = |i| pb::Volume { device: format!("sd{i}"), ..Default::default() };
    let worker = |rank| pb::Worker { workload: "w".to_owned(), rank, ..Default::default() };
    let volumes = (0..=VOLUMES_MAX).map(volume).collect();
    let status = Mirror::default().apply(pb::Report { volumes, ..Default::default() }).unwrap_err();
    assert_eq!(status.message(), "the node reports 1025 volumes; the limit is 1024");
    let workers = (0..=u32::try_from(WORKERS_MAX).unwrap()).map(worker).collect();
    let status = Mirror::default().apply(pb::Report { workers, ..Default::default() }).unwrap_err();
    assert_eq!(status.message(), "the node reports 1025 workers; the limit is 1024");
}

#[test]
fn a_full_report_replaces_and_changes_add_and_remove() {
    let ids =
        |mirror: &Mirror| mirror.report().devices.into_iter().map(|d| d.id).collect::<Vec<_>>();
    let mut mirror = Mirror::default();
    let full = |id| pb::Report { full: true, devices: vec![device(id)], ..Default::default() };
    mirror.apply(full("a")).unwrap();
    mirror.apply(full("b")).unwrap();
    assert_eq!(ids(&mirror), ["b"]);
    let change = pb::Report {
        devices: vec![device("c")],
        removed_devices: vec!["b".to_owned()],
        ..Default::default()
    };
    mirror.apply(change).unwrap();
    assert_eq!(ids(&mirror), ["c"]);
}
