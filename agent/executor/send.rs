//! One signal to one worker: to its registered process, or to each of its ranks.

use std::sync::Arc;

use nix::sys::signal::Signal;
use sluice_core::id::WorkerId;

use crate::signals::{Ending, SignalError, Target};

/// Why no signal went out.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("worker {0:?} had ended before this agent came up")]
    NoTarget(WorkerId),
    #[error("signal {0} has no name on this system; declare one of 1 to 31 as the save signal")]
    UnknownSignal(i32),
    #[error(transparent)]
    Refused(#[from] SignalError),
}

impl SendError {
    /// Stable code.
    pub(super) fn code(&self) -> String {
        match self {
            Self::NoTarget(_) => "no-such-process".to_owned(),
            Self::UnknownSignal(_) => "signal-unknown".to_owned(),
            Self::Refused(why) => why.code().replace('_', "-"),
        }
    }
}

/// Sends signal `number`. A release ends the process whatever it does with `SIGTERM`; a signal that asks for a save goes
/// only to a handler: that of the registered process, or those of `ranks` if there are any.
///
/// # Errors
/// Nothing was sent.
pub(super) fn send(
    target: Option<&Arc<Target>>,
    ranks: &[Target],
    worker: &WorkerId,
    number: i32,
    is_release: bool,
) -> Result<(), SendError> {
    let target = target.ok_or_else(|| SendError::NoTarget(worker.clone()))?;
    let signal = Signal::try_from(number).map_err(|_| SendError::UnknownSignal(number))?;
    match signal {
        Signal::SIGKILL => target.end(Ending::Kill)?,
        Signal::SIGTERM if is_release => target.end(Ending::Terminate)?,
        _ if ranks.is_empty() => target.send(signal)?,
        _ => return send_to_each(ranks, signal),
    }
    Ok(())
}

/// To every rank, each once. One that has ended meanwhile keeps nobody else from saving.
fn send_to_each(ranks: &[Target], signal: Signal) -> Result<(), SendError> {
    let mut refused = None;
    let mut sent = 0_u32;
    for rank in ranks {
        match rank.send(signal) {
            Ok(()) => sent += 1,
            Err(why) => refused = Some(why),
        }
    }
    match refused {
        Some(why) if sent == 0 => Err(why.into()),
        Some(_) | None => Ok(()),
    }
}
