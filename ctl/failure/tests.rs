use super::*;

#[test]
fn a_server_that_does_not_answer_is_unreachable() {
    let failure =
        Failure::of_status("cannot list nodes", "the arbiter", &Status::unavailable("x\n"));
    assert_eq!(
        failure,
        Failure {
            exit: EXIT_UNREACHABLE,
            message: "cannot list nodes: the arbiter does not answer: x\\n".to_owned(),
            hint: String::new(),
        }
    );
}

#[test]
fn other_answers_are_runtime_failures() {
    let failure = Failure::of_status("cannot cancel", "the arbiter", &Status::not_found("no such"));
    assert_eq!(failure, Failure::runtime("cannot cancel: no such"));
}

#[test]
fn only_what_may_change_by_itself_is_retried() {
    let retried = [Status::unavailable(""), Status::deadline_exceeded(""), Status::unknown("")];
    assert!(retried.iter().all(is_transient));
    let final_ones =
        [Status::invalid_argument(""), Status::not_found(""), Status::unimplemented("")];
    assert!(!final_ones.iter().any(is_transient));
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    assert_eq!(Failure::reader_gone().text(), "");
    assert_eq!(Failure::reader_gone().exit, 0);
}
