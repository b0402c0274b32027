use expect_test::expect;
use sluice::wire::pb;

use super::report::{Outcome, Report, ReportView};
use super::{agents, arbiter};
use crate::failure::Failure;
use crate::output::{Document, Format, encode};
use crate::paint::resolve;

fn report() -> Report {
    let mut report = Report::default();
    report.check("one", "a is so", Outcome::Fine);
    report.check("one", "b is so", Outcome::warning("it is not\u{1b}", "change it"));
    report.check("two", "c is so", Outcome::failure("it is broken", ""));
    report
}

#[test]
fn a_report_says_what_to_do() {
    expect![[r#"
        one
          √ a is so
          ‼ b is so
              it is not\u{1b}
              hint: change it

        two
          × c is so
              it is broken

        1 check failed; 1 warning
    "#]]
    .assert_eq(&resolve(&report().text(), false));
    assert!(report().has_failed());
}

#[test]
fn a_report_is_a_value_too() {
    let report = report();
    let document = Document::new("DoctorReport", ReportView::of(&report));
    let text = encode(Format::Yaml, &document).expect("encodes").expect("is for programs");
    expect![[r#"
        apiVersion: sluice.dev/v1
        kind: DoctorReport
        success: false
        categories:
        - name: one
          checks:
          - description: a is so
            result: success
            error: null
            hint: null
          - description: b is so
            result: warning
            error: "it is not\e"
            hint: change it
        - name: two
          checks:
          - description: c is so
            result: failure
            error: it is broken
            hint: null
    "#]]
    .assert_eq(&text);
}

#[test]
fn warnings_are_no_failures() {
    let mut report = Report::default();
    report.check("one", "a is so", Outcome::warning("it is not", ""));
    assert!(!report.has_failed());
    arbiter::unreachable(&mut report, &Failure::unreachable("nobody there"));
    assert!(report.has_failed());
}

#[test]
fn an_agent_that_is_cut_off_is_a_failure() {
    let status = pb::AgentStatus { disconnect_reason: "refused".to_owned(), ..Default::default() };
    assert!(matches!(agents::connection(&status), Outcome::Failure { .. }));
    let status =
        pb::AgentStatus { connected: true, last_ack_age_ms: Some(5), ..Default::default() };
    assert_eq!(agents::connection(&status), Outcome::Fine);
}

#[test]
fn unknown_is_never_fine() {
    let device = pb::Device { id: "d".to_owned(), ..Default::default() };
    assert!(matches!(agents::health(&[device]), Outcome::Warning { .. }));
    let sensor = pb::SensorStatus { name: "disk".to_owned(), ..Default::default() };
    let status = pb::AgentStatus { sensors: vec![sensor], ..Default::default() };
    assert!(matches!(agents::sensors(&status), Outcome::Warning { .. }));
}

fn queue(nominal: u64, cohort: &str) -> pb::Queue {
    let usage = pb::QueueUsage {
        resource: "gpu".to_owned(),
        nominal,
        used: 0,
        borrowing_limit: None,
        flavor: "default".to_owned(),
    };
    pb::Queue {
        name: "q".to_owned(),
        cohort: cohort.to_owned(),
        usage: vec![usage],
        ..Default::default()
    }
}

#[test]
fn queues_that_can_never_admit_are_told_of() {
    assert_eq!(arbiter::queues(&[queue(4, "")], &[]), Outcome::Fine);
    assert_eq!(arbiter::queues(&[queue(0, "team")], &[]), Outcome::Fine, "it may borrow");
    assert!(matches!(arbiter::queues(&[queue(0, "")], &[]), Outcome::Warning { .. }));
    assert!(matches!(arbiter::queues(&[], &[]), Outcome::Failure { .. }));
    let device = pb::Device { resource: "tpu".to_owned(), ..Default::default() };
    let report = pb::NodeReport { devices: vec![device], ..Default::default() };
    let node = pb::NodeSummary { report: Some(report), ..Default::default() };
    assert!(matches!(arbiter::queues(&[queue(4, "")], &[node]), Outcome::Warning { .. }));
}
