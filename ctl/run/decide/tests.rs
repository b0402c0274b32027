use super::*;

fn workload(phase: pb::Phase, attempt: u32) -> pb::Workload {
    let assignment = pb::Assignment {
        node: "a".to_owned(),
        devices: vec!["d0".to_owned()],
        ..Default::default()
    };
    let member = pb::Member { rank: 1, assignment: Some(assignment), ..pb::Member::default() };
    pb::Workload {
        spec: Some(pb::WorkloadSpec { name: "x".to_owned(), ..pb::WorkloadSpec::default() }),
        phase: phase.into(),
        attempt,
        members: vec![member],
        reason: Some(pb::Reason {
            message: "because".to_owned(),
            hint: "do".to_owned(),
            ..pb::Reason::default()
        }),
        ..pb::Workload::default()
    }
}

fn waits() -> Waiting {
    Waiting::Wait { why: "because".to_owned(), hint: "do".to_owned() }
}

fn finishing() -> Waiting {
    Waiting::Wait { why: "its drain is being finished".to_owned(), hint: String::new() }
}

#[test]
fn an_admission_is_started_once() {
    let admitted = workload(pb::Phase::Admitted, 2);
    let assignment = admitted.members[0].assignment.clone().expect("assigned");
    assert_eq!(while_waiting(&admitted, 1, 1), Waiting::Start { attempt: 2, assignment });
    assert_eq!(while_waiting(&admitted, 1, 2), finishing(), "this attempt was started before");
    assert_eq!(while_waiting(&admitted, 0, 1), waits(), "rank 0 has no assignment");
}

#[test]
fn nothing_is_started_in_other_phases() {
    for phase in [pb::Phase::Pending, pb::Phase::Running, pb::Phase::Draining] {
        assert_eq!(while_waiting(&workload(phase, 2), 1, 1), waits(), "{phase:?}");
    }
    for phase in [pb::Phase::Running, pb::Phase::Draining] {
        assert_eq!(while_waiting(&workload(phase, 2), 1, 2), finishing(), "{phase:?}");
    }
}

#[test]
fn the_first_three_ahead_are_named() {
    let mut pending = workload(pb::Phase::Pending, 0);
    pending.ahead = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
    pending.ahead_count = 20;
    let why = "because; ahead: a, b, c and 17 more".to_owned();
    assert_eq!(while_waiting(&pending, 1, 0), Waiting::Wait { why, hint: "do".to_owned() });
}

#[test]
fn a_workload_that_is_over_ends_its_worker() {
    let failed = workload(pb::Phase::Failed, 2);
    let over = "workload x has failed: because".to_owned();
    let waiting = Waiting::Over { why: over.clone(), has_succeeded: false };
    assert_eq!(while_waiting(&failed, 1, 2), waiting);
    assert_eq!(while_running(&failed, 2), Running::Over(over));
    let waiting = while_waiting(&workload(pb::Phase::Succeeded, 2), 1, 2);
    let why = "workload x has succeeded: because".to_owned();
    assert_eq!(waiting, Waiting::Over { why, has_succeeded: true });
}

#[test]
fn a_worker_of_an_older_attempt_is_superseded() {
    let running = workload(pb::Phase::Running, 3);
    let superseded = Running::Superseded("start number 3 counts now".to_owned());
    assert_eq!(while_running(&running, 2), superseded);
    assert_eq!(while_running(&running, 3), Running::Keep);
    assert_eq!(while_running(&running, 4), Running::Keep, "the arbiter has lost its state");
}

#[test]
fn a_worker_whose_workload_is_queued_again_is_superseded() {
    let superseded = Running::Superseded("because".to_owned());
    assert_eq!(while_running(&workload(pb::Phase::Pending, 2), 2), superseded);
    assert_eq!(while_running(&workload(pb::Phase::Draining, 2), 2), Running::Keep);
}
