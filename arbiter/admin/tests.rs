//! What people and launchers are answered.

use sluice::wire::error::reason_of;
use sluice::wire::pb;
use tonic::Code;

use crate::in_process::InProcess;

fn submit(name: &str) -> pb::SubmitRequest {
    pb::SubmitRequest {
        spec: Some(pb::WorkloadSpec {
            name: name.to_owned(),
            queue: "default".to_owned(),
            nnodes: 1,
            resources: [("nvidia.com/gpu".to_owned(), 1)].into(),
            command: vec!["train".to_owned()],
            ..Default::default()
        }),
        rank: 0,
        launcher: "launcher-1".to_owned(),
        nodes: vec!["n1".to_owned()],
    }
}

fn watch(name: &str) -> pb::WatchWorkloadRequest {
    pb::WatchWorkloadRequest { name: name.to_owned(), launcher: "launcher-1".to_owned(), rank: 0 }
}

async fn get(arbiter: &InProcess, name: &str) -> Result<pb::Workload, tonic::Status> {
    let request = pb::GetWorkloadRequest { name: name.to_owned() };
    Ok(arbiter.admin().get_workload(request).await?.into_inner().workload.unwrap())
}

#[tokio::test]
async fn a_workload_that_nobody_knows_is_not_found_with_its_reason() {
    let arbiter = InProcess::start().await;
    let status = get(&arbiter, "nobody").await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(reason_of(&status).unwrap().code, "no-such-workload");
}

#[tokio::test]
async fn a_submission_that_makes_no_sense_names_the_field() {
    let arbiter = InProcess::start().await;
    let mut request = submit("train");
    request.nodes.clear();
    let status = arbiter.admin().submit(request).await.unwrap_err();
    let expected = "nodes is \"0\" but must be 1 to 1024 nodes on which the worker can start";
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, expected));
    let mut request = submit("train");
    request.spec.as_mut().unwrap().command = vec!["x".repeat(20_000)];
    let status = arbiter.admin().submit(request).await.unwrap_err();
    let expected = "spec.command is \"20001 bytes long\" but must be at most 16384 bytes";
    assert_eq!(status.message(), expected);
}

#[tokio::test]
async fn an_unknown_queue_is_refused_with_those_known() {
    let arbiter = InProcess::start().await;
    let mut request = submit("train");
    request.spec.as_mut().unwrap().queue = "research".to_owned();
    let status = arbiter.admin().submit(request).await.unwrap_err();
    let expected = "there is no queue research; there are: default; \
                    use one of these, or add the queue to the queues file";
    assert_eq!((status.code(), status.message()), (Code::NotFound, expected));
}

#[tokio::test]
async fn a_watching_launcher_is_present_and_is_told_of_its_admission() {
    let arbiter = InProcess::start().await;
    let _agent = arbiter.ready_agent("n1").await;
    arbiter.admin().submit(submit("train")).await.unwrap();
    let mut changes = arbiter.admin().watch_workload(watch("train")).await.unwrap().into_inner();
    let admitted = loop {
        let workload = changes.message().await.unwrap().unwrap().workload.unwrap();
        if workload.phase() == pb::Phase::Admitted {
            break workload;
        }
    };
    let [member] = &admitted.members[..] else { panic!("one rank was submitted") };
    assert!(member.attached);
    let expected = pb::Assignment {
        node: "n1".to_owned(),
        devices: vec!["GPU-0".to_owned()],
        flavors: [("nvidia.com/gpu".to_owned(), "default".to_owned())].into(),
    };
    assert_eq!(member.assignment, Some(expected));
}

#[tokio::test]
async fn a_launcher_that_stops_watching_is_away() {
    let arbiter = InProcess::start().await;
    arbiter.admin().submit(submit("train")).await.unwrap();
    let attached = async |wanted| {
        while get(&arbiter, "train").await.unwrap().members[0].attached != wanted {
            tokio::task::yield_now().await;
        }
    };
    let changes = arbiter.admin().watch_workload(watch("train")).await.unwrap();
    attached(true).await;
    // The same launcher again, before its older stream is seen to end.
    let mut again = arbiter.admin().watch_workload(watch("train")).await.unwrap().into_inner();
    again.message().await.unwrap();
    drop(changes);
    attached(true).await;
    drop(again);
    attached(false).await;
}

#[tokio::test]
async fn what_was_answered_survives_a_kill() {
    let arbiter = InProcess::start().await;
    arbiter.admin().submit(submit("train")).await.unwrap();
    let why = pb::FreezeRequest { why: "maintenance".to_owned() };
    arbiter.admin().freeze(why).await.unwrap();
    let restarted = arbiter.killed_and_restarted().await;
    let before = get(&arbiter, "train").await.unwrap();
    let after = get(&restarted, "train").await.unwrap();
    assert_eq!((after.spec, after.submitted_at), (before.spec, before.submitted_at));
    let status = restarted.admin().get_status(pb::GetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status.epoch, 2);
    assert_eq!(status.frozen.unwrap().code, "frozen");
    restarted.admin().unfreeze(pb::UnfreezeRequest {}).await.unwrap();
    let status = restarted.admin().get_status(pb::GetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status.frozen, None);
}

#[tokio::test]
async fn decisions_are_told_from_where_the_reader_left_off() {
    let arbiter = InProcess::start().await;
    let freeze = async |why: &str| {
        let why = pb::FreezeRequest { why: why.to_owned() };
        arbiter.admin().freeze(why).await.unwrap();
    };
    freeze("one").await;
    freeze("two").await;
    let request = pb::WatchDecisionsRequest { after_sequence: 1 };
    let mut decisions = arbiter.admin().watch_decisions(request).await.unwrap().into_inner();
    let mut next = async || decisions.message().await.unwrap().unwrap().decision.unwrap();
    let second = next().await;
    assert_eq!((second.sequence, second.kind.as_str()), (2, "freeze"));
    freeze("three").await;
    let third = next().await;
    assert_eq!(
        (third.sequence, third.reason.unwrap().values["why"].as_str()),
        (3, "one; two; three")
    );
}

#[tokio::test]
async fn explain_tells_what_was_decided_about_a_workload() {
    let arbiter = InProcess::start().await;
    arbiter.admin().submit(submit("other")).await.unwrap();
    arbiter.admin().submit(submit("train")).await.unwrap();
    let request = pb::ExplainRequest { name: "train".to_owned(), what_if: Vec::new() };
    let answer = arbiter.admin().explain(request).await.unwrap().into_inner();
    assert!(!answer.decisions.is_empty());
    assert!(answer.decisions.iter().all(|decision| decision.workload == "train"));
    assert_eq!(answer.workload.unwrap().spec.unwrap().name, "train");
}

#[tokio::test]
async fn finished_workloads_are_listed_on_request() {
    let arbiter = InProcess::start().await;
    for name in ["a", "b"] {
        arbiter.admin().submit(submit(name)).await.unwrap();
    }
    let cancel = pb::CancelWorkloadRequest { name: "a".to_owned() };
    arbiter.admin().cancel_workload(cancel).await.unwrap();
    let list = async |include_finished| {
        let request = pb::ListWorkloadsRequest { include_finished, ..Default::default() };
        let listed = arbiter.admin().list_workloads(request).await.unwrap().into_inner();
        listed.workloads.into_iter().map(|w| w.spec.unwrap().name).collect::<Vec<_>>()
    };
    assert_eq!(list(false).await, ["b"]);
    assert_eq!(list(true).await, ["a", "b"]);
}

#[tokio::test]
async fn a_long_list_comes_in_pages() {
    let arbiter = InProcess::start().await;
    let mut names = Vec::new();
    for i in 0..250 {
        let mut request = submit(&format!("w{i:03}"));
        request.spec.as_mut().unwrap().command = vec!["x".repeat(16_000)];
        names.push(format!("w{i:03}"));
        arbiter.admin().submit(request).await.unwrap();
    }
    let mut listed = Vec::new();
    let mut after = String::new();
    let mut pages = 0;
    loop {
        let request = pb::ListWorkloadsRequest { after, ..Default::default() };
        let page = arbiter.admin().list_workloads(request).await.unwrap().into_inner();
        listed.extend(page.workloads.into_iter().map(|w| w.spec.unwrap().name));
        pages += 1;
        if page.next.is_empty() {
            break;
        }
        after = page.next;
    }
    assert_eq!((listed, pages), (names, 2));
}
