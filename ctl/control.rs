//! Commands that change something: cancel, freeze, unfreeze; and version.

use clap::Args;
use sluice::wire::{PROTOCOL, pb};
use sluice_core::id::WorkloadName;

use crate::args::Global;
use crate::connect::{Arbiter, request};
use crate::failure::Failure;
use crate::output;
use crate::text::{count, safe};

/// Flags of `sluice cancel`.
#[derive(Debug, Args)]
#[command(after_help = "\
A running worker is ended by its sluice run process. Devices are given to others once they are idle.

Example:
  sluice cancel train-x7k2p")]
pub(crate) struct CancelArgs {
    /// The workload; several may be given.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<WorkloadName>,
}

/// Flags of `sluice freeze`.
#[derive(Debug, Args)]
#[command(after_help = "\
While decisions are frozen nothing is admitted and nobody is drained. Drains whose signal has not
been sent are taken back. Running workers go on. The freeze outlives a restart of the arbiter.

Example:
  sluice freeze --why 'looking into lost checkpoints'")]
pub(crate) struct FreezeArgs {
    /// Why, for whoever finds it frozen.
    #[arg(long, default_value = "no reason given", value_name = "TEXT")]
    why: String,
}

/// Runs `sluice cancel`.
///
/// # Errors
/// A workload does not exist or has ended; the others are cancelled all the same.
pub(crate) async fn cancel(global: &Global, args: CancelArgs) -> Result<(), Failure> {
    let arbiter = Arbiter::connect(global).await?;
    let mut first_failure = None;
    for name in args.names {
        let message = pb::CancelWorkloadRequest { name: name.to_string() };
        let mut admin = arbiter.admin();
        let call = admin.cancel_workload(request(message, arbiter.timeout()));
        match arbiter.ask(&format!("could not cancel {name}"), call).await {
            Ok(_) => output::print(global.color, &format!("workload {name} cancelled\n"))?,
            Err(failure) => {
                first_failure.get_or_insert(failure);
            }
        }
    }
    first_failure.map_or(Ok(()), Err)
}

/// Runs `sluice freeze`.
///
/// # Errors
/// The arbiter does not answer.
pub(crate) async fn freeze(global: &Global, args: FreezeArgs) -> Result<(), Failure> {
    let arbiter = Arbiter::connect(global).await?;
    let mut admin = arbiter.admin();
    let call = admin.freeze(request(pb::FreezeRequest { why: args.why }, arbiter.timeout()));
    let answer = arbiter.ask("could not freeze decisions", call).await?;
    let aborted = usize::try_from(answer.aborted_drains).unwrap_or(usize::MAX);
    let aborted = count(aborted, "drain");
    let text =
        format!("decisions are frozen; {aborted} taken back; sluice unfreeze lets them go on\n");
    output::print(global.color, &text)
}

/// Runs `sluice unfreeze`.
///
/// # Errors
/// The arbiter does not answer.
pub(crate) async fn unfreeze(global: &Global) -> Result<(), Failure> {
    let arbiter = Arbiter::connect(global).await?;
    let mut admin = arbiter.admin();
    let call = admin.unfreeze(request(pb::UnfreezeRequest {}, arbiter.timeout()));
    arbiter.ask("could not unfreeze decisions", call).await?;
    output::print(global.color, "decisions are made again\n")
}

/// Runs `sluice version`: an arbiter that is away is no failure.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) async fn version(global: &Global) -> Result<(), Failure> {
    let mut text = format!("sluice {} (protocol {PROTOCOL})\n", env!("CARGO_PKG_VERSION"));
    match status(global).await {
        Ok(status) => {
            let version = safe(&status.version);
            text.push_str(&format!("sluice-arbiter {version} (protocol {})\n", status.protocol));
        }
        Err(failure) => text.push_str(&format!("sluice-arbiter unknown: {failure}\n")),
    }
    output::print(global.color, &text)
}

/// What the arbiter says of itself.
///
/// # Errors
/// It does not answer.
pub(crate) async fn status(global: &Global) -> Result<pb::GetStatusResponse, Failure> {
    let arbiter = Arbiter::connect(global).await?;
    let mut admin = arbiter.admin();
    let call = admin.get_status(request(pb::GetStatusRequest {}, arbiter.timeout()));
    arbiter.ask("could not ask for the arbiter's status", call).await
}
