//! Judges what was observed: each promise with what it was judged by, and both acts side by side.
//!
//! Nothing here is assumed: steps and their times come from the trainer's log, states and accounts
//! from the arbiter's record.

use serde::Serialize;

use super::training::{Finish, Point};
use crate::paint;
use crate::table;
use crate::text::{device_seconds, span, span_or_unknown};
use crate::view::drain::DrainView;

/// The states of a drain that waits for a checkpoint and of one that does not.
const STATES_DRAINED: [&str; 10] = [
    "PLANNED",
    "ORDERED",
    "ARMED",
    "SAVING",
    "DURABLE",
    "RELEASING",
    "FREED",
    "HANDED_OVER",
    "RESUME_PENDING",
    "RESUMED",
];
const STATES_KILLED: [&str; 8] = [
    "PLANNED",
    "ORDERED",
    "ARMED",
    "RELEASING",
    "FREED",
    "HANDED_OVER",
    "RESUME_PENDING",
    "RESUMED",
];

/// Everything that was observed in one act.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ActRecord {
    pub(super) policy: &'static str,
    /// Accelerators of the gang.
    pub(super) devices: u64,
    /// Step that the trainer had done when serving was scaled up.
    pub(super) asked_at_step: u64,
    /// Last step before the gang ended.
    pub(super) last_step: Option<Point>,
    /// Step from which it went on; `None` from scratch.
    pub(super) resumed_from_step: Option<u64>,
    /// When that step's checkpoint was written; `None` if the first run did not write it.
    pub(super) resumed_from: Option<Point>,
    /// First step after the restart.
    pub(super) first_new_step: Option<Point>,
    /// From asking for the second server to its first answer. Unit: ms.
    pub(super) serving_wait_ms: u64,
    pub(super) serving_answer: String,
    pub(super) finish: Finish,
    /// Looks at who holds what.
    pub(super) samples: u64,
    /// Accelerators that two held at once.
    pub(super) held_twice: Vec<String>,
    /// Programs that did not end when they were asked to.
    pub(super) left_running: Vec<String>,
    /// The arbiter's record.
    pub(super) drain: DrainView,
}

impl ActRecord {
    /// Steps that had to be done twice.
    fn steps_lost(&self) -> u64 {
        let last = self.last_step.map_or(0, |p| p.step);
        last.saturating_sub(self.resumed_from_step.unwrap_or(0))
    }

    /// Time of the accelerators that went into those steps. `None` if the log does not tell.
    fn lost_device_ms(&self) -> Option<u64> {
        let (last, from) = (self.last_step?, self.resumed_from?);
        if last.step <= from.step {
            return Some(0);
        }
        Some(self.devices * last.unix_ms.saturating_sub(from.unix_ms))
    }

    /// From having accelerators again to the first new step. Unit: ms.
    fn restart_ms(&self) -> Option<u64> {
        let back = self.drain.history.iter().find(|t| t.state == "RESUME_PENDING")?.at?;
        let back_ms = u64::try_from(back.at.as_millisecond()).ok()?;
        Some(self.first_new_step?.unix_ms.saturating_sub(back_ms))
    }

    fn recorded_lost_device_ms(&self) -> Option<u64> {
        self.drain.account.map(|account| account.lost_device_ms)
    }

    fn states(&self) -> Vec<&str> {
        self.drain.history.iter().map(|t| t.state.as_str()).collect()
    }

    /// Whether the record shows exactly these states, none before the one that it follows.
    fn went_through(&self, states: &[&str]) -> bool {
        let times: Vec<_> = self.drain.history.iter().map(|t| t.at.map(|w| w.at)).collect();
        self.states() == states && times.iter().all(Option::is_some) && times.is_sorted()
    }
}

/// Everything that was observed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Evidence {
    pub(super) undisturbed: Finish,
    pub(super) drained: ActRecord,
    pub(super) killed: ActRecord,
    pub(super) elapsed_ms: u64,
}

/// Something that Sluice promises, judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Promise {
    pub(super) promise: &'static str,
    pub(super) kept: bool,
    /// By what it was judged.
    pub(super) observed: String,
}

/// Judges every promise.
pub(super) fn promises(evidence: &Evidence) -> Vec<Promise> {
    let Evidence { undisturbed, drained, killed, elapsed_ms: _ } = evidence;
    let acts = [drained, killed];
    let lost = acts.map(ActRecord::steps_lost);
    let judge = |promise, kept, observed: String| Promise { promise, kept, observed };
    let resumed = |act: &ActRecord| {
        act.resumed_from_step.is_some()
            && act.resumed_from_step == act.drain.saved.as_ref().map(|c| c.step)
    };
    let bits = |act: &ActRecord| act.finish.loss_bits == undisturbed.loss_bits;
    let held_twice: Vec<String> = acts.iter().flat_map(|a| a.held_twice.clone()).collect();
    let left_running: Vec<String> = acts.iter().flat_map(|a| a.left_running.clone()).collect();
    let samples: u64 = acts.iter().map(|a| a.samples).sum();
    vec![
        judge("the drained gang loses at most one step", lost[0] <= 1, format!("{} lost", lost[0])),
        judge(
            "ending a gang at once loses more",
            lost[1] > lost[0],
            format!("{} steps lost", lost[1]),
        ),
        judge(
            "training goes on from the saved step",
            acts.into_iter().all(resumed),
            both(acts.map(|act| {
                let saved = act.drain.saved.as_ref().map(|c| c.step);
                format!("{} of {}", step(act.resumed_from_step), step(saved))
            })),
        ),
        judge(
            "the final loss has the bits of the undisturbed run",
            acts.into_iter().all(bits),
            both(acts.map(|act| format!("{:#010x}", act.finish.loss_bits))),
        ),
        judge(
            "serving gets its devices and answers",
            acts.iter().all(|act| !act.serving_answer.is_empty()),
            both(acts.map(|act| format!("after {}", span(act.serving_wait_ms)))),
        ),
        judge(
            "no accelerator is held by two at once",
            held_twice.is_empty() && samples > 0,
            if held_twice.is_empty() { format!("{samples} looks") } else { held_twice.join(", ") },
        ),
        judge(
            "a drain goes through its states in order",
            drained.went_through(&STATES_DRAINED) && killed.went_through(&STATES_KILLED),
            both([states_seen(drained, &STATES_DRAINED), states_seen(killed, &STATES_KILLED)]),
        ),
        judge(
            "everything ends when it is asked to",
            left_running.is_empty(),
            if left_running.is_empty() {
                "nothing left".to_owned()
            } else {
                left_running.join(", ")
            },
        ),
    ]
}

/// How many states, or which if they are not the expected ones.
fn states_seen(act: &ActRecord, expected: &[&str]) -> String {
    if act.went_through(expected) {
        return format!("{} states to {}", expected.len(), expected[expected.len() - 1]);
    }
    act.states().join(" ")
}

fn both(values: [String; 2]) -> String {
    let [first, second] = values;
    if first == second { first } else { format!("{first}; {second}") }
}

fn step(step: Option<u64>) -> String {
    step.map_or("none".to_owned(), |step| step.to_string())
}

/// The table and the promises, for people.
pub(super) fn text(evidence: &Evidence, promises: &[Promise]) -> String {
    let acts = [&evidence.drained, &evidence.killed];
    let row = |name: &str, value: &dyn Fn(&ActRecord) -> String| {
        vec![name.to_owned(), value(acts[0]), value(acts[1])]
    };
    let work = |ms: Option<u64>| ms.map_or("unknown".to_owned(), device_seconds);
    let rows = [
        row("serving scaled up after step", &|a| a.asked_at_step.to_string()),
        row("how the gang was ended", &|a| a.drain.mode.to_owned()),
        row("last step before it ended", &|a| step(a.last_step.map(|p| p.step))),
        row("resumed from step", &|a| step(a.resumed_from_step)),
        row("steps lost", &|a| paint::bold(&a.steps_lost().to_string())),
        row("work lost, by the trainer's log", &|a| work(a.lost_device_ms())),
        row("work lost, by the arbiter's record", &|a| work(a.recorded_lost_device_ms())),
        row("serving waited, asked to first answer", &|a| span(a.serving_wait_ms)),
        row("restart, GPUs back to first new step", &|a| span_or_unknown(a.restart_ms())),
        row("final loss", &|a| format!("{:.6}", a.finish.loss)),
        row("same bits as undisturbed", &|a| {
            let same = a.finish.loss_bits == evidence.undisturbed.loss_bits;
            if same { paint::good("yes") } else { paint::bad("no") }
        }),
    ];
    let titles = ["", evidence.drained.policy, evidence.killed.policy];
    let mut text = format!("\n{}\n{}\n\n", table::columns(&titles, &rows), comparison(evidence));
    for promise in promises {
        let mark = if promise.kept { paint::good("kept  ") } else { paint::bad("BROKEN") };
        text.push_str(&format!("{mark}  {}: {}\n", promise.promise, promise.observed));
    }
    let seconds = evidence.elapsed_ms / 1_000;
    let broken = promises.iter().filter(|p| !p.kept).count();
    let kept = match broken {
        0 => "every promise was kept".to_owned(),
        broken => format!("{broken} of {} promises were broken", promises.len()),
    };
    text.push_str(&format!("\n{seconds} s, {kept}"));
    text
}

/// What draining was worth, in a sentence.
fn comparison(evidence: &Evidence) -> String {
    let Evidence { drained, killed, .. } = evidence;
    let steps = killed.steps_lost().saturating_sub(drained.steps_lost());
    let work = killed.lost_device_ms().zip(drained.lost_device_ms());
    let work = work.map(|(killed, drained)| killed.saturating_sub(drained));
    let work = work.map_or_else(String::new, |ms| format!(" ({})", device_seconds(ms)));
    let wait = match drained.serving_wait_ms.saturating_sub(killed.serving_wait_ms) {
        0 => "serving waited no longer for it".to_owned(),
        ms => format!("serving waited {} longer for it", span(ms)),
    };
    format!("Draining saved {}{work}; {wait}.", count(steps, "step"))
}

fn count(number: u64, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") }
}

/// The result for programs.
#[derive(Debug, Serialize)]
pub(super) struct Result {
    is_kept: bool,
    elapsed_ms: u64,
    undisturbed: Loss,
    acts: [ActView; 2],
    promises: Vec<Promise>,
}

#[derive(Debug, Serialize)]
struct Loss {
    steps: u64,
    loss: f32,
    loss_bits: u32,
}

#[derive(Debug, Serialize)]
struct ActView {
    policy: &'static str,
    devices: u64,
    asked_at_step: u64,
    last_step: Option<u64>,
    resumed_from_step: Option<u64>,
    steps_lost: u64,
    lost_device_ms: Option<u64>,
    serving_wait_ms: u64,
    serving_answer: String,
    restart_ms: Option<u64>,
    #[serde(rename = "final")]
    finish: Loss,
    samples: u64,
    held_twice: Vec<String>,
    drain: DrainView,
}

impl Result {
    /// As it is printed.
    pub(super) fn new(evidence: &Evidence, promises: Vec<Promise>) -> Self {
        Self {
            is_kept: promises.iter().all(|p| p.kept),
            elapsed_ms: evidence.elapsed_ms,
            undisturbed: Loss::of(evidence.undisturbed),
            acts: [&evidence.drained, &evidence.killed].map(ActView::of),
            promises,
        }
    }
}

impl Loss {
    fn of(finish: Finish) -> Self {
        Self { steps: finish.step, loss: finish.loss, loss_bits: finish.loss_bits }
    }
}

impl ActView {
    fn of(act: &ActRecord) -> Self {
        Self {
            policy: act.policy,
            devices: act.devices,
            asked_at_step: act.asked_at_step,
            last_step: act.last_step.map(|p| p.step),
            resumed_from_step: act.resumed_from_step,
            steps_lost: act.steps_lost(),
            lost_device_ms: act.lost_device_ms(),
            serving_wait_ms: act.serving_wait_ms,
            serving_answer: act.serving_answer.clone(),
            restart_ms: act.restart_ms(),
            finish: Loss::of(act.finish),
            samples: act.samples,
            held_twice: act.held_twice.clone(),
            drain: act.drain.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
