//! `sluice rehearse`: tries a save on a live worker, and says what came of it.

use std::time::Duration;

use clap::Args;
use sluice::wire::pb;
use sluice_core::arbiter::REHEARSAL_MS_MAX;
use sluice_core::id::WorkloadName;
use tokio::time::sleep;

use crate::args::{Global, parse_span};
use crate::connect::{Arbiter, request};
use crate::failure::Failure;
use crate::output;
use crate::text::{safe, span};

/// Time between two looks at the drain.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Flags of `sluice rehearse`.
#[derive(Debug, Args)]
#[command(after_help = "\
All ranks are asked to save at once, as in a drain: through the worker client if there is one, else by
the declared save signal. A signal is never sent to a process without a handler for it. Whether a
complete checkpoint came about is seen from outside. A worker that goes on goes on; one that ends
after the save, or instead of it, is started again as after a drain.

What is learned is kept for this workload and for later ones that run the same command with as many
ranks and the same save signal: whether it saves, how long that takes, and whether it then ends.
Only a save signal that was seen to save is used in drains (or one declared --save-signal-proven).

Exit status: 0 it saved · 1 it did not, or could not be asked

Example:
  sluice rehearse train-x7k2p")]
pub(crate) struct RehearseArgs {
    /// The workload. It has to run.
    #[arg(value_name = "NAME")]
    name: WorkloadName,
    /// How long to wait for the checkpoint. Without it: the arbiter's default for drains.
    #[arg(long, value_name = "SPAN", value_parser = parse_deadline)]
    deadline: Option<Duration>,
}

fn parse_deadline(text: &str) -> Result<Duration, String> {
    let span = parse_span(text)?;
    if span > Duration::from_millis(REHEARSAL_MS_MAX) {
        return Err("expected at most 1h: nobody can have the devices while it is tried".to_owned());
    }
    Ok(span)
}

/// Runs `sluice rehearse`.
///
/// # Errors
/// It could not be tried, or the worker did not save.
pub(crate) async fn rehearse(global: &Global, args: RehearseArgs) -> Result<(), Failure> {
    let arbiter = Arbiter::connect(global).await?;
    let deadline_ms = args.deadline.map_or(0, |deadline| {
        u64::try_from(deadline.as_millis()).expect("the parser allows a week at most")
    });
    let message = pb::RehearseRequest { name: args.name.to_string(), deadline_ms };
    let mut admin = arbiter.admin();
    let call = admin.rehearse(request(message, arbiter.timeout()));
    let what = format!("could not rehearse {}", args.name);
    let id = arbiter.ask(&what, call).await?.drain_id;
    output::print(global.color, &format!("{} is asked to save ({})\n", args.name, safe(&id)))?;
    loop {
        if let Some(outcome) = outcome(&look(&arbiter, &id).await?) {
            return match outcome {
                Ok(text) => output::print(global.color, &format!("{} {text}\n", args.name)),
                Err(why) => Err(Failure::runtime(format!("{} {why}", args.name))
                    .hint(format!("sluice describe drain {}", safe(&id)))),
            };
        }
        sleep(LOOK_INTERVAL).await;
    }
}

async fn look(arbiter: &Arbiter, id: &str) -> Result<pb::Drain, Failure> {
    let mut after = String::new();
    loop {
        let message = pb::ListAllDrainsRequest { include_closed: true, after };
        let mut admin = arbiter.admin();
        let call = admin.list_drains(request(message, arbiter.timeout()));
        let page = arbiter.ask("could not look at the rehearsal", call).await?;
        if let Some(drain) = page.drains.into_iter().find(|d| d.id == id) {
            return Ok(drain);
        }
        if page.next.is_empty() {
            return Err(Failure::runtime(format!(
                "the arbiter does not know {} any more",
                safe(id)
            )));
        }
        after = page.next;
    }
}

/// What came of it, as the end of a sentence; `None` while that is open.
fn outcome(drain: &pb::Drain) -> Option<Result<String, String>> {
    let at = |state: pb::DrainState| drain.history.iter().rfind(|t| t.state() == state);
    let why = |t: &pb::DrainTransition| safe(&t.reason.clone().unwrap_or_default().message);
    let is_over = match drain.state() {
        pb::DrainState::Planned
        | pb::DrainState::Ordered
        | pb::DrainState::Armed
        | pb::DrainState::Saving
        | pb::DrainState::Durable
        | pb::DrainState::SaveFailed
        | pb::DrainState::Expired
        | pb::DrainState::Releasing => false,
        pb::DrainState::Unspecified
        | pb::DrainState::Freed
        | pb::DrainState::HandedOver
        | pb::DrainState::ResumePending
        | pb::DrainState::Resumed
        | pb::DrainState::Aborted
        | pb::DrainState::Refused
        | pb::DrainState::Lost
        | pb::DrainState::CompletedMeanwhile => true,
    };
    if !is_over {
        return None;
    }
    let restarted = at(pb::DrainState::Releasing).is_some();
    let then = match restarted {
        true if !drain.rehearsal => "was drained for a device of it that has begun to fail",
        true => "then ended; it starts again",
        false => "goes on",
    };
    if at(pb::DrainState::Durable).is_some() {
        let step = drain.saved.as_ref().map_or(0, |c| c.step);
        return Some(Ok(format!("saved step {step}{} and {then}", took(drain))));
    }
    let last = at(pb::DrainState::SaveFailed).or(drain.history.last());
    let why = last.map(why).unwrap_or_default();
    let then = if restarted { "; it ended and starts again" } else { "" };
    Some(Err(format!("did not save: {why}{then}")))
}

fn took(drain: &pb::Drain) -> String {
    let asked = drain.history.iter().rfind(|t| t.state() == pb::DrainState::Saving);
    let times = asked.and_then(|t| t.at).zip(drain.saved_at);
    let ms = |t: prost_types::Timestamp| {
        t.seconds.saturating_mul(1_000) + i64::from(t.nanos) / 1_000_000
    };
    let took_ms = times.map(|(from, to)| ms(to).saturating_sub(ms(from)));
    let took_ms = took_ms.and_then(|ms| u64::try_from(ms).ok());
    took_ms.map_or_else(String::new, |ms| format!(" {} after it was asked", span(ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(states: &[(pb::DrainState, i64, &str)]) -> pb::Drain {
        let transition =
            |(state, seconds, message): &(pb::DrainState, i64, &str)| pb::DrainTransition {
                at: Some(prost_types::Timestamp { seconds: *seconds, nanos: 0 }),
                state: (*state).into(),
                reason: Some(pb::Reason {
                    message: (*message).to_owned(),
                    ..pb::Reason::default()
                }),
            };
        pb::Drain {
            state: states.last().map_or(0, |(state, ..)| (*state).into()),
            history: states.iter().map(transition).collect(),
            saved: Some(pb::Checkpoint { step: 41, ..pb::Checkpoint::default() }),
            saved_at: Some(prost_types::Timestamp { seconds: 12, nanos: 500_000_000 }),
            rehearsal: true,
            ..pb::Drain::default()
        }
    }

    #[test]
    fn an_outcome_says_whether_it_saved_how_fast_and_what_then() {
        use pb::DrainState::{Aborted, Durable, Freed, Refused, Releasing, SaveFailed, Saving};
        let saving = (Saving, 10, "");
        assert_eq!(outcome(&drain(&[saving])), None);
        let saved = [saving, (Durable, 13, ""), (Aborted, 18, "")];
        let text = "saved step 41 2.5 s after it was asked and goes on";
        assert_eq!(outcome(&drain(&saved)), Some(Ok(text.to_owned())));
        let ended = [saving, (Durable, 13, ""), (Releasing, 13, ""), (Freed, 14, "")];
        let text = "saved step 41 2.5 s after it was asked and then ended; it starts again";
        assert_eq!(outcome(&drain(&ended)), Some(Ok(text.to_owned())));
        let failed = [saving, (SaveFailed, 13, "gone"), (Releasing, 13, ""), (Freed, 14, "")];
        let text = "did not save: gone; it ended and starts again";
        assert_eq!(outcome(&drain(&failed)), Some(Err(text.to_owned())));
        let refused = [(Refused, 11, "no handler")];
        assert_eq!(outcome(&drain(&refused)), Some(Err("did not save: no handler".to_owned())));
    }
}
