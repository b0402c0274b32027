//! What would be decided, by which rules, and what would have to change, as text.

use crate::table::Sheet;
use crate::text::{or_dash, safe};
use crate::view::explain::{DeciderView, ExplainView, FlavorView, QuotaView, RemedyView};
use crate::view::workload::WorkloadView;

/// The answer to a what-if question; nothing if none was asked.
pub(super) fn what_would_be(sheet: &mut Sheet, view: &ExplainView) {
    if view.what_if.is_empty() {
        return;
    }
    sheet.section("What if");
    sheet.field("Changed", safe(&view.what_if.join(", ")));
    let outcome = view.outcome.as_ref();
    sheet.optional("Then", outcome.map(|o| format!("{} [{}]", safe(&o.message), safe(&o.code))));
    sheet.optional("Decided by", view.decider.as_ref().map(decided_by));
}

/// What would help, quota and flavors; nothing where nothing is to be decided.
pub(super) fn decision(sheet: &mut Sheet, view: &ExplainView) {
    if view.outcome.is_none() {
        return;
    }
    if !view.remedies.is_empty() {
        let rows: Vec<Vec<String>> = view.remedies.iter().map(remedy).collect();
        sheet.section("What would have to change").table(&["DO", "THEN", "--what-if"], &rows);
    }
    if !view.quota.is_empty() {
        let rows: Vec<Vec<String>> = view.quota.iter().map(level).collect();
        let titles = [
            "OF",
            "FLAVOR",
            "RESOURCE",
            "NOMINAL",
            "MAY BORROW",
            "MAY LEND",
            "WITH ALL BELOW",
            "USED",
            "AVAILABLE",
        ];
        sheet.section("Quota").table(&titles, &rows);
    }
    if !view.flavors.is_empty() {
        let rows: Vec<Vec<String>> = view.flavors.iter().map(flavor).collect();
        sheet.section("Flavors").table(&["", "FLAVOR", "RANKS", "MODE", "WHY"], &rows);
    }
}

/// Who goes first; nothing if nobody does.
pub(super) fn ahead(sheet: &mut Sheet, workload: &WorkloadView) {
    if workload.ahead_count > 0 {
        let names = safe(&workload.ahead.join(", "));
        sheet.section("Ahead of it").lines(&format!("{}: {names}", workload.ahead_count));
    }
}

/// The rules in words.
pub(super) fn decided_by(decider: &DeciderView) -> String {
    let kueue = format!("Kueue's {}", safe(&decider.kueue));
    if decider.sluice.is_empty() {
        return kueue;
    }
    format!("{kueue}, and Sluice's {}", safe(&decider.sluice.join(", ")))
}

fn remedy(remedy: &RemedyView) -> Vec<String> {
    vec![
        safe(&remedy.reason.message),
        safe(&remedy.outcome.message),
        or_dash(&safe(&remedy.what_if.join(" "))),
    ]
}

fn level(level: &QuotaView) -> Vec<String> {
    let kind = if level.cohort { "cohort" } else { "queue" };
    let limit = |limit: Option<u64>, none: &str| limit.map_or(none.to_owned(), |l| l.to_string());
    vec![
        format!("{kind} {}", safe(&level.name)),
        safe(&level.flavor),
        safe(&level.resource),
        limit(level.nominal, "no limit"),
        limit(level.borrowing_limit, "no limit"),
        limit(level.lending_limit, "all"),
        limit(level.subtree, "no limit"),
        level.used.to_string(),
        limit(level.available, "no limit"),
    ]
}

fn flavor(tried: &FlavorView) -> Vec<String> {
    let why: Vec<String> = tried.reasons.iter().map(|reason| safe(&reason.message)).collect();
    vec![
        if tried.chosen { "*" } else { "" }.to_owned(),
        safe(&tried.flavor),
        tried.ranks.to_string(),
        safe(&tried.mode),
        why.join("; "),
    ]
}
