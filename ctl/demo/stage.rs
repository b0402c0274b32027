//! Starts the demo's programs and ends them, whatever happens.
//!
//! All lie under one temporary directory and carry one mark (see `cast`). They end by their pids:
//! first as a person would end them, then by force; and by force at once if this program panics.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice::paths::{
    AGENT_SOCKET_VARIABLE, ARBITER_VARIABLE, STATE_DIR_VARIABLE, create_private_dir,
};
use sluice::telemetry::LOG_VARIABLE;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::cast::{self, Lookout};
use crate::failure::Failure;
use crate::text::safe;
use crate::up::sibling;

/// How long programs have to end after SIGTERM, launchers and servers each. What is left is killed,
/// so that ending everything takes at most twice this and a moment.
const TERM_PATIENCE: Duration = Duration::from_secs(3);
/// Pause between two looks at programs that are ending.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// How much of a log is shown when something fails: of the one that is suspected, and of each where
/// none is. Units: bytes and lines.
const TAIL_BYTES: u64 = 4_096;
const TAIL_LINES: usize = 6;
const TAILS_LINES: usize = 2;
/// Variables that would lead the demo's programs to an installation that is really in use.
const FOREIGN_VARIABLES: [&str; 9] = [
    ARBITER_VARIABLE,
    AGENT_SOCKET_VARIABLE,
    STATE_DIR_VARIABLE,
    LOG_VARIABLE,
    "SLUICE_RENDEZVOUS",
    "SLUICE_WORKER",
    "SLUICE_DEVICES",
    "RANK",
    "WORLD_SIZE",
];

/// What a program is, which says when it is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// `sluice run`, which ends its worker.
    Launcher,
    /// The arbiter or an agent: they end last, because launchers need them.
    Server,
    /// Knows nothing of the others.
    Alone,
}

/// The programs, found beside this one.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    pub(super) sluice: PathBuf,
    pub(super) arbiter: PathBuf,
    pub(super) agent: PathBuf,
}

#[derive(Debug)]
struct Actor {
    name: String,
    role: Role,
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

/// The temporary directory and everything that runs in it.
#[derive(Debug)]
pub(super) struct Stage {
    root: PathBuf,
    act: PathBuf,
    pub(super) programs: Programs,
    actors: Vec<Actor>,
}

impl Stage {
    /// Makes the directory, for this user alone, and sees to it that a panic ends everything.
    ///
    /// # Errors
    /// A program is missing, or there is no place for the directory.
    pub(super) fn open() -> Result<Self, Failure> {
        let own = std::env::current_exe();
        let own = own.map_err(|e| Failure::runtime(format!("where is this program? {e}")))?;
        let dir = own.parent().unwrap_or(Path::new("/")).to_owned();
        let arbiter = sibling(&dir, "sluice-arbiter")?;
        let agent = sibling(&dir, "sluice-agent")?;
        let name = format!("sluice-demo-{:08x}", fastrand::u32(..));
        let root = std::env::temp_dir().join(name);
        create_private_dir(&root).map_err(|e| {
            Failure::runtime(format!("no place for the demo: {e}")).hint("set TMPDIR to another")
        })?;
        end_on_panic(root.display().to_string());
        let (act, programs) = (root.clone(), Programs { sluice: own, arbiter, agent });
        Ok(Self { root, act, programs, actors: Vec::new() })
    }

    /// The mark of every program of this demo.
    pub(super) fn mark(&self) -> String {
        self.root.display().to_string()
    }

    /// A new directory for the next act. What still runs goes on.
    pub(super) fn next_act(&mut self, name: &str) -> Result<(), Failure> {
        self.act = self.root.join(name);
        self.actors.retain_mut(|actor| actor.look().is_none());
        create_private_dir(&self.act).map_err(|e| Failure::runtime(e.to_string()))
    }

    /// Where the files of this act lie.
    pub(super) fn act_dir(&self) -> &Path {
        &self.act
    }

    /// Starts a program in a process group of its own; what it says goes to its log.
    ///
    /// # Errors
    /// As the system says it.
    pub(super) fn start(
        &mut self,
        name: &str,
        role: Role,
        program: &Path,
        flags: &[String],
    ) -> Result<(), Failure> {
        let failed = |e: std::io::Error| {
            Failure::runtime(format!("could not start \"{}\" as {name}: {e}", program.display()))
        };
        let log = self.act.join(format!("{name}.log"));
        let output = File::create(&log).map_err(failed)?;
        let mut command = Command::new(program);
        for variable in FOREIGN_VARIABLES {
            command.env_remove(variable);
        }
        let child = command
            .args(flags)
            .env(cast::MARK, self.mark())
            .current_dir(&self.act)
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output)
            // A Ctrl-C reaches only the demo, which ends them in order.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        self.actors.push(Actor { name: name.to_owned(), role, child, log, ended: None });
        Ok(())
    }

    /// Sends SIGTERM to a program that still runs.
    pub(super) fn terminate(&mut self, name: &str) {
        let named = self.actors.iter_mut().filter(|a| a.name == name);
        named.for_each(Actor::terminate);
    }

    /// How a program ended; `None` while it runs.
    pub(super) fn ended(&mut self, name: &str) -> Option<ExitStatus> {
        self.actors.iter_mut().find(|a| a.name == name)?.look()
    }

    /// A server that has ended, and with it the act.
    ///
    /// # Errors
    /// Which, how, and the end of its log.
    pub(super) fn check_servers(&mut self) -> Result<(), Failure> {
        for actor in self.actors.iter_mut().filter(|a| a.role == Role::Server) {
            if let Some(status) = actor.look() {
                let tail = tail(&actor.log, TAIL_LINES);
                let name = &actor.name;
                return Err(Failure::runtime(format!("{name} ended by itself, {status}{tail}")));
            }
        }
        Ok(())
    }

    /// The first line of a program's log that begins with `prefix`, without it.
    pub(super) fn said(&self, name: &str, prefix: &str) -> Option<String> {
        let actor = self.actors.iter().find(|a| a.name == name)?;
        let text = std::fs::read(&actor.log).ok()?;
        let text = String::from_utf8_lossy(&text);
        // The last line may not be whole yet.
        let whole = &text[..=text.rfind('\n')?];
        whole.lines().find_map(|line| line.strip_prefix(prefix)).map(str::to_owned)
    }

    /// The end of a program's log, for an error.
    pub(super) fn tail(&self, name: &str) -> String {
        let actor = self.actors.iter().find(|a| a.name == name);
        actor.map_or_else(String::new, |a| tail(&a.log, TAIL_LINES))
    }

    /// The ends of all logs of this act.
    pub(super) fn tails(&self) -> String {
        self.actors.iter().map(|a| tail(&a.log, TAILS_LINES)).collect()
    }

    /// Ends everything: launchers with their workers, then servers, then whatever is left by force.
    /// Names of programs and numbers of processes that had to be killed.
    pub(super) async fn end(&mut self) -> Vec<String> {
        for roles in [&[Role::Launcher, Role::Alone][..], &[Role::Server][..]] {
            let theirs = |a: &&mut Actor| roles.contains(&a.role);
            self.actors.iter_mut().filter(theirs).for_each(Actor::terminate);
            let deadline = Instant::now() + TERM_PATIENCE;
            while self.actors.iter_mut().filter(theirs).any(|a| a.look().is_none()) {
                if Instant::now() >= deadline {
                    break;
                }
                sleep(LOOK_PAUSE).await;
            }
        }
        let running = self.actors.iter_mut().filter_map(|a| a.look().is_none().then_some(&*a));
        let mut left: Vec<String> = running.map(|a| a.name.clone()).collect();
        let mark = self.mark();
        let others = Lookout::new(&mark).look().len();
        if others > left.len() {
            left.push(format!("left-over processes: {}", others - left.len()));
        }
        cast::kill_all(&mark);
        for actor in &mut self.actors {
            actor.look();
        }
        left
    }

    /// Removes the directory; its name if it is kept.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) fn close(&self, keep: bool) -> Result<Option<PathBuf>, Failure> {
        if keep {
            return Ok(Some(self.root.clone()));
        }
        std::fs::remove_dir_all(&self.root).map(|()| None).map_err(|e| {
            Failure::runtime(format!("could not remove \"{}\": {e}", self.root.display()))
        })
    }
}

impl Actor {
    /// How it ended; `None` while it runs.
    fn look(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    fn terminate(&mut self) {
        if self.look().is_some() {
            return;
        }
        // It has not been waited for: the number is still its own.
        if let Some(pid) = self.child.id().and_then(|id| i32::try_from(id).ok()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    }
}

/// The last lines of a log as an error shows them: after a line break each, indented.
fn tail(log: &Path, lines_max: usize) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let name = log.file_name().unwrap_or_default().to_string_lossy();
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(lines_max)..];
    last.iter().map(|line| format!("\n        {name}: {}", safe(line))).collect()
}

/// Release builds abort on panic, without unwinding: the hook is the one place that always runs.
fn end_on_panic(mark: String) {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        previous(info);
        cast::kill_all(&mark);
    }));
}

#[cfg(test)]
mod tests;
