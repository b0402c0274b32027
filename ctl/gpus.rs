//! `sluice release-gpus` and `resume-gpus`: makes the agents of this machine let go of the GPUs' driver, and ask it again.

use std::time::Duration;

use clap::Args;
use sluice::wire::pb;
use sluice::wire::pb::node_client::NodeClient;
use tonic::Code;

use crate::args::{Global, parse_span};
use crate::connect::{agent_channel, request, sockets, within};
use crate::failure::Failure;
use crate::output;

/// Flags of `sluice release-gpus`.
#[derive(Debug, Args)]
#[command(after_help = "\
A driver cannot be replaced, nor a GPU reset, while anybody has it open; this is the agent's part of
it. Workers that use a GPU are not touched. Meanwhile the devices are Unknown and not offered.

Example:
  sluice release-gpus --at-most 30m && nvidia-smi --gpu-reset -i 3; sluice resume-gpus")]
pub(crate) struct ReleaseArgs {
    /// After this time the driver is asked again by itself: 24h at most.
    #[arg(long, default_value = "10m", value_name = "SPAN", value_parser = parse_span)]
    at_most: Duration,
}

/// Runs `sluice release-gpus`.
///
/// # Errors
/// No agent that asks a driver answers, or one cannot let go of it.
pub(crate) async fn release(global: &Global, args: ReleaseArgs) -> Result<(), Failure> {
    let timeout_ms = u64::try_from(args.at_most.as_millis()).unwrap_or(u64::MAX);
    let message = pb::ReleaseGpusRequest { timeout_ms };
    each(
        global,
        "could not release the GPUs' driver",
        "the GPUs' driver is released\n",
        |channel| {
            let question = request(message, global.timeout);
            async move {
                NodeClient::new(channel).release_gpus(question).await.map(|answer| answer.map(drop))
            }
        },
    )
    .await
}

/// Runs `sluice resume-gpus`.
///
/// # Errors
/// No agent that asks a driver answers.
pub(crate) async fn resume(global: &Global) -> Result<(), Failure> {
    each(global, "could not resume the GPUs", "the GPUs' driver is asked again\n", |channel| {
        let question = request(pb::ResumeGpusRequest {}, global.timeout);
        async move {
            NodeClient::new(channel).resume_gpus(question).await.map(|answer| answer.map(drop))
        }
    })
    .await
}

/// Does it with every agent of this machine; those that ask no driver do not count.
async fn each<F>(
    global: &Global,
    what: &str,
    done: &str,
    call: impl Fn(tonic::transport::Channel) -> F,
) -> Result<(), Failure>
where
    F: Future<Output = Result<tonic::Response<()>, tonic::Status>>,
{
    let mut last = Failure::unreachable(format!("{what}: no agent on this machine answers"))
        .hint("start one with sluice-agent, or name its socket with --agent-socket");
    let mut has_done = false;
    for socket in sockets(global) {
        let name = format!("the agent at \"{}\"", socket.display());
        let Ok(channel) = agent_channel(&socket).await else { continue };
        match within(global.timeout, call(channel)).await {
            Ok(()) => {
                output::print(global.color, &format!("{}: {done}", socket.display()))?;
                has_done = true;
            }
            Err(status) => {
                last = Failure::of_status(what, &name, &status);
                if status.code() != Code::FailedPrecondition {
                    return Err(last);
                }
            }
        }
    }
    if has_done { Ok(()) } else { Err(last) }
}
