//! Explain: everything about one workload at one moment.

use sluice::wire::admin::add_explanation;
use sluice::wire::error::refusal;
use sluice::wire::pb;
use sluice_core::arbiter::Change;
use sluice_core::id::WorkloadName;
use sluice_core::workload::Phase;
use tonic::Status;

use super::no_such;
use crate::run::View;
use crate::view;

/// Most drains told by one Explain.
const DRAINS_MAX: usize = 16;
/// Most candidates told by one Explain.
const CANDIDATES_MAX: usize = 64;

/// The answer, decisions aside.
pub(super) fn answer(
    view: &View<'_>,
    name: &WorkloadName,
    changes: &[Change],
) -> Result<pb::ExplainResponse, Status> {
    let arbiter = view.arbiter;
    let workload = arbiter.workload(name).ok_or_else(|| no_such(name))?;
    let explained = arbiter.explain(name, changes).map_err(|reason| refusal(&reason))?;
    let preemptor = arbiter.makes_room_for(name);
    let candidates = match (&explained, preemptor) {
        (Some(explained), _) => explained.candidates.clone(),
        (None, Some(preemptor)) => arbiter.candidates(preemptor),
        // One that waits and is not ready is told, too, who could make room.
        (None, None) if workload.phase == Phase::Pending => arbiter.candidates(name),
        (None, None) => Vec::new(),
    };
    let mut answer = pb::ExplainResponse {
        workload: Some(view::workload(view, workload)),
        drains: drains(view, name),
        candidates: candidates.iter().take(CANDIDATES_MAX).map(view::candidate).collect(),
        what_if: changes.iter().map(ToString::to_string).collect(),
        preemptor: preemptor.map(ToString::to_string).unwrap_or_default(),
        ..pb::ExplainResponse::default()
    };
    if let Some(explained) = &explained {
        add_explanation(&mut answer, explained);
    }
    Ok(answer)
}

/// The newest drains of it and for it.
fn drains(view: &View<'_>, name: &WorkloadName) -> Vec<pb::Drain> {
    let concerns = |drain: &&sluice_core::drain::Drain| {
        drain.victim == *name || drain.beneficiary.as_ref() == Some(name)
    };
    let mut drains: Vec<_> = view.arbiter.drains().values().filter(concerns).collect();
    drains.sort_by_key(|drain| drain.planned_at);
    let skipped = drains.len().saturating_sub(DRAINS_MAX);
    drains.into_iter().skip(skipped).map(Into::into).collect()
}
