//! Where things lie: one state root for arbiter and agents, and the sockets in it.
//!
//! ```text
//! <root>/arbiter/state.redb     the arbiter's state          <root>/agents/<node>/journal/   open drains
//! <root>/arbiter/record/        what it decided from         <root>/agents/<node>/devices/   simulated devices
//! <root>/run/<node>.sock        the agent's socket           <root>/agents/<node>/node_uid
//! <root>/workers/<worker>/      files of one worker, through which it can be asked to save
//! ```
//! Nothing here touches a file except [`create_private_dir`] and [`find_agent_sockets`].

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sluice_core::id::NodeName;

/// Environment variable with the state root.
pub const STATE_DIR_VARIABLE: &str = "SLUICE_STATE_DIR";

/// Environment variable with the sockets of agents, separated by colons.
pub const AGENT_SOCKET_VARIABLE: &str = "SLUICE_AGENT_SOCKET";

/// Environment variable with the address of the arbiter.
pub const ARBITER_VARIABLE: &str = "SLUICE_ARBITER";

/// Where sockets of agents lie that were installed for a whole machine.
pub const SYSTEM_RUN_DIR: &str = "/run/sluice";

/// Most agents' sockets that are looked at. A machine has one agent; a laptop that plays cluster has a few.
pub const AGENT_SOCKETS_MAX: usize = 1_024;

/// The state root could not be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathsError {
    /// Nothing says where.
    #[error(
        "cannot tell where to keep state: neither --state-dir nor SLUICE_STATE_DIR, XDG_STATE_HOME or HOME is set; \
         give --state-dir"
    )]
    NoRoot,
    /// A relative directory would depend on where the program was started.
    #[error("state directory {path:?} is not absolute; give an absolute path")]
    NotAbsolute {
        /// As given.
        path: PathBuf,
    },
}

/// The state root and the names below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    root: PathBuf,
}

impl Paths {
    /// The state root from the flag `--state-dir` or, without it, from the environment.
    ///
    /// # Errors
    /// Nothing says where, or the path is relative.
    pub fn find(flag: Option<&Path>) -> Result<Self, PathsError> {
        Self::choose(flag, |name| std::env::var_os(name))
    }

    /// As [`Paths::find`], with the environment as a function.
    ///
    /// # Errors
    /// Nothing says where, or the path is relative.
    pub fn choose(
        flag: Option<&Path>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, PathsError> {
        let set = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        // The XDG rules: a relative value is to be ignored.
        let xdg = || set("XDG_STATE_HOME").filter(|p| p.is_absolute()).map(|p| p.join("sluice"));
        let home = || set("HOME").map(|p| p.join(".local/state/sluice"));
        let root = flag
            .map(Path::to_owned)
            .or_else(|| set(STATE_DIR_VARIABLE))
            .or_else(xdg)
            .or_else(home)
            .ok_or(PathsError::NoRoot)?;
        if root.is_absolute() {
            Ok(Self { root })
        } else {
            Err(PathsError::NotAbsolute { path: root })
        }
    }

    /// The state root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Everything of the arbiter.
    #[must_use]
    pub fn arbiter_dir(&self) -> PathBuf {
        self.root.join("arbiter")
    }

    /// The arbiter's state.
    #[must_use]
    pub fn arbiter_state(&self) -> PathBuf {
        self.arbiter_dir().join("state.redb")
    }

    /// What the arbiter decided from.
    #[must_use]
    pub fn arbiter_record_dir(&self) -> PathBuf {
        self.arbiter_dir().join("record")
    }

    /// Everything of one agent.
    #[must_use]
    pub fn agent_dir(&self, node: &NodeName) -> PathBuf {
        self.root.join("agents").join(file_name(node.as_str()))
    }

    /// The agent's open drains and registered workers.
    #[must_use]
    pub fn agent_journal_dir(&self, node: &NodeName) -> PathBuf {
        self.agent_dir(node).join("journal")
    }

    /// What read-ahead was before the agent set it.
    #[must_use]
    pub fn agent_read_ahead_dir(&self, node: &NodeName) -> PathBuf {
        self.agent_dir(node).join("read-ahead")
    }

    /// The files behind simulated devices.
    #[must_use]
    pub fn agent_devices_dir(&self, node: &NodeName) -> PathBuf {
        self.agent_dir(node).join("devices")
    }

    /// The file with the agent's identity.
    #[must_use]
    pub fn agent_node_uid(&self, node: &NodeName) -> PathBuf {
        self.agent_dir(node).join("node_uid")
    }

    /// The files through which the worker `<workload>/<attempt>/<rank>` can be asked to save.
    #[must_use]
    pub fn drain_dir(&self, worker: &str) -> PathBuf {
        self.root.join("workers").join(file_name(worker))
    }

    /// Where the sockets of this root's agents lie.
    #[must_use]
    pub fn run_dir(&self) -> PathBuf {
        self.root.join("run")
    }

    /// The agent's socket.
    #[must_use]
    pub fn agent_socket(&self, node: &NodeName) -> PathBuf {
        self.run_dir().join(format!("{}.sock", file_name(node.as_str())))
    }
}

/// `name` as the name of a file: `/`, `:` and a leading `.` are written as `%2F`, `%3A` and `%2E`.
///
/// Other names stay as they are, so that people find them. `%` cannot stand in a name, so no two names collide.
#[must_use]
pub fn file_name(name: &str) -> String {
    let encoded = name.replace('/', "%2F").replace(':', "%3A");
    match encoded.strip_prefix('.') {
        Some(rest) => format!("%2E{rest}"),
        None => encoded,
    }
}

/// Creates `dir` and what leads to it, for this user alone (mode 0700), and leaves what is there as it is.
///
/// # Errors
/// The directory cannot be created, or something else has its name.
pub fn create_private_dir(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| {
        let shown = dir.display();
        let kind = e.kind();
        io::Error::new(
            kind,
            format!("cannot create directory \"{shown}\": {kind}; create it or choose another with --state-dir"),
        )
    })
}

/// Sockets of agents: those given by flag, else those of [`AGENT_SOCKET_VARIABLE`], else every `*.sock` below
/// `<root>/run/` and [`SYSTEM_RUN_DIR`]; ordered, at most [`AGENT_SOCKETS_MAX`]. Empty if there are none.
#[must_use]
pub fn find_agent_sockets(flags: &[PathBuf], paths: Option<&Paths>) -> Vec<PathBuf> {
    if !flags.is_empty() {
        return flags.to_vec();
    }
    if let Some(value) = std::env::var_os(AGENT_SOCKET_VARIABLE).filter(|v| !v.is_empty()) {
        return std::env::split_paths(&value).collect();
    }
    let dirs = paths.map(Paths::run_dir).into_iter().chain([PathBuf::from(SYSTEM_RUN_DIR)]);
    let mut found: Vec<PathBuf> = dirs.flat_map(|dir| sockets_in(&dir)).collect();
    found.sort();
    found.dedup();
    found.truncate(AGENT_SOCKETS_MAX);
    found
}

/// Every `*.sock` in `dir`; none if it cannot be read.
fn sockets_in(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let paths =
        entries.take(2 * AGENT_SOCKETS_MAX).filter_map(Result::ok).map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|e| e == "sock")).collect()
}
