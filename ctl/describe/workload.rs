//! A workload in full.

use super::{checkpoint, reason, when, yes};
use crate::get::phase;
use crate::table::Sheet;
use crate::text::{or_dash, safe, span, span_or_unknown};
use crate::view::workload::{RankView, WorkloadView};

pub(super) fn sheet(workload: &WorkloadView) -> String {
    let mut sheet = Sheet::new();
    sheet.field("Name", safe(&workload.name));
    sheet.field("Queue", safe(&workload.queue)).field("Priority", workload.priority.to_string());
    sheet.field("Phase", phase(workload.phase));
    reason(&mut sheet, "Reason", &workload.reason);
    sheet.optional("Since", when(workload.phase_since));
    sheet.optional("Submitted", when(workload.submitted_at));
    sheet.optional("Running", when(workload.running_since));
    sheet.optional("Waited", workload.waited_ms.map(span));
    sheet.field("Start", format!("number {}", workload.attempt));
    let asked = workload.resources.iter().map(|(name, n)| format!("{n} {}", safe(name)));
    let asked: Vec<String> = asked.collect();
    let each = match workload.nnodes {
        1 => String::new(),
        ranks => format!(" for each of {ranks} ranks"),
    };
    sheet.field("Asks for", format!("{}{each}", or_dash(&asked.join(", "))));
    if !workload.ahead.is_empty() {
        let names = safe(&workload.ahead.join(", "));
        sheet.field("Ahead", format!("{}: {names}", workload.ahead_count));
    }
    sheet.optional("Last drain", workload.last_drain.as_deref().map(safe));
    let deadline = workload.drain_deadline_ms.map_or("the arbiter's default".to_owned(), span);
    sheet.field("Drain deadline", deadline);
    sheet.field("Command", or_dash(&workload.command.join(" ")));

    let rows: Vec<Vec<String>> = workload.ranks.iter().map(rank).collect();
    let titles = [
        "RANK",
        "NODE",
        "DEVICES",
        "FLAVOR",
        "STARTED",
        "EXIT",
        "LAUNCHER",
        "PRESENT",
        "MAY RUN ON",
    ];
    sheet.section("Ranks").table(&titles, &rows);
    checkpoints(&mut sheet, workload);
    sheet.finish()
}

fn rank(rank: &RankView) -> Vec<String> {
    vec![
        rank.rank.to_string(),
        or_dash(rank.node.as_deref().unwrap_or_default()),
        or_dash(&rank.devices.join(",")),
        or_dash(&flavors_of(rank)),
        yes(rank.started),
        or_dash(&rank.exit.map(crate::view::workload::ExitView::words).unwrap_or_default()),
        or_dash(&rank.launcher),
        yes(rank.attached),
        or_dash(&rank.nodes.join(",")),
    ]
}

/// The flavors that it was given, each once.
pub(crate) fn flavors_of(rank: &RankView) -> String {
    let mut flavors: Vec<&str> = rank.flavors.values().map(String::as_str).collect();
    flavors.sort_unstable();
    flavors.dedup();
    flavors.join(",")
}

fn checkpoints(sheet: &mut Sheet, workload: &WorkloadView) {
    sheet.section("Checkpoints");
    let dir = workload.checkpoint_dir.as_deref().map_or("not declared".to_owned(), safe);
    sheet.field("Directory", format!("{dir} (format {})", workload.checkpoint_format));
    let newest = workload.checkpoint.as_ref();
    let newest = newest.map(|c| checkpoint(c, workload.checkpoint_age_ms));
    sheet.field("Newest", newest.unwrap_or_else(|| "none seen complete".to_owned()));
    sheet.optional("Resumes from", workload.resume_step.map(|step| format!("step {step}")));
    let signal = match (workload.save_signal, workload.exits_after_save) {
        (None, _) => "none declared".to_owned(),
        (Some(signal), true) => format!("{signal}, then the worker ends"),
        (Some(signal), false) => signal.to_string(),
    };
    let unproven = workload.profile.signal_unproven;
    let unproven = if unproven { " (seen not to work: not used any more)" } else { "" };
    sheet.field("Save signal", format!("{signal}{unproven}"));
    let profile = &workload.profile;
    sheet.field("Step takes", span_or_unknown(profile.step_ms));
    sheet.field("Saved every", span_or_unknown(profile.save_interval_ms));
    sheet.field("Save takes", span_or_unknown(profile.save_ms));
    sheet.field("Restart takes", span_or_unknown(profile.restart_ms));
    sheet.field("Drains", format!("{} within the last hour", profile.drains));
}
