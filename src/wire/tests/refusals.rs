//! Reasons and errors.

use sluice_core::reason::Reason;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::values;
use crate::wire::error::{reason_of, refusal};
use crate::wire::{WireError, pb};

/// A value for every field that any reason has: "1" is a number, a span, a name and a text.
fn any_value(field: &str) -> &'static str {
    match field {
        "mode" => "KILL-FRESH",
        "exit" => "exit status 1",
        _ => "1",
    }
}

/// One reason for each code.
fn every_reason() -> Vec<Reason> {
    let reason = |(code, fields): (&&str, &&[&str])| {
        let values = fields.iter().map(|f| ((*f).to_owned(), any_value(f).to_owned())).collect();
        Reason::from_parts(code, &values).unwrap_or_else(|| panic!("a value of {code} is no \"1\""))
    };
    Reason::CODES.iter().zip(Reason::FIELDS).map(reason).collect()
}

#[test]
fn every_reason_survives_the_wire() {
    for reason in every_reason() {
        assert_eq!(Reason::from(&pb::Reason::from(&reason)), reason);
    }
}

#[test]
fn a_reason_of_another_version_stays_readable() {
    let newer = pb::Reason {
        code: "waiting-for-moonlight".to_owned(),
        message: "the moon is not up".to_owned(),
        hint: String::new(),
        values: values(&[]),
    };
    let reason = Reason::from(&newer);
    let text = "the moon is not up (waiting-for-moonlight, told by another version of sluice)";
    assert_eq!(reason.to_string(), text);
    assert_eq!(pb::Reason::from(&reason), newer);
}

#[test]
fn a_reason_with_broken_values_stays_readable() {
    let broken = pb::Reason { values: values(&[("have", "many")]), ..gang_incomplete() };
    let kept = Reason::Unrecognized { code: broken.code.clone(), message: broken.message.clone() };
    assert_eq!(Reason::from(&broken), kept);
}

fn gang_incomplete() -> pb::Reason {
    (&Reason::GangIncomplete { have: 1, want: 2 }).into()
}

#[test]
fn every_refusal_carries_its_reason() {
    for reason in every_reason() {
        let status = refusal(&reason);
        assert_eq!(reason_of(&status).map(|r| Reason::from(&r)), Some(reason.clone()));
        assert!(status.message().starts_with(&reason.to_string()), "{status:?}");
    }
}

#[test]
fn a_refusal_says_what_and_how_to_fix_it() {
    let reason = Reason::RankTaken { rank: 3 };
    let status = refusal(&reason);
    let text = "rank 3 of this workload is already held by another sluice run; \
                use another --node-rank, or another --name";
    assert_eq!((status.code(), status.message()), (Code::AlreadyExists, text));
}

#[test]
fn a_status_of_others_holds_no_reason() {
    assert_eq!(reason_of(&Status::unavailable("gone")), None);
}

#[test]
fn a_wire_error_becomes_a_bad_request() {
    let status = Status::from(WireError::new("spec.nnodes", 0, "1 to 4096"));
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "spec.nnodes is \"0\" but must be 1 to 4096");
    let violations = status.get_details_bad_request().unwrap().field_violations;
    let told: Vec<_> = violations.iter().map(|v| (&*v.field, &*v.description)).collect();
    assert_eq!(told, [("spec.nnodes", "is \"0\" but must be 1 to 4096")]);
}

#[test]
fn a_long_value_is_cut_in_errors() {
    let error = WireError::new("name", "x".repeat(10_000), "short");
    assert_eq!(error.value.len(), 128);
}
