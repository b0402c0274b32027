//! `sluice slice fit`: a place for slices.

use clap::Args;
use serde::Serialize;

use sluice_core::slice::{Answer, Budget, Defrag, Outcome, Part, Request, defrag, solve};

use super::ask::{AskArgs, Asked, smaller};
use super::view::{self, GangView, ReasonView, RequestView, SliceView};
use crate::args::Global;
use crate::failure::{EXIT_FAILURE, Failure};
use crate::output::{self, Document, Format};
use crate::paint::{bad, good, warn};
use crate::table::Sheet;
use crate::text::{count, safe, span};

/// Most slices that are counted as further ones.
const MORE_MAX: u32 = 4_096;

/// Flags of `sluice slice fit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 if it has a place, also one that others have to leave first; 1 if it has to wait; 64 if something is
wrong with the inventory or the shape.

Examples:
  sluice slice fit --inventory manifests/slices/two-cubes.yaml --shape 2x2x2 --replicas 6
  sluice slice fit --inventory manifests/slices/two-cubes.yaml --shape 4x4x8 --priority 2000
  kubectl get nodes,slices -o yaml | sluice slice fit --inventory - --shape 4x4x4 --generation tpu7x
  sluice slice fit --inventory cubes.yaml --shape 4x4x4 -o json | jq -r '.slices[].partition_ids[]'")]
pub(super) struct FitArgs {
    #[command(flatten)]
    pub(super) ask: AskArgs,
    /// Priority of the request: work of lower priority may have to give way.
    #[arg(long, value_name = "NUMBER", default_value = "0", allow_hyphen_values = true)]
    priority: i32,
    /// Lets nobody give way.
    #[arg(long)]
    no_preempt: bool,
    /// How to print it.
    #[arg(long, short, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

/// What is printed.
#[derive(Debug, Serialize)]
pub(super) struct FitView {
    inventory: String,
    generation: String,
    request: RequestView,
    /// `placed`, `after-others-left` or `waits`.
    outcome: &'static str,
    reason: ReasonView,
    slices: Vec<SliceView>,
    victims: Vec<GangView>,
    /// Who is leaving already.
    awaits: Vec<String>,
    /// False if other victims may be cheaper.
    is_cheapest: bool,
    /// How many more such requests would find a place after this one; at most 4096 are counted.
    more_that_fit: Option<u32>,
    /// The largest smaller shape that would be placed at once.
    smaller: Option<SmallerView>,
    /// Slices that would have to move instead, and what that costs.
    moves: Option<MovesView>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct SmallerView {
    shape: String,
    slices: Vec<SliceView>,
}

#[derive(Debug, Serialize)]
struct MovesView {
    slices: usize,
    workloads: Vec<String>,
    cost_chip_ms: u64,
}

/// Runs `sluice slice fit`; the exit status to leave with.
///
/// # Errors
/// The inventory or the request cannot be used, or standard output cannot be written.
pub(super) fn fit(global: &Global, args: &FitArgs) -> Result<u8, Failure> {
    let view = answer(&args.ask.read(args.priority)?, !args.no_preempt)?;
    let status = if view.outcome == "waits" { EXIT_FAILURE } else { 0 };
    match output::encode(args.output, &Document::new("SliceFit", &view))? {
        Some(text) => output::write_stdout(text.as_bytes())?,
        None => output::print(global.color, &render(&view, args.output == Format::Wide))?,
    }
    Ok(status)
}

/// The answer with its alternatives.
///
/// # Errors
/// None that input leads to.
pub(super) fn answer(asked: &Asked, may_preempt: bool) -> Result<FitView, Failure> {
    let fleet = &asked.inventory.fleet;
    let request = Request { may_preempt, ..asked.request.clone() };
    let answer = solve(fleet, std::slice::from_ref(&request), asked.now).pop();
    let Answer { outcome, reason, .. } =
        answer.ok_or_else(|| Failure::runtime("the request was not answered"))?;
    let mut view = FitView {
        inventory: asked.file.clone(),
        generation: asked.inventory.generation.name.clone(),
        request: RequestView::of(asked),
        outcome: "waits",
        reason: ReasonView::of(&reason),
        slices: Vec::new(),
        victims: Vec::new(),
        awaits: Vec::new(),
        is_cheapest: true,
        more_that_fit: None,
        smaller: None,
        moves: None,
        notes: asked.inventory.notes.clone(),
    };
    let mut is_free = false;
    if let Outcome::Placed { slices, victims, awaits, is_cheapest, .. } = outcome {
        is_free = victims.is_empty() && awaits.is_empty();
        view.outcome = if is_free { "placed" } else { "after-others-left" };
        view.slices = SliceView::all(fleet, &slices);
        view.victims = GangView::named(fleet, &victims);
        (view.awaits, view.is_cheapest) = (awaits, is_cheapest);
    }
    if is_free {
        view.more_that_fit = Some(more(asked, &request));
    } else {
        let smaller = smaller(asked);
        view.smaller = smaller.map(|(wanted, slices)| SmallerView {
            shape: wanted.shape.to_string(),
            slices: SliceView::all(fleet, &slices),
        });
        view.moves = moves(asked);
    }
    Ok(view)
}

/// How many more such requests fit beside this one, without anybody giving way.
fn more(asked: &Asked, request: &Request) -> u32 {
    let fits = |times: u32| {
        let grown = |part: &Part| Part { count: part.count.saturating_mul(times), ..*part };
        let parts = request.parts.iter().map(grown).collect();
        let request = Request { parts, may_preempt: false, ..request.clone() };
        let answer = solve(&asked.inventory.fleet, &[request], asked.now).pop();
        matches!(answer.map(|a| a.outcome), Some(Outcome::Placed { awaits, .. }) if awaits.is_empty())
    };
    // What fits so many times in one block fits fewer times as well.
    let (mut fit, mut too_many) = (1, MORE_MAX + 1);
    while too_many - fit > 1 {
        let middle = u32::midpoint(fit, too_many);
        if fits(middle) { fit = middle } else { too_many = middle }
    }
    fit - 1
}

fn moves(asked: &Asked) -> Option<MovesView> {
    let all = Budget { moves_max: u32::MAX, cost_device_ms_max: u64::MAX };
    match defrag(&asked.inventory.fleet, &asked.request, asked.now, all) {
        Defrag::Moves { moves, cost_device_ms, .. } => Some(MovesView {
            slices: moves.iter().map(|m| m.from.len()).sum(),
            workloads: moves.into_iter().map(|m| m.workload).collect(),
            cost_chip_ms: cost_device_ms,
        }),
        Defrag::Fits(_) | Defrag::Impossible(_) => None,
    }
}

pub(super) fn render(view: &FitView, is_wide: bool) -> String {
    let mut sheet = Sheet::new();
    sheet.lines(&view.request.line());
    sheet.section("Answer");
    let word = match view.outcome {
        "placed" => good("it has a place"),
        "after-others-left" => warn("it has a place once others have left"),
        _ => bad("it has to wait"),
    };
    sheet.lines(&format!("{word}\n{}", view.reason.lines()));
    if !view.slices.is_empty() {
        view::slices(&mut sheet, "Slices", &view.slices, is_wide);
    }
    if !view.victims.is_empty() {
        view::gangs(&mut sheet, "Who gives way", &view.victims);
        if !view.is_cheapest {
            sheet.lines("the search ended at its bound: others may be cheaper");
        }
    }
    if !view.awaits.is_empty() {
        let names: Vec<String> = view.awaits.iter().map(|name| safe(name)).collect();
        sheet.section("Who is leaving already").lines(&names.join("\n"));
    }
    let alternatives = alternatives(view);
    if !alternatives.is_empty() {
        sheet.section("Instead").lines(&alternatives.join("\n"));
    }
    if let Some(more) = view.more_that_fit {
        let many = if more >= MORE_MAX { "at least " } else { "" };
        sheet
            .section("After it")
            .lines(&format!("{many}{more} like it would fit in the same block"));
    }
    view::notes(&mut sheet, &view.notes);
    sheet.finish()
}

fn alternatives(view: &FitView) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(smaller) = &view.smaller {
        let places = view::partitions(&smaller.slices);
        lines.push(format!("{} would fit now: {places}", smaller.shape));
    }
    if let Some(moves) = &view.moves {
        let names: Vec<String> = moves.workloads.iter().map(|name| safe(name)).collect();
        let (slices, names) = (count(moves.slices, "slice"), names.join(", "));
        let cost = span(moves.cost_chip_ms);
        lines.push(format!("moving {slices} would make room, for {cost} of chip-time: {names}"));
        lines.push("sluice slice defrag shows where they would go".to_owned());
    }
    lines
}
