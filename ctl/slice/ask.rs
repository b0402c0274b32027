//! What both commands ask: an inventory, and a request.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;

use sluice::slices::{self, Inventory, Problems};
use sluice_core::slice::{Part, Request};
use sluice_core::topology::{Generation, Notation, Wanted};
use sluice_core::unit::Time;

use crate::args::parse_span;
use crate::failure::Failure;
use crate::text::{count, safe};

/// Most slices of one request: a pod of single nodes is 2,304.
const REPLICAS_MAX: i64 = 10_000;

/// Flags of both commands.
#[derive(Debug, Clone, Args)]
pub(super) struct AskArgs {
    /// Cubes, nodes and what runs; - is standard input. docs/slices.md has every field.
    #[arg(long, value_name = "FILE")]
    pub(super) inventory: PathBuf,
    /// Shape of each slice, such as 2x2x2 or 4x4x8.
    #[arg(long, value_name = "SHAPE")]
    pub(super) shape: String,
    /// Generation, or the value of the label cloud.google.com/gke-tpu-accelerator. Without it: what FILE says.
    #[arg(long, value_name = "NAME")]
    pub(super) generation: Option<String>,
    /// How many such slices, all in one block.
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=REPLICAS_MAX))]
    pub(super) replicas: u32,
    /// Refuses degraded partitions.
    #[arg(long)]
    pub(super) healthy_only: bool,
    /// How long it is going to run, so that maintenance after it does not count. Without it: for ever.
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    pub(super) runs_for: Option<Duration>,
    /// Refuses places that maintenance will meet.
    #[arg(long)]
    pub(super) avoid_maintenance: bool,
    /// Group whose block it should share, such as the other half of a server.
    #[arg(long, value_name = "NAME")]
    pub(super) group: Option<String>,
}

/// What was asked, ready to be answered.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) file: String,
    pub(super) inventory: Inventory,
    pub(super) wanted: Wanted,
    pub(super) request: Request,
    pub(super) now: Time,
}

impl AskArgs {
    /// Reads the inventory and checks the request.
    ///
    /// # Errors
    /// Everything that is wrong with either.
    pub(super) fn read(&self, priority: i32) -> Result<Asked, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.read_at(priority, u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    }

    /// The same at a given time. Unit: ms since 1970.
    pub(super) fn read_at(&self, priority: i32, now_ms: u64) -> Result<Asked, Failure> {
        let generation = self.generation.as_deref();
        let inventory = slices::load(&self.inventory, generation, now_ms);
        let inventory = inventory.map_err(|problems| failure(&problems))?;
        let own = &inventory.generation.name;
        let table = slices::table();
        if let Some(named) = generation.and_then(|name| table.find(name))
            && named.name != *own
        {
            let asked = &named.name;
            return Err(Failure::usage(format!(
                "--generation is {asked}, but the inventory is one of {own}"
            )));
        }
        let name = generation.unwrap_or(own);
        let wanted = table.request(name, &self.shape, Notation::NodeSelector);
        let wanted = wanted.map_err(|e| {
            Failure::usage(format!("--shape {}: {}", safe(&self.shape), safe(&e.to_string())))
        })?;
        let request = self.request(priority, &inventory, &wanted)?;
        let file = self.inventory.display().to_string();
        Ok(Asked { file, inventory, wanted, request, now: Time(now_ms) })
    }

    fn request(
        &self,
        priority: i32,
        inventory: &Inventory,
        wanted: &Wanted,
    ) -> Result<Request, Failure> {
        let tiling = inventory.fleet.tiling();
        let part = Part::of(tiling, &inventory.generation, wanted, self.replicas);
        let part = part.ok_or_else(|| {
            let shapes: Vec<String> = tiling.shapes().iter().map(ToString::to_string).collect();
            let shapes = shapes.join(", ");
            Failure::usage(format!("--shape {}: the inventory is cut into {shapes}", wanted.shape))
        })?;
        let runs_for_ms =
            self.runs_for.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        Ok(Request {
            is_healthy_only: self.healthy_only,
            runs_for_ms,
            may_meet_maintenance: !self.avoid_maintenance,
            group: self.group.clone(),
            ..Request::new("the request", priority, vec![part])
        })
    }
}

/// All problems, one a line.
fn failure(problems: &Problems) -> Failure {
    let found = problems.problems.len() + problems.left_out;
    let mut message = format!("the inventory cannot be used: {}", count(found, "problem"));
    for line in problems.to_string().lines() {
        message.push_str(&format!("\n  {}", safe(line)));
    }
    Failure::usage(message).hint("docs/slices.md has every field")
}

/// The largest legal shape within the one asked for that would be placed at once, and where.
pub(super) fn smaller(asked: &Asked) -> Option<(Wanted, Vec<Vec<sluice_core::slice::Piece>>)> {
    let generation: &Generation = &asked.inventory.generation;
    let fleet = &asked.inventory.fleet;
    let mut shapes = generation.legal_shapes();
    shapes.retain(|shape| shape.fits_into(&asked.wanted.shape) && *shape != asked.wanted.shape);
    shapes.sort_by_key(|shape| std::cmp::Reverse((shape.chips(), *shape)));
    let replicas = asked.request.parts.first().map_or(1, |part| part.count);
    shapes.into_iter().find_map(|shape| {
        let extent = generation.check(shape).ok()?;
        let wanted = Wanted { shape, extent, ..asked.wanted.clone() };
        let part = Part::of(fleet.tiling(), generation, &wanted, replicas)?;
        let request = Request { parts: vec![part], may_preempt: false, ..asked.request.clone() };
        let answer = sluice_core::slice::solve(fleet, &[request], asked.now).pop()?;
        match answer.outcome {
            sluice_core::slice::Outcome::Placed { slices, awaits, .. } if awaits.is_empty() => {
                Some((wanted, slices))
            }
            sluice_core::slice::Outcome::Placed { .. } | sluice_core::slice::Outcome::Waits => None,
        }
    })
}
