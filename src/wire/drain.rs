//! Orders and drain events between arbiter and agents, and the words they use.

use sluice_core::checkpoint::Checkpoint;
use sluice_core::drain::Mode;
use sluice_core::protocol::{DrainEvent, EventKind, Order, Refusal, Verb};
use sluice_core::workload::{Exit, SaveSignal};

use super::pb::{drain_event::Kind, order::Verb as WireVerb};
use super::{WireError, field, pb};

impl From<Mode> for pb::DrainMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::KillFresh => Self::KillFresh,
            Mode::Boundary => Self::Boundary,
            Mode::Client => Self::Client,
            Mode::Signal => Self::Signal,
            Mode::Kill => Self::Kill,
        }
    }
}

/// A drain mode from its number.
///
/// # Errors
/// Where the number names no mode.
pub fn mode(name: &str, value: i32) -> Result<Mode, WireError> {
    let expected = "one of KILL_FRESH (1), BOUNDARY (2), SIGNAL (3), KILL (4), CLIENT (5)";
    match pb::DrainMode::try_from(value) {
        Ok(pb::DrainMode::KillFresh) => Ok(Mode::KillFresh),
        Ok(pb::DrainMode::Boundary) => Ok(Mode::Boundary),
        Ok(pb::DrainMode::Signal) => Ok(Mode::Signal),
        Ok(pb::DrainMode::Kill) => Ok(Mode::Kill),
        Ok(pb::DrainMode::Client) => Ok(Mode::Client),
        Ok(pb::DrainMode::Unspecified) | Err(_) => Err(WireError::new(name, value, expected)),
    }
}

/// The two fields of a save signal: number (0: none) and whether the worker ends after the save.
#[must_use]
pub fn save_signal_fields(signal: Option<SaveSignal>) -> (i32, bool) {
    signal.map_or((0, false), |signal| (signal.number, signal.exits_after_save))
}

/// A save signal from its two fields.
///
/// # Errors
/// Where the number is no signal.
pub fn save_signal(number: i32, exits_after_save: bool) -> Result<Option<SaveSignal>, WireError> {
    match number {
        0 => Ok(None),
        1..=64 => Ok(Some(SaveSignal { number, exits_after_save })),
        _ => Err(WireError::new("save_signal", number, "0 (none) or a signal number, 1 to 64")),
    }
}

impl From<&Checkpoint> for pb::Checkpoint {
    fn from(checkpoint: &Checkpoint) -> Self {
        Self {
            step: checkpoint.step,
            path: checkpoint.path.clone(),
            bytes: checkpoint.bytes,
            files: checkpoint.files,
            marker: checkpoint.marker.clone(),
            grade: pb::CheckpointGrade::from(checkpoint.grade).into(),
        }
    }
}

impl From<&pb::Checkpoint> for Checkpoint {
    fn from(checkpoint: &pb::Checkpoint) -> Self {
        Self {
            step: checkpoint.step,
            path: checkpoint.path.clone(),
            bytes: checkpoint.bytes,
            files: checkpoint.files,
            marker: checkpoint.marker.clone(),
            grade: checkpoint.grade().into(),
        }
    }
}

impl From<Exit> for pb::WorkerExit {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Code(code) => Self { code: Some(code), signal: None },
            Exit::Signal(signal) => Self { code: None, signal: Some(signal) },
            Exit::Unknown => Self { code: None, signal: None },
        }
    }
}

impl TryFrom<&pb::WorkerExit> for Exit {
    type Error = WireError;

    fn try_from(exit: &pb::WorkerExit) -> Result<Self, WireError> {
        match (exit.code, exit.signal) {
            (Some(code), None) => Ok(Self::Code(code)),
            (None, Some(signal)) => Ok(Self::Signal(signal)),
            (None, None) => Ok(Self::Unknown),
            (Some(code), Some(signal)) => {
                let both = format!("exit status {code} and signal {signal}");
                Err(WireError::new("exit", both, "one of the two, or neither"))
            }
        }
    }
}

impl From<&Order> for pb::Order {
    fn from(order: &Order) -> Self {
        Self {
            drain_id: order.drain.to_string(),
            epoch: order.epoch,
            workload: order.worker.workload.to_string(),
            attempt: order.worker.attempt,
            rank: order.worker.rank,
            verb: Some(verb_out(&order.verb)),
        }
    }
}

fn verb_out(verb: &Verb) -> WireVerb {
    match *verb {
        Verb::Prepare { mode, save_signal, baseline_step, hard_ms } => {
            let (save_signal, exits_after_save) = save_signal_fields(save_signal);
            WireVerb::Prepare(pb::Prepare {
                mode: pb::DrainMode::from(mode).into(),
                save_signal,
                exits_after_save,
                baseline_step,
                hard_ms,
            })
        }
        Verb::Commit => WireVerb::Commit(pb::Commit {}),
        Verb::Extend { hard_ms } => WireVerb::Extend(pb::Extend { hard_ms }),
        Verb::Abort => WireVerb::Abort(pb::Abort {}),
        Verb::Release { grace_ms } => WireVerb::Release(pb::Release { grace_ms }),
        Verb::Restate => WireVerb::Restate(pb::Restate {}),
    }
}

impl TryFrom<&pb::Order> for Order {
    type Error = WireError;

    fn try_from(order: &pb::Order) -> Result<Self, WireError> {
        Ok(Self {
            drain: field::name("drain_id", &order.drain_id)?,
            epoch: order.epoch,
            worker: field::worker_id(&order.workload, order.attempt, order.rank)?,
            verb: verb_in(field::required("verb", order.verb.as_ref())?)?,
        })
    }
}

fn verb_in(verb: &WireVerb) -> Result<Verb, WireError> {
    Ok(match verb {
        WireVerb::Prepare(prepare) => Verb::Prepare {
            mode: mode("prepare.mode", prepare.mode)?,
            save_signal: save_signal(prepare.save_signal, prepare.exits_after_save)
                .map_err(|error| error.within("prepare"))?,
            baseline_step: prepare.baseline_step,
            hard_ms: prepare.hard_ms,
        },
        WireVerb::Commit(pb::Commit {}) => Verb::Commit,
        WireVerb::Extend(extend) => Verb::Extend { hard_ms: extend.hard_ms },
        WireVerb::Abort(pb::Abort {}) => Verb::Abort,
        WireVerb::Release(release) => Verb::Release { grace_ms: release.grace_ms },
        WireVerb::Restate(pb::Restate {}) => Verb::Restate,
    })
}

impl From<&DrainEvent> for pb::DrainEvent {
    fn from(event: &DrainEvent) -> Self {
        Self {
            drain_id: event.drain.to_string(),
            epoch: event.epoch,
            workload: event.worker.workload.to_string(),
            attempt: event.worker.attempt,
            rank: event.worker.rank,
            kind: Some(kind_out(&event.kind)),
        }
    }
}

/// Facts that only people look at (pid, start time, signal number) are not in core's form: 0 here,
/// for the agent to fill in.
fn kind_out(kind: &EventKind) -> Kind {
    match kind {
        &EventKind::Armed { step, checkpoint_age_ms } => {
            Kind::Armed(pb::Armed { pid: 0, start_time_ticks: 0, step, checkpoint_age_ms })
        }
        EventKind::Refused { refusal, detail } => {
            Kind::Refused(pb::Refused { code: refusal.code().to_owned(), detail: detail.clone() })
        }
        EventKind::Signalled => Kind::Signalled(pb::Signalled { signal: 0 }),
        EventKind::Durable { checkpoint, age_ms } => {
            Kind::Durable(pb::Durable { checkpoint: Some(checkpoint.into()), age_ms: *age_ms })
        }
        &EventKind::NoProgress { waited_ms } => Kind::NoProgress(pb::NoProgress { waited_ms }),
        EventKind::SaveFailed { code, detail } => {
            Kind::SaveFailed(pb::SaveFailed { code: code.clone(), detail: detail.clone() })
        }
        EventKind::Exited(exit) => Kind::WorkerExit((*exit).into()),
        EventKind::Freed { devices, killed, parked, release_ms } => Kind::Freed(pb::Freed {
            devices: field::texts(devices),
            killed: *killed,
            parked: *parked,
            release_ms: *release_ms,
        }),
        EventKind::Aborted => Kind::Aborted(pb::Aborted {}),
        &EventKind::StaleEpoch { seen } => Kind::StaleEpoch(pb::StaleEpoch { seen }),
    }
}

impl TryFrom<&pb::DrainEvent> for DrainEvent {
    type Error = WireError;

    fn try_from(event: &pb::DrainEvent) -> Result<Self, WireError> {
        Ok(Self {
            drain: field::name("drain_id", &event.drain_id)?,
            epoch: event.epoch,
            worker: field::worker_id(&event.workload, event.attempt, event.rank)?,
            kind: kind_in(field::required("kind", event.kind.as_ref())?)?,
        })
    }
}

fn kind_in(kind: &Kind) -> Result<EventKind, WireError> {
    Ok(match kind {
        Kind::Armed(armed) => {
            EventKind::Armed { step: armed.step, checkpoint_age_ms: armed.checkpoint_age_ms }
        }
        Kind::Refused(refused) => EventKind::Refused {
            refusal: refusal_code(&refused.code)?,
            detail: refused.detail.clone(),
        },
        Kind::Signalled(_) => EventKind::Signalled,
        Kind::Durable(durable) => {
            let checkpoint = durable.checkpoint.as_ref();
            let checkpoint = field::required("durable.checkpoint", checkpoint)?.into();
            EventKind::Durable { checkpoint, age_ms: durable.age_ms }
        }
        Kind::NoProgress(stall) => EventKind::NoProgress { waited_ms: stall.waited_ms },
        Kind::SaveFailed(failed) => {
            EventKind::SaveFailed { code: failed.code.clone(), detail: failed.detail.clone() }
        }
        Kind::WorkerExit(exit) => EventKind::Exited(exit.try_into()?),
        Kind::Freed(freed) => EventKind::Freed {
            devices: field::names("freed.devices", &freed.devices)?,
            killed: freed.killed,
            parked: freed.parked,
            release_ms: freed.release_ms,
        },
        Kind::Aborted(pb::Aborted {}) => EventKind::Aborted,
        Kind::StaleEpoch(stale) => EventKind::StaleEpoch { seen: stale.seen },
    })
}

fn refusal_code(code: &str) -> Result<Refusal, WireError> {
    let known = || Refusal::ALL.map(Refusal::code).join(", ");
    let found = Refusal::ALL.into_iter().find(|refusal| refusal.code() == code);
    found.ok_or_else(|| WireError::new("refused.code", code, format!("one of {}", known())))
}
