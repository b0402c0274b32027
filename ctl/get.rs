//! `sluice get`: lists of what the arbiter knows.

mod devices;
mod drains;
mod list;
mod nodes;
mod queues;
mod shared;
mod slices;
#[cfg(test)]
mod tests;
mod volumes;
mod watch;
mod workloads;

use std::time::Duration;

use clap::Args;

pub(crate) use devices::health;
pub(crate) use drains::state;
pub(crate) use list::{Item, Kind, fetch};
pub(crate) use nodes::connection;
pub(crate) use volumes::{limited_by, read_ahead};
pub(crate) use workloads::phase;

use crate::args::{Global, parse_span};
use crate::connect::Arbiter;
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::text::safe;

const EXAMPLES: &str = "\
Examples:
  sluice get workloads                 waiting and running ones; --all shows ended ones, too
  sluice get wl -w                     each change as it happens
  sluice get devices -o wide           who holds which accelerator
  sluice get volumes -o json | jq '.items[] | {device, read_ahead_bytes}'
  sluice get drains --all              what each drain lost and saved

Short names: no, dev, vol, q, wl, dr, sl. Nodes that are silent are Unknown, never healthy.
What a node sees by itself: sluice status.";

/// Lists nodes, devices, volumes, queues, workloads, drains or slices of TPUs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GetArgs {
    /// What to list.
    #[arg(value_enum)]
    kind: Kind,
    /// Only these; a name that does not exist is an error.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// How to print it.
    #[arg(long, short, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
    /// Prints what is there, then each change, until it is interrupted.
    #[arg(long, short)]
    watch: bool,
    /// How often --watch looks.
    #[arg(long, default_value = "1s", value_name = "SPAN", value_parser = parse_span, requires = "watch")]
    interval: Duration,
    /// Ended workloads, closed drains and volumes without any space, too.
    #[arg(long, short)]
    all: bool,
}

/// Runs `sluice get`.
///
/// # Errors
/// The arbiter does not answer, or there is nothing of that name.
pub(crate) async fn get(global: &Global, args: GetArgs) -> Result<(), Failure> {
    let arbiter = Arbiter::connect(global).await?;
    // A name asks for that thing, whether it has ended or not.
    let all = args.all || !args.names.is_empty();
    if args.watch {
        return watch::watch(global, arbiter, &args, all).await;
    }
    let mut listing = fetch(&arbiter, args.kind, all).await?;
    listing.keep(&args.names)?;
    if let Some(text) = output::encode(args.output, &listing.document())? {
        return output::write_stdout(text.as_bytes());
    }
    if listing.rows.is_empty() {
        let hint = if args.all { "" } else { listing.kind.empty_hint() };
        eprintln!("no {} found{hint}", listing.kind.word());
        return Ok(());
    }
    output::print(global.color, &listing.table(args.output == Format::Wide))
}

/// Name lookups fail the same way everywhere.
pub(crate) fn not_found(kind: Kind, name: &str) -> Failure {
    Failure::runtime(format!("there is no {} {:?}", kind.singular(), safe(name)))
        .hint(format!("sluice get {} --all lists them", kind.word()))
}
