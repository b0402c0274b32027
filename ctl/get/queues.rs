//! Queues as lines: one for each resource of each flavor.

use crate::table::Column;
use crate::text::{NOTHING, or_dash, safe};
use crate::view::queue::{QueueView, UsageView};

pub(super) const COLUMNS: &[Column] = &[
    Column::new("NAME"),
    Column::new("COHORT"),
    Column::new("FLAVOR"),
    Column::new("RESOURCE"),
    Column::new("USED"),
    Column::new("NOMINAL"),
    Column::new("BORROW-LIMIT"),
    Column::new("PENDING"),
    Column::new("ADMITTED"),
    Column::wide("PREEMPTS"),
    Column::wide("LOCAL-QUEUES"),
];

pub(super) fn lines(queue: &QueueView) -> Vec<Vec<String>> {
    if queue.usage.is_empty() {
        return vec![line(queue, None)];
    }
    queue.usage.iter().map(|usage| line(queue, Some(usage))).collect()
}

fn line(queue: &QueueView, usage: Option<&UsageView>) -> Vec<String> {
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
    // Without a cohort there is nobody to borrow from.
    let limit = match (usage.and_then(|u| u.borrowing_limit), &queue.cohort) {
        (_, None) => NOTHING.to_owned(),
        (Some(limit), Some(_)) => limit.to_string(),
        (None, Some(_)) => "none".to_owned(),
    };
    vec![
        safe(&queue.name),
        or_dash(queue.cohort.as_deref().unwrap_or_default()),
        or_nothing(usage.map(|u| safe(&u.flavor))),
        or_nothing(usage.map(|u| safe(&u.resource))),
        or_nothing(usage.map(|u| u.used.to_string())),
        or_nothing(usage.map(UsageView::nominal_words)),
        limit,
        queue.pending.to_string(),
        queue.admitted.to_string(),
        if queue.preempts { "yes" } else { "no" }.to_owned(),
        or_dash(&queue.local_queues.join(",")),
    ]
}
