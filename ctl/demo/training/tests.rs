use std::io::Write as _;

use super::*;

const LOG: &str = r#"{"attempt":1,"event":"started","pid":7,"rank":0,"resumed_from":null,"unix_ms":1000}
{"attempt":1,"event":"started","pid":8,"rank":1,"resumed_from":null,"unix_ms":1001}
{"event":"step","loss":4.5,"pid":7,"rank":0,"step":1,"unix_ms":1100}
{"event":"step","loss":4.5,"pid":8,"rank":1,"step":1,"unix_ms":1101}
{"event":"step","loss":4.25,"pid":7,"rank":0,"step":2,"unix_ms":1200}
{"event":"saved","path":"/c/checkpoint-2","pid":7,"rank":0,"step":2,"unix_ms":1250}
{"event":"step","loss":4.0,"pid":7,"rank":0,"step":3,"unix_ms":1300}
{"attempt":2,"event":"started","pid":9,"rank":0,"resumed_from":2,"unix_ms":2000}
{"event":"step","loss":4.0,"pid":9,"rank":0,"step":3,"unix_ms":2100}
{"event":"finished","loss":2.0,"loss_bits":1073741824,"pid":9,"rank":0,"step":3,"unix_ms":2150}
"#;

fn expected() -> Training {
    let point = |step, unix_ms| Some(Point { step, unix_ms });
    let first = Run {
        resumed_from: None,
        first_step: point(1, 1_100),
        last_step: point(3, 1_300),
        last_loss: Some(4.0),
        saved: vec![Point { step: 2, unix_ms: 1_250 }],
        finished: None,
    };
    let second = Run {
        resumed_from: Some(2),
        first_step: point(3, 2_100),
        last_step: point(3, 2_100),
        last_loss: Some(4.0),
        saved: Vec::new(),
        finished: Some(Finish { step: 3, loss: 2.0, loss_bits: 2.0_f32.to_bits() }),
    };
    Training { runs: vec![first, second] }
}

#[test]
fn a_log_is_the_same_however_it_grows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    for piece_len in [1, 7, 100, LOG.len()] {
        let (mut follower, mut training) = (Follower::new(&path), Training::default());
        follower.follow(&mut training).unwrap();
        assert_eq!(training, Training::default(), "a log that is not there");
        let mut file = File::create(&path).unwrap();
        for piece in LOG.as_bytes().chunks(piece_len) {
            file.write_all(piece).unwrap();
            follower.follow(&mut training).unwrap();
        }
        assert_eq!(training, expected(), "in pieces of {piece_len}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_run_that_has_just_resumed_is_at_the_step_of_its_checkpoint() {
    let mut training = Training::default();
    training.take(LOG.lines().nth(7).unwrap()).unwrap();
    assert_eq!(training.runs[0].step(), 2);
    assert_eq!(Run::default().step(), 0);
}

#[test]
fn lines_that_are_not_the_trainers_are_told() {
    let take = |line: &str| Training::default().take(line).unwrap_err();
    assert_eq!(
        take(r#"{"event":"step","rank":0,"step":1,"unix_ms":1}"#),
        "an event before the first start"
    );
    assert!(take("").contains("EOF"));
    let mut training = Training { runs: vec![Run::default()] };
    let line = r#"{"event":"finished","rank":0,"step":1,"unix_ms":1}"#;
    assert_eq!(training.take(line).unwrap_err(), "an end without its loss");
}
