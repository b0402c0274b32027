//! `sluice status`: the nodes of this machine as their agents see them.
//!
//! It asks the agents' sockets and nobody else, so that it works with the arbiter down.

#[cfg(test)]
mod tests;

use clap::Args;
use serde::Serialize;
use sluice::wire::pb;
use sluice::wire::pb::node_client::NodeClient;

use crate::args::Global;
use crate::connect::{self, Agent, agent_channel, request, within};
use crate::describe::node_parts;
use crate::failure::Failure;
use crate::output::{self, Document, Format, Items};
use crate::paint::{bad, good, warn};
use crate::table::Sheet;
use crate::text::{NOTHING, age_or_dash, or_dash, safe, span};
use crate::view::node::NodeView;

/// Shows the nodes of this machine as their agents see them; works with the arbiter down.
#[derive(Debug, Args)]
#[command(after_help = "\
Every value has its age. What is not known is Unknown, never healthy.

Examples:
  sluice status
  sluice status -o json | jq '.items[].sensors[] | select(.error != null)'
  sluice status --agent-socket /run/sluice/gpu-7.sock")]
pub(crate) struct StatusArgs {
    /// How to print it.
    #[arg(long, short, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

/// How an agent is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct AgentView {
    /// Its version.
    pub(crate) version: String,
    /// Its process.
    pub(crate) pid: u32,
    /// For how long it has run.
    pub(crate) uptime_ms: u64,
    /// Its socket.
    pub(crate) socket: String,
    /// Address of the arbiter, as configured.
    pub(crate) arbiter: String,
    /// Whether it is connected to the arbiter.
    pub(crate) connected: bool,
    /// Time since the arbiter last acknowledged something; `null` if it never did.
    pub(crate) last_ack_age_ms: Option<u64>,
    /// Why it is not connected; empty when it is.
    pub(crate) disconnect_reason: String,
    /// Highest epoch it has obeyed.
    pub(crate) epoch: u64,
    /// How often it tells the arbiter that it is alive.
    pub(crate) heartbeat_interval_ms: u64,
    /// Reports sent since its start.
    pub(crate) reports_sent: u64,
}

/// One source of facts of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SensorView {
    /// Its name.
    pub(crate) name: String,
    /// Time since the last good sample; `null` before the first.
    pub(crate) age_ms: Option<u64>,
    /// How long a sample takes.
    pub(crate) sample_duration_us: u64,
    /// Why the last sample failed; `null` when it did not.
    pub(crate) error: Option<String>,
    /// Failed samples since the agent's start.
    pub(crate) errors: u64,
}

/// A drain in which a worker of the node takes part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct NodeDrainView {
    /// Its id.
    pub(crate) id: String,
    /// `<workload>/<attempt>/<rank>`.
    pub(crate) worker: String,
    /// How it is done.
    pub(crate) mode: String,
    /// Where this node stands: `prepared`, `committed`, `signalled`, ...
    pub(crate) stage: String,
    /// Time until its deadline.
    pub(crate) remaining_ms: Option<u64>,
    /// Epoch of its order.
    pub(crate) epoch: u64,
}

/// A node with its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct NodeStatusView {
    /// How the agent is doing.
    pub(crate) agent: AgentView,
    /// Its sources of facts.
    pub(crate) sensors: Vec<SensorView>,
    /// Drains here; `null` if the agent did not say.
    pub(crate) drains: Option<Vec<NodeDrainView>>,
    /// What it sees.
    pub(crate) node: NodeView,
}

/// Runs `sluice status`.
///
/// # Errors
/// No agent of this machine answers: exit status 69.
pub(crate) async fn status(global: &Global, args: StatusArgs) -> Result<(), Failure> {
    let (agents, errors) = connect::reports(global).await;
    if agents.is_empty() {
        return Err(nobody(&errors));
    }
    for error in &errors {
        eprintln!("sluice: {error}");
    }
    let mut items = Vec::new();
    for agent in &agents {
        items.push(NodeStatusView::of(agent, ask_drains(global, agent).await));
    }
    let document = Document::new("NodeStatusList", Items { items: items.iter().collect() });
    if let Some(text) = output::encode(args.output, &document)? {
        return output::write_stdout(text.as_bytes());
    }
    let texts: Vec<String> = items.iter().map(render).collect();
    output::print(global.color, &texts.join("\n"))
}

/// No agent answers: what was tried, and what to do.
pub(crate) fn nobody(errors: &[String]) -> Failure {
    let why = match errors {
        [] => "no socket was found".to_owned(),
        errors => errors.join("; "),
    };
    Failure::unreachable(format!("no agent of this machine answers: {why}")).hint(
        "start one with sluice up or sluice-agent, or name its socket with --agent-socket or its \
         state directory with --state-dir",
    )
}

async fn ask_drains(global: &Global, agent: &Agent) -> Option<Vec<NodeDrainView>> {
    let mut client = NodeClient::new(agent_channel(&agent.socket).await.ok()?);
    let call = client.list_drains(request(pb::ListDrainsRequest {}, global.timeout));
    let answer = within(global.timeout, call).await.ok()?;
    Some(answer.drains.iter().map(NodeDrainView::of).collect())
}

impl NodeStatusView {
    fn of(agent: &Agent, drains: Option<Vec<NodeDrainView>>) -> Self {
        let status = agent.answer.status.clone().unwrap_or_default();
        let mut node = NodeView::of_report(&agent.answer.report.clone().unwrap_or_default());
        node.agent_version = Some(status.version.clone());
        node.connected = status.connected;
        Self {
            sensors: status.sensors.iter().map(SensorView::of).collect(),
            agent: AgentView {
                version: status.version,
                pid: status.pid,
                uptime_ms: status.uptime_ms,
                socket: agent.socket.display().to_string(),
                arbiter: status.arbiter,
                connected: status.connected,
                last_ack_age_ms: status.last_ack_age_ms,
                disconnect_reason: status.disconnect_reason,
                epoch: status.epoch,
                heartbeat_interval_ms: status.heartbeat_interval_ms,
                reports_sent: status.reports_sent,
            },
            drains,
            node,
        }
    }
}

impl SensorView {
    fn of(sensor: &pb::SensorStatus) -> Self {
        Self {
            name: sensor.name.clone(),
            age_ms: sensor.age_ms,
            sample_duration_us: sensor.sample_duration_us,
            error: Some(sensor.error.clone()).filter(|e| !e.is_empty()),
            errors: sensor.errors,
        }
    }
}

impl NodeDrainView {
    fn of(drain: &pb::NodeDrain) -> Self {
        Self {
            id: drain.drain_id.clone(),
            worker: format!("{}/{}/{}", drain.workload, drain.attempt, drain.rank),
            mode: drain.mode.clone(),
            stage: drain.stage.clone(),
            remaining_ms: drain.remaining_ms,
            epoch: drain.epoch,
        }
    }
}

fn render(status: &NodeStatusView) -> String {
    let agent = &status.agent;
    let mut sheet = Sheet::new();
    let simulated = if status.node.simulated { " (simulated accelerators)" } else { "" };
    sheet.field("Node", format!("{}{simulated}", safe(&status.node.name)));
    let uptime = span(agent.uptime_ms);
    let version = safe(&agent.version);
    sheet.field("Agent", format!("version {version}, pid {}, up {uptime}", agent.pid));
    sheet.field("Socket", safe(&agent.socket));
    sheet.field("Arbiter", link(agent));
    let beat = span(agent.heartbeat_interval_ms);
    let sent = agent.reports_sent;
    sheet.field("Heartbeat", format!("every {beat}; {sent} reports sent; epoch {}", agent.epoch));

    let rows: Vec<Vec<String>> = status.sensors.iter().map(sensor).collect();
    let titles = ["NAME", "STATE", "AGE", "TAKES", "ERRORS", "LAST ERROR"];
    sheet.section("Sensors").table(&titles, &rows);
    node_parts(&mut sheet, &status.node);
    sheet.section("Drains");
    match &status.drains {
        None => sheet.lines("unknown: the agent did not say"),
        Some(drains) => {
            let rows: Vec<Vec<String>> = drains.iter().map(drain).collect();
            sheet.table(&["NAME", "WORKER", "MODE", "STAGE", "REMAINING", "EPOCH"], &rows)
        }
    };
    sheet.finish()
}

fn link(agent: &AgentView) -> String {
    let arbiter = or_dash(&agent.arbiter);
    let ack = match agent.last_ack_age_ms {
        Some(ms) => format!("last acknowledged {} ago", span(ms)),
        None => "never acknowledged anything".to_owned(),
    };
    if agent.connected {
        return format!("{arbiter}, {}, {ack}", good("connected"));
    }
    let why = or_dash(&agent.disconnect_reason);
    format!("{arbiter}, {}: {why}; {ack}", bad("not connected"))
}

fn sensor(sensor: &SensorView) -> Vec<String> {
    let state = match (&sensor.error, sensor.age_ms) {
        (Some(_), _) => bad("Failing"),
        (None, Some(_)) => good("Working"),
        (None, None) => warn("Unknown"),
    };
    vec![
        safe(&sensor.name),
        state,
        age_or_dash(sensor.age_ms),
        format!(
            "{}.{} ms",
            sensor.sample_duration_us / 1_000,
            sensor.sample_duration_us % 1_000 / 100
        ),
        sensor.errors.to_string(),
        or_dash(sensor.error.as_deref().unwrap_or_default()),
    ]
}

fn drain(drain: &NodeDrainView) -> Vec<String> {
    vec![
        safe(&drain.id),
        safe(&drain.worker),
        or_dash(&drain.mode),
        or_dash(&drain.stage),
        drain.remaining_ms.map_or_else(|| NOTHING.to_owned(), span),
        drain.epoch.to_string(),
    ]
}
