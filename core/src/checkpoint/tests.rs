use super::*;

#[test]
fn formats_print_and_parse_as_the_same_word() {
    for format in CheckpointFormat::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    let error = "HuggingFace".parse::<CheckpointFormat>().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"checkpoint format "HuggingFace" is not known; use one of auto, hugging-face, torch-distributed, megatron, deep-speed, orbax, lightning, rename, generic"#
    );
}

#[test]
fn a_higher_grade_includes_the_lower_ones() {
    assert!(Grade::ALL.is_sorted());
    assert_eq!(Grade::LocalComplete.of_gang(), Grade::GangComplete);
    assert_eq!(Grade::RemoteVerified.of_gang(), Grade::RemoteVerified);
}

#[test]
fn rules_that_cannot_be_used_are_refused_with_the_field() {
    let rules = |glob: &str, marker: &str, remote_dir: &str| CheckpointRules {
        glob: glob.to_owned(),
        marker: marker.to_owned(),
        remote_dir: remote_dir.to_owned(),
    };
    let field = |rules: CheckpointRules, format| rules.check(format).err().map(|wrong| wrong.field);
    use CheckpointFormat::{Auto, Generic, Orbax};
    assert_eq!(field(rules("", "", ""), Auto), None);
    assert_eq!(field(rules("ckpt-*", ".done", "/mnt/b"), Generic), None);
    assert_eq!(field(rules("", "", ""), Generic), Some("glob"));
    assert_eq!(field(rules("a/*", "", ""), Generic), Some("glob"));
    assert_eq!(field(rules("*", "..", ""), Generic), Some("marker"));
    assert_eq!(field(rules("*", &"x".repeat(256), ""), Generic), Some("marker"));
    assert_eq!(field(rules("*", "", ""), Orbax), Some("format"));
    assert_eq!(field(rules("", "", "mnt/b"), Orbax), Some("remote_dir"));
}

#[test]
fn reasons_are_one_line_and_quote_hostile_names() {
    let reason = IncompleteReason::OpenForWriting { file: "a\nb\u{1b}[31m".to_owned() };
    assert_eq!(
        reason.to_string(),
        r#"a process of the worker has "a\nb\u{1b}[31m" open for writing; wait for the next scan"#
    );
    assert_eq!(reason.code(), "checkpoint_open_for_writing");
    assert!(reason.is_transient());
}

#[test]
fn an_incomplete_checkpoint_says_what_why_and_how_to_fix() {
    let incomplete = Incomplete {
        path: "/data/checkpoint-20".to_owned(),
        step: Some(20),
        bytes: 7,
        files: 1,
        saving: false,
        reason: IncompleteReason::RankMissing {
            file: "rng_state_3.pth".to_owned(),
            missing_ranks: 1,
            world_size: 4,
        },
    };
    assert_eq!(
        incomplete.to_string(),
        "checkpoint \"/data/checkpoint-20\" does not count: 1 of 4 ranks did not save their state, \
         \"rng_state_3.pth\" is not there; check that all ranks write to the same directory and \
         that the declared world size is right"
    );
}

#[test]
fn only_entries_being_written_count_as_progress() {
    let entry = |bytes, saving| Incomplete {
        path: String::new(),
        step: None,
        bytes,
        files: 1,
        saving,
        reason: IncompleteReason::NotAtRest,
    };
    let scan = CheckpointScan {
        incomplete: vec![entry(5, true), entry(u64::MAX, false), entry(6, true)],
        ..CheckpointScan::default()
    };
    assert_eq!((scan.saving_bytes(), scan.newest()), (11, None));
}
