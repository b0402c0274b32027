//! The figures of a simulation as people read them.

use sluice::simulate::{Figures, Group, Measured, Mode, Scenario, Summary};

use super::{By, Run};
use crate::paint::{bold, dim};
use crate::table::columns;
use crate::text::{NOTHING, count, safe, span};

/// How fast the engine decided in `run`.
pub(super) fn speed(run: &Run) -> String {
    let total = &run.summary.total;
    let decisions = total.admissions + total.preemptions;
    let cpu_ms = u64::try_from(run.cpu.as_millis()).unwrap_or(u64::MAX).max(1);
    let per_second = decisions.saturating_mul(1_000) / cpu_ms;
    format!(
        "{}: {} admissions and {} preemptions in {}.{:03} CPU-seconds, {} decisions per CPU-second",
        run.summary.mode.name(),
        total.admissions,
        total.preemptions,
        cpu_ms / 1_000,
        cpu_ms % 1_000,
        per_second
    )
}

/// All runs side by side, and one table of groups if it was asked for.
pub(super) fn table(scenario: &Scenario, runs: &[Run], by: Option<By>, is_wide: bool) -> String {
    let measured = &scenario.measured;
    let mut text = format!("{}\n\n", headline(scenario, runs));
    let mut titles = vec![""];
    titles.extend(runs.iter().map(|run| heading(run.summary.mode)));
    let rows = rows(measured).into_iter().map(|(name, show)| {
        let mut row = vec![name];
        row.extend(runs.iter().map(|run| show(&run.summary)));
        row
    });
    text.push_str(&columns(&titles, &rows.collect::<Vec<_>>()));
    text.push_str(&never_admitted(scenario, runs));
    if let Some(by) = by {
        text.push('\n');
        text.push_str(&groups(measured, runs, by, is_wide));
    }
    text
}

fn headline(scenario: &Scenario, runs: &[Run]) -> String {
    let policy = match scenario.policy {
        sluice::simulate::PolicyName::Sluice => "sluice",
        sluice::simulate::PolicyName::Compat => "compat",
    };
    let capacity = runs.first().map_or(0, |run| run.summary.capacity_millidevices);
    bold(&format!(
        "{} in {} on {} {}s, policy {policy}",
        count(scenario.jobs.len(), "workload"),
        count(scenario.setup.queues.len(), "queue"),
        decimal(capacity),
        scenario.measured.noun(),
    ))
}

fn heading(mode: Mode) -> &'static str {
    match mode {
        Mode::Kill => "KILL",
        Mode::Drain => "DRAIN",
    }
}

type Show = Box<dyn Fn(&Summary) -> String>;

/// The lines of the first table: a name, and what a run has there.
fn rows(measured: &Measured) -> Vec<(String, Show)> {
    let noun = measured.noun();
    let row = |name: &str, show: fn(&Summary) -> String| (name.to_owned(), Box::new(show) as Show);
    let hours = |name: &str, of: fn(&Figures) -> u64| {
        let show = move |summary: &Summary| device_hours(of(&summary.total));
        (format!("{name} ({noun}-hours)"), Box::new(show) as Show)
    };
    vec![
        row("finished", |s| format!("{} of {}", s.total.finished, s.total.workloads)),
        row("until the last ended", |s| span(s.makespan_ms)),
        row("utilisation", |s| percent(s.total.utilisation_permille)),
        row("useful work, of all capacity", |s| percent(s.total.useful_permille)),
        row("waiting, mean", |s| waited(&s.total, s.total.waiting.mean_ms)),
        row("waiting, 95 of 100 below", |s| waited(&s.total, s.total.waiting.p95_ms)),
        row("waiting, longest", |s| waited(&s.total, s.total.waiting.max_ms)),
        row("arrival to end, mean", |s| match s.total.finished {
            0 => NOTHING.to_owned(),
            _ => span(s.total.turnaround_mean_ms),
        }),
        row("preemptions", |s| s.total.preemptions.to_string()),
        hours("lost", |f| f.lost_device_ms),
        hours("  work done again", |f| f.lost_work_device_ms),
        hours("  starts after preemption", |f| f.restart_device_ms),
        hours("saving and leaving", |f| f.saving_device_ms),
        (format!("saved by draining ({noun}-hours)"), Box::new(saved)),
        row("fairness (Jain, 1 is even)", |s| decimal(s.fairness_permille)),
    ]
}

/// A waiting time; nothing where nobody was ever admitted.
fn waited(figures: &Figures, ms: u64) -> String {
    if figures.admissions == 0 { NOTHING.to_owned() } else { span(ms) }
}

fn saved(summary: &Summary) -> String {
    match summary.mode {
        Mode::Kill => NOTHING.to_owned(),
        Mode::Drain => device_hours(summary.total.saved_device_ms),
    }
}

fn never_admitted(scenario: &Scenario, runs: &[Run]) -> String {
    let mut lines = Vec::new();
    for run in runs {
        let summary = &run.summary;
        for (reason, number) in &summary.never_admitted {
            let names = summary.never_admitted_names.get(reason).map_or(&[][..], Vec::as_slice);
            let more = if *number > names.len() as u64 { ", …" } else { "" };
            let names = safe(&names.join(", "));
            let mode = summary.mode.name();
            lines.push(format!("{mode}: never admitted: {number} ({names}{more}): {reason}"));
        }
    }
    if !lines.is_empty() && scenario.setup.nodes.is_empty() {
        let help = "There are no nodes. Flavors with a topology need some: see \"nodes\" in docs/simulate.md, or --nodes.";
        lines.push(help.to_owned());
    }
    lines.iter().map(|line| format!("{}\n", dim(line))).collect()
}

fn groups(measured: &Measured, runs: &[Run], by: By, is_wide: bool) -> String {
    let noun = measured.noun().to_uppercase();
    let (useful, lost) = (format!("USEFUL {noun}-H"), format!("LOST {noun}-H"));
    let (saving, saved) = (format!("SAVING {noun}-H"), format!("SAVED {noun}-H"));
    let name = match by {
        By::Class => "CLASS",
        By::Queue => "QUEUE",
    };
    let mut titles = vec![
        name,
        "MODE",
        "FINISHED",
        "WAIT MEAN",
        "WAIT P95",
        "PREEMPTED",
        "USED %",
        &lost,
        &saved,
    ];
    if is_wide {
        titles.extend(["WAIT P50", "WAIT MAX", "ARRIVAL TO END", "ADMITTED", &useful, &saving]);
    }
    let of = |summary: &Summary| match by {
        By::Class => summary.classes.clone(),
        By::Queue => summary.queues.clone(),
    };
    let all: Vec<(Mode, Vec<Group>)> =
        runs.iter().map(|run| (run.summary.mode, of(&run.summary))).collect();
    let number = all.first().map_or(0, |(_, groups)| groups.len());
    let rows = (0..number).flat_map(|index| {
        all.iter().filter_map(move |(mode, groups)| Some(group(*mode, groups.get(index)?, is_wide)))
    });
    columns(&titles, &rows.collect::<Vec<_>>())
}

fn group(mode: Mode, group: &Group, is_wide: bool) -> Vec<String> {
    let figures = &group.figures;
    let mut row = vec![
        safe(&group.name),
        mode.name().to_owned(),
        format!("{}/{}", figures.finished, figures.workloads),
        waited(figures, figures.waiting.mean_ms),
        waited(figures, figures.waiting.p95_ms),
        figures.preemptions.to_string(),
        percent(figures.utilisation_permille),
        device_hours(figures.lost_device_ms),
        device_hours(figures.saved_device_ms),
    ];
    if is_wide {
        row.extend([
            waited(figures, figures.waiting.p50_ms),
            waited(figures, figures.waiting.max_ms),
            span(figures.turnaround_mean_ms),
            figures.admissions.to_string(),
            device_hours(figures.useful_device_ms),
            device_hours(figures.saving_device_ms),
        ]);
    }
    row
}

/// Device-milliseconds as hours with two places.
pub(super) fn device_hours(device_ms: u64) -> String {
    let hundredths = (u128::from(device_ms) + 18_000) / 36_000;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

fn percent(permille: u64) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}

/// Thousandths as a decimal, without places where there are none.
fn decimal(thousandths: u64) -> String {
    let text = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
