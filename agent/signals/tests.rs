//! Real processes and real signals.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::process::{Status, start_time_ticks};
use super::*;

/// A shell running `script`, killed with the test. Has printed `ready` when started.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self { child, output };
        assert_eq!(process.line(), "ready");
        process
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn target(&self) -> Target {
        let identity = ProcessIdentity::read(self.pid()).unwrap();
        Target::open(self.pid(), identity.start_time_ticks).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn code<T>(result: Result<T, SignalError>) -> Result<T, &'static str> {
    result.map_err(|error| error.code())
}

/// Says `saved` at each SIGUSR1 and waits on; the pipe of its standard input never ends.
const SAVES: &str = "trap 'echo saved' USR1; echo ready; while :; do read line || :; done";

#[test]
fn a_signal_with_a_handler_is_sent_once_per_call() {
    let mut process = Process::start(SAVES);
    let target = process.target();
    for _ in 0..2 {
        assert_eq!(code(target.send(Signal::SIGUSR1)), Ok(()));
        assert_eq!(process.line(), "saved");
    }
    assert_eq!(code(target.has_exited()), Ok(false));
}

#[test]
fn a_signal_without_a_handler_is_refused_and_the_process_lives() {
    let mut process = Process::start(
        "trap '' USR2; trap 'echo alive' HUP; echo ready; while :; do read l || :; done",
    );
    let target = process.target();
    let refused = target.send(Signal::SIGUSR1).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "process {} was not sent SIGUSR1: it has no handler for it, the signal would end it; \
             declare the signal its training script handles or none",
            process.pid()
        )
    );
    assert_eq!(code(target.send(Signal::SIGUSR1)), Err("no_handler"));
    assert_eq!(code(target.send(Signal::SIGUSR2)), Err("no_handler"));
    let masks = target.masks().unwrap();
    let dispositions =
        [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGHUP].map(|signal| masks.disposition(signal));
    assert_eq!(dispositions, [Disposition::Default, Disposition::Ignored, Disposition::Caught]);
    assert_eq!(code(target.send(Signal::SIGHUP)), Ok(()));
    assert_eq!(process.line(), "alive");
}

#[test]
fn a_handler_removed_after_opening_is_noticed() {
    let mut process = Process::start(
        "trap 'trap - USR1; echo gone' USR1; echo ready; while :; do read line || :; done",
    );
    let target = process.target();
    assert_eq!(code(target.send(Signal::SIGUSR1)), Ok(()));
    assert_eq!(process.line(), "gone");
    assert_eq!(code(target.send(Signal::SIGUSR1)), Err("no_handler"));
    assert_eq!(code(target.has_exited()), Ok(false));
}

#[test]
fn children_that_execute_a_program_lose_the_handler_and_are_refused() {
    let mut process =
        Process::start("trap 'echo saved' USR1; echo ready; sh -c 'echo $$; read line'");
    let child: u32 = process.line().parse().unwrap();
    let identity = ProcessIdentity::read(child).unwrap();
    let target = Target::open(child, identity.start_time_ticks).unwrap();
    assert_eq!(code(target.send(Signal::SIGUSR1)), Err("no_handler"));
    assert_eq!(code(target.end(Ending::Kill)), Ok(()));
}

#[test]
fn another_start_time_or_boot_is_a_stale_target() {
    let process = Process::start(SAVES);
    let identity = ProcessIdentity::read(process.pid()).unwrap();
    let other = Target::open(process.pid(), identity.start_time_ticks + 1);
    assert_eq!(code(other).err(), Some("stale_target"));
    assert_eq!(Target::reopen(&identity).unwrap().identity(), &identity);
    let rebooted = ProcessIdentity { boot_id: "other".to_owned(), ..identity };
    assert_eq!(code(Target::reopen(&rebooted)).err(), Some("stale_target"));
}

#[test]
fn an_ended_process_is_no_process_whether_reaped_or_not() {
    let mut process = Process::start("echo ready; read line");
    let identity = ProcessIdentity::read(process.pid()).unwrap();
    let target = process.target();
    drop(process.child.stdin.take());
    // Ended but not reaped: it still has its entry in /proc.
    while !target.has_exited().unwrap() {
        std::thread::yield_now();
    }
    assert_eq!(ProcessIdentity::read(process.pid()).unwrap(), identity);
    assert_eq!(code(Target::reopen(&identity)).err(), Some("no_such_process"));
    assert_eq!(code(target.send(Signal::SIGUSR1)), Err("no_such_process"));
    process.child.wait().unwrap();
    assert_eq!(code(target.end(Ending::Terminate)), Err("no_such_process"));
    assert_eq!(code(Target::reopen(&identity)).err(), Some("no_such_process"));
    assert_eq!(code(target.has_exited()), Ok(true));
}

#[test]
fn ids_that_name_no_process_are_refused() {
    for pid in [0, u32::MAX, 1 << 30] {
        assert_eq!(code(Target::open(pid, 1)).err(), Some("no_such_process"), "{pid}");
    }
    // A thread of this process that is not its first.
    let (tell, told) = std::sync::mpsc::channel();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        tell.send(nix::unistd::gettid().as_raw()).unwrap();
        let _ = stopped.recv();
    });
    let thread_id = u32::try_from(told.recv().unwrap()).unwrap();
    assert_eq!(code(Target::open(thread_id, 1)).err(), Some("no_such_process"));
    drop(stop);
    thread.join().unwrap();
}

#[test]
fn the_owner_is_the_user_of_the_process() {
    let process = Process::start(SAVES);
    assert_eq!(process.target().owner_uid(), nix::unistd::getuid().as_raw());
}

#[tokio::test(flavor = "current_thread")]
async fn several_tasks_can_wait_for_the_same_exit() {
    let mut process = Process::start("echo ready; read line");
    let target = process.target();
    let (first, second) = (target.exited(), target.exited());
    drop(process.child.stdin.take());
    let (first, second) = tokio::join!(first, second);
    assert_eq!((code(first), code(second), code(target.exited().await)), (Ok(()), Ok(()), Ok(())));
}

#[tokio::test(flavor = "current_thread")]
async fn a_killed_process_wakes_the_one_who_waits() {
    let process = Process::start(SAVES);
    let target = process.target();
    assert_eq!(code(target.end(Ending::Kill)), Ok(()));
    assert_eq!(code(target.exited().await), Ok(()));
}

#[test]
fn start_times_are_found_whatever_the_process_calls_itself() {
    let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
    let stat = |name: &str| format!("7 ({name}) {}\n", fields.join(" "));
    for name in ["sh", "a b", ") 1 2 (x) ", "(((", "\u{fffd}\n"] {
        assert_eq!(start_time_ticks(&stat(name)), Some(22), "{name:?}");
    }
    for broken in ["", "7", "7 (sh", "7 (sh) S 1", "7 (sh) S ) ("] {
        assert_eq!(start_time_ticks(broken), None, "{broken:?}");
    }
}

#[test]
fn status_is_read_whole_or_not_at_all() {
    let status = "Name:\tSigCgt:\\nUid: 0\nUid:\t1000\t0\t0\t0\nSigBlk:\t0000000000000001\n\
                  SigIgn:\t0000000000001000\nSigCgt:\t0000000180014a07\n";
    let masks = SignalMasks { caught: 0x1_8001_4a07, ignored: 0x1000, blocked: 1 };
    assert_eq!(Status::parse(status), Some(Status { masks, owner_uid: 1000 }));
    assert!(masks.is_blocked(Signal::SIGHUP) && !masks.is_blocked(Signal::SIGTERM));
    assert_eq!(masks.disposition(Signal::SIGTERM), Disposition::Caught);
    for line in status.lines().skip(1) {
        assert_eq!(Status::parse(&status.replace(line, "")), None, "{line}");
    }
}
