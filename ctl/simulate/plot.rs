//! A simulation as a picture: utilisation over time, how long each class waited, what was lost.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use sluice::simulate::{Mode, Scenario, Summary};

use super::Run;
use crate::failure::Failure;

/// Width and height. Unit: pixels; an SVG scales.
const SIZE_PX: (u32, u32) = (960, 1_080);
/// Points of the line of utilisation: one for two pixels.
const POINTS: u64 = 400;
/// Classes whose waiting is drawn; more lines cannot be told apart.
const CLASSES_MAX: usize = 8;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// The picture of `runs` as SVG.
pub(super) fn draw(scenario: &Scenario, runs: &[Run]) -> Result<String, Failure> {
    let mut svg = String::new();
    draw_into(&mut svg, scenario, runs)
        .map_err(|error| Failure::runtime(format!("could not draw the plot: {error}")))?;
    Ok(svg)
}

fn draw_into(svg: &mut String, scenario: &Scenario, runs: &[Run]) -> Drawn {
    let root = SVGBackend::with_string(svg, SIZE_PX).into_drawing_area();
    root.fill(&WHITE)?;
    let parts = root.split_evenly((3, 1));
    let [above, middle, below] = parts.as_slice() else { return Ok(()) };
    draw_utilisation(above, scenario, runs)?;
    draw_waiting(middle, scenario, runs)?;
    draw_lost(below, scenario, runs)?;
    root.present()?;
    Ok(())
}

fn color_of(mode: Mode) -> RGBColor {
    match mode {
        Mode::Kill => RGBColor(213, 94, 0),
        Mode::Drain => RGBColor(0, 114, 178),
    }
}

/// A length of time, and the unit in which its numbers are short.
fn unit_of(longest_ms: u64) -> (f64, &'static str) {
    match longest_ms {
        0..120_000 => (1_000.0, "seconds"),
        120_000..7_200_000 => (60_000.0, "minutes"),
        7_200_000.. => (3_600_000.0, "hours"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a picture needs no more than 52 bits")]
fn real(value: u64) -> f64 {
    value as f64
}

fn draw_utilisation(area: &Area<'_>, scenario: &Scenario, runs: &[Run]) -> Drawn {
    let first_ms = scenario.jobs.first().map_or(0, |job| job.arrival_ms);
    let longest_ms =
        runs.iter().map(|run| run.outcome.ended_at_ms).max().unwrap_or(0).max(first_ms + 1);
    let (unit_ms, unit) = unit_of(longest_ms - first_ms);
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Utilisation of {}", scenario.measured.resource), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..real(longest_ms - first_ms) / unit_ms, 0.0..100.0)?;
    chart.configure_mesh().x_desc(unit).y_desc("% of capacity").draw()?;
    for run in runs {
        let color = color_of(run.summary.mode);
        let points = utilisation(scenario, run, first_ms);
        let points = points.into_iter().map(|(at_ms, percent)| (at_ms / unit_ms, percent));
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(run.summary.mode.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    Ok(())
}

/// Mean utilisation of equal pieces of time: their middles from `first_ms` on, and percent.
fn utilisation(scenario: &Scenario, run: &Run, first_ms: u64) -> Vec<(f64, f64)> {
    let length_ms = run.outcome.ended_at_ms.saturating_sub(first_ms).max(1);
    let piece_ms = length_ms.div_ceil(POINTS).max(1);
    let pieces = usize::try_from(length_ms.div_ceil(piece_ms)).unwrap_or(0);
    let mut sums = vec![0_u128; pieces];
    let held = &run.outcome.held;
    let ends = held.iter().skip(1).map(|(at_ms, _)| *at_ms).chain([run.outcome.ended_at_ms]);
    for ((from_ms, amount), until_ms) in held.iter().zip(ends) {
        let (mut from_ms, until_ms) = (from_ms - first_ms, until_ms.saturating_sub(first_ms));
        while from_ms < until_ms {
            let piece = from_ms / piece_ms;
            let end_ms = until_ms.min((piece + 1) * piece_ms);
            if let Some(sum) = usize::try_from(piece).ok().and_then(|piece| sums.get_mut(piece)) {
                *sum += u128::from(amount.unsigned_abs()) * u128::from(end_ms - from_ms);
            }
            from_ms = end_ms;
        }
    }
    let capacity = u128::from(scenario.measured.capacity.unsigned_abs().max(1));
    let point = |(piece, sum): (u64, u128)| {
        let from_ms = piece * piece_ms;
        let width_ms = (length_ms - from_ms).min(piece_ms);
        let permyriad = sum * 10_000 / (capacity * u128::from(width_ms.max(1)));
        (real(from_ms) + real(width_ms) / 2.0, real(u64::try_from(permyriad).unwrap_or(0)) / 100.0)
    };
    (0..).zip(sums).map(point).collect()
}

/// Waiting of the last run: what part of each class waited at most how long.
fn draw_waiting(area: &Area<'_>, scenario: &Scenario, runs: &[Run]) -> Drawn {
    let Some(run) = runs.last() else { return Ok(()) };
    let (unit_ms, unit) = unit_of(run.summary.total.waiting.max_ms);
    let longest = (real(run.summary.total.waiting.max_ms) / unit_ms).max(0.001);
    let caption = format!("Waiting until the first start, per class ({})", run.summary.mode.name());
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..longest, 0.0..100.0)?;
    chart.configure_mesh().x_desc(unit).y_desc("% that waited at most").draw()?;
    for (index, class) in run.summary.classes.iter().take(CLASSES_MAX).enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let points = waiting_of(scenario, run, &class.name);
        let points =
            points.into_iter().map(|(wait_ms, percent)| (real(wait_ms) / unit_ms, percent));
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(class.name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    Ok(())
}

/// At each hundredth of a class that was admitted: how long it waited at most.
fn waiting_of(scenario: &Scenario, run: &Run, class: &str) -> Vec<(u64, f64)> {
    let jobs = scenario.jobs.iter().zip(&run.outcome.jobs).filter(|(job, _)| job.class == class);
    let mut waits: Vec<u64> =
        jobs.filter_map(|(job, fate)| Some(fate.first_admitted_at_ms? - job.arrival_ms)).collect();
    waits.sort_unstable();
    let at = |percent: usize| waits.get((waits.len() * percent).div_ceil(100).max(1) - 1).copied();
    let points =
        (0_u32..=100).filter_map(|percent| Some((at(percent as usize)?, f64::from(percent))));
    points.collect()
}

fn draw_lost(area: &Area<'_>, scenario: &Scenario, runs: &[Run]) -> Drawn {
    let parts = |summary: &Summary| {
        let total = &summary.total;
        [total.lost_work_device_ms, total.restart_device_ms, total.saving_device_ms]
            .map(|device_ms| real(device_ms) / 3_600_000.0)
    };
    let most = runs.iter().flat_map(|run| parts(&run.summary)).fold(0.0, f64::max).max(0.001);
    let mut chart = ChartBuilder::on(area)
        .caption(
            "Work done again, starts after a preemption, saving and leaving",
            ("sans-serif", 18),
        )
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..3.0, 0.0..most * 1.1)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(4)
        .x_label_formatter(&|_| String::new())
        .x_desc(
            "work done again      |      starts after a preemption      |      saving and leaving",
        )
        .y_desc(format!("{}-hours", scenario.measured.noun()))
        .draw()?;
    let width = 0.8 / real(runs.len().max(1) as u64);
    for (index, run) in (0_u32..).zip(runs) {
        let color = color_of(run.summary.mode);
        let bars = (0_u32..).zip(parts(&run.summary)).map(|(part, hours)| {
            let left = f64::from(part) + 0.1 + f64::from(index) * width;
            Rectangle::new([(left, 0.0), (left + width * 0.95, hours)], color.filled())
        });
        chart
            .draw_series(bars)?
            .label(run.summary.mode.name())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 16, y + 5)], color.filled()));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    Ok(())
}
