use clap::Parser as _;

use super::*;
use crate::args::{Cli, Command};

fn args(line: &[&str]) -> UpArgs {
    let cli = Cli::try_parse_from([&["sluice", "up"], line].concat()).expect("parses");
    let Command::Up(args) = cli.command else { panic!("is not up") };
    args
}

#[test]
fn several_nodes_are_numbered() {
    let names = |line: &[&str]| {
        let names = node_names(&args(line)).expect("has names");
        names.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(names(&["--node-name", "a"]), ["a"]);
    assert_eq!(names(&["--node-name", "a", "--nodes", "3"]), ["a-0", "a-1", "a-2"]);
}

#[test]
fn the_ready_line_says_where_the_arbiter_listens() {
    let line = "sluice-arbiter ready: grpc=127.0.0.1:41234 metrics=off epoch=7";
    let address = grpc_address(line).expect("has an address");
    assert_eq!(address.to_string(), "127.0.0.1:41234");
    assert_eq!(grpc_address("hello").expect_err("has none").exit, 1);
}

#[test]
fn a_missing_program_is_named() {
    let failure = sibling(Path::new("/nowhere"), "sluice-agent").expect_err("is missing");
    assert_eq!(failure.message, "sluice-agent is not in \"/nowhere\"");
}

async fn start(children: &mut Children, script: &str) -> Result<String, Failure> {
    let flags = ["-c".to_owned(), script.to_owned()];
    children.start("it", Path::new("/bin/sh"), &flags).await
}

#[tokio::test]
async fn a_program_that_ends_before_it_is_ready_is_a_failure() {
    let mut children = Children::default();
    let failure = start(&mut children, "exit 64").await.expect_err("has ended");
    let message =
        "it ended before it was ready, with exit status: 64; what it said is above".to_owned();
    assert_eq!(failure, Failure { exit: 64, message, hint: String::new() });
    assert_eq!(children.stop().await, Stopped::InTime);
}

#[tokio::test]
async fn programs_run_until_one_ends_or_all_are_stopped() {
    let mut children = Children::default();
    let ready = start(&mut children, "echo ready; exec sleep 1000").await;
    assert_eq!(ready, Ok("ready".to_owned()));
    start(&mut children, "echo ready; exit 3").await.expect("was ready");
    let failure = children.first_end().await;
    assert_eq!(failure.message, "it ended by itself, with exit status: 3; what it said is above");
    assert_eq!(children.stop().await, Stopped::InTime);
}

#[tokio::test]
async fn a_program_that_does_not_stop_is_killed() {
    let mut children = Children::default();
    let script = "trap '' TERM; echo ready; while :; do read -r x < /dev/zero; done";
    start(&mut children, script).await.expect("was ready");
    assert_eq!(children.kill().await, Stopped::Killed(vec!["it".to_owned()]));
}
