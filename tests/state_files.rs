//! What servers find in their state directories, and what they leave as it is.

use std::path::Path;

use redb::{Database, TableDefinition};

use crate::bad_input::{check, nothing_running};
use crate::cluster::{AGENT, ARBITER, Cluster, Setup};

#[test]
fn servers_of_one_state_directory_exclude_each_other() {
    let cluster = Setup::nodes(&[("n1", 1)]).start();
    let listen = format!("unix:{}", cluster.path("second.sock").display());
    check(
        &cluster,
        ARBITER,
        &["--listen", &listen],
        1,
        &["state.redb", "in use by another arbiter"],
    );
    check(
        &cluster,
        ARBITER,
        &["--listen", &cluster.arbiter_address()],
        1,
        &["already serves there"],
    );
    let socket = cluster.path("second-agent.sock").display().to_string();
    check(&cluster, AGENT, &["--node", "n1", "--socket", &socket], 1, &["in use by another agent"]);
    assert!(cluster.node("n1").unwrap().connected);
}

/// A stopped arbiter's state file.
fn state_file() -> (Cluster, std::path::PathBuf) {
    let mut cluster = nothing_running();
    cluster.start_arbiter();
    cluster.kill_arbiter();
    let file = cluster.state_dir().join("arbiter/state.redb");
    (cluster, file)
}

fn check_unusable(cluster: &Cluster, said: &[&str]) {
    // Twice: a file that was replaced or repaired into something else would be taken the second time.
    for _ in 0..2 {
        check(cluster, ARBITER, &["--listen", &cluster.arbiter_address()], 1, said);
    }
}

fn set_version(file: &Path, version: u64) {
    let database = Database::open(file).unwrap();
    let write = database.begin_write().unwrap();
    let meta: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    let before =
        write.open_table(meta).unwrap().insert("version", version).unwrap().unwrap().value();
    assert_ne!(before, version);
    write.commit().unwrap();
}

#[test]
fn state_file_of_another_version_is_left_alone() {
    let (mut cluster, file) = state_file();
    set_version(&file, 999);
    check_unusable(&cluster, &["version 999", "state.redb"]);
    // The version that wrote it finds everything as it was: this would be its second start.
    set_version(&file, 1);
    cluster.start_arbiter();
    assert_eq!(cluster.status().unwrap().epoch, 2);
}

#[test]
fn state_file_that_is_cut_or_overwritten_is_not_taken_for_a_new_one() {
    let (cluster, file) = state_file();
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 3]).unwrap();
    check_unusable(&cluster, &["state.redb"]);
    std::fs::write(&file, "this is no database").unwrap();
    check_unusable(&cluster, &["state.redb"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"this is no database");
    std::fs::write(&file, "").unwrap();
    check_unusable(&cluster, &["state.redb", "it is empty"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"");
}

#[test]
fn journal_file_that_cannot_be_read_is_kept_and_the_agent_starts() {
    let mut cluster = Setup::nodes(&[("n1", 1)]).start();
    cluster.kill_agent("n1");
    let journal = cluster.state_dir().join("agents/n1/journal");
    std::fs::write(journal.join("drain.json"), "{\"version\":1,").unwrap();
    cluster.start_agent("n1");
    let kept: Vec<String> = std::fs::read_dir(&journal)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("corrupt"))
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(cluster.agent("n1").stderr().contains("could not be read"));
}
