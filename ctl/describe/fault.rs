//! What is wrong with a device or a node, as text.

use crate::get::health;
use crate::table::Sheet;
use crate::text::{safe, span};
use crate::view::health::{FaultView, KernelLogView, NodeHealthView};

/// Faults as a section of its own, if there are any.
pub(super) fn table(sheet: &mut Sheet, title: &str, faults: &[FaultView]) {
    if faults.is_empty() {
        return;
    }
    let rows: Vec<Vec<String>> = faults.iter().map(line).collect();
    let titles = ["HEALTH", "TO BE DONE", "COUNT", "SINCE", "LAST", "SOURCE", "CODE", "WHAT"];
    sheet.section(title).table(&titles, &rows);
}

fn line(fault: &FaultView) -> Vec<String> {
    vec![
        health(fault.health),
        fault.action.to_owned(),
        fault.count.to_string(),
        span(fault.since_age_ms),
        span(fault.seen_age_ms),
        safe(&fault.source),
        safe(&fault.reason.code),
        safe(&fault.reason.message),
    ]
}

/// The node as a whole.
pub(super) fn node(sheet: &mut Sheet, node: &NodeHealthView) {
    if node.health != "Healthy" || node.action != "none" {
        sheet.section("Node");
        sheet.field("Health", health(node.health)).field("To be done", node.action);
    }
    table(sheet, "Faults of the node", &node.faults);
    if let Some(log) = &node.kernel_log {
        sheet.section("Kernel log").lines(&kernel_log(log));
    }
}

fn kernel_log(log: &KernelLogView) -> String {
    if let Some(problem) = &log.problem {
        return format!("not read: {}", safe(problem));
    }
    let KernelLogView { records, events, alike, unparsed, missed, foreign, problem: _ } = log;
    format!(
        "{records} records, {events} about devices (and {alike} alike), {unparsed} not understood, {missed} missed, \
         {foreign} not from the kernel"
    )
}
