use clap::Parser as _;

use super::*;
use crate::args::{Cli, Command};

fn plan(line: &[&str]) -> Result<Plan, Failure> {
    let cli = Cli::try_parse_from([&["sluice", "run"], line].concat()).expect("parses");
    let Command::Run(args) = cli.command else { panic!("is not run") };
    args.plan()
}

#[test]
fn flags_become_a_spec() {
    let dir = tempfile::tempdir().expect("a directory");
    let checkpoints = dir.path().join("a/b").display().to_string();
    let line = [
        "--queue",
        "prod",
        "--priority",
        "-5",
        "--resource",
        "nvidia.com/gpu=2",
        "--name",
        "x",
        "--checkpoint-dir",
        &checkpoints,
        "--checkpoint-format",
        "rename",
        "--save-signal",
        "usr1",
        "--save-signal-proven",
        "--grace",
        "60s",
        "--drain-deadline",
        "45s",
        "--",
        "sh",
        "-c",
        "exit 3",
    ];
    let plan = plan(&line).expect("is accepted");
    let expected = pb::WorkloadSpec {
        slice: None,
        name: "x".to_owned(),
        queue: "prod".to_owned(),
        priority: -5,
        nnodes: 1,
        resources: BTreeMap::from([("nvidia.com/gpu".to_owned(), 2)]),
        checkpoint_dir: checkpoints.clone(),
        checkpoint_format: pb::CheckpointFormat::Rename.into(),
        save_signal: 10,
        exits_after_save: false,
        save_signal_proven: true,
        grace_ms: Some(60_000),
        drain_deadline_ms: 45_000,
        command: vec!["sh".to_owned(), "-c".to_owned(), "exit 3".to_owned()],
        topology: None,
        checkpoint_rules: None,
    };
    assert_eq!(plan.spec, expected);
    assert!(Path::new(&checkpoints).is_dir(), "the directory is created");
}

#[test]
fn a_glob_makes_the_format_generic_and_paths_become_absolute() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().display().to_string();
    let flags = ["--checkpoint-glob", "m-*.npz", "--checkpoint-marker", ".done"];
    let line = [&["--checkpoint-dir", &dir], &flags[..], &["--", "true"]].concat();
    let spec = plan(&line).expect("is accepted").spec;
    let rules = pb::CheckpointRules {
        glob: "m-*.npz".to_owned(),
        marker: ".done".to_owned(),
        remote_dir: String::new(),
    };
    let expected = (pb::CheckpointFormat::Generic, Some(rules));
    assert_eq!((spec.checkpoint_format(), spec.checkpoint_rules), expected);

    let line = ["--checkpoint-dir", &dir, "--checkpoint-remote", "there", "--", "true"];
    let spec = plan(&line).expect("is accepted").spec;
    let remote_dir = std::path::absolute("there").expect("a path").display().to_string();
    let rules = pb::CheckpointRules { remote_dir, ..pb::CheckpointRules::default() };
    let expected = (pb::CheckpointFormat::Unspecified, Some(rules));
    assert_eq!((spec.checkpoint_format(), spec.checkpoint_rules), expected);

    let line = ["--checkpoint-dir", &dir, "--checkpoint-format", "generic", "--", "true"];
    assert_eq!(plan(&line).expect_err("is refused").exit, 64);
    let orbax =
        ["--checkpoint-dir", &dir, "--checkpoint-format", "orbax", "--checkpoint-glob", "*"];
    let line = [&orbax[..], &["--", "true"]].concat();
    assert_eq!(plan(&line).expect_err("is refused").exit, 64);
}

#[test]
fn a_second_look_at_the_same_place_and_a_glob_for_a_framework_are_refused() {
    let root = tempfile::tempdir().expect("a directory");
    let (dir, link) = (root.path().join("out"), root.path().join("link"));
    std::os::unix::fs::symlink(&dir, &link).expect("a link");
    let dir = dir.display().to_string();
    let said = |flags: &[&str]| {
        let line = [&["--checkpoint-dir", &dir], flags, &["--", "true"]].concat();
        let failure = plan(&line).expect_err("is refused");
        (failure.exit, failure.message)
    };
    for same in [dir.clone(), format!("{dir}/."), link.display().to_string()] {
        let (exit, message) = said(&["--checkpoint-remote", &same]);
        assert_eq!(exit, 64);
        assert!(message.ends_with("is --checkpoint-dir itself"), "{message}");
    }
    let glob = ["--checkpoint-format", "orbax", "--checkpoint-glob", "*"];
    let expected = "--checkpoint-glob \"*\" goes only with --checkpoint-format generic, not orbax";
    assert_eq!(said(&glob), (64, expected.to_owned()));
}

#[test]
fn one_gpu_is_asked_for_by_default() {
    let plan = plan(&["--", "true"]).expect("is accepted");
    assert_eq!(plan.spec.resources, BTreeMap::from([("nvidia.com/gpu".to_owned(), 1)]));
    assert!(plan.spec.name.starts_with("true-"), "{}", plan.spec.name);
}

#[test]
fn what_cannot_work_is_refused_before_it_is_submitted() {
    let exit = |line: &[&str]| plan(line).expect_err("is refused").exit;
    assert_eq!(exit(&["--", "no-such-command-anywhere"]), 127);
    assert_eq!(exit(&["--", "/etc/passwd"]), 126);
    assert_eq!(exit(&["--checkpoint-dir", "/etc/passwd", "--", "true"]), 64);
    assert_eq!(exit(&["--nnodes", "2", "--", "true"]), 64);
    assert_eq!(exit(&["--name", "x", "--node-rank", "1", "--", "true"]), 64);
    assert_eq!(exit(&["--resource", "a=1", "--resource", "a=2", "--", "true"]), 64);
}

#[test]
fn signals_have_names_and_numbers() {
    for text in ["USR1", "SIGUSR1", "usr1", "10"] {
        assert_eq!(parse_signal(text), Ok(10), "{text}");
    }
    for text in ["KILL", "19", "0", "65", "NOPE", ""] {
        assert!(parse_signal(text).is_err(), "{text}");
    }
}

#[test]
fn resources_have_a_name_and_a_count() {
    let count = |text: &str| parse_resource(text).unwrap().1;
    assert_eq!(count("nvidia.com/gpu=2"), 2);
    assert_eq!(count("memory=16Gi"), 16 << 30);
    assert_eq!((count("memory=1.5Gi"), count("cpu=2000m")), (3 << 29, 2));
    for text in ["nvidia.com/gpu", "=2", "a=0", "a=-1", "a=1.5", "a=500m", "a=1Q", "a b=1"] {
        assert!(parse_resource(text).is_err(), "{text}");
    }
}

#[test]
fn slices_are_asked_for_with_whole_hosts() {
    let words = [
        "--name",
        "x",
        "--nnodes",
        "12",
        "--slice",
        "2x2x2",
        "--slices",
        "6",
        "--slice-group",
        "g",
    ];
    let plan = plan(&[&words[..], &["--", "true"]].concat()).unwrap();
    let slice = pb::SliceSpec {
        generation: String::new(),
        shape: "2x2x2".to_owned(),
        count: 6,
        healthy_only: false,
        group: Some("g".to_owned()),
    };
    assert_eq!(plan.spec.slice, Some(slice));
    assert_eq!(plan.spec.resources, [("google.com/tpu".to_owned(), 4)].into());
}
