//! Health of devices and of the node, as the agent's judge has it.

use sluice_core::health::kmsg::LogCounters;
use sluice_core::health::{Action, Fault, Verdict};
use sluice_core::protocol::DrainNeed;
use sluice_core::unit::Time;

use super::pb;

/// Most faults told of one device: the worst of them.
pub const FAULTS_MAX: usize = 16;

/// What is to be done, on the wire.
#[must_use]
pub fn action_out(action: Action) -> pb::Action {
    match action {
        Action::None => pb::Action::None,
        Action::RestartApp => pb::Action::RestartApp,
        Action::RunDiagnostics => pb::Action::RunDiagnostics,
        Action::RestartFabricManager => pb::Action::RestartFabricManager,
        Action::ContactSupport => pb::Action::ContactSupport,
        Action::DrainAndReset => pb::Action::DrainAndReset,
        Action::Reset => pb::Action::Reset,
        Action::Reboot => pb::Action::Reboot,
        Action::Replace => pb::Action::Replace,
    }
}

/// What is to be done, from its number. Numbers of other versions: nothing, as nobody here knows how.
#[must_use]
pub fn action(value: i32) -> Action {
    match pb::Action::try_from(value) {
        Ok(pb::Action::RestartApp) => Action::RestartApp,
        Ok(pb::Action::RunDiagnostics) => Action::RunDiagnostics,
        Ok(pb::Action::RestartFabricManager) => Action::RestartFabricManager,
        Ok(pb::Action::ContactSupport) => Action::ContactSupport,
        Ok(pb::Action::DrainAndReset) => Action::DrainAndReset,
        Ok(pb::Action::Reset) => Action::Reset,
        Ok(pb::Action::Reboot) => Action::Reboot,
        Ok(pb::Action::Replace) => Action::Replace,
        Ok(pb::Action::Unspecified | pb::Action::None) | Err(_) => Action::None,
    }
}

/// Whether workers have to leave, on the wire.
#[must_use]
pub fn drain_out(need: DrainNeed) -> pb::DrainNeed {
    match need {
        DrainNeed::None => pb::DrainNeed::None,
        DrainNeed::Save => pb::DrainNeed::Save,
        DrainNeed::Hurry => pb::DrainNeed::Hurry,
    }
}

/// Whether workers have to leave, from its number. Numbers of other versions drain nobody.
#[must_use]
pub fn drain(value: i32) -> DrainNeed {
    match pb::DrainNeed::try_from(value) {
        Ok(pb::DrainNeed::Save) => DrainNeed::Save,
        Ok(pb::DrainNeed::Hurry) => DrainNeed::Hurry,
        Ok(pb::DrainNeed::Unspecified | pb::DrainNeed::None) | Err(_) => DrainNeed::None,
    }
}

/// The worst faults of a verdict, with their ages at `now`.
#[must_use]
pub fn faults(verdict: &Verdict, now: Time) -> Vec<pb::Fault> {
    verdict.faults.iter().take(FAULTS_MAX).map(|f| fault(f, now)).collect()
}

fn fault(fault: &Fault, now: Time) -> pb::Fault {
    pb::Fault {
        reason: Some((&fault.reason).into()),
        health: pb::Health::from(fault.health).into(),
        action: action_out(fault.action).into(),
        urgent: fault.is_urgent,
        source: fault.source.as_str().to_owned(),
        since_age_ms: now.ms_since(fault.since),
        seen_age_ms: now.ms_since(fault.seen_at),
        count: fault.count,
    }
}

/// How the kernel's log is read.
#[must_use]
pub fn kernel_log(counters: &LogCounters, last: Option<u64>, problem: &str) -> pb::KernelLog {
    pb::KernelLog {
        problem: problem.to_owned(),
        last_sequence: last,
        records: counters.records,
        malformed: counters.malformed,
        unparsed: counters.unparsed,
        foreign: counters.foreign,
        missed: counters.missed,
        overruns: counters.overruns,
        alike: counters.alike,
        events: counters.events,
    }
}
