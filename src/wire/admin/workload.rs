//! Workloads.

use std::sync::Arc;

use sluice_core::checkpoint::CheckpointRules;
use sluice_core::kueue::workload::TopologyMode;
use sluice_core::unit::Time;
use sluice_core::workload::{
    Assignment, CheckpointSpec, Exit, Member, Phase, Profile, RANKS_MAX, RESOURCES_MAX,
    Reservation, SliceSpec, Workload, WorkloadSpec,
};

use super::slice;
use crate::wire::{WireError, checkpoint, drain, field, pb, reason};

/// Longest key of a node label: a prefix of 253 bytes, a slash, a name of 63.
const LABEL_KEY_BYTES_MAX: usize = 317;

impl From<Phase> for pb::Phase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Pending => Self::Pending,
            Phase::Admitted => Self::Admitted,
            Phase::Running => Self::Running,
            Phase::Draining => Self::Draining,
            Phase::Succeeded => Self::Succeeded,
            Phase::Failed => Self::Failed,
            Phase::Cancelled => Self::Cancelled,
        }
    }
}

/// A phase from its number.
///
/// # Errors
/// Where the number names no phase.
pub fn phase(value: i32) -> Result<Phase, WireError> {
    match pb::Phase::try_from(value) {
        Ok(pb::Phase::Pending) => Ok(Phase::Pending),
        Ok(pb::Phase::Admitted) => Ok(Phase::Admitted),
        Ok(pb::Phase::Running) => Ok(Phase::Running),
        Ok(pb::Phase::Draining) => Ok(Phase::Draining),
        Ok(pb::Phase::Succeeded) => Ok(Phase::Succeeded),
        Ok(pb::Phase::Failed) => Ok(Phase::Failed),
        Ok(pb::Phase::Cancelled) => Ok(Phase::Cancelled),
        Ok(pb::Phase::Unspecified) | Err(_) => {
            Err(WireError::new("phase", value, "PENDING (1) to CANCELLED (7)"))
        }
    }
}

impl From<&WorkloadSpec> for pb::WorkloadSpec {
    fn from(spec: &WorkloadSpec) -> Self {
        let (save_signal, exits_after_save) = drain::save_signal_fields(spec.save_signal);
        let format = spec.checkpoint.as_ref().map(|c| pb::CheckpointFormat::from(c.format));
        Self {
            name: spec.name.to_string(),
            queue: spec.queue.to_string(),
            priority: spec.priority,
            nnodes: spec.nnodes,
            resources: spec.resources.iter().map(|(name, n)| (name.to_string(), *n)).collect(),
            checkpoint_dir: spec.checkpoint.as_ref().map(|c| c.dir.clone()).unwrap_or_default(),
            checkpoint_format: format.unwrap_or_default().into(),
            save_signal,
            exits_after_save,
            drain_deadline_ms: spec.drain_deadline_ms,
            command: spec.command.clone(),
            topology: spec.topology.as_ref().map(Into::into),
            slice: spec.slice.as_deref().map(Into::into),
            checkpoint_rules: rules_out(spec.checkpoint.as_ref()),
            save_signal_proven: spec.is_signal_vouched,
            grace_ms: spec.grace_ms,
        }
    }
}

impl TryFrom<&pb::WorkloadSpec> for WorkloadSpec {
    type Error = WireError;

    fn try_from(spec: &pb::WorkloadSpec) -> Result<Self, WireError> {
        let nnodes = spec.nnodes;
        if !(1..=RANKS_MAX).contains(&nnodes) {
            return Err(WireError::new("nnodes", nnodes, format!("1 to {RANKS_MAX}")));
        }
        if spec.resources.len() > RESOURCES_MAX {
            let expected = format!("at most {RESOURCES_MAX} resources");
            return Err(WireError::new("resources", spec.resources.len(), expected));
        }
        let resource = |(name, quantity): (&String, &u64)| {
            Ok((field::name(&format!("resources[{name:?}]"), name)?, *quantity))
        };
        Ok(Self {
            name: field::name("name", &spec.name)?,
            queue: field::name("queue", &spec.queue)?,
            priority: spec.priority,
            nnodes,
            resources: spec.resources.iter().map(resource).collect::<Result<_, _>>()?,
            checkpoint: checkpoint_spec(spec)?,
            save_signal: drain::save_signal(spec.save_signal, spec.exits_after_save)?,
            is_signal_vouched: spec.save_signal_proven,
            grace_ms: spec.grace_ms,
            drain_deadline_ms: spec.drain_deadline_ms,
            command: spec.command.clone(),
            topology: spec.topology.as_ref().map(TopologyMode::try_from).transpose()?,
            slice: spec.slice.as_ref().map(SliceSpec::try_from).transpose()?.map(Box::new),
        })
    }
}

impl From<&TopologyMode> for pb::Topology {
    fn from(mode: &TopologyMode) -> Self {
        let (mode, level) = match mode {
            TopologyMode::Required(level) => (pb::TopologyMode::Required, level.clone()),
            TopologyMode::Preferred(level) => (pb::TopologyMode::Preferred, level.clone()),
            TopologyMode::Unconstrained => (pb::TopologyMode::Unconstrained, String::new()),
        };
        Self { mode: mode.into(), level }
    }
}

impl TryFrom<&pb::Topology> for TopologyMode {
    type Error = WireError;

    fn try_from(topology: &pb::Topology) -> Result<Self, WireError> {
        let level = || {
            let level = topology.level.clone();
            let is_key = (1..=LABEL_KEY_BYTES_MAX).contains(&level.len());
            let expected = format!("a node label key of 1 to {LABEL_KEY_BYTES_MAX} bytes");
            if is_key { Ok(level) } else { Err(WireError::new("topology.level", level, expected)) }
        };
        match topology.mode() {
            pb::TopologyMode::Required => level().map(Self::Required),
            pb::TopologyMode::Preferred => level().map(Self::Preferred),
            pb::TopologyMode::Unconstrained => Ok(Self::Unconstrained),
            pb::TopologyMode::Unspecified => Err(WireError::new(
                "topology.mode",
                topology.mode,
                "REQUIRED (1) to UNCONSTRAINED (3)",
            )),
        }
    }
}

fn checkpoint_spec(spec: &pb::WorkloadSpec) -> Result<Option<CheckpointSpec>, WireError> {
    let format = checkpoint::format(spec.checkpoint_format)?;
    let rules = checkpoint::rules(spec.checkpoint_rules.as_ref(), format)?;
    let dir = spec.checkpoint_dir.clone();
    Ok((!dir.is_empty()).then_some(CheckpointSpec { dir, format, rules }))
}

/// Absent where nothing was declared.
fn rules_out(spec: Option<&CheckpointSpec>) -> Option<pb::CheckpointRules> {
    let rules = spec.map(|spec| &spec.rules).filter(|rules| **rules != CheckpointRules::default());
    rules.map(Into::into)
}

impl From<&Assignment> for pb::Assignment {
    fn from(assignment: &Assignment) -> Self {
        Self {
            node: assignment.node.to_string(),
            devices: field::texts(&assignment.devices),
            flavors: assignment.flavors.clone(),
        }
    }
}

impl TryFrom<&pb::Assignment> for Assignment {
    type Error = WireError;

    fn try_from(assignment: &pb::Assignment) -> Result<Self, WireError> {
        Ok(Self {
            node: field::name("node", &assignment.node)?,
            devices: field::names("devices", &assignment.devices)?,
            flavors: assignment.flavors.clone(),
        })
    }
}

impl From<&Reservation> for pb::Reservation {
    fn from(reservation: &Reservation) -> Self {
        let rank = |(rank, assignment): (&u32, &Assignment)| pb::ReservedRank {
            rank: *rank,
            assignment: Some(assignment.into()),
        };
        Self {
            ranks: reservation.placement.iter().map(rank).collect(),
            drains: field::texts(&reservation.drains),
        }
    }
}

impl TryFrom<&pb::Reservation> for Reservation {
    type Error = WireError;

    fn try_from(reservation: &pb::Reservation) -> Result<Self, WireError> {
        let rank = |reserved: &pb::ReservedRank| {
            let assignment = field::required("ranks.assignment", reserved.assignment.as_ref())?;
            Ok((reserved.rank, assignment.try_into()?))
        };
        Ok(Self {
            placement: reservation.ranks.iter().map(rank).collect::<Result<_, _>>()?,
            drains: field::names("drains", &reservation.drains)?,
        })
    }
}

fn member_out(rank: u32, member: &Member) -> pb::Member {
    pb::Member {
        rank,
        launcher: member.launcher.to_string(),
        attached: member.detached_at.is_none(),
        nodes: field::texts(&*member.nodes),
        assignment: member.assignment.as_ref().map(Into::into),
        started: member.started,
        exit: member.exit.map(Into::into),
        detached_at: member.detached_at.map(field::timestamp),
        vanished_at: member.vanished_at.map(field::timestamp),
    }
}

fn member_in(member: &pb::Member) -> Result<(u32, Member), WireError> {
    let within = |error: WireError| error.within("assignment");
    let assignment = member.assignment.as_ref().map(Assignment::try_from).transpose();
    let value = Member {
        launcher: field::name("launcher", &member.launcher)?,
        nodes: Arc::new(field::names("nodes", &member.nodes)?),
        detached_at: field::optional_time("detached_at", member.detached_at.as_ref())?,
        assignment: assignment.map_err(within)?,
        started: member.started,
        exit: member.exit.as_ref().map(Exit::try_from).transpose()?,
        vanished_at: field::optional_time("vanished_at", member.vanished_at.as_ref())?,
    };
    Ok((member.rank, value))
}

impl From<&Profile> for pb::Profile {
    fn from(profile: &Profile) -> Self {
        Self {
            step_ms: profile.step_ms,
            save_interval_ms: profile.save_interval_ms,
            save_ms: profile.save_ms,
            restart_ms: profile.restart_ms,
            signal_unproven: profile.signal_unproven,
            signal_proven: profile.signal_proven,
            client_unproven: profile.client_unproven,
            exits_after_save: profile.exits_after_save,
            drains: u32::try_from(profile.drained_at.len()).unwrap_or(u32::MAX),
            drained_at: profile.drained_at.iter().copied().map(field::timestamp).collect(),
        }
    }
}

impl TryFrom<&pb::Profile> for Profile {
    type Error = WireError;

    fn try_from(profile: &pb::Profile) -> Result<Self, WireError> {
        let times = profile.drained_at.iter().map(|t| field::time("drained_at", t));
        Ok(Self {
            step_ms: profile.step_ms,
            save_interval_ms: profile.save_interval_ms,
            save_ms: profile.save_ms,
            restart_ms: profile.restart_ms,
            signal_unproven: profile.signal_unproven,
            signal_proven: profile.signal_proven,
            client_unproven: profile.client_unproven,
            exits_after_save: profile.exits_after_save,
            drained_at: times.collect::<Result<Vec<Time>, _>>()?,
        })
    }
}

impl From<&Workload> for pb::Workload {
    /// What depends on the moment of asking (`ahead`, `waited_ms`, `checkpoint_age_ms`) is left out.
    fn from(workload: &Workload) -> Self {
        Self {
            spec: Some((&workload.spec).into()),
            phase: pb::Phase::from(workload.phase).into(),
            reason: Some((&workload.reason).into()),
            attempt: workload.attempt,
            members: workload.members.iter().map(|(rank, m)| member_out(*rank, m)).collect(),
            submitted_at: Some(field::timestamp(workload.submitted_at)),
            phase_since: Some(field::timestamp(workload.phase_since)),
            checkpoint: workload.checkpoint.as_ref().map(Into::into),
            profile: Some((&workload.profile).into()),
            last_drain: field::optional_text(workload.last_drain.as_ref()),
            resume_step: workload.resume_step,
            reservation: workload.reservation.as_ref().map(Into::into),
            running_since: workload.running_since.map(field::timestamp),
            checkpoint_at: workload.checkpoint_at.map(field::timestamp),
            admitted_at: workload.admitted_at.map(field::timestamp),
            slices: workload.slices.iter().map(slice::place_out).collect(),
            ..Self::default()
        }
    }
}

impl TryFrom<&pb::Workload> for Workload {
    type Error = WireError;

    fn try_from(workload: &pb::Workload) -> Result<Self, WireError> {
        let spec = WorkloadSpec::try_from(field::required("spec", workload.spec.as_ref())?);
        let member = |(i, m)| member_in(m).map_err(|e| e.within(&format!("members[{i}]")));
        let members = workload.members.iter().enumerate().map(member);
        let profile = workload.profile.as_ref().map(Profile::try_from).transpose();
        let reservation = workload.reservation.as_ref().map(Reservation::try_from).transpose();
        Ok(Self {
            spec: spec.map_err(|error| error.within("spec"))?,
            phase: phase(workload.phase)?,
            reason: reason::required("reason", workload.reason.as_ref())?,
            attempt: workload.attempt,
            members: members.collect::<Result<_, _>>()?,
            submitted_at: field::required_time("submitted_at", workload.submitted_at.as_ref())?,
            phase_since: field::required_time("phase_since", workload.phase_since.as_ref())?,
            admitted_at: field::optional_time("admitted_at", workload.admitted_at.as_ref())?,
            running_since: field::optional_time("running_since", workload.running_since.as_ref())?,
            checkpoint: workload.checkpoint.as_ref().map(Into::into),
            checkpoint_at: field::optional_time("checkpoint_at", workload.checkpoint_at.as_ref())?,
            profile: profile.map_err(|error| error.within("profile"))?.unwrap_or_default(),
            last_drain: field::optional_name("last_drain", &workload.last_drain)?,
            resume_step: workload.resume_step,
            reservation: reservation.map_err(|error| error.within("reservation"))?,
            slices: workload.slices.iter().map(slice::place_in).collect::<Result<_, _>>()?,
        })
    }
}
