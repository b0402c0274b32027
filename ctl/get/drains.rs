//! Drains as lines.

use crate::paint::{bad, good, warn};
use crate::table::Column;
use crate::text::{NOTHING, age_or_dash, device_seconds, or_dash, safe, span};
use crate::view::drain::DrainView;

pub(super) const COLUMNS: &[Column] = &[
    Column::new("NAME"),
    Column::new("VICTIM"),
    Column::new("FOR"),
    Column::new("STATE"),
    Column::new("MODE"),
    Column::new("AT-RISK"),
    Column::new("LOST"),
    Column::new("SAVED"),
    Column::age("AGE"),
    Column::wide("STEP"),
    Column::wide("IDLE"),
    Column::wide("RESTART"),
    Column::wide("RANKS"),
    Column::wide("EPOCH"),
    Column::wide("CAUSE"),
];

pub(super) fn cells(drain: &DrainView) -> Vec<String> {
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
    let account = drain.account;
    vec![
        safe(&drain.id),
        safe(&drain.victim),
        or_dash(drain.beneficiary.as_deref().unwrap_or_default()),
        state(&drain.state),
        drain.mode.to_owned(),
        or_nothing(account.map(|a| device_seconds(a.at_risk_device_ms))),
        or_nothing(account.map(|a| device_seconds(a.lost_device_ms))),
        or_nothing(account.map(|a| device_seconds(a.saved_device_ms))),
        age_or_dash(drain.planned_at.map(|w| w.age_ms)),
        or_nothing(drain.saved.as_ref().map(|c| c.step.to_string())),
        or_nothing(account.map(|a| device_seconds(a.idle_device_ms))),
        or_nothing(account.and_then(|a| a.restart_ms).map(span)),
        drain.ranks.len().to_string(),
        drain.epoch.to_string(),
        or_dash(&drain.cause.message),
    ]
}

/// A drain's state with its colour.
pub(crate) fn state(word: &str) -> String {
    match word {
        "HANDED_OVER" | "RESUMED" | "COMPLETED_MEANWHILE" | "RESUME_PENDING" => good(word),
        "SAVE_FAILED" | "EXPIRED" | "LOST" | "UNKNOWN" => bad(word),
        "ABORTED" | "REFUSED" => warn(word),
        _ => word.to_owned(),
    }
}
