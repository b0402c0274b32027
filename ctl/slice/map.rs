//! `sluice slice map`: cubes as layers of hosts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::Args;
use sluice::wire::pb;

use super::svg;
use crate::args::Global;
use crate::ask;
use crate::connect::Arbiter;
use crate::failure::Failure;
use crate::output;
use crate::text::{count, safe};

/// Letters of owners; whoever comes after them shares the last.
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz#";
/// Colours of owners, in the terminal's palette of 256: light enough on black, dark enough on white.
const COLOURS: [u8; 12] = [33, 166, 70, 134, 172, 38, 161, 100, 62, 30, 130, 97];

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum Picture {
    /// For a terminal.
    #[default]
    Text,
    /// For a browser.
    Svg,
}

/// Flags of `sluice slice map`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each cube is four layers of 2x2 hosts, z0 to z3; two layers of a column make a 2x2x2. Letters are owners:
  A   a slice of A            A/  it is being drained       A+  held for A, others are leaving
  .   free                    x   closed, silent or not there
  !   a chip is unhealthy     ~   degraded                  ?   nothing is known

Examples:
  sluice slice map
  sluice slice map -o svg > slices.svg")]
pub(super) struct MapArgs {
    /// How to draw it.
    #[arg(long, short, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Picture,
}

/// Runs `sluice slice map`.
///
/// # Errors
/// The arbiter does not answer.
pub(super) async fn map(global: &Global, args: &MapArgs) -> Result<u8, Failure> {
    let arbiter = Arbiter::connect(global).await?;
    let known = ask::slices(&arbiter).await?;
    if known.cubes.is_empty() {
        eprintln!(
            "no cubes: no node has reported labels of TPU partitions; docs/slices.md names them"
        );
        return Ok(0);
    }
    let legend = Legend::of(&known);
    match args.output {
        Picture::Text => {
            let text = text(&known, &legend, global.color.for_stdout());
            output::print(global.color, &text)?;
        }
        Picture::Svg => output::write_stdout(svg::svg(&known, &legend).as_bytes())?,
    }
    Ok(0)
}

/// Which letter and colour each owner has.
#[derive(Debug)]
pub(super) struct Legend {
    /// By workload, in the order of names: its place.
    owners: BTreeMap<String, usize>,
    /// By name of a slice.
    slices: BTreeMap<String, pb::Slice>,
}

impl Legend {
    pub(super) fn of(known: &pb::ListSlicesResponse) -> Self {
        let mut owners: BTreeMap<String, usize> = BTreeMap::new();
        owners.extend(known.slices.iter().map(|slice| (slice.workload.clone(), 0)));
        owners.values_mut().zip(0..).for_each(|(place, number)| *place = number);
        let slices = known.slices.iter().map(|slice| (slice.name.clone(), slice.clone()));
        Self { owners, slices: slices.collect() }
    }

    /// Workloads with their places.
    pub(super) fn owners(&self) -> impl Iterator<Item = (&str, usize)> {
        self.owners.iter().map(|(name, place)| (name.as_str(), *place))
    }

    pub(super) fn letter(place: usize) -> char {
        LETTERS.chars().nth(place).unwrap_or('#')
    }

    /// What is on a host: the owner's place, and whether it leaves or only has it held.
    pub(super) fn on(&self, host: &pb::SliceHost) -> Option<(usize, Use)> {
        let slice = self.slices.get(host.slices.first()?)?;
        let how = match slice.state.as_str() {
            "HELD" => Use::Held,
            _ if slice.draining => Use::Leaves,
            _ => Use::Runs,
        };
        Some((*self.owners.get(&slice.workload)?, how))
    }

    /// Shapes of the slices of `workload`, and how many there are of each.
    pub(super) fn shapes(&self, workload: &str) -> String {
        let mut shapes: BTreeMap<&str, usize> = BTreeMap::new();
        for slice in self.slices.values().filter(|slice| slice.workload == workload) {
            *shapes.entry(&slice.shape).or_default() += 1;
        }
        let shapes = shapes.into_iter().map(|(shape, n)| format!("{n} x {}", safe(shape)));
        shapes.collect::<Vec<_>>().join(", ")
    }
}

/// How a host is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Runs,
    Leaves,
    Held,
}

/// What is wrong with a host, as one character; a space: nothing.
pub(super) fn mark(host: &pb::SliceHost) -> char {
    match host.health() {
        _ if !host.open => 'x',
        pb::Health::Unhealthy => '!',
        pb::Health::Degraded => '~',
        pb::Health::Unknown | pb::Health::Unspecified => '?',
        pb::Health::Healthy => ' ',
    }
}

/// The picture for a terminal.
pub(super) fn text(known: &pb::ListSlicesResponse, legend: &Legend, colour: bool) -> String {
    let mut text = String::new();
    for cube in &known.cubes {
        let is_free = |h: &&pb::SliceHost| legend.on(h).is_none() && matches!(mark(h), ' ' | '~');
        let free = cube.hosts.iter().filter(is_free).count();
        let (id, block) = (safe(&cube.id), safe(&cube.block));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{id}  {} {block}: {free} of {} hosts free",
            safe(&cube.generation),
            cube.hosts.len()
        );
        let layers = cube.hosts.len() / 4;
        let titles: String = (0..layers).map(|z| format!("  {:<8}", format!("z{z}"))).collect();
        let _ = writeln!(text, "{}", titles.trim_end());
        for y in 0..2 {
            let mut line = String::new();
            for z in 0..layers {
                line.push_str("  ");
                for x in 0..2 {
                    let host = cube.hosts.get(2 * layers * x + layers * y + z);
                    line.push_str(
                        &host.map_or_else(|| "    ".to_owned(), |h| cell(h, legend, colour)),
                    );
                }
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text.push('\n');
    }
    for (workload, place) in legend.owners() {
        let letter = paint(&Legend::letter(place).to_string(), place, colour);
        let _ = writeln!(text, "{letter}  {}  {}", safe(workload), legend.shapes(workload));
    }
    let slices = count(known.slices.len(), "slice");
    let _ = writeln!(
        text,
        "{slices}; / leaves, + is held, . is free, ! unhealthy, ~ degraded, ? unknown, x closed"
    );
    text
}

/// Four columns: owner, use, health, space.
fn cell(host: &pb::SliceHost, legend: &Legend, colour: bool) -> String {
    let mark = mark(host);
    match legend.on(host) {
        Some((place, how)) => {
            let sign = match how {
                Use::Runs => ' ',
                Use::Leaves => '/',
                Use::Held => '+',
            };
            paint(&format!("{}{sign}{mark} ", Legend::letter(place)), place, colour)
        }
        None => format!(".{mark}  "),
    }
}

fn paint(text: &str, place: usize, colour: bool) -> String {
    let number = COLOURS[place % COLOURS.len()];
    if colour { format!("\u{1b}[38;5;{number}m{text}\u{1b}[0m") } else { text.to_owned() }
}
