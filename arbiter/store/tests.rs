//! What is stored comes back; what cannot be read is left as it is and explained.

use std::fs;
use std::path::{Path, PathBuf};

use redb::{Database, TableDefinition};
use sluice::wire::{field, pb, record};
use sluice_core::arbiter::{Faults, NodeFaults};
use sluice_core::id::NodeName;
use sluice_core::unit::Time;

use super::{Batch, META, NODE_FAULTS, Store, StoreError, Stored, WORKLOADS};

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("arbiter/state.redb")
    }

    fn open(&self) -> Result<(Store, Stored), StoreError> {
        Store::open(&self.path())
    }

    /// The error of opening, without this directory's name; the file is as it was.
    fn complaint(&self) -> String {
        let before = fs::read(self.path()).unwrap();
        let error = self.open().unwrap_err().to_string();
        assert!(fs::read(self.path()).unwrap() == before, "the file was changed");
        error.replace(&self.0.path().display().to_string(), "DIR")
    }
}

fn workload(name: &str) -> pb::Workload {
    pb::Workload {
        spec: Some(pb::WorkloadSpec {
            name: name.to_owned(),
            queue: "default".to_owned(),
            nnodes: 1,
            ..Default::default()
        }),
        phase: pb::Phase::Pending.into(),
        reason: Some((&sluice_core::reason::Reason::Submitted).into()),
        submitted_at: Some(field::timestamp(Time(5))),
        phase_since: Some(field::timestamp(Time(6))),
        ..Default::default()
    }
}

fn decision(sequence: u64, workload: &str) -> pb::Decision {
    pb::Decision { sequence, workload: workload.to_owned(), ..Default::default() }
}

fn batch(workloads: &[&str]) -> Batch {
    let pair = |name: &&str| (name.parse().unwrap(), Some(workload(name)));
    Batch { workloads: workloads.iter().map(pair).collect(), now: Time(7), ..Batch::default() }
}

#[test]
fn a_new_store_is_empty_and_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let (_store, stored) = home.open().unwrap();
    let expected = Stored {
        epoch: 1,
        frozen: None,
        last_now: Time(0),
        workloads: Vec::new(),
        drains: Vec::new(),
        faults: Faults::default(),
        next_sequence: 1,
    };
    assert_eq!(stored, expected);
    let mode = fs::metadata(home.path().parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn what_was_committed_is_there_and_the_epoch_rises() {
    let home = Home::new();
    let (store, _) = home.open().unwrap();
    let mut first = batch(&["a", "b"]);
    first.decisions = vec![decision(1, "a"), decision(2, "b")];
    first.frozen = Some(Some("maintenance".to_owned()));
    store.commit(&first).unwrap();
    let gone = Batch { workloads: [("b".parse().unwrap(), None)].into(), ..batch(&[]) };
    store.commit(&gone).unwrap();
    drop(store);
    let (_store, stored) = home.open().unwrap();
    let names: Vec<_> = stored.workloads.iter().map(|w| w.spec.name.as_str()).collect();
    assert_eq!(names, ["a"]);
    assert_eq!((stored.epoch, stored.next_sequence, stored.last_now), (2, 3, Time(7)));
    assert_eq!(stored.frozen.as_deref(), Some("maintenance"));
}

#[test]
fn faults_of_nodes_and_an_open_breaker_are_there_again() {
    let home = Home::new();
    let (store, _) = home.open().unwrap();
    let faults = NodeFaults { devices: ["gpu-1".parse().unwrap()].into(), at: Some(Time(5)) };
    let name = |text: &str| text.parse::<NodeName>().unwrap();
    let out = |node: &str| Some(record::faults_out(&name(node), &faults));
    let node_faults = [(name("n1"), out("n1")), (name("n2"), out("n2"))].into();
    let batch = Batch { node_faults, wave: Some((true, 5)), ..Batch::default() };
    assert!(!batch.is_empty());
    store.commit(&batch).unwrap();
    store.commit(&Batch { node_faults: [(name("n2"), None)].into(), ..Batch::default() }).unwrap();
    drop(store);
    let (store, stored) = home.open().unwrap();
    let nodes = [(name("n1"), faults)].into();
    assert_eq!(stored.faults, Faults { is_open: true, known: 5, nodes });
    store.commit(&Batch { wave: Some((false, 5)), ..Batch::default() }).unwrap();
    drop(store);
    assert!(!home.open().unwrap().1.faults.is_open);
}

#[test]
fn file_of_an_arbiter_that_stored_no_faults_is_read() {
    let home = Home::new();
    drop(home.open().unwrap());
    let database = Database::open(home.path()).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.delete_table(NODE_FAULTS).unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert_eq!(home.open().unwrap().1.faults, Faults::default());
}

#[test]
fn a_freeze_that_ended_is_forgotten() {
    let home = Home::new();
    let (store, _) = home.open().unwrap();
    for frozen in [Some("why".to_owned()), None] {
        store.commit(&Batch { frozen: Some(frozen), ..Batch::default() }).unwrap();
    }
    drop(store);
    assert_eq!(home.open().unwrap().1.frozen, None);
}

#[test]
fn decisions_are_found_by_number_and_by_workload() {
    let home = Home::new();
    let (store, _) = home.open().unwrap();
    let decisions: Vec<_> =
        (1..=9).map(|n| decision(n, if n % 2 == 0 { "even" } else { "odd" })).collect();
    store.commit(&Batch { decisions, ..Batch::default() }).unwrap();
    let numbers = |found: Vec<pb::Decision>| found.iter().map(|d| d.sequence).collect::<Vec<_>>();
    assert_eq!(numbers(store.decisions_after(6, 2).unwrap()), [7, 8]);
    assert_eq!(numbers(store.decisions_about("odd", 3).unwrap()), [5, 7, 9]);
    assert_eq!(numbers(store.decisions_about("nobody", 3).unwrap()), [0; 0]);
}

#[test]
fn the_oldest_decisions_are_dropped() {
    let home = Home::new();
    let (mut store, _) = home.open().unwrap();
    store.decisions_max = 5;
    for decisions in [(1..=4).collect::<Vec<_>>(), (5..=7).collect()] {
        let decisions = decisions.into_iter().map(|n| decision(n, "w")).collect();
        store.commit(&Batch { decisions, ..Batch::default() }).unwrap();
    }
    let numbers = |found: Vec<pb::Decision>| found.iter().map(|d| d.sequence).collect::<Vec<_>>();
    assert_eq!(numbers(store.decisions_after(0, 9).unwrap()), [3, 4, 5, 6, 7]);
    assert_eq!(numbers(store.decisions_about("w", 9).unwrap()), [3, 4, 5, 6, 7]);
}

#[test]
fn a_second_arbiter_is_told_that_the_file_is_in_use() {
    let home = Home::new();
    let _first = home.open().unwrap();
    let expected = "state file \"DIR/arbiter/state.redb\" is in use by another arbiter; stop that \
                    one, or give this one another --state-dir";
    assert_eq!(home.complaint(), expected);
}

#[test]
fn an_empty_file_is_not_taken_for_a_new_one() {
    let home = Home::new();
    drop(home.open().unwrap());
    fs::write(home.path(), b"").unwrap();
    let expected = "state file \"DIR/arbiter/state.redb\" cannot be used: it is empty; nothing was \
                    changed; restore it from a backup, or move it away to start with no workloads";
    assert_eq!(home.complaint(), expected);
}

#[test]
fn a_truncated_file_is_refused_and_left_as_it_is() {
    let home = Home::new();
    let (store, _) = home.open().unwrap();
    let names: Vec<String> = (0..500).map(|i| format!("workload-{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    store.commit(&batch(&names)).unwrap();
    drop(store);
    let whole = fs::read(home.path()).unwrap();
    for length in [1, 100, 511, 4_096, 8_192, whole.len() / 2, whole.len() - 4_096] {
        fs::write(home.path(), &whole[..length]).unwrap();
        let complaint = home.complaint();
        assert!(complaint.contains("cannot be used"), "{length} bytes: {complaint}");
    }
}

#[test]
fn a_file_of_something_else_is_refused() {
    let home = Home::new();
    fs::create_dir(home.path().parent().unwrap()).unwrap();
    fs::write(home.path(), "[settings]\n".repeat(1_000)).unwrap();
    let complaint = home.complaint();
    assert!(complaint.contains("cannot be used"), "{complaint}");
}

/// Changes the file behind the store's back.
fn tamper(path: &Path, change: impl FnOnce(&redb::WriteTransaction)) {
    let database = Database::create(path).unwrap();
    let transaction = database.begin_write().unwrap();
    change(&transaction);
    transaction.commit().unwrap();
}

#[test]
fn a_database_of_another_program_is_refused() {
    let home = Home::new();
    fs::create_dir(home.path().parent().unwrap()).unwrap();
    let theirs: TableDefinition<'_, u32, u32> = TableDefinition::new("theirs");
    tamper(&home.path(), |t| drop(t.open_table(theirs).unwrap()));
    let error = home.open().unwrap_err().to_string();
    assert!(error.contains("it is a database of another program"), "{error}");
}

#[test]
fn another_version_is_refused_with_both_numbers() {
    let home = Home::new();
    drop(home.open().unwrap());
    tamper(&home.path(), |t| {
        t.open_table(META).unwrap().insert("version", 2).unwrap();
    });
    let error = home.open().unwrap_err().to_string();
    assert!(error.contains("has version 2; this arbiter reads version 1"), "{error}");
}

#[test]
fn a_record_that_cannot_be_read_is_named_and_kept() {
    let home = Home::new();
    drop(home.open().unwrap());
    tamper(&home.path(), |t| {
        t.open_table(WORKLOADS).unwrap().insert("w", b"\xff\xff".as_slice()).unwrap();
    });
    let error = home.open().unwrap_err().to_string();
    assert!(error.contains("has a workload \"w\" that cannot be read"), "{error}");
    let database = Database::open(home.path()).unwrap();
    let epoch = super::open::read_epoch(&database).unwrap();
    assert_eq!(epoch, 1, "the epoch was raised by an arbiter that did not start");
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let home = Home::new();
    fs::write(home.0.path().join("arbiter"), b"a file").unwrap();
    let error = home.open().unwrap_err().to_string();
    let error = error.replace(&home.0.path().display().to_string(), "DIR");
    let expected = "cannot create directory \"DIR/arbiter\": entity already exists; create it or \
                    choose another with --state-dir";
    assert_eq!(error, expected);
}
