//! `sluice slice defrag`: moves that make room for slices. A dry run, always.

use clap::Args;
use serde::Serialize;

use sluice_core::slice::{Answer, Budget, Defrag, Outcome, Piece};

use super::ask::{AskArgs, Asked};
use super::view::{self, ReasonView, RequestView, SliceView};
use crate::args::Global;
use crate::failure::{EXIT_FAILURE, Failure};
use crate::output::{self, Document, Format};
use crate::paint::{bad, good, warn};
use crate::table::Sheet;
use crate::text::{NOTHING, safe, span};

/// Flags of `sluice slice defrag`.
#[derive(Debug, Args)]
#[command(after_help = "\
The plan with the least lost work and restart cost is shown, then the one with the fewest moves. Whatever the priority
of the request, nobody loses a place: all who move go on elsewhere. Nothing is moved; it is said what would be.

Exit status: 0 if it fits, or would after moves within the budget; 1 otherwise; 64 if something is wrong with the
inventory or the shape.

Examples:
  sluice slice defrag --inventory manifests/slices/fragmented.yaml --shape 4x4x4
  sluice slice defrag --inventory cubes.yaml --shape 4x4x4 --moves-max 2 --chip-seconds-max 36000")]
pub(super) struct DefragArgs {
    #[command(flatten)]
    pub(super) ask: AskArgs,
    /// Budget: most slices that are moved.
    #[arg(long, value_name = "NUMBER", default_value = "8")]
    moves_max: u32,
    /// Budget: most lost work and restart cost together, in seconds of one chip. Without it: no limit.
    #[arg(long, value_name = "SECONDS")]
    chip_seconds_max: Option<u64>,
    /// How to print it.
    #[arg(long, short, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

/// What is printed.
#[derive(Debug, Serialize)]
pub(super) struct DefragView {
    inventory: String,
    generation: String,
    request: RequestView,
    /// `fits`, `moves`, `over-budget` or `impossible`.
    outcome: &'static str,
    /// Of a request that fits, or that no moves help.
    reason: Option<ReasonView>,
    slices: Vec<SliceView>,
    moves: Vec<MoveView>,
    cost_chip_ms: u64,
    /// False if another plan may be cheaper.
    is_cheapest: bool,
    is_dry_run: bool,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct MoveView {
    workload: String,
    from: Vec<SliceView>,
    to: Vec<SliceView>,
    cost_chip_ms: u64,
    /// Whose slices have to be gone first.
    awaits: Vec<String>,
}

/// Runs `sluice slice defrag`; the exit status to leave with.
///
/// # Errors
/// The inventory or the request cannot be used, or standard output cannot be written.
pub(super) fn defrag(global: &Global, args: &DefragArgs) -> Result<u8, Failure> {
    let cost_device_ms_max = args.chip_seconds_max.map_or(u64::MAX, |s| s.saturating_mul(1_000));
    let budget = Budget { moves_max: args.moves_max, cost_device_ms_max };
    let view = answer(&args.ask.read(0)?, budget);
    let is_done = matches!(view.outcome, "fits" | "moves");
    match output::encode(args.output, &Document::new("SliceDefrag", &view))? {
        Some(text) => output::write_stdout(text.as_bytes())?,
        None => output::print(global.color, &render(&view, args.output == Format::Wide))?,
    }
    Ok(if is_done { 0 } else { EXIT_FAILURE })
}

/// The answer.
pub(super) fn answer(asked: &Asked, budget: Budget) -> DefragView {
    let fleet = &asked.inventory.fleet;
    let slices_of = |slices: &[Vec<Piece>]| SliceView::all(fleet, slices);
    let mut view = DefragView {
        inventory: asked.file.clone(),
        generation: asked.inventory.generation.name.clone(),
        request: RequestView::of(asked),
        outcome: "impossible",
        reason: None,
        slices: Vec::new(),
        moves: Vec::new(),
        cost_chip_ms: 0,
        is_cheapest: true,
        is_dry_run: true,
        notes: asked.inventory.notes.clone(),
    };
    match sluice_core::slice::defrag(fleet, &asked.request, asked.now, budget) {
        Defrag::Fits(Answer { outcome, reason, .. }) => {
            view.outcome = "fits";
            view.reason = Some(ReasonView::of(&reason));
            if let Outcome::Placed { slices, .. } = outcome {
                view.slices = slices_of(&slices);
            }
        }
        Defrag::Impossible(reason) => view.reason = Some(ReasonView::of(&reason)),
        Defrag::Moves { moves, slices, cost_device_ms, is_cheapest, is_within_budget } => {
            view.outcome = if is_within_budget { "moves" } else { "over-budget" };
            view.slices = slices_of(&slices);
            (view.cost_chip_ms, view.is_cheapest) = (cost_device_ms, is_cheapest);
            let moved = moves.into_iter().map(|m| MoveView {
                from: slices_of(&m.from),
                to: slices_of(&m.to),
                workload: m.workload,
                cost_chip_ms: m.cost_device_ms,
                awaits: m.awaits,
            });
            view.moves = moved.collect();
        }
    }
    view
}

pub(super) fn render(view: &DefragView, is_wide: bool) -> String {
    let mut sheet = Sheet::new();
    sheet.lines(&view.request.line());
    sheet.section("Answer");
    let word = match view.outcome {
        "fits" => good("it fits; nothing need be moved"),
        "moves" => good("moves make room"),
        "over-budget" => warn("moves would make room, but not within the budget"),
        _ => bad("no moves make room"),
    };
    let reason = view.reason.as_ref().map(ReasonView::lines).unwrap_or_default();
    sheet.lines(&format!("{word}\n{reason}"));
    if !view.moves.is_empty() {
        let row = |m: &MoveView| {
            let awaits: Vec<String> = m.awaits.iter().map(|name| safe(name)).collect();
            let awaits = if awaits.is_empty() { NOTHING.to_owned() } else { awaits.join(", ") };
            let (from, to) = (view::partitions(&m.from), view::partitions(&m.to));
            vec![safe(&m.workload), from, to, span(m.cost_chip_ms), awaits]
        };
        let titles = ["WORKLOAD", "FROM", "TO", "COST CHIP-TIME", "AFTER"];
        let rows: Vec<_> = view.moves.iter().map(row).collect();
        sheet.section("Moves").table(&titles, &rows);
        sheet.lines(&format!(
            "together {} of chip-time; a dry run: nothing is moved",
            span(view.cost_chip_ms)
        ));
        if !view.is_cheapest {
            sheet.lines("the search ended at its bound: another plan may be cheaper");
        }
    }
    if !view.slices.is_empty() {
        view::slices(&mut sheet, "Slices", &view.slices, is_wide);
    }
    view::notes(&mut sheet, &view.notes);
    sheet.finish()
}
