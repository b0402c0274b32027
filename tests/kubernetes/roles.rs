//! What the arbiter may do is what it does, by the API server's own audit log.

use std::collections::BTreeSet;

use serde_json::Value;

use super::control_plane::ControlPlane;
use super::failover::{LEASE_MS, setup, start_standby, wait_takes_over};
use super::kueue::documents;

/// A verb on a kind of object.
type Deed = (String, String);

/// What the role allows.
fn allowed() -> BTreeSet<Deed> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/base/arbiter-role.yaml");
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut allowed = BTreeSet::new();
    for object in documents(std::path::Path::new(file)) {
        for rule in object["rules"].as_array().into_iter().flatten() {
            for resource in texts(&rule["resources"]) {
                allowed
                    .extend(texts(&rule["verbs"]).into_iter().map(|verb| (verb, resource.clone())));
            }
        }
    }
    allowed
}

/// What the arbiter has asked for so far, as far as that is in the log.
fn events(plane: &ControlPlane) -> Vec<Value> {
    let log = std::fs::read_to_string(plane.path("audit.log")).unwrap();
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn deed(event: &Value) -> Deed {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&event["verb"]), text(&event["objectRef"]["resource"]))
}

/// What the arbiter has done, and what it was denied.
fn done(plane: &ControlPlane) -> (BTreeSet<Deed>, Vec<Value>) {
    let (mut done, mut denied) = (BTreeSet::new(), Vec::new());
    for event in events(plane) {
        done.insert(deed(&event));
        if event["responseStatus"]["code"] == 403 {
            denied.push(event);
        }
    }
    (done, denied)
}

#[test]
fn arbiter_does_all_that_its_role_allows_and_is_denied_nothing() {
    let Some(plane) = ControlPlane::start("the arbiter's role") else { return };
    let mut cluster = setup(&plane, &[("n1", 1)], LEASE_MS).start();
    let standby = start_standby(&cluster);
    cluster.freeze();
    // More than a head takes, so that records are written. Each submission is in the state, with its command.
    for number in 0..12 {
        let command = "x".repeat(14_000);
        let name = format!("long-{number}");
        cluster.run(&name, "--resource nvidia.com/gpu=1", &["sleep", &command]);
    }
    cluster.wait("all to be submitted", |cluster| (cluster.workloads()?.len() == 12).then_some(()));
    // A part of a commit that never was, as a leader leaves it that dies while it writes one.
    plane.apply(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sluice-arbiter-state-p999-0, namespace: sluice-system, \
         labels: {sluice.dev/state: part}}\n",
    );
    cluster.kill_arbiter();
    assert_eq!(wait_takes_over(&mut cluster, standby), 2);
    assert_eq!(cluster.workloads().unwrap().len(), 12, "what is in records is taken up");
    let part = ["configmap", "sluice-arbiter-state-p999-0", "-n", "sluice-system"];
    assert_eq!(plane.get(&part), None);
    let (done, denied) = done(&plane);
    assert_eq!(denied, Vec::<Value>::new());
    assert_eq!(done, allowed());
}

#[test]
fn quiet_arbiter_asks_for_nothing_but_its_lease() {
    let Some(plane) = ControlPlane::start("a quiet arbiter") else { return };
    let mut cluster = setup(&plane, &[], LEASE_MS).start();
    // The freeze is the last thing that is stored.
    cluster.freeze();
    let renewal = ("update".to_owned(), "leases".to_owned());
    let is_stored = |event: &Value| deed(event) == ("update".to_owned(), "configmaps".to_owned());
    let since = || {
        let events = events(&plane);
        let last = events.iter().rposition(is_stored).expect("the epoch was raised");
        events[last + 1..].iter().map(deed).collect::<Vec<_>>()
    };
    let later = cluster.wait("six renewals", |_| Some(since()).filter(|deeds| deeds.len() >= 6));
    assert_eq!(later, vec![renewal; later.len()]);
    let started: Vec<Deed> = events(&plane).iter().map(deed).collect();
    let stored = started.iter().filter(|(_, resource)| resource == "configmaps").count();
    // Looked for, made, listed; and the freeze.
    assert_eq!(stored, 4, "{started:?}");
    assert_eq!(cluster.arbiter().exited(), None);
}
