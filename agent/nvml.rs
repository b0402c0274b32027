//! NVIDIA's management library, asked by a process of its own.
//!
//! A call into the driver may hang in the kernel, where nothing ends it; a broken library may crash whoever loads it. So
//! a child of the agent makes the calls ([`child`]), and the agent asks it over a socket and never waits ([`supervisor`]).
//! What it tells is facts of `sluice_core::sample`; nothing is judged here.

mod child;
mod control;
mod frame;
mod library;
mod look;
mod process;
mod supervisor;

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

pub(crate) use self::control::{Control, Listener, Order};
pub(crate) use self::supervisor::Supervisor;

/// First argument of the child. Not a command for people: it is left out of the help.
pub(crate) const CHILD_COMMAND: &str = "nvml-child";

/// What the child is called in a list of processes.
pub(crate) const PROBE_NAME: &str = "sluice-nvml";

/// The library as the loader finds it, and where Google's driver installer, the GPU operator and distributions put it.
const LIBRARIES: [&str; 7] = [
    "/home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib64/libnvidia-ml.so.1",
];

/// The name by which the loader looks.
const LIBRARY_NAME: &str = "libnvidia-ml.so.1";

/// How the driver is asked.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Libraries to try, in turn.
    pub(crate) libraries: Vec<OsString>,
    /// Time between two looks.
    pub(crate) interval: Duration,
    /// A call that has not returned for so long hangs.
    pub(crate) unresponsive_after: Duration,
    /// How long one look waits for its answer before the next takes over.
    pub(crate) answer_wait: Duration,
    /// How long a child may take for each step of its ending.
    pub(crate) grace: Duration,
}

impl Settings {
    pub(crate) fn new(
        libraries: Vec<PathBuf>,
        interval: Duration,
        unresponsive_after: Duration,
    ) -> Self {
        Self {
            libraries: libraries.into_iter().map(PathBuf::into_os_string).collect(),
            interval,
            unresponsive_after,
            // Most answers take milliseconds. Half an interval, so that looks stay on their grid.
            answer_wait: (interval / 2).min(Duration::from_secs(1)),
            // A ninth: 5 s of the usual 45 s; a library closes within 2 s with eight GPUs.
            grace: unresponsive_after / 9,
        }
    }
}

/// Where the library may be: as the loader finds it, then below the host's root.
pub(crate) fn usual_libraries(host_root: &Path) -> Vec<PathBuf> {
    let below = |path: &&str| host_root.join(path.trim_start_matches('/'));
    std::iter::once(PathBuf::from(LIBRARY_NAME)).chain(LIBRARIES.iter().map(below)).collect()
}

/// The child's program: `parent` and the libraries to try.
pub(crate) fn child_main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<String> =
        arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    let outcome = match arguments.split_first() {
        Some((parent, libraries)) => parent
            .parse()
            .map_err(|_| format!("\"{parent}\" is no process id"))
            .and_then(|parent| child::run(socket()?, parent, libraries)),
        None => Err("this command is for the agent only".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The socket to the agent, which is standard input.
fn socket() -> Result<UnixStream, String> {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned();
    stdin.map(UnixStream::from).map_err(|error| format!("no socket to the agent: {error}"))
}
