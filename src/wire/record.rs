//! The flight recorder's messages: inputs of the arbiter, and the state that a record starts from.

mod state;

pub use state::{faults_in, faults_out};

use sluice_core::arbiter::Input;
use sluice_core::id::{LauncherId, WorkerId, WorkloadName};
use sluice_core::protocol::{DrainEvent, NodeReport};
use sluice_core::unit::Time;
use sluice_core::workload::{Exit, WorkloadSpec};

use super::pb::record_step::Input as Recorded;
use super::{WireError, field, pb};

/// A step, without what came of it.
#[must_use]
pub fn step(at: Time, input: &Input) -> pb::RecordStep {
    pb::RecordStep {
        at: Some(field::timestamp(at)),
        input: Some(input_out(input)),
        ..pb::RecordStep::default()
    }
}

/// When a step was taken, and its input.
///
/// # Errors
/// At the first field that cannot be used.
pub fn step_in(step: &pb::RecordStep) -> Result<(Time, Input), WireError> {
    let at = field::required_time("at", step.at.as_ref())?;
    let input = field::required("input", step.input.as_ref())?;
    Ok((at, input_in(input)?))
}

fn seat_out(workload: &WorkloadName, rank: u32, launcher: &LauncherId) -> pb::RecordSeat {
    pb::RecordSeat { workload: workload.to_string(), rank, launcher: launcher.to_string() }
}

fn seat_in(seat: &pb::RecordSeat) -> Result<(WorkloadName, u32, LauncherId), WireError> {
    let workload = field::name("workload", &seat.workload)?;
    Ok((workload, seat.rank, field::name("launcher", &seat.launcher)?))
}

fn exit_out(worker: &WorkerId, launcher: &LauncherId, exit: Exit) -> pb::ReportExitRequest {
    pb::ReportExitRequest {
        workload: worker.workload.to_string(),
        attempt: worker.attempt,
        rank: worker.rank,
        launcher: launcher.to_string(),
        exit: Some(exit.into()),
    }
}

fn input_out(input: &Input) -> Recorded {
    match input {
        Input::Submit { spec, rank, launcher, nodes } => Recorded::Submit(pb::SubmitRequest {
            spec: Some(spec.into()),
            rank: *rank,
            launcher: launcher.to_string(),
            nodes: field::texts(nodes),
        }),
        Input::Attach { workload, rank, launcher } => {
            Recorded::Attach(seat_out(workload, *rank, launcher))
        }
        Input::Detach { workload, rank, launcher } => {
            Recorded::Detach(seat_out(workload, *rank, launcher))
        }
        Input::ReportExit { worker, launcher, exit } => {
            Recorded::ReportExit(exit_out(worker, launcher, *exit))
        }
        Input::Cancel { workload } => {
            Recorded::Cancel(pb::CancelWorkloadRequest { name: workload.to_string() })
        }
        Input::Freeze { why } => Recorded::Freeze(pb::FreezeRequest { why: why.clone() }),
        Input::Unfreeze => Recorded::Unfreeze(pb::UnfreezeRequest {}),
        Input::Rehearse { workload, deadline_ms } => Recorded::Rehearse(pb::RehearseRequest {
            name: workload.to_string(),
            deadline_ms: *deadline_ms,
        }),
        Input::AgentConnected { node } => {
            Recorded::AgentConnected(pb::RecordAgent { node: node.to_string() })
        }
        Input::AgentDisconnected { node } => {
            Recorded::AgentDisconnected(pb::RecordAgent { node: node.to_string() })
        }
        Input::NodeReport { node, report } => Recorded::NodeReport(pb::RecordReport {
            node: node.to_string(),
            report: Some(report.into()),
        }),
        Input::DrainEvent { node, event } => Recorded::DrainEvent(pb::RecordDrainEvent {
            node: node.to_string(),
            event: Some(event.into()),
        }),
        Input::Tick => Recorded::Tick(pb::RecordTick {}),
    }
}

fn input_in(input: &Recorded) -> Result<Input, WireError> {
    Ok(match input {
        Recorded::Submit(submit) => Input::Submit {
            spec: WorkloadSpec::try_from(field::required("spec", submit.spec.as_ref())?)?,
            rank: submit.rank,
            launcher: field::name("launcher", &submit.launcher)?,
            nodes: field::names("nodes", &submit.nodes)?,
        },
        Recorded::Attach(seat) => {
            let (workload, rank, launcher) = seat_in(seat)?;
            Input::Attach { workload, rank, launcher }
        }
        Recorded::Detach(seat) => {
            let (workload, rank, launcher) = seat_in(seat)?;
            Input::Detach { workload, rank, launcher }
        }
        Recorded::ReportExit(report) => Input::ReportExit {
            worker: field::worker_id(&report.workload, report.attempt, report.rank)?,
            launcher: field::name("launcher", &report.launcher)?,
            exit: Exit::try_from(field::required("exit", report.exit.as_ref())?)?,
        },
        Recorded::Cancel(cancel) => Input::Cancel { workload: field::name("name", &cancel.name)? },
        Recorded::Freeze(freeze) => Input::Freeze { why: freeze.why.clone() },
        Recorded::Unfreeze(pb::UnfreezeRequest {}) => Input::Unfreeze,
        Recorded::Rehearse(rehearse) => Input::Rehearse {
            workload: field::name("name", &rehearse.name)?,
            deadline_ms: rehearse.deadline_ms,
        },
        Recorded::AgentConnected(agent) => {
            Input::AgentConnected { node: field::name("node", &agent.node)? }
        }
        Recorded::AgentDisconnected(agent) => {
            Input::AgentDisconnected { node: field::name("node", &agent.node)? }
        }
        Recorded::NodeReport(report) => Input::NodeReport {
            node: field::name("node", &report.node)?,
            report: NodeReport::try_from(field::required("report", report.report.as_ref())?)?,
        },
        Recorded::DrainEvent(event) => Input::DrainEvent {
            node: field::name("node", &event.node)?,
            event: DrainEvent::try_from(field::required("event", event.event.as_ref())?)?,
        },
        Recorded::Tick(pb::RecordTick {}) => Input::Tick,
    })
}
