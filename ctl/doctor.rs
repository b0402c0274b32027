//! `sluice doctor`: checks of the installation, each with what to do if it fails.

mod agents;
mod arbiter;
mod gpu;
mod machine;
mod report;
#[cfg(test)]
mod tests;

use clap::Args;

use report::{Report, ReportView};

use crate::args::Global;
use crate::connect;
use crate::control;
use crate::failure::{EXIT_FAILURE, Failure};
use crate::output::{self, Document, Format};

/// Checks the installation and says how to repair it.
#[derive(Debug, Args)]
#[command(after_help = "\
  √ fine   ‼ a warning   × a failure; a line below says why and what to do

Exit status: 1 if a check failed, 0 otherwise: warnings do not count.

Examples:
  sluice doctor
  sluice doctor -o json | jq '.categories[].checks[] | select(.result == \"failure\")'")]
pub(crate) struct DoctorArgs {
    /// How to print it.
    #[arg(long, short, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

/// Runs `sluice doctor`; the exit status to leave with.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) async fn doctor(global: &Global, args: DoctorArgs) -> Result<u8, Failure> {
    let mut report = Report::default();
    machine::check(&mut report, global);
    let (agents, errors) = connect::reports(global).await;
    agents::check(&mut report, &agents, &errors);
    let gpus = gpu::Facts::look(std::path::Path::new("/"));
    gpu::check(&mut report, &gpus);
    for agent in &agents {
        let told = agent.answer.report.clone().unwrap_or_default();
        gpu::check_agent(&mut report, agent.node(), &told, &gpus);
    }
    match control::status(global).await {
        Ok(status) => {
            let facts = arbiter::Facts::ask(global, status).await?;
            arbiter::check(&mut report, &facts);
        }
        Err(failure) => arbiter::unreachable(&mut report, &failure),
    }
    let exit = if report.has_failed() { EXIT_FAILURE } else { 0 };
    let view = ReportView::of(&report);
    match output::encode(args.output, &Document::new("DoctorReport", &view))? {
        Some(text) => output::write_stdout(text.as_bytes())?,
        None => output::print(global.color, &report.text())?,
    }
    Ok(exit)
}
