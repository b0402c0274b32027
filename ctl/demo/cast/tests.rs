use std::process::{Command, Stdio};

use super::*;

const ENVIRON: &[u8] =
    b"PATH=/bin\0SLUICE_DEMO=/tmp/x\0SLUICE_WORKER=tune/2/1\0SLUICE_DEVICES=sim-a-0,sim-a-1\0";

#[test]
fn a_worker_tells_its_devices() {
    let devices = vec!["sim-a-0".to_owned(), "sim-a-1".to_owned()];
    let worker = Worker { name: "tune/2/1".to_owned(), devices };
    assert_eq!(read_environ(ENVIRON, "/tmp/x"), (true, Some(worker)));
}

#[test]
fn the_whole_mark_decides_who_is_ours() {
    assert!(!read_environ(ENVIRON, "/tmp/").0);
    assert!(!read_environ(ENVIRON, "/tmp/xy").0);
    assert_eq!(read_environ(b"A=SLUICE_DEMO=/tmp/x\0", "/tmp/x"), (false, None));
}

#[test]
fn two_workers_on_one_device_are_told() {
    let worker = |name: &str, devices: &[&str]| Member {
        pid: 1,
        worker: Some(Worker {
            name: name.to_owned(),
            devices: devices.iter().map(|d| (*d).to_owned()).collect(),
        }),
    };
    let members = [worker("a/1/0", &["x", "y"]), worker("b/1/0", &["y"])];
    let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
    let expected = BTreeMap::from([
        ("x".to_owned(), set(&["a/1/0"])),
        ("y".to_owned(), set(&["a/1/0", "b/1/0"])),
    ]);
    assert_eq!(holders_of(&members), expected);
}

#[test]
fn only_marked_processes_are_killed() {
    let mark = format!("test-{}-{:x}", std::process::id(), fastrand::u64(..));
    let sleeper = || {
        let mut command = Command::new("sleep");
        command.arg("60").stdin(Stdio::null());
        command
    };
    let mut stranger = sleeper().spawn().unwrap();
    let mut ours = sleeper().env(MARK, &mark).spawn().unwrap();
    let found: Vec<u32> = Lookout::new(&mark).look().iter().map(|m| m.pid.unsigned_abs()).collect();
    assert_eq!(found, [ours.id()]);
    assert_eq!(kill_all(&mark), 1);
    assert!(!ours.wait().unwrap().success());
    assert!(stranger.try_wait().unwrap().is_none());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// The kernel shows a program before its environment: at any moment of `exec` a look finds it.
#[test]
fn a_process_is_found_from_its_first_moment() {
    let mark = format!("test-{}-{:x}", std::process::id(), fastrand::u64(..));
    for _ in 0..200 {
        let mut ours = Command::new("sleep").arg("60").env(MARK, &mark).spawn().unwrap();
        let found = Lookout::new(&mark).look();
        ours.kill().unwrap();
        ours.wait().unwrap();
        assert_eq!(found, [Member { pid: ours.id().try_into().unwrap(), worker: None }]);
    }
}

#[test]
fn a_program_without_an_environment_is_nobodys() {
    let mut bare = Command::new("sleep").arg("60").env_clear().spawn().unwrap();
    let found = member(bare.id().try_into().unwrap(), "");
    bare.kill().unwrap();
    bare.wait().unwrap();
    assert_eq!(found, None);
}
