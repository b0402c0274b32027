//! Tests of what is told when.

use sluice::wire::digest::EntityHashes;
use sluice::wire::pb;

use super::Told;

fn node() -> pb::NodeReport {
    let device = |id: &str| pb::Device {
        id: id.to_owned(),
        health: pb::Health::Healthy.into(),
        age_ms: Some(5),
        ..Default::default()
    };
    pb::NodeReport {
        devices: vec![device("a"), device("b")],
        volumes: vec![pb::Volume { device: "sda".to_owned(), ..Default::default() }],
        workers: vec![pb::Worker { workload: "w".to_owned(), attempt: 1, ..Default::default() }],
        pressure: Some(pb::Pressure::default()),
        ..Default::default()
    }
}

/// The arbiter's side: what it holds after the reports, whose digest has to be what each report says.
fn apply(arbiter: &mut EntityHashes, report: &pb::Report) {
    arbiter.apply(report);
    assert_eq!(arbiter.digest(), report.state_hash);
}

#[test]
fn a_full_report_is_followed_by_changes_only_and_both_sides_agree() {
    let (mut told, mut arbiter) = (Told::default(), EntityHashes::default());
    let full = told.tell(node(), true, true).unwrap();
    assert!(full.full);
    apply(&mut arbiter, &full);
    assert_eq!(told.tell(node(), false, true), None, "nothing has changed");

    let mut sick = node();
    sick.devices[1].health = pb::Health::Unhealthy.into();
    sick.volumes.clear();
    sick.workers.clear();
    let delta = told.tell(sick.clone(), false, false).unwrap();
    let expected = pb::Report {
        devices: vec![sick.devices[1].clone()],
        removed_volumes: vec!["sda".to_owned()],
        removed_workers: vec!["w/1/0".to_owned()],
        state_hash: delta.state_hash,
        ..Default::default()
    };
    assert_eq!(delta, expected);
    apply(&mut arbiter, &delta);
    assert_eq!(arbiter.digest(), told.digest());
}

#[test]
fn figures_wait_for_the_heartbeat_and_ages_are_no_news() {
    let mut told = Told::default();
    told.tell(node(), true, true);
    let mut busy = node();
    busy.devices[0].age_ms = Some(900);
    assert_eq!(told.tell(busy.clone(), false, true), None, "an age alone is no news");
    busy.devices[0].holder_pids = vec![17];
    busy.volumes[0].counters = Some(pb::VolumeCounters { reads: 3, ..Default::default() });
    assert_eq!(told.tell(busy.clone(), false, false), None, "figures wait");
    let delta = told.tell(busy.clone(), false, true).unwrap();
    assert_eq!(delta.devices, busy.devices[..1]);
    assert_eq!(delta.volumes, busy.volumes);
    assert_eq!(delta.workers, []);
}

#[test]
fn an_empty_node_that_must_tell_everything_says_that_there_is_nothing() {
    let mut told = Told::default();
    let report = told.tell(pb::NodeReport::default(), true, false).unwrap();
    assert_eq!(report, pb::Report { full: true, ..Default::default() });
    assert_eq!(told.digest(), 0);
}
