//! Fire drills: `sluice inject-fault` and `sluice clear-faults`, through an agent's socket.

use clap::{Args, Subcommand};
use sluice::wire::pb;
use sluice::wire::pb::inject_fault_request::Fault;
use sluice::wire::pb::node_client::NodeClient;
use tonic::transport::Channel;

use crate::args::Global;
use crate::connect::{self, agent_channel, request, within};
use crate::failure::Failure;
use crate::output;
use crate::status::nobody;
use crate::text::safe;

/// Flags of `sluice inject-fault`.
#[derive(Debug, Args)]
#[command(after_help = "\
The agent takes the message as if the kernel's log had it: the device is judged by it, and those who
work on it are drained if it says so. It has to be started with --allow-fault-injection; a device is
in order again after sluice clear-faults.

Examples:
  sluice inject-fault xid 79 --device sim-laptop-0
  sluice inject-fault xid 94 --device sim-laptop-1 --pid 4711
  sluice inject-fault recovery-action 1 --device sim-laptop-0      (0: nothing is to be done any more)")]
pub(crate) struct InjectFaultArgs {
    /// What happens.
    #[command(subcommand)]
    what: What,
}

/// What happens.
#[derive(Debug, Subcommand)]
enum What {
    /// The driver prints this message about the device.
    Xid {
        /// NVIDIA's number: 79, 94, ...
        code: u32,
        /// The device.
        #[arg(long, value_name = "ID")]
        device: String,
        /// The process that met it.
        #[arg(long, value_name = "PID")]
        pid: Option<u32>,
        /// The rest of the message.
        #[arg(long, default_value = "", value_name = "TEXT")]
        text: String,
    },
    /// The driver asks for something else than before.
    RecoveryAction {
        /// NVIDIA's number: 0 none, 1 reset, 2 reboot, 3 drain peers, 4 drain and reset.
        value: u32,
        /// The device.
        #[arg(long, value_name = "ID")]
        device: String,
    },
}

/// Flags of `sluice clear-faults`.
#[derive(Debug, Args)]
#[command(after_help = "\
What is still wrong comes back with the next look; what stood in the kernel's log does not.

Example:
  sluice clear-faults --device GPU-5fd4c08b-7a1c-4b1c-9d5f-3d9b4e0f2a11")]
pub(crate) struct ClearFaultsArgs {
    /// The device that somebody has seen to.
    #[arg(long, value_name = "ID")]
    device: String,
}

/// Runs `sluice inject-fault`.
///
/// # Errors
/// No agent of this machine has the device, or it refuses.
pub(crate) async fn inject_fault(global: &Global, args: InjectFaultArgs) -> Result<(), Failure> {
    let (device, message) = match args.what {
        What::Xid { code, device, pid, text } => {
            let fault = Some(Fault::Xid(code));
            (device.clone(), pb::InjectFaultRequest { device, fault, pid, text })
        }
        What::RecoveryAction { value, device } => {
            let fault = Some(Fault::RecoveryAction(value));
            (device.clone(), pb::InjectFaultRequest { device, fault, ..Default::default() })
        }
    };
    let (mut node, name) = owner(global, &device).await?;
    let call = node.inject_fault(request(message, global.timeout));
    let answer = within(global.timeout, call).await;
    let answer = answer.map_err(|s| Failure::of_status("inject a fault", &name, &s))?;
    output::print(global.color, &format!("{name} has read: {}\n", safe(&answer.record)))
}

/// Runs `sluice clear-faults`.
///
/// # Errors
/// No agent of this machine has the device.
pub(crate) async fn clear_faults(global: &Global, args: ClearFaultsArgs) -> Result<(), Failure> {
    let (mut node, name) = owner(global, &args.device).await?;
    let message = pb::ClearFaultsRequest { device: args.device.clone() };
    let call = node.clear_faults(request(message, global.timeout));
    let answer = within(global.timeout, call).await;
    let answer = answer.map_err(|s| Failure::of_status("clear faults", &name, &s))?;
    let (cleared, device) = (answer.cleared, safe(&args.device));
    output::print(global.color, &format!("{cleared} faults of {device} are forgotten\n"))
}

/// The agent of this machine that has the device.
async fn owner(global: &Global, device: &str) -> Result<(NodeClient<Channel>, String), Failure> {
    let (agents, errors) = connect::reports(global).await;
    if agents.is_empty() {
        return Err(nobody(&errors));
    }
    let has = |agent: &&connect::Agent| {
        let devices = agent.answer.report.iter().flat_map(|report| &report.devices);
        devices.into_iter().any(|known| known.id == device)
    };
    let Some(agent) = agents.iter().find(has) else {
        let message = format!("no agent of this machine has a device {:?}", safe(device));
        return Err(Failure::runtime(message).hint("sluice status shows the devices"));
    };
    let channel = agent_channel(&agent.socket).await.map_err(Failure::unreachable)?;
    Ok((NodeClient::new(channel), format!("the agent of {}", safe(agent.node()))))
}
