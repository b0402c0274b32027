//! `sluice get --watch`: what is there, then each change.

use std::collections::BTreeMap;

use serde::Serialize;

use super::list::{Listing, Row, comparable};
use super::{GetArgs, Kind, fetch};
use crate::args::Global;
use crate::connect::Arbiter;
use crate::failure::{EXIT_UNREACHABLE, Failure};
use crate::output::{self, Document, Format};

/// What was printed last of each thing: its name and its lines without ages.
type Printed = BTreeMap<String, Vec<Vec<String>>>;

/// Prints changes until the reader goes away or the process is interrupted.
///
/// # Errors
/// The first look fails, or a later one for another reason than that the arbiter is away.
pub(super) async fn watch(
    global: &Global,
    arbiter: Arbiter,
    args: &GetArgs,
    all: bool,
) -> Result<(), Failure> {
    let mut arbiter = Some(arbiter);
    let mut printed = None;
    loop {
        let looked = look(global, &mut arbiter, args, all).await;
        match looked {
            Ok(listing) => {
                let heading = printed.is_none();
                let before = printed.unwrap_or_default();
                print_changes(global, args, &listing, &before, heading)?;
                printed = Some(listing.rows.iter().map(|r| remember(args.kind, r)).collect());
            }
            // A watch outlives a restart of the arbiter.
            Err(failure) if failure.exit == EXIT_UNREACHABLE && printed.is_some() => {
                if arbiter.take().is_some() {
                    eprintln!("sluice: {failure}; still watching");
                }
            }
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(args.interval).await;
    }
}

async fn look(
    global: &Global,
    arbiter: &mut Option<Arbiter>,
    args: &GetArgs,
    all: bool,
) -> Result<Listing, Failure> {
    if arbiter.is_none() {
        *arbiter = Some(Arbiter::connect(global).await?);
    }
    let connected = arbiter.as_ref().expect("it was connected just now");
    let mut listing = fetch(connected, args.kind, all).await?;
    // A name that does not exist yet is what a watch may wait for.
    if listing.keep(&args.names).is_err() {
        listing.rows.clear();
    }
    Ok(listing)
}

fn remember(kind: Kind, row: &Row) -> (String, Vec<Vec<String>>) {
    (name(row), comparable(kind, &row.lines))
}

/// Unique within a kind: devices and volumes have their names on a node only.
fn name(row: &Row) -> String {
    row.item.names().pop().expect("everything has a name")
}

fn print_changes(
    global: &Global,
    args: &GetArgs,
    listing: &Listing,
    before: &Printed,
    heading: bool,
) -> Result<(), Failure> {
    let is_changed =
        |r: &&Row| before.get(&name(r)).is_none_or(|b| *b != comparable(args.kind, &r.lines));
    match args.output {
        Format::Table | Format::Wide => {
            let wide = args.output == Format::Wide;
            output::print(global.color, &changed_lines(listing, wide, heading, is_changed))
        }
        Format::Json | Format::Yaml => {
            for row in listing.rows.iter().filter(is_changed) {
                let document = Document::new(args.kind.kinds().0, &row.item);
                output::write_stdout(one_document(args.output, &document)?.as_bytes())?;
            }
            Ok(())
        }
    }
}

/// The lines of what has changed, laid out with all others so that columns stay where they are.
fn changed_lines(
    listing: &Listing,
    wide: bool,
    heading: bool,
    is_changed: impl Fn(&&Row) -> bool,
) -> String {
    let table = listing.table(wide);
    let mut lines = table.split_inclusive('\n');
    let titles = lines.next().filter(|_| heading && !listing.rows.is_empty());
    let mut text = titles.unwrap_or_default().to_owned();
    for row in &listing.rows {
        let shown: String = lines.by_ref().take(row.lines.len()).collect();
        if is_changed(&row) {
            text.push_str(&shown);
        }
    }
    text
}

/// A line of JSON, or a YAML document with its separator.
fn one_document<T: Serialize>(format: Format, value: &T) -> Result<String, Failure> {
    if format == Format::Json {
        let line = serde_json::to_string(value);
        return line
            .map(|line| line + "\n")
            .map_err(|e| Failure::runtime(format!("could not encode the output: {e}")));
    }
    let text = output::encode(format, value)?.unwrap_or_default();
    Ok(format!("---\n{text}"))
}
