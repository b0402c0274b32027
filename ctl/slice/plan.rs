//! `sluice slice plan`: what the arbiter would do with a request for slices.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use sluice::wire::pb;

use crate::args::{Global, parse_span};
use crate::connect::{Arbiter, request};
use crate::failure::{EXIT_FAILURE, Failure};
use crate::output::{self, Document, Format};
use crate::paint::{bad, good, warn};
use crate::table::Sheet;
use crate::text::{device_seconds, or_dash, safe};

/// Flags of `sluice slice plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 if it would get a place, also one that others have to leave first; 1 if it would wait.

Examples:
  sluice slice plan 2x2x2 --replicas 4
  sluice slice plan 4x4x8 --what-if --priority 2000")]
pub(super) struct PlanArgs {
    /// Shape of each slice, such as 2x2x2 or 4x4x8.
    shape: String,
    /// How many such slices, all in one block.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    replicas: u32,
    /// Priority of the request: work of lower priority may have to give way.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// Generation, or the value of the node label. Without it: that of the nodes.
    #[arg(long, value_name = "NAME")]
    generation: Option<String>,
    /// Refuses degraded partitions.
    #[arg(long)]
    healthy_only: bool,
    /// Group whose block it should share.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Most slices that may move to make room.
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    moves_max: u32,
    /// Most work and restarts that moves may cost: chip-time.
    #[arg(long, value_name = "SPAN", default_value = "168h", value_parser = parse_span)]
    cost_max: Duration,
    /// Says what the command does anyway: nothing is changed.
    #[arg(long)]
    what_if: bool,
    /// How to print it.
    #[arg(long, short, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct PlanView {
    placed: bool,
    code: String,
    message: String,
    hint: String,
    slices: Vec<PlannedView>,
    victims: Vec<VictimView>,
    awaits: Vec<String>,
    moves: Vec<MoveView>,
}

#[derive(Debug, Serialize)]
struct PlannedView {
    partition_ids: Vec<String>,
    nodes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct VictimView {
    workload: String,
    cost_device_ms: u64,
}

#[derive(Debug, Serialize)]
struct MoveView {
    workload: String,
    from: String,
    to: String,
    cost_device_ms: u64,
}

/// Runs `sluice slice plan`.
///
/// # Errors
/// The arbiter does not answer, or there is no such slice.
pub(super) async fn plan(global: &Global, args: &PlanArgs) -> Result<u8, Failure> {
    let arbiter = Arbiter::connect(global).await?;
    let message = pb::PlanSliceRequest {
        slice: Some(pb::SliceSpec {
            generation: args.generation.clone().unwrap_or_default(),
            shape: args.shape.clone(),
            count: args.replicas,
            healthy_only: args.healthy_only,
            group: args.group.clone(),
        }),
        priority: args.priority,
        moves_max: args.moves_max,
        cost_device_ms_max: u64::try_from(args.cost_max.as_millis()).unwrap_or(u64::MAX),
    };
    let mut admin = arbiter.admin();
    let call = admin.plan_slice(request(message, arbiter.timeout()));
    let view = PlanView::of(arbiter.ask("could not plan", call).await?);
    let code = if view.placed { 0 } else { EXIT_FAILURE };
    match output::encode(args.output, &Document::new("SlicePlan", &view))? {
        Some(text) => output::write_stdout(text.as_bytes())?,
        None => output::print(global.color, &view.text())?,
    }
    Ok(code)
}

impl PlanView {
    fn of(answer: pb::PlanSliceResponse) -> Self {
        let planned =
            |s: pb::PlannedSlice| PlannedView { partition_ids: s.partitions, nodes: s.nodes };
        let victim = |v: pb::PlannedVictim| VictimView {
            workload: v.workload,
            cost_device_ms: v.cost_device_ms,
        };
        let moved = |m: pb::PlannedMove| MoveView {
            workload: m.workload,
            from: m.from,
            to: m.to,
            cost_device_ms: m.cost_device_ms,
        };
        Self {
            placed: answer.placed,
            code: answer.code,
            message: answer.why,
            hint: answer.hint,
            slices: answer.slices.into_iter().map(planned).collect(),
            victims: answer.victims.into_iter().map(victim).collect(),
            awaits: answer.awaits,
            moves: answer.moves.into_iter().map(moved).collect(),
        }
    }

    fn text(&self) -> String {
        let mut sheet = Sheet::new();
        let answer = match self.placed {
            true if self.victims.is_empty() && self.awaits.is_empty() => {
                good("it would get a place")
            }
            true => warn("it would get a place once others have left"),
            false => bad("it would wait"),
        };
        let hint = if self.hint.is_empty() {
            String::new()
        } else {
            format!("hint: {}\n", safe(&self.hint))
        };
        let reason = format!("{answer}\n{} [{}]\n{hint}", safe(&self.message), safe(&self.code));
        sheet.section("Answer").lines(&reason);
        if !self.slices.is_empty() {
            let row = |(index, slice): (usize, &PlannedView)| {
                vec![
                    index.to_string(),
                    safe(&slice.partition_ids.join(",")),
                    safe(&slice.nodes.join(",")),
                ]
            };
            let rows: Vec<_> = self.slices.iter().enumerate().map(row).collect();
            sheet.section("Slices").table(&["SLICE", "PARTITIONS", "NODES"], &rows);
        }
        if !self.victims.is_empty() {
            let row = |v: &VictimView| vec![safe(&v.workload), device_seconds(v.cost_device_ms)];
            let rows: Vec<_> = self.victims.iter().map(row).collect();
            sheet.section("Who gives way").table(&["WORKLOAD", "COST"], &rows);
        }
        if !self.awaits.is_empty() {
            sheet.section("Who is leaving").lines(&safe(&self.awaits.join(", ")));
        }
        if !self.moves.is_empty() {
            let row = |m: &MoveView| {
                vec![
                    safe(&m.workload),
                    or_dash(&m.from),
                    or_dash(&m.to),
                    device_seconds(m.cost_device_ms),
                ]
            };
            let rows: Vec<_> = self.moves.iter().map(row).collect();
            sheet
                .section("Moves that would make room")
                .table(&["WORKLOAD", "FROM", "TO", "COST"], &rows);
        }
        sheet.finish()
    }
}
