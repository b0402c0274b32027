//! `sluice run`: the launcher of one worker.
//!
//! It submits a workload (or one rank of a gang), waits for admission, starts the command, makes
//! it known to the agent of its node, passes signals on, reports how it ended, and starts it again
//! after a drain. While it watches its workload the arbiter counts it as present.
//!
//! ```text
//! submit ─▶ wait for admission ─▶ start ─▶ worker runs ─▶ report exit ─▶ leave
//!               ▲                            │ end it: workload over      │
//!               └────────────────────────────┴── superseded ── drained ◀──┘
//! ```
//! The arbiter and the agent may go away and come back at any point. The worker is no hostage of
//! the launcher: it lives in its own process group and goes on if the launcher is killed.

mod args;
mod command;
mod decide;
#[cfg(test)]
mod fakes;
mod launcher;
mod link;
mod progress;
pub(crate) mod signals;
#[cfg(test)]
mod tests;
mod work;
mod worker;

pub(crate) use args::RunArgs;

use crate::args::Global;
use crate::failure::Failure;

/// Runs `sluice run`; the exit status to leave with.
///
/// # Errors
/// Bad flags, nobody to talk to, or the arbiter refused the workload.
pub(crate) async fn run(global: &Global, args: RunArgs) -> Result<u8, Failure> {
    launcher::launch(global, args.plan()?).await
}
