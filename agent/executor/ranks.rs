//! Which processes of a worker a save signal is for.
//!
//! The registered process is often a launcher or a shell that does not catch the signal and would die of it, while the
//! trainers below it do. Those are the topmost processes with a handler: what they forked, such as data loaders, has
//! inherited the handler and not the work.

use std::collections::BTreeMap;

use sluice_core::id::WorkerId;
use sluice_core::sample::{ProcessSample, ProcessTableSample, SignalMasks};

use crate::signals::Target;

/// The processes below `main_pid` that are ranks: they have `LOCAL_RANK` and catch `signal`, and nobody between them
/// and `main_pid` does. Each is held, so that it cannot be mistaken for another.
pub(super) fn catching(
    table: Option<&ProcessTableSample>,
    worker: &WorkerId,
    main_pid: u32,
    signal: u32,
) -> Vec<Target> {
    let below = below(table, worker, main_pid);
    // A worker that is alone has none; where a launcher gives it out only its ranks have it.
    let is_given_out = below.values().any(|process| process.has_local_rank);
    let masks: BTreeMap<u32, (Target, SignalMasks)> = below
        .values()
        .filter(|process| process.has_local_rank || !is_given_out)
        .filter_map(|process| {
            // What it catches now, not when the table was made: handlers are installed late.
            let target = Target::open(process.key.pid, process.key.start_time_ticks).ok()?;
            let now = target.masks().ok()?;
            let masks =
                SignalMasks { caught: now.caught, ignored: now.ignored, blocked: now.blocked };
            Some((process.key.pid, (target, masks)))
        })
        .collect();
    let catches = |pid: u32| masks.get(&pid).is_some_and(|(_, masks)| masks.catches(signal));
    let topmost: Vec<u32> = masks
        .keys()
        .copied()
        .filter(|pid| catches(*pid) && !ancestors(&below, *pid).any(catches))
        .collect();
    masks.into_iter().filter(|(pid, _)| topmost.contains(pid)).map(|(_, (t, _))| t).collect()
}

/// Live processes of the worker other than the registered one, by pid.
fn below<'a>(
    table: Option<&'a ProcessTableSample>,
    worker: &WorkerId,
    main_pid: u32,
) -> BTreeMap<u32, &'a ProcessSample> {
    let marker = worker.to_string();
    let found = table.and_then(|table| table.workers.iter().find(|w| w.marker == marker));
    let processes = found.into_iter().flat_map(|w| &w.processes);
    processes.filter(|p| p.key.pid != main_pid).map(|p| (p.key.pid, p)).collect()
}

/// The parents of `pid` among `below`, nearest first. A table that was made while processes came and went may lead in
/// a circle: no more steps than processes.
fn ancestors<'a>(
    below: &'a BTreeMap<u32, &'a ProcessSample>,
    pid: u32,
) -> impl Iterator<Item = u32> + 'a {
    let parent = |pid: &u32| below.get(pid).map(|p| p.parent_pid).filter(|p| below.contains_key(p));
    std::iter::successors(parent(&pid), move |pid| parent(pid)).take(below.len())
}
