//! What must never be: checked after every tick, on the ground truth and not on what anyone believes.

use std::collections::BTreeMap;

use sluice_core::drain::DrainState;
use sluice_core::id::{DeviceId, NodeName};
use sluice_core::workload::Exit;

use crate::world::World;

/// A broken promise, in words.
pub(crate) type Violation = String;

/// Checks everything.
pub(crate) fn check(world: &World) -> Result<(), Violation> {
    no_device_is_held_twice(world)?;
    no_quota_is_exceeded(world)?;
    no_signal_comes_twice(world)?;
    nothing_is_released_early(world)?;
    no_rehearsal_ends_a_worker(world)?;
    what_lies_is_not_believed(world)?;
    epochs_never_go_back(world)
}

/// Live processes of two workloads never have the same device.
fn no_device_is_held_twice(world: &World) -> Result<(), Violation> {
    let mut held: BTreeMap<(&NodeName, &DeviceId), String> = BTreeMap::new();
    for (worker, node, devices) in world.live_workers() {
        for device in devices {
            if let Some(other) = held.insert((node, device), worker.to_string()) {
                return Err(format!("device {device} is held by {other} and by {worker}"));
            }
        }
    }
    Ok(())
}

/// Live processes never have more devices than all queues have quota: there is nobody else to borrow from.
fn no_quota_is_exceeded(world: &World) -> Result<(), Violation> {
    let held: usize = world.live_workers().iter().map(|(_, _, devices)| devices.len()).sum();
    let groups = world.config.queues.setup.queues.iter().flat_map(|queue| &queue.groups);
    let quotas = groups.flat_map(|group| &group.flavors).flat_map(|flavor| flavor.quotas.values());
    let quota: i64 = quotas.map(|quota| quota.nominal).sum();
    if i64::try_from(held).is_ok_and(|held| held <= quota) {
        return Ok(());
    }
    Err(format!("{held} devices are held; all queues have {quota}"))
}

/// At most one save signal and one SIGTERM to a process in one drain.
fn no_signal_comes_twice(world: &World) -> Result<(), Violation> {
    for (name, gang) in world.gangs.iter() {
        for (rank, process) in &gang.processes {
            if let Some((drain, count)) = process.save_signals.iter().find(|(_, count)| **count > 1)
            {
                return Err(format!("rank {rank} of {name} got {count} save signals in {drain}"));
            }
            if process.terms > 1 {
                return Err(format!("rank {rank} of {name} got {} times SIGTERM", process.terms));
            }
        }
    }
    Ok(())
}

/// A drain that waits for a checkpoint releases only when there is one, or when it says why not.
fn nothing_is_released_early(world: &World) -> Result<(), Violation> {
    for drain in world.stored_drains() {
        let states: Vec<DrainState> = drain.history.iter().map(|t| t.state).collect();
        if !states.contains(&DrainState::Releasing) {
            continue;
        }
        let excused =
            states.iter().any(|s| matches!(s, DrainState::Expired | DrainState::SaveFailed));
        if drain.plan.mode.waits_for_checkpoint()
            && !excused
            && !states.contains(&DrainState::Durable)
        {
            return Err(format!("{} released without a checkpoint and without a reason", drain.id));
        }
        if let Some(saved) = drain.saved.as_ref().filter(|_| states.contains(&DrainState::Durable))
            && !world.directory_has(&drain.victim, saved.step)
        {
            let (id, step) = (&drain.id, saved.step);
            return Err(format!("{id} counted step {step} as saved; it is not on disk"));
        }
    }
    Ok(())
}

/// A trial ends with the workers going on, unless one has ended or may do so by itself.
fn no_rehearsal_ends_a_worker(world: &World) -> Result<(), Violation> {
    for drain in world.stored_drains().filter(|d| d.is_rehearsal) {
        let released = drain.history.iter().any(|t| t.state == DrainState::Releasing);
        let may_end = drain.plan.save_signal.is_some_and(|s| s.exits_after_save);
        let gang = world.gangs.of_attempt(&drain.victim, drain.attempt);
        let processes = gang.into_iter().flat_map(|g| g.processes.values());
        let by_itself = |exit: Exit| exit != Exit::Signal(15);
        let someone_ended = processes.into_iter().any(|p| p.exit.is_some_and(by_itself));
        if released && !may_end && !someone_ended {
            return Err(format!("rehearsal {} has ended workers that went on", drain.id));
        }
    }
    Ok(())
}

/// What a worker claims is no checkpoint: only what is on disk is counted as saved, in any state.
fn what_lies_is_not_believed(world: &World) -> Result<(), Violation> {
    for drain in world.stored_drains() {
        for (rank, member) in &drain.members {
            let claimed = member.durable_step.filter(|s| !world.directory_has(&drain.victim, *s));
            if let Some(step) = claimed {
                let id = &drain.id;
                return Err(format!("{id}: step {step} of rank {rank} counts and is not on disk"));
            }
        }
    }
    Ok(())
}

fn epochs_never_go_back(world: &World) -> Result<(), Violation> {
    for node in world.nodes.values() {
        if let Some(agent) = &node.agent
            && agent.epoch() > world.epoch
        {
            return Err(format!(
                "node {} obeys epoch {} of {}",
                node.name,
                agent.epoch(),
                world.epoch
            ));
        }
    }
    Ok(())
}

/// Once faults have stopped everything ends well: every workload finishes and nothing stays reserved.
pub(crate) fn check_end(world: &World) -> Result<(), Violation> {
    for launcher in &world.launchers {
        if launcher.stage != crate::launcher::Stage::Done {
            let name = &launcher.spec.name;
            let reason =
                world.arbiter.as_ref().and_then(|a| a.workload(name)).map(|w| w.reason.to_string());
            return Err(format!(
                "rank {} of {name} is not done at the end: {:?}; {reason:?}",
                launcher.rank, launcher.stage
            ));
        }
    }
    let open = world.stored_drains().find(|d| d.state.is_open());
    open.map_or(Ok(()), |d| Err(format!("{} is still open at the end, in {}", d.id, d.state)))
}
