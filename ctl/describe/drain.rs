//! A drain in full: what was chosen, what was not, what happened, what it cost.

use super::{checkpoint, reason, when, yes};
use crate::get::state;
use crate::table::Sheet;
use crate::text::{NOTHING, device_seconds, or_dash, safe, span};
use crate::view::drain::{AccountView, DrainRankView, DrainView};

pub(super) fn sheet(drain: &DrainView) -> String {
    let mut sheet = Sheet::new();
    sheet.field("Name", safe(&drain.id));
    sheet.field("Victim", format!("{} (start number {})", safe(&drain.victim), drain.attempt));
    sheet.field("For", or_dash(drain.beneficiary.as_deref().unwrap_or_default()));
    reason(&mut sheet, "Cause", &drain.cause);
    sheet.field("State", state(&drain.state));
    sheet.field("Mode", mode(drain));
    sheet.field("Deadline", span(drain.deadline_ms));
    sheet.optional("Planned", when(drain.planned_at));
    let baseline = drain.baseline_step.map(|step| format!("step {step}"));
    sheet.field("Had saved", baseline.unwrap_or_else(|| "nothing".to_owned()));
    sheet.optional("Resumes from", drain.saved.as_ref().map(|c| checkpoint(c, None)));
    sheet.field("Replans", drain.replans.to_string());
    sheet.field("Epoch", drain.epoch.to_string());
    if let Some(cost) = &drain.account {
        sheet.section("Cost (all devices together)");
        account(&mut sheet, cost);
    }
    sheet.section("Modes considered").lines(&alternatives(drain));
    let rows: Vec<Vec<String>> = drain.ranks.iter().map(rank).collect();
    let titles = [
        "RANK",
        "NODE",
        "DEVICES",
        "ARMED",
        "SIGNALLED",
        "SAVED STEP",
        "EXITED",
        "FREED",
        "KILLED",
    ];
    sheet.section("Ranks").table(&titles, &rows);
    sheet.section("Timeline").lines(&timeline(drain));
    sheet.finish()
}

/// The mode, and whether it was the only one left.
fn mode(drain: &DrainView) -> String {
    let forced =
        if drain.forced { " (nothing that saves the work fitted the deadline)" } else { "" };
    format!("{}{forced}", drain.mode)
}

fn account(sheet: &mut Sheet, account: &AccountView) {
    sheet.field("At risk", device_seconds(account.at_risk_device_ms));
    sheet.field("Lost", device_seconds(account.lost_device_ms));
    sheet.field("Saved", device_seconds(account.saved_device_ms));
    sheet.field("Idle", device_seconds(account.idle_device_ms));
    let restart = account.restart_ms.map_or("not resumed yet".to_owned(), span);
    sheet.field("Restart took", restart);
}

fn rank(rank: &DrainRankView) -> Vec<String> {
    vec![
        rank.rank.to_string(),
        safe(&rank.node),
        or_dash(&rank.devices.join(",")),
        yes(rank.armed),
        yes(rank.signalled),
        rank.durable_step.map_or_else(|| NOTHING.to_owned(), |step| step.to_string()),
        yes(rank.exited),
        yes(rank.freed),
        yes(rank.killed),
    ]
}

/// All modes with their numbers, and why each was chosen or not.
pub(crate) fn alternatives(drain: &DrainView) -> String {
    let rows: Vec<Vec<String>> = drain
        .alternatives
        .iter()
        .map(|a| {
            vec![
                if a.chosen { "*" } else { "" }.to_owned(),
                a.mode.to_owned(),
                a.delay_ms.map_or_else(|| NOTHING.to_owned(), span),
                device_seconds(a.loss_device_ms),
                safe(&a.reason.message),
            ]
        })
        .collect();
    crate::table::columns(&["", "MODE", "FREES IN", "LOSES", "WHY"], &rows)
}

/// Every change of state, with the time since the plan.
pub(crate) fn timeline(drain: &DrainView) -> String {
    let planned = drain.planned_at.map(|w| w.at);
    let rows: Vec<Vec<String>> = drain
        .history
        .iter()
        .map(|t| {
            let after = planned.zip(t.at).map(|(from, to)| crate::text::ms_between(from, to.at));
            vec![
                after.map_or_else(|| NOTHING.to_owned(), |ms| format!("+{}", span(ms))),
                state(&t.state),
                safe(&t.reason.message),
            ]
        })
        .collect();
    crate::table::columns(&["AFTER", "STATE", "WHY"], &rows)
}
