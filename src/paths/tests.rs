//! Tests of where things lie.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Paths, PathsError, file_name, find_agent_sockets};

fn check(flag: Option<&str>, variables: &[(&str, &str)], expected: Result<&str, PathsError>) {
    let variable = |name: &str| {
        variables.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value))
    };
    let chosen = Paths::choose(flag.map(Path::new), variable);
    assert_eq!(chosen.map(|p| p.root().to_owned()), expected.map(PathBuf::from));
}

#[test]
fn the_flag_is_stronger_than_the_variable_and_that_than_the_home_directories() {
    let all = [("SLUICE_STATE_DIR", "/s"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")];
    check(Some("/f"), &all, Ok("/f"));
    check(None, &all, Ok("/s"));
    check(None, &all[1..], Ok("/x/sluice"));
    check(None, &all[2..], Ok("/h/.local/state/sluice"));
    check(None, &[], Err(PathsError::NoRoot));
}

#[test]
fn an_empty_variable_counts_as_unset_and_a_relative_xdg_home_is_ignored() {
    check(None, &[("SLUICE_STATE_DIR", ""), ("HOME", "/h")], Ok("/h/.local/state/sluice"));
    check(None, &[("XDG_STATE_HOME", "x"), ("HOME", "/h")], Ok("/h/.local/state/sluice"));
}

#[test]
fn a_relative_state_directory_is_refused() {
    check(Some("here"), &[], Err(PathsError::NotAbsolute { path: "here".into() }));
}

#[test]
fn names_become_file_names_that_cannot_leave_their_directory() {
    assert_eq!(file_name("gke-a3-7"), "gke-a3-7");
    assert_eq!(file_name(".."), "%2E.");
    assert_eq!(file_name("../../etc:x"), "%2E.%2F..%2Fetc%3Ax");
    let paths = Paths::choose(Some(Path::new("/s")), |_| None).unwrap();
    let node = "a/b".parse().unwrap();
    assert_eq!(paths.agent_socket(&node), Path::new("/s/run/a%2Fb.sock"));
    assert_eq!(paths.agent_dir(&node), Path::new("/s/agents/a%2Fb"));
}

#[test]
fn sockets_given_by_flag_are_taken_as_they_are() {
    let flags = [PathBuf::from("/b.sock"), PathBuf::from("/a.sock")];
    assert_eq!(find_agent_sockets(&flags, None), flags);
}
