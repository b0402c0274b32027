//! What this machine offers: programs, state directory, kernel.

use std::path::Path;

use procfs::KernelVersion;
use sluice::paths::Paths;

use super::report::{Outcome, Report};
use crate::args::Global;
use crate::up::sibling;

const CATEGORY: &str = "this machine";

/// `pidfd_open(2)`: the agent refers to workers by it, so that a reused pid is never signalled.
const PIDFD_SINCE: KernelVersion = KernelVersion { major: 5, minor: 3, patch: 0 };

/// Checks this machine.
pub(super) fn check(report: &mut Report, global: &Global) {
    for name in ["sluice-agent", "sluice-arbiter"] {
        report.check(CATEGORY, format!("{name} is installed beside this program"), program(name));
    }
    report.check(CATEGORY, "the state directory can be written", state_dir(global));
    let version = KernelVersion::current().ok();
    report.check(CATEGORY, "the kernel has pidfd (Linux 5.3)", pidfd(version));
    report.check(CATEGORY, "the kernel has pressure-stall information", pressure());
}

fn program(name: &str) -> Outcome {
    let own = std::env::current_exe().ok();
    let dir = own.as_deref().and_then(Path::parent).unwrap_or(Path::new("/"));
    match sibling(dir, name) {
        Ok(_) => Outcome::Fine,
        // A machine may well have only one of them, or only this program.
        Err(failure) => Outcome::warning(
            failure.message,
            "only sluice up needs it there; otherwise it may be anywhere",
        ),
    }
}

/// Whether the state root, or the nearest directory above it that exists, can be written.
fn state_dir(global: &Global) -> Outcome {
    let paths = match Paths::find(global.state_dir.as_deref()) {
        Ok(paths) => paths,
        Err(error) => return Outcome::warning(error.to_string(), "give --state-dir"),
    };
    let existing = paths.root().ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let shown = existing.display();
    if !existing.is_dir() {
        let hint = "remove it or choose another with --state-dir";
        return Outcome::failure(format!("\"{shown}\" is not a directory"), hint);
    }
    match nix::unistd::access(existing, nix::unistd::AccessFlags::W_OK) {
        Ok(()) => Outcome::Fine,
        Err(error) => Outcome::warning(
            format!("\"{shown}\" cannot be written by this user: {}", error.desc()),
            "choose another with --state-dir, unless the agent and the arbiter run as another user",
        ),
    }
}

fn pidfd(version: Option<KernelVersion>) -> Outcome {
    match version {
        Some(version) if version >= PIDFD_SINCE => Outcome::Fine,
        Some(KernelVersion { major, minor, .. }) => Outcome::failure(
            format!("this is Linux {major}.{minor}"),
            "the agent needs Linux 5.3 or later",
        ),
        None => Outcome::warning("the kernel's version cannot be read", "is /proc mounted?"),
    }
}

fn pressure() -> Outcome {
    match std::fs::read("/proc/pressure/io") {
        Ok(_) => Outcome::Fine,
        Err(error) => Outcome::warning(
            format!("could not read \"/proc/pressure/io\": {error}"),
            "nodes report no pressure; boot with psi=1 to have it",
        ),
    }
}
