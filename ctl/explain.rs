//! `sluice explain`: why a workload waits, or was drained, what that cost, and what would have to change.

mod sections;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use clap::Args;
use jiff::Timestamp;
use sluice::wire::pb;
use sluice_core::arbiter::Change;
use sluice_core::id::WorkloadName;
use tonic::Code;

use crate::args::Global;
use crate::ask;
use crate::connect::{Arbiter, request};
use crate::describe::{alternatives, timeline};
use crate::failure::{EXIT_USAGE, Failure};
use crate::get::{phase, state};
use crate::output::{self, Document, Format};
use crate::paint::dim;
use crate::table::{Sheet, columns};
use crate::text::{NOTHING, age_or_dash, device_seconds, or_dash, safe, span};
use crate::view::drain::{AccountView, DrainView};
use crate::view::explain::{CandidateView, DecisionView, ExplainView};
use crate::view::workload::WorkloadView;

/// Most decisions that are shown to people; JSON has all that the arbiter sends.
const DECISIONS_SHOWN_MAX: usize = 20;

/// Says why a workload waits or was drained, what that cost, and what would have to change.
#[derive(Debug, Args)]
#[command(after_help = "\
Shown are: the reason, and the rules that decided; what would have to change, each tried before it is
shown; the quota of the queue and its cohorts; the flavors that were tried; which running workloads
could make room and what that would cost; who is ahead; each drain with the modes that were not taken
and their numbers; what was at risk, lost and saved, in seconds of one GPU; the decisions in order.

What could be different (--what-if, may be repeated; nothing is changed by asking):
  priority=N   nnodes=N   queue=NAME   resource:RESOURCE=N (per rank)   without=WORKLOAD
  topology=required=LEVEL | preferred=LEVEL | unconstrained | none
  quota:QUEUE/FLAVOR/RESOURCE=+N (or -N)   rule-off=RULE   rule-on=RULE

Examples:
  sluice explain train-x7k2p
  sluice explain train-x7k2p --what-if priority=30
  sluice explain train-x7k2p --what-if quota:research/a3/nvidia.com/gpu=+4 --what-if nnodes=2
  sluice explain train-x7k2p -o json | jq '.remedies[] | [.what_if, .outcome.code]'")]
pub(crate) struct ExplainArgs {
    /// The workload.
    name: WorkloadName,
    /// What could be different, such as priority=30; may be repeated.
    #[arg(long, value_name = "CHANGE", value_parser = parse_change)]
    what_if: Vec<Change>,
    /// How to print it.
    #[arg(long, short, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

fn parse_change(text: &str) -> Result<Change, String> {
    text.parse().map_err(|reason: sluice_core::reason::Reason| reason.to_string())
}

/// Runs `sluice explain`.
///
/// # Errors
/// The arbiter does not answer, or there is no such workload; exit status 64 for a what-if change that
/// names what there is not.
pub(crate) async fn explain(global: &Global, args: ExplainArgs) -> Result<(), Failure> {
    let arbiter = Arbiter::connect(global).await?;
    let mut admin = arbiter.admin();
    let what_if = args.what_if.iter().map(ToString::to_string).collect();
    let message = pb::ExplainRequest { name: args.name.to_string(), what_if };
    let is_bad_question = Cell::new(false);
    let call = async {
        let answer = admin.explain(request(message, arbiter.timeout())).await;
        answer.inspect_err(|status| is_bad_question.set(status.code() == Code::InvalidArgument))
    };
    let answer = arbiter.ask(&format!("could not explain {}", args.name), call).await;
    let answer = answer.map_err(|failure| {
        let exit = if is_bad_question.get() { EXIT_USAGE } else { failure.exit };
        Failure { exit, ..failure }
    })?;
    let queues = ask::queues(&arbiter).await?;
    let view = ExplainView::of(&answer, &queues, Timestamp::now());
    if let Some(text) = output::encode(args.output, &Document::new("Explanation", &view))? {
        return output::write_stdout(text.as_bytes());
    }
    output::print(global.color, &render(&view))
}

fn render(view: &ExplainView) -> String {
    let mut text = headline(&view.workload);
    let mut sheet = Sheet::new();
    sections::what_would_be(&mut sheet, view);
    let is_waiting = view.workload.phase == "Pending";
    sheet.section(if is_waiting { "Why it waits" } else { "Why" });
    why(&mut sheet, view);
    sections::decision(&mut sheet, view);
    if !view.candidates.is_empty() {
        let rows: Vec<Vec<String>> = view.candidates.iter().map(candidate).collect();
        let titles = ["", "WORKLOAD", "PRIORITY", "DEVICES", "AT RISK", "COST", "WHY"];
        let title = match &view.preemptor {
            Some(preemptor) => format!("Who could make room for {}", safe(preemptor)),
            None => "Who could make room".to_owned(),
        };
        sheet.section(&title).table(&titles, &rows);
        if let Some(ms) = view.candidates.iter().find_map(|c| c.assumed_restart_ms) {
            let note = format!(
                "~ a restart is in it, assumed to take {}: none was measured yet",
                span(ms)
            );
            sheet.lines(&note);
        }
    }
    sections::ahead(&mut sheet, &view.workload);
    for drain in &view.drains {
        sheet.section(&drain_headline(drain, &view.workload.name));
        drain_parts(&mut sheet, drain);
    }
    sheet.section("Decisions").lines(&decisions(&view.decisions));
    text.push_str(&sheet.finish());
    text
}

fn headline(workload: &WorkloadView) -> String {
    let since =
        workload.phase_since.map(|w| format!(" for {}", span(w.age_ms))).unwrap_or_default();
    let nodes = match workload.nodes().join(", ") {
        nodes if nodes.is_empty() => String::new(),
        nodes => format!(" on {}", safe(&nodes)),
    };
    format!(
        "Workload {} in queue {} with priority {}: {}{since}{nodes}\n\n",
        safe(&workload.name),
        safe(&workload.queue),
        workload.priority,
        phase(workload.phase)
    )
}

fn why(sheet: &mut Sheet, view: &ExplainView) {
    let workload = &view.workload;
    let reason = &workload.reason;
    sheet.field("Reason", format!("{} [{}]", safe(&reason.message), safe(&reason.code)));
    if !reason.hint.is_empty() {
        sheet.field("Hint", safe(&reason.hint));
    }
    let asked: Vec<String> = workload
        .resources
        .iter()
        .map(|(name, n)| format!("{} {}", n.saturating_mul(workload.nnodes.into()), safe(name)))
        .collect();
    sheet.field("Asks for", or_dash(&asked.join(", ")));
    let given = workload.ranks.first().map(crate::describe::flavors_of).filter(|f| !f.is_empty());
    sheet.optional("Flavor", given);
    let usage = view.queue.iter().filter(|_| view.quota.is_empty()).flat_map(|q| &q.usage);
    for usage in usage {
        if workload.resources.contains_key(&usage.resource) {
            let (used, resource) = (usage.used, safe(&usage.resource));
            let quota = match usage.nominal {
                Some(nominal) => format!("{used} of {nominal} {resource} are in use"),
                None => format!("{used} {resource} are in use; there is no limit"),
            };
            sheet.field("Quota", quota);
        }
    }
    let decider = view.decider.as_ref().filter(|_| view.what_if.is_empty());
    sheet.optional("Decided by", decider.map(sections::decided_by));
    sheet.optional("Waited", workload.waited_ms.map(span));
    sheet.optional("Resumes from", workload.resume_step.map(|step| format!("step {step}")));
    let missing = workload.nnodes.saturating_sub(u32::try_from(workload.ranks.len()).unwrap_or(0));
    if missing > 0 {
        sheet.field("Missing", format!("{missing} of {} ranks", workload.nnodes));
    }
}

fn candidate(candidate: &CandidateView) -> Vec<String> {
    let assumed = if candidate.assumed_restart_ms.is_some() { "~" } else { "" };
    vec![
        if candidate.chosen { "*" } else { "" }.to_owned(),
        safe(&candidate.workload),
        candidate.priority.to_string(),
        candidate.devices.to_string(),
        device_seconds(candidate.at_risk_device_ms),
        format!("{}{assumed}", device_seconds(candidate.cost_device_ms)),
        safe(&candidate.reason.message),
    ]
}

/// Whether this workload made room or got it.
fn drain_headline(drain: &DrainView, name: &str) -> String {
    let other = drain.beneficiary.as_deref().unwrap_or("nobody in particular");
    let role = if drain.victim == name {
        format!("it made room for {}", safe(other))
    } else {
        format!("{} made room for it", safe(&drain.victim))
    };
    let ago = drain.planned_at.map(|w| format!(", {} ago", span(w.age_ms))).unwrap_or_default();
    format!("Drain {}: {role}{ago}", safe(&drain.id))
}

fn drain_parts(sheet: &mut Sheet, drain: &DrainView) {
    let forced =
        if drain.forced { " (nothing that saves the work fitted the deadline)" } else { "" };
    sheet.field("State", format!("{} by {}{forced}", state(&drain.state), drain.mode));
    sheet.field("Cause", safe(&drain.cause.message));
    sheet.optional("Cost", drain.account.as_ref().map(cost));
    let saved = drain.saved.as_ref();
    sheet.optional("Saved", saved.map(|c| format!("step {} in {}", c.step, safe(&c.path))));
    sheet.lines("\n").lines(&alternatives(drain)).lines("\n").lines(&timeline(drain));
}

fn cost(account: &AccountView) -> String {
    let restart = account.restart_ms.map(|ms| format!("; the restart took {}", span(ms)));
    format!(
        "{} were at risk, {} lost, {} saved, {} idle{}",
        device_seconds(account.at_risk_device_ms),
        device_seconds(account.lost_device_ms),
        device_seconds(account.saved_device_ms),
        device_seconds(account.idle_device_ms),
        restart.unwrap_or_default()
    )
}

fn decisions(decisions: &[DecisionView]) -> String {
    let left_out = decisions.len().saturating_sub(DECISIONS_SHOWN_MAX);
    let rows: Vec<Vec<String>> = decisions[left_out..]
        .iter()
        .map(|d| {
            let place = d.drain.as_deref().or(d.node.as_deref()).map_or(NOTHING.to_owned(), safe);
            let why = format!("{} [{}]", safe(&d.reason.message), safe(&d.reason.code));
            vec![age_or_dash(d.at.map(|w| w.age_ms)), or_dash(&d.kind), place, why]
        })
        .collect();
    let mut text = String::new();
    if left_out > 0 {
        text.push_str(&dim(&format!("({left_out} older ones: -o json shows all)")));
        text.push('\n');
    }
    if rows.is_empty() {
        return "none".to_owned();
    }
    text + &columns(&["AGO", "KIND", "IN", "WHY"], &rows)
}
