//! What a launcher does about what it sees of its workload. Nothing but decisions.

#[cfg(test)]
mod tests;

use sluice::wire::pb;

use crate::text::safe;

/// What to do while no worker runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Waiting {
    /// It is admitted: start the worker of this attempt.
    Start {
        /// Number of the start.
        attempt: u32,
        /// Node and devices.
        assignment: pb::Assignment,
    },
    /// It waits; what to tell people, and what to do about it (may be empty).
    Wait {
        /// Why, and who is ahead.
        why: String,
        /// A hint.
        hint: String,
    },
    /// It is over and this launcher has nothing to start any more.
    Over {
        /// How it ended, and why.
        why: String,
        /// It has ended well.
        has_succeeded: bool,
    },
}

/// What to do while the worker of an attempt runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Running {
    /// Let it run.
    Keep,
    /// Another attempt counts: end it, then wait for admission.
    Superseded(String),
    /// The workload has ended: end the worker and leave.
    Over(String),
}

/// Decides for a launcher of `rank` that has started the worker of `last_attempt` (0: none) and waits.
pub(crate) fn while_waiting(workload: &pb::Workload, rank: u32, last_attempt: u32) -> Waiting {
    if let Some(why) = over(workload) {
        let has_succeeded = workload.phase() == pb::Phase::Succeeded;
        return Waiting::Over { why, has_succeeded };
    }
    let member = workload.members.iter().find(|m| m.rank == rank);
    let assignment = member.filter(|m| m.exit.is_none()).and_then(|m| m.assignment.as_ref());
    match (workload.phase(), assignment) {
        (pb::Phase::Admitted, Some(assignment)) if workload.attempt > last_attempt => {
            Waiting::Start { attempt: workload.attempt, assignment: assignment.clone() }
        }
        // The arbiter has yet to learn that the worker of this attempt has ended.
        (pb::Phase::Admitted | pb::Phase::Running | pb::Phase::Draining, _)
            if workload.attempt == last_attempt =>
        {
            Waiting::Wait { why: "its drain is being finished".to_owned(), hint: String::new() }
        }
        (
            pb::Phase::Unspecified
            | pb::Phase::Pending
            | pb::Phase::Admitted
            | pb::Phase::Running
            | pb::Phase::Draining
            | pb::Phase::Succeeded
            | pb::Phase::Failed
            | pb::Phase::Cancelled,
            _,
        ) => {
            let hint = workload.reason.as_ref().map(|r| safe(&r.hint)).unwrap_or_default();
            Waiting::Wait { why: why(workload), hint }
        }
    }
}

/// Decides for a launcher whose worker of `attempt` runs.
pub(crate) fn while_running(workload: &pb::Workload, attempt: u32) -> Running {
    if let Some(over) = over(workload) {
        return Running::Over(over);
    }
    let queued_again = workload.attempt == attempt && workload.phase() == pb::Phase::Pending;
    if workload.attempt > attempt {
        return Running::Superseded(format!("start number {} counts now", workload.attempt));
    }
    if queued_again {
        return Running::Superseded(why(workload));
    }
    // A lower attempt is that of an arbiter that has lost its state: it will hear of the worker.
    Running::Keep
}

/// Why it is over, if it is.
fn over(workload: &pb::Workload) -> Option<String> {
    let how = match workload.phase() {
        pb::Phase::Succeeded => "has succeeded",
        pb::Phase::Failed => "has failed",
        pb::Phase::Cancelled => "was cancelled",
        pb::Phase::Unspecified
        | pb::Phase::Pending
        | pb::Phase::Admitted
        | pb::Phase::Running
        | pb::Phase::Draining => return None,
    };
    let name = workload.spec.as_ref().map_or("?", |s| s.name.as_str());
    Some(format!("workload {} {how}: {}", safe(name), message(workload)))
}

/// Why it waits, and who is ahead.
fn why(workload: &pb::Workload) -> String {
    let mut why = message(workload);
    if !workload.ahead.is_empty() {
        let shown: Vec<String> = workload.ahead.iter().take(3).map(|n| safe(n)).collect();
        let ahead = usize::try_from(workload.ahead_count).unwrap_or(usize::MAX);
        let more = match ahead.saturating_sub(shown.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        why.push_str(&format!("; ahead: {}{more}", shown.join(", ")));
    }
    why
}

fn message(workload: &pb::Workload) -> String {
    workload.reason.as_ref().map_or_else(|| "no reason given".to_owned(), |r| safe(&r.message))
}
