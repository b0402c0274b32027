use super::*;

/// As the Trainer writes it: sorted keys, two spaces, NaN where a loss diverged.
const STATE: &str = r#"{
  "best_metric": null,
  "epoch": 1.5,
  "eval_steps": 500,
  "global_step": 1200,
  "is_hyper_param_search": false,
  "log_history": [
    {"global_step": 7, "loss": NaN, "grad_norm": Infinity, "note": "a \"}]\\"},
    {"loss": -Infinity, "step": 20}
  ],
  "max_steps": 5000,
  "stateful_callbacks": {"TrainerControl": {"args": {"global_step": 9}, "attributes": {}}}
}
"#;

fn check(text: &str, expected: Result<u64, &str>) {
    assert_eq!(global_step(text.as_bytes()), expected.map_err(str::to_owned), "{text}");
}

#[test]
fn the_step_of_the_top_level_object_counts() {
    check(STATE, Ok(1200));
    check(r#"{"global_step":18446744073709551615}"#, Ok(u64::MAX));
    check(r#"{"log_history":[],"global_step" : 3 , "x":{}}"#, Ok(3));
}

#[test]
fn a_file_cut_at_any_byte_is_not_accepted() {
    let whole = STATE.trim_end().len();
    for length in 0..whole {
        let error = global_step(&STATE.as_bytes()[..length]).unwrap_err();
        assert_eq!(error, format!("it ends early, after {length} bytes"));
    }
    assert_eq!(global_step(&STATE.as_bytes()[..whole]), Ok(1200));
}

#[test]
fn what_is_not_a_trainer_state_is_refused_with_the_cause() {
    check("", Err("it ends early, after 0 bytes"));
    check("\0\0\0", Err("it does not start with \"{\""));
    check("[{\"global_step\": 1}]", Err("it does not start with \"{\""));
    check("{}", Err("it has no whole number \"global_step\""));
    check(r#"{"global_step": [10]}"#, Err("it has no whole number \"global_step\""));
    check(r#"{"global_step": -1}"#, Err("it has no whole number \"global_step\""));
    check(r#"{"x": {"global_step": 1}}"#, Err("it has no whole number \"global_step\""));
    check(r#"{"x": "global_step", "y": 1}"#, Err("it has no whole number \"global_step\""));
    check(r#"{"global_step": 1} x"#, Err("text follows the end of the object"));
    check(r#"{"global_step": 1}}"#, Err("text follows the end of the object"));
}

#[test]
fn random_bytes_and_deep_nesting_never_panic() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..2_000 {
        let alphabet = b"{}[]\":,\\ 1aglobal_step\xff\0";
        let bytes: Vec<u8> =
            (0..random.usize(0..64)).map(|_| alphabet[random.usize(0..alphabet.len())]).collect();
        let _ = global_step(bytes.as_slice());
    }
    let deep = "[".repeat(1_000_000);
    check(&format!("{{\"a\":{deep}"), Err("it ends early, after 1000005 bytes"));
}
