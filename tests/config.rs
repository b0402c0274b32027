//! `sluice config check`: files of queues, looked at by the real program without anybody who runs.

use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::bad_input::nothing_running;
use crate::cluster::{Cluster, SLUICE};

fn fixture(name: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.join("tests/fixtures/queues").join(name).display().to_string()
}

/// Exit status, standard output and standard error of `sluice config check`.
fn check(cluster: &Cluster, arguments: &[&str], input: Stdio) -> (Option<i32>, String, String) {
    let mut command = cluster.command(SLUICE);
    let output = command.args(["config", "check"]).args(arguments).stdin(input).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

const FLAVOR: &str =
    "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: l4}\n";

const QUEUE: &str = "\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: l4
      resources: [{name: nvidia.com/gpu, nominalQuota: 4}]
";

#[test]
fn files_of_real_installations_are_shown() {
    let cluster = nothing_running();
    for (name, shown) in [
        ("serving-and-training.yaml", "288Gi"),
        ("dynamic-slicing.yaml", "slice-topology"),
        ("../../../manifests/demo/queues.yaml", "nvidia.com/gpu"),
    ] {
        let (code, stdout, stderr) = check(&cluster, &[&fixture(name)], Stdio::null());
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{name}");
        assert!(stdout.contains(shown), "{stdout}");
        assert!(stdout.contains("the configuration can be used: 1 cluster queue"), "{stdout}");
    }
}

#[test]
fn several_files_are_one_configuration() {
    let cluster = nothing_running();
    let [flavors, queues] = ["flavors.yaml", "queues.yaml"].map(|name| cluster.path(name));
    std::fs::write(&flavors, FLAVOR).unwrap();
    std::fs::write(&queues, QUEUE).unwrap();
    let [flavors, queues] = [&flavors, &queues].map(|path| path.display().to_string());
    let (code, _, stderr) = check(&cluster, &[&queues], Stdio::null());
    assert_eq!(code, Some(64));
    let expected = format!(
        "{queues}: document 1, line 1 (ClusterQueue \"research\"): spec.resourceGroups[0].flavors[0].name is \"l4\", but there is no ResourceFlavor of that name; add a ResourceFlavor \"l4\" or take this out [no-such-object]"
    );
    assert_eq!(
        stderr,
        format!("sluice: the configuration cannot be used: 1 problem\n  {expected}\n")
    );
    assert_eq!(check(&cluster, &[&queues, &flavors], Stdio::null()).0, Some(0));
    // One of them may come by standard input.
    let input = Stdio::from(File::open(&flavors).unwrap());
    assert_eq!(check(&cluster, &["-", &queues], input).0, Some(0));
}

#[test]
fn programs_are_told_by_codes() {
    let cluster = nothing_running();
    let file = cluster.path("queues.yaml");
    let shown = file.display().to_string();
    let text = format!("{FLAVOR}---\n{QUEUE}")
        .replace("nominalQuota: 4", "nominalQuota: -4")
        .replace("namespaceSelector", "namespaceselector");
    std::fs::write(&file, text).unwrap();
    let (code, stdout, stderr) = check(&cluster, &["-o", "json", &shown], Stdio::null());
    assert_eq!((code, stderr.as_str()), (Some(64), ""));
    let found = document(&stdout);
    assert_eq!(found["usable"], json!(false));
    let place = |problem: &Value| {
        json!([
            problem["code"],
            problem["file"],
            problem["document"],
            problem["line"],
            problem["object_name"],
            problem["path"]
        ])
    };
    let problems: Vec<Value> = found["problems"].as_array().unwrap().iter().map(place).collect();
    assert_eq!(
        problems,
        [
            json!([
                "negative-quantity",
                shown,
                2,
                5,
                "research",
                "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"
            ]),
            json!(["unknown-field", shown, 2, 5, "research", "spec.namespaceselector"]),
        ]
    );
    let slicing = fixture("dynamic-slicing.yaml");
    let (code, stdout, _) = check(&cluster, &["-o", "json", &slicing], Stdio::null());
    assert_eq!(code, Some(0));
    let found = document(&stdout);
    let quotas = &found["queues"][0]["quotas"];
    assert_eq!(
        quotas[1],
        json!({"flavor": "slice-rf", "resource": "cpu", "unit": "milli-cpu", "nominal": 999_999_000, "borrowing_limit": null, "lending_limit": null})
    );
}

#[test]
fn what_cannot_be_read_is_told_for_each_file() {
    let cluster = nothing_running();
    let (code, _, stderr) = check(&cluster, &["/no/such/file", "/dev/zero", "-"], Stdio::null());
    assert_eq!(code, Some(64));
    assert_eq!(
        stderr,
        "sluice: the configuration cannot be used: 2 problems\n  /no/such/file: cannot be read: No such file or directory (os error 2) [unreadable-file]\n  /dev/zero: is larger than 8388608 bytes; split it [unreadable-file]\n"
    );
    assert_eq!(check(&cluster, &[], Stdio::null()).0, Some(64));
}
