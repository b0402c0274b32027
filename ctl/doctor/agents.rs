//! The agents of this machine.

use sluice::wire::pb;

use super::report::{Outcome, Report};
use crate::connect::Agent;
use crate::text::{safe, span};

const CATEGORY: &str = "agents of this machine";

/// A sensor that has said nothing for this long is stuck. Agents sample within seconds.
const SENSOR_AGE_MS_MAX: u64 = 60_000;
/// An arbiter that has acknowledged nothing for this long does not keep up. Some heartbeats are
/// half a minute apart in large fleets.
const ACK_AGE_MS_MAX: u64 = 120_000;

/// Checks the agents that answered, and notes those that did not.
pub(super) fn check(report: &mut Report, agents: &[Agent], errors: &[String]) {
    for error in errors {
        let hint = "restart it; if it has gone for good, remove its socket";
        report.check(CATEGORY, "every agent's socket answers", Outcome::failure(error, hint));
    }
    if agents.is_empty() && errors.is_empty() {
        let why = "no agent's socket was found";
        let hint = "on a node start sluice-agent (or sluice up), or name its socket with \
                    --agent-socket; on a desk this is fine";
        report.check(CATEGORY, "an agent runs here", Outcome::warning(why, hint));
    }
    for agent in agents {
        let node = safe(agent.node());
        report.check(CATEGORY, format!("the agent of {node} answers"), Outcome::Fine);
        let status = agent.answer.status.clone().unwrap_or_default();
        report.check(CATEGORY, format!("{node} is connected to the arbiter"), connection(&status));
        report.check(CATEGORY, format!("{node} has this program's version"), version(&status));
        report.check(CATEGORY, format!("all sensors of {node} work"), sensors(&status));
        let devices = agent.answer.report.as_ref().map(|r| r.devices.as_slice());
        let outcome = health(devices.unwrap_or_default());
        report.check(CATEGORY, format!("all accelerators of {node} are healthy"), outcome);
    }
}

pub(super) fn connection(status: &pb::AgentStatus) -> Outcome {
    let arbiter = safe(&status.arbiter);
    if !status.connected {
        let why = format!("not connected to {arbiter}: {}", status.disconnect_reason);
        let hint = "is the arbiter running, and is --arbiter of the agent right? Workers go on, \
                    nothing new is started";
        return Outcome::failure(why, hint);
    }
    match status.last_ack_age_ms {
        Some(age) if age <= ACK_AGE_MS_MAX => Outcome::Fine,
        Some(age) => {
            let why = format!("the arbiter has acknowledged nothing for {}", span(age));
            Outcome::warning(why, "is the arbiter overloaded?")
        }
        None => Outcome::warning("the arbiter has acknowledged nothing yet", "wait a moment"),
    }
}

fn version(status: &pb::AgentStatus) -> Outcome {
    let own = env!("CARGO_PKG_VERSION");
    if status.version == own {
        return Outcome::Fine;
    }
    let why = format!("the agent is {}, this program {own}", status.version);
    Outcome::warning(why, "update the older one")
}

pub(super) fn sensors(status: &pb::AgentStatus) -> Outcome {
    let mut troubles = Vec::new();
    for sensor in &status.sensors {
        let name = safe(&sensor.name);
        match (sensor.error.as_str(), sensor.age_ms) {
            ("", Some(age)) if age <= SENSOR_AGE_MS_MAX => {}
            ("", Some(age)) => troubles.push(format!("{name} is stuck since {}", span(age))),
            ("", None) => troubles.push(format!("{name} has not read anything yet")),
            (error, _) => troubles.push(format!("{name}: {}", safe(error))),
        }
    }
    if status.sensors.is_empty() {
        troubles.push("the agent reports no sensors".to_owned());
    }
    match troubles.is_empty() {
        true => Outcome::Fine,
        false => Outcome::warning(troubles.join("; "), "see sluice status"),
    }
}

pub(super) fn health(devices: &[pb::Device]) -> Outcome {
    if devices.is_empty() {
        let hint = "--simulate nvidia-l4=2 makes some up for a try";
        return Outcome::warning("no accelerators were found", hint);
    }
    let troubles: Vec<String> = devices
        .iter()
        .filter(|d| d.health() != pb::Health::Healthy)
        .map(|d| {
            let why = d.health_reason.as_ref().map(|r| safe(&r.message)).unwrap_or_default();
            let word = crate::view::node::health_word(d.health());
            format!("{} is {word}: {why}", safe(&d.id))
        })
        .collect();
    match troubles.is_empty() {
        true => Outcome::Fine,
        false => Outcome::warning(troubles.join("; "), "they are not offered to workloads"),
    }
}
