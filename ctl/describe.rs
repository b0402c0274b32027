//! `sluice describe`: everything about one thing.

mod drain;
mod fault;
mod machine;
#[cfg(test)]
mod tests;
mod volume;
mod workload;

use clap::Args;

pub(crate) use drain::{alternatives, timeline};
pub(crate) use machine::node_parts;
pub(crate) use workload::flavors_of;

use crate::args::Global;
use crate::connect::Arbiter;
use crate::failure::Failure;
use crate::get::{Item, Kind, fetch};
use crate::output::{self, Document, Format};
use crate::table::Sheet;
use crate::text::{safe, span};
use crate::view::slice::SliceView;
use crate::view::{CheckpointView, ReasonView, When};

/// Shows everything about one node, device, volume, queue, workload, drain or slice.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluice describe workload train-x7k2p
  sluice describe drain drain-3
  sluice describe node gpu-7 -o yaml
  sluice describe volume gpu-7/nvme0n1      (a name that several nodes have needs its node)")]
pub(crate) struct DescribeArgs {
    /// What kind of thing.
    #[arg(value_enum)]
    kind: Kind,
    /// Its name.
    name: String,
    /// How to print it.
    #[arg(long, short, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

/// Runs `sluice describe`.
///
/// # Errors
/// The arbiter does not answer, or there is no such thing, or several.
pub(crate) async fn describe(global: &Global, args: DescribeArgs) -> Result<(), Failure> {
    let arbiter = Arbiter::connect(global).await?;
    let mut listing = fetch(&arbiter, args.kind, true).await?;
    listing.keep(std::slice::from_ref(&args.name))?;
    if listing.rows.len() > 1 {
        let (kind, name) = (args.kind.singular(), safe(&args.name));
        let message = format!("there are {} {}s {name:?}", listing.rows.len(), kind);
        return Err(Failure::runtime(message).hint(format!("name one as <node>/{name}")));
    }
    let row = listing.rows.pop().expect("keep() leaves what it has found");
    let document = Document::new(args.kind.kinds().0, &row.item);
    if let Some(text) = output::encode(args.output, &document)? {
        return output::write_stdout(text.as_bytes());
    }
    output::print(global.color, &sheet(&row.item))
}

/// One thing as text.
fn sheet(item: &Item) -> String {
    match item {
        Item::Node(node) => machine::node(node),
        Item::Device(device) => machine::device(device),
        Item::Volume(volume) => machine::volume(volume),
        Item::Queue(queue) => machine::queue(queue),
        Item::Workload(workload) => workload::sheet(workload),
        Item::Drain(drain) => drain::sheet(drain),
        Item::Slice(slice) => slice_sheet(slice),
    }
}

fn slice_sheet(slice: &SliceView) -> String {
    let mut sheet = Sheet::new();
    sheet
        .field("Name", safe(&slice.name))
        .field("Workload", safe(&slice.workload))
        .field("Slice", format!("{} of the gang", slice.index))
        .field("Shape", format!("{} of {}", safe(&slice.shape), safe(&slice.generation)))
        .field("State", safe(&slice.state))
        .field("Draining", yes(slice.draining))
        .field("Priority", slice.priority.to_string())
        .field("Partitions", safe(&slice.partition_ids.join(", ")));
    let row = |(rank, node): (&u32, &String)| vec![rank.to_string(), safe(node)];
    let rows: Vec<_> = slice.nodes.iter().map(row).collect();
    sheet.section("Ranks").table(&["RANK", "NODE"], &rows);
    sheet.finish()
}

/// A reason as fields of a sheet: what, its code, what to do.
pub(crate) fn reason(sheet: &mut Sheet, name: &str, reason: &ReasonView) {
    if reason.code.is_empty() {
        return;
    }
    sheet.field(name, format!("{} [{}]", safe(&reason.message), safe(&reason.code)));
    if !reason.hint.is_empty() {
        sheet.field("Hint", safe(&reason.hint));
    }
}

/// A point in time: how long ago, and when.
pub(crate) fn when(when: Option<When>) -> Option<String> {
    when.map(|w| format!("{} ago ({:.0})", span(w.age_ms), w.at))
}

/// A checkpoint in a line.
pub(crate) fn checkpoint(checkpoint: &CheckpointView, age_ms: Option<u64>) -> String {
    let age = age_ms.map(|ms| format!(", {} old", span(ms))).unwrap_or_default();
    let CheckpointView { step, path, bytes, files, marker, grade } = checkpoint;
    let size = crate::text::bytes(*bytes);
    let (path, marker) = (safe(path), safe(marker));
    format!("step {step}{age}: {path} ({size}, {files} files, complete by {marker}, {grade})")
}

/// `yes` or `no`.
pub(crate) fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}
