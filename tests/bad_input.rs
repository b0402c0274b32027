//! What people and programs get wrong: each a clear error or a refusal, and nothing is lost by it.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use sluice::wire::pb;
use sluice::wire::pb::Phase;
use sluice::wire::pb::agents_client::AgentsClient;
use tonic::Code;

use crate::ask::{code, request};
use crate::cluster::{AGENT, ARBITER, Cluster, SLUICE, Setup};
use crate::process::{patience, wait_for};

/// Runs a program that is to refuse; its exit code and what it said on standard error.
fn refused(cluster: &Cluster, program: &str, arguments: &[&str]) -> (i32, String) {
    let mut command = cluster.command(program);
    let mut process = cluster.spawn("refused", command.args(arguments));
    let code = process.exit_code().unwrap_or(-1);
    assert_eq!(process.first_line(), None, "{program} {arguments:?} said that it is ready");
    (code, process.stderr())
}

#[track_caller]
pub(crate) fn check(
    cluster: &Cluster,
    program: &str,
    arguments: &[&str],
    code: i32,
    said: &[&str],
) {
    let (got, stderr) = refused(cluster, program, arguments);
    assert_eq!(got, code, "{program} {arguments:?}: {stderr}");
    for part in said {
        assert!(stderr.contains(part), "{program} {arguments:?} does not say {part:?}: {stderr}");
    }
    assert!(!stderr.contains("panicked"), "{stderr}");
}

pub(crate) fn nothing_running() -> Cluster {
    Cluster::unstarted(Setup::default())
}

#[test]
fn unknown_flags_are_refused_before_anything_is_opened() {
    let cluster = nothing_running();
    for program in [SLUICE, AGENT, ARBITER] {
        check(&cluster, program, &["--no-such-flag"], 64, &["--no-such-flag"]);
    }
    check(&cluster, SLUICE, &["run", "--no-such-flag", "--", "true"], 64, &["--no-such-flag"]);
    check(&cluster, SLUICE, &["frobnicate"], 64, &["frobnicate"]);
    assert_eq!(std::fs::read_dir(cluster.state_dir()).unwrap().count(), 0);
}

#[test]
fn bad_values_are_refused_and_named() {
    let cluster = nothing_running();
    let cases: [(&str, &[&str], &str); 10] = [
        (ARBITER, &["--listen", "nowhere"], "nowhere"),
        (ARBITER, &["--arm-timeout-ms", "soon"], "soon"),
        (ARBITER, &["--heartbeat-ms", "-1"], "-1"),
        (ARBITER, &["--state-dir", "relative"], "relative"),
        (AGENT, &["--simulate", "nvidia-l4=many"], "nvidia-l4=many"),
        (AGENT, &["--node", "a name"], "a name"),
        (AGENT, &["--disk-interval-ms", "1"], "--disk-interval-ms is 1"),
        (SLUICE, &["run", "--resource", "nvidia.com/gpu", "--", "true"], "NAME=COUNT"),
        (
            SLUICE,
            &["run", "--nnodes", "2", "--node-rank", "2", "--name", "x", "--", "true"],
            "--node-rank is 2",
        ),
        (SLUICE, &["run", "--save-signal", "KILL", "--checkpoint-dir", "c", "--", "true"], "KILL"),
    ];
    for (program, arguments, said) in cases {
        check(&cluster, program, arguments, 64, &[said]);
    }
}

#[test]
fn port_in_use_is_named() {
    let cluster = nothing_running();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    check(&cluster, ARBITER, &["--listen", &address], 1, &[&address, "in use"]);
    let flags = ["--listen", "127.0.0.1:0", "--listen-metrics", &address];
    check(&cluster, ARBITER, &flags, 1, &[&address, "in use"]);
    check(
        &cluster,
        AGENT,
        &["--node", "n", "--listen-metrics", &address],
        1,
        &[&address, "in use"],
    );
    assert!(!cluster.state_dir().join("arbiter/state.redb").exists(), "nothing was changed");
}

#[test]
fn addresses_that_others_reach_need_consent() {
    let cluster = nothing_running();
    check(&cluster, ARBITER, &["--listen", "0.0.0.0:0"], 64, &["--insecure-listen"]);
}

#[test]
fn socket_that_cannot_be_made_is_named() {
    let cluster = nothing_running();
    let file = cluster.path("file");
    std::fs::write(&file, "").unwrap();
    let below = format!("{}/agent.sock", file.display());
    let named = format!("\"{}", file.display());
    check(&cluster, AGENT, &["--node", "n", "--socket", &below], 1, &[&named]);
    check(&cluster, ARBITER, &["--listen", &format!("unix:{below}")], 1, &[&below]);
    let occupied = format!("unix:{}", file.display());
    check(&cluster, ARBITER, &["--listen", &occupied], 1, &["no socket"]);
    assert!(file.exists(), "a file that is no socket is not replaced");
}

const QUEUES: &str = "
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata:
  name: any
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: team
spec:
  namespaceSelector: {}
  preemption:
    withinClusterQueue: LowerPriority
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors:
        - name: any
          resources:
            - name: nvidia.com/gpu
              nominalQuota: 3
";

#[test]
fn queues_file_with_an_unknown_field_is_refused() {
    let cluster = nothing_running();
    let file = cluster.path("queues.yaml");
    let shown = file.display().to_string();
    let flags = ["--listen", "127.0.0.1:0", "--queues", &shown];
    for (text, said) in [
        (
            QUEUES.replace("nominalQuota: 3", "nominalQuota: 3\n              nominalQuotta: 4"),
            "nominalQuotta",
        ),
        (QUEUES.replace("nominalQuota: 3", "nominalQuota: many"), "many"),
        (QUEUES.replace("metadata:", "metadata: ["), "queues.yaml"),
        (QUEUES.replace("kind: ClusterQueue", "kind: Clusterqueue"), "Clusterqueue"),
    ] {
        std::fs::write(&file, text).unwrap();
        check(&cluster, ARBITER, &flags, 64, &[&shown, said]);
    }
    check(&cluster, ARBITER, &["--queues", "/no/such/file"], 64, &["/no/such/file"]);
}

#[test]
fn gang_that_can_never_fit_is_told_at_once() {
    let setup = Setup { queues: Some(QUEUES.to_owned()), ..Setup::nodes(&[("n1", 2)]) };
    let mut cluster = setup.start();
    let run = |cluster: &Cluster, flags: &[&str]| {
        let arguments: Vec<&str> = [&["run"], flags, &["--", "true"]].concat();
        refused(cluster, SLUICE, &arguments)
    };
    // More than the queue can ever give.
    let (status, said) = run(&cluster, &["--queue", "team", "--resource", "nvidia.com/gpu=4"]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("queue team can never give more than 3"), "{said}");
    let (_, said) = run(&cluster, &["--queue", "team", "--resource", "google.com/tpu=1"]);
    assert!(said.contains("no quota for google.com/tpu"), "{said}");
    let (_, said) = run(&cluster, &["--queue", "nobody", "--resource", "nvidia.com/gpu=1"]);
    assert!(said.contains("there is no queue nobody; there are: team"), "{said}");
    assert_eq!(cluster.workloads().unwrap(), []);
    // Within the quota, and more than any node has: a larger node may come, so it waits and says for what.
    cluster.run("large", "--queue team --resource nvidia.com/gpu=3", &["sleep", "600"]);
    let waiting = cluster.wait("the reason", |cluster| {
        cluster.workload("large").filter(|w| code(w) == "no-node-large-enough")
    });
    assert_eq!(waiting.phase(), Phase::Pending);
    let process = cluster.launcher("large", 0);
    wait_for("the launcher to say so", || {
        process.stderr().contains("the largest node known has 2").then_some(())
    });
}

#[test]
fn command_that_does_not_exist_is_told_before_it_is_queued() {
    let cluster = Setup::nodes(&[("n1", 1)]).start();
    check(&cluster, SLUICE, &["run", "--", "no-such-program"], 127, &["no-such-program"]);
    let file = cluster.path("not-executable");
    std::fs::write(&file, "").unwrap();
    let shown = file.display().to_string();
    check(&cluster, SLUICE, &["run", "--", &shown], 126, &[&shown]);
    assert_eq!(cluster.workloads().unwrap(), []);
}

#[test]
fn checkpoint_directory_that_is_a_file_is_refused() {
    let cluster = Setup::nodes(&[("n1", 1)]).start();
    let file = cluster.path("file");
    std::fs::write(&file, "precious").unwrap();
    let shown = file.display().to_string();
    let arguments = ["run", "--checkpoint-dir", &shown, "--", "true"];
    check(&cluster, SLUICE, &arguments, 64, &[&shown, "not a directory"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    assert_eq!(cluster.workloads().unwrap(), []);
}

#[test]
fn nobody_to_talk_to_has_its_own_exit_code() {
    let cluster = nothing_running();
    check(&cluster, SLUICE, &["run", "--", "true"], 69, &["no agent is reachable"]);
    check(&cluster, SLUICE, &["get", "workloads"], 69, &["the arbiter is not reachable"]);
}

fn spec(name: &str) -> pb::WorkloadSpec {
    pb::WorkloadSpec {
        name: name.to_owned(),
        queue: "default".to_owned(),
        nnodes: 1,
        resources: BTreeMap::from([("nvidia.com/gpu".to_owned(), 1)]).into_iter().collect(),
        ..Default::default()
    }
}

#[test]
fn messages_beyond_the_limits_are_refused_with_the_field() {
    let cluster = Setup::nodes(&[("n1", 1)]).start();
    let submit = |spec: pb::WorkloadSpec, launcher: &str| {
        let (launcher, nodes) = (launcher.to_owned(), vec!["n1".to_owned()]);
        let message = request(pb::SubmitRequest { spec: Some(spec), rank: 0, launcher, nodes });
        let mut admin = cluster.admin();
        cluster.block_on(async move { admin.submit(message).await }).unwrap_err()
    };
    let resources = (0..17).map(|n| (format!("r{n}"), 1)).collect();
    let cases = [
        (spec(&"n".repeat(1_000)), "l", Code::InvalidArgument, "name"),
        (spec("has spaces"), "l", Code::InvalidArgument, "name"),
        (spec("a"), "", Code::InvalidArgument, "launcher"),
        (pb::WorkloadSpec { nnodes: 0, ..spec("a") }, "l", Code::InvalidArgument, "nnodes"),
        (pb::WorkloadSpec { nnodes: 5_000, ..spec("a") }, "l", Code::InvalidArgument, "nnodes"),
        (
            pb::WorkloadSpec { save_signal: 99, ..spec("a") },
            "l",
            Code::InvalidArgument,
            "save_signal",
        ),
        (pb::WorkloadSpec { resources, ..spec("a") }, "l", Code::InvalidArgument, "resources"),
        (
            pb::WorkloadSpec { command: vec!["x".repeat(2 << 20)], ..spec("a") },
            "l",
            Code::OutOfRange,
            "",
        ),
    ];
    for (spec, launcher, code, field) in cases {
        let status = submit(spec, launcher);
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().contains(field), "{:?} does not name {field:?}", status.message());
    }
    assert_eq!(cluster.workloads().unwrap(), []);
    assert!(cluster.node("n1").unwrap().connected);
}

/// What the arbiter answers to an agent that begins with `hello`.
fn say_hello(cluster: &Cluster, hello: pb::Hello) -> Result<pb::ArbiterMessage, tonic::Status> {
    let address = cluster.arbiter_address().parse().unwrap();
    cluster.block_on(async {
        let mut client = AgentsClient::new(sluice::net::connect(&address).await.unwrap());
        let body = Some(pb::agent_message::Body::Hello(hello));
        let first = tokio_stream::once(pb::AgentMessage { seq: 1, body });
        let mut answers = client.connect(first).await?.into_inner();
        answers.message().await.map(|message| message.expect("an answer"))
    })
}

fn hello(node: &str, uid: &str) -> pb::Hello {
    pb::Hello {
        node: node.to_owned(),
        node_uid: uid.to_owned(),
        boot_id: "boot".to_owned(),
        instance: "instance".to_owned(),
        protocol: sluice::wire::PROTOCOL,
        version: "test".to_owned(),
        ..Default::default()
    }
}

/// Bytes that are no protocol: the connection ends, and nobody else notices.
#[test]
fn noise_on_a_socket_disturbs_nobody() {
    let cluster = Setup::nodes(&[("n1", 1)]).start();
    for socket in [cluster.path("arbiter.sock"), cluster.agent_socket("n1")] {
        for noise in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 4_096], &[0xff; 4_096], b"PRI * HTTP/2.0"]
        {
            let mut stream = UnixStream::connect(&socket).unwrap();
            // The server may hang up before it has heard everything.
            let _ = stream.write_all(noise);
            stream.shutdown(Shutdown::Write).unwrap();
            stream.set_read_timeout(Some(patience())).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
    assert!(cluster.node("n1").unwrap().connected);
    assert!(cluster.report_of("n1").status.unwrap().connected);
}

#[test]
fn agent_of_another_protocol_is_refused() {
    let cluster = Setup::nodes(&[("n1", 1)]).start();
    let other = pb::Hello { protocol: sluice::wire::PROTOCOL + 1, ..hello("n2", "uid") };
    let status = say_hello(&cluster, other).unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("speaks protocol 2"), "{}", status.message());
    assert!(status.message().contains("install the same version of both"), "{}", status.message());
    assert_eq!(cluster.nodes().unwrap().len(), 1);
    // The same in this version's words is welcome.
    assert!(say_hello(&cluster, hello("n2", "uid")).is_ok());
}

#[test]
fn second_agent_with_a_node_name_that_is_taken_is_refused() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    cluster.run("work", "", &["sleep", "600"]);
    cluster.wait_phase("work", Phase::Running);
    let status = say_hello(&cluster, hello("n1", "somebody-else")).unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    // A real one, with a state directory of its own: it says what is wrong and the first is not disturbed.
    let mut command = cluster.agent_command("n1");
    let socket = cluster.path("second.sock");
    command.arg("--state-dir").arg(cluster.path("second")).arg("--socket").arg(&socket);
    let mut second = cluster.spawn("second-agent", &mut command);
    wait_for("the second agent to be told", || {
        assert!(second.exited().is_none(), "{}", second.tail());
        second.stderr().contains("give one of the two agents another --node name").then_some(())
    });
    let node = cluster.node("n1").unwrap();
    assert!(node.connected);
    assert_eq!(cluster.workload("work").unwrap().phase(), Phase::Running);
    assert!(cluster.report_of("n1").status.unwrap().connected);
}

#[test]
fn another_launcher_cannot_take_a_rank_or_change_the_gang() {
    let mut cluster = Setup::nodes(&[("n1", 2)]).start();
    cluster.run("work", "", &["sleep", "600"]);
    cluster.wait_phase("work", Phase::Running);
    let arguments = ["run", "--name", "work", "--", "sleep", "600"];
    check(&cluster, SLUICE, &arguments, 1, &["already held by another sluice run"]);
    let arguments = ["run", "--name", "work", "--priority", "7", "--", "sleep", "600"];
    check(&cluster, SLUICE, &arguments, 1, &["priority 0", "says 7"]);
    assert_eq!(cluster.workload("work").unwrap().phase(), Phase::Running);
    assert_eq!(cluster.starts().len(), 1);
}
