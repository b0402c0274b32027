//! The agent's own socket: what it answers, with and without an arbiter.

use nix::sys::signal::Signal;
use sluice::net::{self, Address};
use sluice::wire::pb::workers_client::WorkersClient;
use sluice::wire::pb::{self, Health, Phase};
use tonic::Code;
use tonic_health::pb::health_client::HealthClient;

use crate::ask::request;
use crate::cluster::{Cluster, Setup};
use crate::process::patience;
use crate::trainer::Training;

#[test]
fn report_names_devices_with_their_source_and_age() {
    let cluster = Setup::nodes(&[("n1", 2)]).start();
    let answer = cluster.report_of("n1");
    let report = answer.report.unwrap();
    assert!(report.simulated);
    let devices: Vec<(&str, &str, &str, Health, &str)> = report
        .devices
        .iter()
        .map(|d| (&*d.id, &*d.resource, &*d.kind, d.health(), &*d.source))
        .collect();
    let device = |id| (id, "nvidia.com/gpu", "nvidia-l4", Health::Healthy, "simulated");
    assert_eq!(devices, [device("sim-n1-0"), device("sim-n1-1")]);
    assert!(report.devices.iter().all(|d| d.age_ms.is_some() && d.simulated));
    let status = answer.status.unwrap();
    assert!(status.connected && status.epoch == 1, "{status:?}");
}

#[test]
fn worker_is_listed_with_its_processes_checkpoint_and_devices() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let trainer = Training::new("train").start(&mut cluster);
    cluster.wait_measured("train");
    let worker = cluster.wait("the worker with its device", |cluster| {
        let report = cluster.report_of("n1").report?;
        let held = !report.devices[0].holder_pids.is_empty();
        report.workers.into_iter().find(|w| w.workload == "train" && held)
    });
    assert_eq!(worker.devices, ["sim-n1-0"]);
    assert_eq!((worker.attempt, worker.rank, worker.state()), (1, 0, pb::WorkerState::Running));
    assert_eq!(i32::try_from(worker.pid).unwrap(), trainer.pid(&cluster, 1, 0).as_raw());
    assert!(worker.processes >= 1 && worker.step_ms.is_some(), "{worker:?}");
    let step = worker.checkpoint.unwrap().step;
    assert!(step > 0 && step <= trainer.last_step());
    let report = cluster.report_of("n1").report.unwrap();
    assert!(report.devices[0].holder_pids.contains(&worker.pid), "{report:?}");
}

#[test]
fn agent_answers_with_the_arbiter_down() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    cluster.kill_arbiter();
    let status = cluster.wait("the agent to notice", |cluster| {
        cluster.report_of("n1").status.filter(|status| !status.connected)
    });
    assert!(!status.disconnect_reason.is_empty());
    assert_eq!(cluster.report_of("n1").report.unwrap().devices.len(), 1);
    cluster.start_arbiter();
    cluster.wait("the agent to connect again", |cluster| {
        cluster.report_of("n1").status.filter(|status| status.connected && status.epoch == 2)
    });
}

#[test]
fn changes_are_streamed() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    let mut client = cluster.node_client("n1");
    let call = client.watch_reports(pb::WatchReportsRequest { min_interval_ms: 100 });
    let mut stream = cluster.block_on(call).unwrap().into_inner();
    cluster.run("work", "", &["sleep", "600"]);
    let found = async {
        loop {
            let report = stream.message().await.unwrap().unwrap().report.unwrap();
            if let Some(worker) = report.workers.into_iter().find(|w| w.workload == "work") {
                return worker;
            }
        }
    };
    let found = cluster.block_on(async { tokio::time::timeout(patience(), found).await });
    assert_eq!(found.unwrap().devices, ["sim-n1-0"]);
}

#[test]
fn health_of_the_servers_can_be_asked() {
    let cluster = Setup::nodes(&[("n1", 1)]).start();
    let agent = Address::Unix(cluster.agent_socket("n1"));
    for address in [agent, cluster.arbiter_address().parse().unwrap()] {
        let answer = cluster.block_on(async {
            let channel = net::connect(&address).await.unwrap();
            let message = tonic_health::pb::HealthCheckRequest { service: String::new() };
            HealthClient::new(channel).check(message).await.unwrap().into_inner()
        });
        assert_eq!(
            answer.status(),
            tonic_health::pb::health_check_response::ServingStatus::Serving
        );
    }
}

fn register(cluster: &Cluster, message: pb::RegisterRequest) -> Result<String, tonic::Status> {
    let address = Address::Unix(cluster.agent_socket("n1"));
    cluster.block_on(async {
        let mut client = WorkersClient::new(net::connect(&address).await.unwrap());
        client.register(request(message)).await.map(|answer| answer.into_inner().node)
    })
}

fn long_path() -> String {
    format!("/{}", "x".repeat(5_000))
}

#[test]
fn registration_of_what_is_no_worker_is_refused() {
    let cluster = Setup::nodes(&[("n1", 1)]).start();
    let own = std::process::id();
    let message = |pid| pb::RegisterRequest {
        workload: "w".to_owned(),
        attempt: 1,
        world_size: 1,
        pid,
        ..Default::default()
    };
    for (message, named) in [
        (message(u32::MAX), "4294967295"),
        (pb::RegisterRequest { workload: "a b".to_owned(), ..message(own) }, "workload"),
        (pb::RegisterRequest { rank: 3, ..message(own) }, "rank"),
        (pb::RegisterRequest { devices: vec!["nothing".to_owned()], ..message(own) }, "nothing"),
        (pb::RegisterRequest { devices: vec!["d".to_owned(); 65], ..message(own) }, "devices"),
        (pb::RegisterRequest { checkpoint_dir: "relative".to_owned(), ..message(own) }, "relative"),
        (pb::RegisterRequest { checkpoint_dir: long_path(), ..message(own) }, "checkpoint_dir"),
    ] {
        let status = register(&cluster, message.clone()).expect_err(&format!("{message:?}"));
        let codes = [
            Code::InvalidArgument,
            Code::FailedPrecondition,
            Code::NotFound,
            Code::PermissionDenied,
        ];
        assert!(codes.contains(&status.code()), "{status:?}");
        assert!(status.message().contains(named), "{:?} does not name {named:?}", status.message());
    }
    assert_eq!(cluster.report_of("n1").report.unwrap().workers, []);
}

#[test]
fn question_that_is_too_long_is_not_read() {
    let cluster = Setup::nodes(&[("n1", 1)]).start();
    let checkpoint_dir = "x".repeat(1 << 20);
    let status = register(&cluster, pb::RegisterRequest { checkpoint_dir, ..Default::default() });
    assert_eq!(status.unwrap_err().code(), Code::OutOfRange);
    assert!(cluster.report_of("n1").status.unwrap().connected);
}

/// The launcher tells the agent of its worker until it is heard, however long the agent is away.
#[test]
fn worker_that_starts_while_its_agent_is_away_is_registered_later() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    cluster.freeze();
    cluster.run("work", "", &["sleep", "600"]);
    cluster.wait("work to be known", |cluster| {
        cluster.workload("work").filter(|w| w.members[0].attached)
    });
    cluster.unfreeze();
    cluster.wait("the worker", |cluster| (!cluster.starts().is_empty()).then_some(()));
    cluster.kill_agent("n1");
    cluster.start_agent("n1");
    cluster.wait_phase("work", Phase::Running);
    cluster.wait("the worker in the new agent's list", |cluster| {
        cluster.report_of("n1").report?.workers.into_iter().find(|w| w.workload == "work")
    });
    cluster.launcher("work", 0).signal(Signal::SIGTERM);
    assert_eq!(cluster.launcher("work", 0).exit_code(), Some(128 + 15));
}
