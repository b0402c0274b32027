//! What a run showed, for people and for programs.

use serde::Serialize;

use super::{BenchArgs, Outcome};
use crate::paint::warn;
use crate::table::Sheet;
use crate::text::{bytes, or_dash, safe, span};

/// Widest bar of the histogram.
const BAR_WIDTH: u64 = 40;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct BenchView {
    file: String,
    file_bytes: u64,
    device: Option<String>,
    device_number: String,
    depth: u64,
    block_bytes: u64,
    bytes_per_second: u64,
    window_us: u64,
    reads: u64,
    read_bytes: u64,
    device_read_bytes: Option<u64>,
    /// `null`: the device could not be asked.
    from_device: Option<bool>,
    steady: bool,
    long_enough: bool,
    took_p50_us: u64,
    took_p99_us: u64,
    took_max_us: u64,
    histogram: Vec<StepView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct StepView {
    below_us: u64,
    reads: u64,
}

impl BenchView {
    pub(super) fn of(args: &BenchArgs, outcome: &Outcome) -> Self {
        let measured = &outcome.measured;
        let step = |step: &sluice_core::volume::measure::Step| StepView {
            below_us: step.below_us,
            reads: step.reads,
        };
        Self {
            file: args.file.to_string_lossy().into_owned(),
            file_bytes: outcome.target.file_bytes,
            device: outcome.target.device.clone(),
            device_number: outcome.target.number.clone(),
            depth: args.depth,
            block_bytes: args.block,
            bytes_per_second: measured.bytes_per_second,
            window_us: measured.window_us,
            reads: measured.completions,
            read_bytes: outcome.read_bytes,
            device_read_bytes: outcome.device_bytes,
            from_device: outcome.is_from_device(),
            steady: measured.is_steady,
            long_enough: measured.is_long_enough,
            took_p50_us: measured.took_p50_us,
            took_p99_us: measured.took_p99_us,
            took_max_us: measured.took_max_us,
            histogram: measured.histogram.iter().map(step).collect(),
        }
    }
}

pub(super) fn render(view: &BenchView) -> String {
    let mut sheet = Sheet::new();
    let device = or_dash(view.device.as_deref().unwrap_or_default());
    sheet.field("File", format!("{} ({})", safe(&view.file), bytes(view.file_bytes)));
    sheet.field("Device", format!("{device} ({})", safe(&view.device_number)));
    let mib = view.bytes_per_second >> 20;
    sheet.field("Throughput", format!("{mib} MiB/s ({}/s)", bytes(view.bytes_per_second)));
    let window = span(view.window_us / 1_000);
    let asked = format!("{} in flight, {} each", view.depth, bytes(view.block_bytes));
    sheet.field("Measured", format!("{} reads in {window}; {asked}", view.reads));
    let took = format!(
        "{} us median, {} us for 99 of 100, {} us at most",
        view.took_p50_us, view.took_p99_us, view.took_max_us
    );
    sheet.field("A read takes", took);
    sheet.field("Device says", device_says(view));
    if !view.steady {
        sheet.field(
            "Steady",
            warn("no: the last third was not as fast as the middle; read for longer with --time"),
        );
    }
    if !view.long_enough {
        sheet.field(
            "Long enough",
            warn("no: fewer than 64 reads in less than 3 s; raise --time or --bytes"),
        );
    }
    sheet.section("How long reads took");
    sheet.lines(&histogram(&view.histogram));
    sheet.finish()
}

fn device_says(view: &BenchView) -> String {
    let Some(device) = view.device_read_bytes else {
        return warn("nothing: no single device is behind the file");
    };
    let (read, device) = (bytes(view.read_bytes), bytes(device));
    match view.from_device {
        Some(false) => warn(&format!(
            "it read {device} of {read}: the file is in a cache or has holes, so this is not the volume's throughput"
        )),
        Some(true) | None => format!("it read {device}, asked for {read}"),
    }
}

fn histogram(steps: &[StepView]) -> String {
    let most = steps.iter().map(|step| step.reads).max().unwrap_or(1).max(1);
    let mut text = String::new();
    for step in steps {
        let width = step.reads.saturating_mul(BAR_WIDTH).div_ceil(most).min(BAR_WIDTH);
        let bar = "#".repeat(usize::try_from(width).unwrap_or(0));
        text.push_str(&format!("< {:>10} us {:>8} {bar}\n", step.below_us, step.reads));
    }
    text
}
