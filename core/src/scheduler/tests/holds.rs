//! What a drain frees is held for the workload for which it is made.

use super::*;

/// Two victims of 4 GPUs leave for one preemptor of 8.
fn two_leave(policy: Policy) -> Scheduler {
    let mut scheduler = scheduler(vec![preempting("q", 8)], policy);
    submit(&mut scheduler, "a", 0, 4);
    submit(&mut scheduler, "b", 0, 4);
    let verdicts = submit(&mut scheduler, "serving", 5, 8);
    assert!(verdicts[0].starts_with("a b for serving"), "{verdicts:?}");
    scheduler
}

#[test]
fn s11_the_first_victims_devices_stay_held_until_the_second_has_left() {
    let mut scheduler = two_leave(Policy::sluice());
    scheduler.left(&key("a"));
    let again = submit(&mut scheduler, "a", 0, 4);
    assert_eq!(again, ["a waits: WaitingForQuota"], "its own devices are not given back to it");
    scheduler.left(&key("b"));
    let verdicts = words(&scheduler.decide(NOW_MS, NOTHING));
    assert_eq!(verdicts, ["serving runs on what was held", "a waits: WaitingForQuota"]);
    let again = submit(&mut scheduler, "b", 0, 4);
    assert_eq!(again, ["b waits: WaitingForQuota"]);
}

#[test]
fn without_the_rule_the_first_victim_takes_its_devices_back_as_with_kueue() {
    let mut scheduler = two_leave(Policy::compat());
    scheduler.left(&key("a"));
    scheduler.submit(Arc::new(pending("a", "q", 6, 4)));
    let verdicts = words(&scheduler.decide(NOW_MS, NOTHING));
    assert_eq!(verdicts[0], "a runs", "{verdicts:?}");
}

#[test]
fn nobody_is_taken_twice_and_nobody_who_holds_is_taken() {
    let mut scheduler = two_leave(Policy::sluice());
    assert_eq!(submit(&mut scheduler, "urgent", 9, 8), ["urgent waits: WaitingForQuota"]);
    scheduler.left(&key("a"));
    scheduler.left(&key("b"));
    let verdicts = words(&scheduler.decide(NOW_MS, NOTHING));
    assert_eq!(verdicts, ["serving runs on what was held", "serving for urgent, held"]);
}

#[test]
fn a_victim_that_stays_dissolves_the_hold() {
    let mut scheduler = two_leave(Policy::sluice());
    scheduler.stays(&key("a"));
    assert_eq!(scheduler.place(&key("serving")), Some(Place::Waiting));
    let protected = |_: &Workload, workload: &Workload| {
        let is_a = workload.key.name() == "a";
        let until_ms = NOW_MS + 15_000;
        let protection = super::super::Protection { until_ms, rule: Rule::ProductiveFloor };
        Standing { protected: is_a.then_some(protection), ..Standing::default() }
    };
    let verdicts = words(&scheduler.decide(NOW_MS, &protected));
    assert_eq!(verdicts, ["serving waits until 1015000 for a: productive-floor"]);
    assert_eq!(scheduler.retry_at_ms(), Some(NOW_MS + 15_000));
    let verdicts = words(&scheduler.decide(NOW_MS + 15_000, &protected));
    assert_eq!(verdicts, ["b a for serving, held"]);
}

#[test]
fn room_that_others_make_is_taken_at_once() {
    let mut scheduler = scheduler(vec![preempting("q", 8)], Policy::sluice());
    submit(&mut scheduler, "low", 0, 4);
    submit(&mut scheduler, "high", 9, 4);
    assert_eq!(submit(&mut scheduler, "serving", 5, 4), ["low for serving, held"]);
    scheduler.forget(&key("high"));
    assert_eq!(words(&scheduler.decide(NOW_MS, NOTHING)), ["serving runs"]);
    assert_eq!(scheduler.place(&key("low")), Some(Place::Leaving), "the caller may take it back");
    scheduler.stays(&key("low"));
    assert_eq!(scheduler.place(&key("low")), Some(Place::Running));
}

#[test]
fn a_second_preemptor_takes_only_what_the_first_does_not_get() {
    let mut scheduler = scheduler(vec![preempting("q", 8)], Policy::sluice());
    submit(&mut scheduler, "big", 0, 8);
    assert_eq!(submit(&mut scheduler, "one", 5, 3), ["big for one, held"]);
    assert_eq!(submit(&mut scheduler, "two", 5, 3), ["big for two, held"], "5 are left over");
    assert_eq!(submit(&mut scheduler, "three", 5, 3), ["three waits: WaitingForQuota"]);
    scheduler.left(&key("big"));
    let verdicts = words(&scheduler.decide(NOW_MS, NOTHING));
    let expected = ["one runs on what was held", "two runs on what was held"];
    assert_eq!(verdicts[..2], expected);
}
