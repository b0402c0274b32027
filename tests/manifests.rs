//! Manifests for clusters: the programs take the flags that they are given there.

use std::path::Path;

use serde_json::Value;

use crate::cluster::{AGENT, ARBITER};
use crate::process::command;

/// The containers of all workloads of the base: program and arguments.
fn containers() -> Vec<(String, Vec<String>)> {
    let base = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/base");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(base).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        for object in documents {
            let containers = object["spec"]["template"]["spec"]["containers"].as_array();
            for container in containers.into_iter().flatten() {
                let texts = |list: &Value| -> Vec<String> {
                    let list = list.as_array().unwrap().iter();
                    // What Kubernetes would put in the place of a variable.
                    list.map(|text| text.as_str().unwrap().replace("$(NODE_NAME)", "n1")).collect()
                };
                found.push((texts(&container["command"]).remove(0), texts(&container["args"])));
            }
        }
    }
    found.sort();
    found
}

/// Flags are read one after the other: a bad one is refused before `--help` is come to.
fn is_taken(program: &str, arguments: &[String]) -> Result<(), String> {
    let mut command = command(program, Path::new("/"));
    let output = command.args(arguments).arg("--help").output().unwrap();
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(why) }
}

#[test]
fn programs_take_the_flags_of_the_manifests() {
    let containers = containers();
    let programs: Vec<&str> = containers.iter().map(|(program, _)| program.as_str()).collect();
    assert_eq!(programs, ["/usr/local/bin/sluice-agent", "/usr/local/bin/sluice-arbiter"]);
    for ((program, arguments), built) in containers.iter().zip([AGENT, ARBITER]) {
        assert_eq!(is_taken(built, arguments), Ok(()), "{program} {arguments:?}");
        let with_typo = [&arguments[..], &["--no-such-flag".to_owned()]].concat();
        assert!(is_taken(built, &with_typo).is_err());
    }
}
