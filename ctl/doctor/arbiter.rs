//! The arbiter, its agents and its queues.

use sluice::wire::{PROTOCOL, pb};

use super::report::{Outcome, Report};
use crate::args::Global;
use crate::ask;
use crate::connect::Arbiter;
use crate::failure::Failure;
use crate::text::safe;

const CATEGORY: &str = "arbiter";

/// What the arbiter says.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    /// Of itself.
    pub(super) status: pb::GetStatusResponse,
    /// Its queues.
    pub(super) queues: Vec<pb::Queue>,
    /// Its nodes.
    pub(super) nodes: Vec<pb::NodeSummary>,
}

impl Facts {
    /// Asks for what is not in `status`.
    ///
    /// # Errors
    /// The arbiter has gone meanwhile.
    pub(super) async fn ask(
        global: &Global,
        status: pb::GetStatusResponse,
    ) -> Result<Self, Failure> {
        let arbiter = Arbiter::connect(global).await?;
        let queues = ask::queues(&arbiter).await?;
        let nodes = ask::nodes(&arbiter).await?;
        Ok(Self { status, queues, nodes })
    }
}

/// Notes that the arbiter does not answer.
pub(super) fn unreachable(report: &mut Report, failure: &Failure) {
    let outcome = Outcome::failure(&failure.message, &failure.hint);
    report.check(CATEGORY, "the arbiter answers", outcome);
}

/// Checks an arbiter that answers.
pub(super) fn check(report: &mut Report, facts: &Facts) {
    let status = &facts.status;
    report.check(CATEGORY, "the arbiter answers", Outcome::Fine);
    report.check(CATEGORY, "it speaks this program's protocol", protocol(status));
    report.check(CATEGORY, "it has this program's version", version(status));
    report.check(CATEGORY, "it makes decisions", frozen(status));
    report.check(CATEGORY, "its agents are connected", agents(facts));
    report.check(CATEGORY, "its queues make sense", queues(&facts.queues, &facts.nodes));
}

fn protocol(status: &pb::GetStatusResponse) -> Outcome {
    if status.protocol == PROTOCOL {
        return Outcome::Fine;
    }
    let why = format!("it speaks protocol {}, this program {PROTOCOL}", status.protocol);
    Outcome::failure(why, "install the same version everywhere")
}

fn version(status: &pb::GetStatusResponse) -> Outcome {
    let own = env!("CARGO_PKG_VERSION");
    if status.version == own {
        return Outcome::Fine;
    }
    let why = format!("the arbiter is {}, this program {own}", status.version);
    Outcome::warning(why, "update the older one")
}

fn frozen(status: &pb::GetStatusResponse) -> Outcome {
    match &status.frozen {
        None => Outcome::Fine,
        Some(reason) => Outcome::warning(&reason.message, &reason.hint),
    }
}

fn agents(facts: &Facts) -> Outcome {
    let (connected, known) = (facts.status.agents_connected, facts.status.agents_known);
    let silent: Vec<String> =
        facts.nodes.iter().filter(|n| !n.connected).take(8).map(|n| safe(&n.name)).collect();
    let hint = "start sluice-agent on the nodes with --arbiter set to this arbiter";
    match (connected, known) {
        (_, 0) => Outcome::failure("no agent has ever connected", hint),
        (0, _) => Outcome::failure(format!("none of {known} is connected"), hint),
        _ if connected < known => {
            let why =
                format!("{connected} of {known} are connected; silent: {}", silent.join(", "));
            Outcome::warning(why, "sluice get nodes; look at the agent there with sluice status")
        }
        _ => Outcome::Fine,
    }
}

/// Queues that can never let anything run, or that nobody's devices match.
pub(super) fn queues(queues: &[pb::Queue], nodes: &[pb::NodeSummary]) -> Outcome {
    if queues.is_empty() {
        let hint = "start the arbiter with --queues FILE, or without it for one queue \"default\"";
        return Outcome::failure("there are none: nothing can be submitted", hint);
    }
    let devices = nodes.iter().filter_map(|n| n.report.as_ref()).flat_map(|r| &r.devices);
    let mut offered: Vec<&str> = devices.map(|d| d.resource.as_str()).collect();
    offered.sort_unstable();
    offered.dedup();
    let mut troubles = Vec::new();
    for queue in queues {
        let name = safe(&queue.name);
        if queue.usage.is_empty() {
            troubles.push(format!("{name} has no quota for anything"));
        }
        for usage in &queue.usage {
            let resource = safe(&usage.resource);
            let may_borrow = !queue.cohort.is_empty() && usage.borrowing_limit != Some(0);
            if usage.nominal == 0 && !may_borrow {
                troubles.push(format!("{name} has a quota of 0 {resource} and cannot borrow"));
            }
            if !may_borrow && usage.used > usage.nominal {
                let (used, nominal) = (usage.used, usage.nominal);
                troubles.push(format!("{name} uses {used} of {nominal} {resource}"));
            }
        }
    }
    let covered =
        |resource: &&&str| queues.iter().any(|q| q.usage.iter().any(|u| u.resource == ***resource));
    for resource in offered.iter().filter(|r| !covered(r)) {
        troubles.push(format!("no queue has quota for {}, which nodes offer", safe(resource)));
    }
    match troubles.is_empty() {
        true => Outcome::Fine,
        false => {
            Outcome::warning(troubles.join("; "), "correct the queues file and restart the arbiter")
        }
    }
}
