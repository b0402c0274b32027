//! `sluice compare`: what a preemption costs by each way of making room, as the planner computes it.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use sluice_core::compare::{Policy, Row, Training, compare, restart_device_ms};

use crate::args::{Global, parse_span};
use crate::failure::Failure;
use crate::output;
use crate::table;
use crate::text::{device_seconds, span};

/// Flags of `sluice compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without flags: the tutorial's training (4 devices, a checkpoint every 10 steps of 3.5 s) and a gang of
64 that saves every half hour. A preemption is taken to come at any moment between two checkpoints.
Losses are of all devices together and hold the time in which they are idle while saving. The grace is
the shorter of the pod's and of what a launcher within it allows: torchrun allows 30 s.

Examples:
  sluice compare
  sluice compare --devices 64 --step 10s --save 60s --save-interval 30m --deadline 2m")]
pub(crate) struct CompareArgs {
    /// Devices of the gang.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1_000_000), requires = "save_interval")]
    devices: Option<u64>,
    /// Time of a step.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "1s", requires = "devices")]
    step: Duration,
    /// Time of a save (p95).
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "10s", requires = "devices")]
    save: Duration,
    /// Time from one periodic checkpoint to the next.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, requires = "devices")]
    save_interval: Option<Duration>,
    /// Time from a start to the first step.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "5m", requires = "devices")]
    restart: Duration,
    /// Time between SIGTERM and the kill.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "30s", requires = "devices")]
    grace: Duration,
    /// How long the preemptor waits.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "1m", requires = "devices")]
    deadline: Duration,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The training of the tutorial (its own log: 3.517 s a step, 451.6 s to start), with an assumed save of 5 s.
const SEED: (&str, Training) = (
    "The tutorial: 4 devices",
    Training {
        devices: 4,
        step_ms: 3_517,
        save_ms: 5_000,
        save_interval_ms: 35_170,
        restart_ms: 451_600,
        grace_ms: 30_000,
        deadline_ms: 60_000,
    },
);

const GANG: (&str, Training) = (
    "A gang of 64 devices",
    Training {
        devices: 64,
        step_ms: 10_000,
        save_ms: 60_000,
        save_interval_ms: 1_800_000,
        restart_ms: 451_600,
        grace_ms: 30_000,
        deadline_ms: 120_000,
    },
);

/// Runs `sluice compare`.
///
/// # Errors
/// Numbers that no training can have; standard output cannot be written.
pub(crate) fn run(global: &Global, args: &CompareArgs) -> Result<(), Failure> {
    let ms = |span: Duration| u64::try_from(span.as_millis()).expect("a week at most");
    let trainings = match args.devices.zip(args.save_interval) {
        None => vec![SEED, GANG],
        Some((devices, save_interval)) => {
            let training = Training {
                devices,
                step_ms: ms(args.step),
                save_ms: ms(args.save),
                save_interval_ms: ms(save_interval),
                restart_ms: ms(args.restart),
                grace_ms: ms(args.grace),
                deadline_ms: ms(args.deadline),
            };
            check(&training)?;
            vec![("As given", training)]
        }
    };
    if args.json {
        let all: Vec<_> =
            trainings.iter().map(|(title, training)| as_json(title, training)).collect();
        return output::write_stdout(format!("{}\n", serde_json::Value::from(all)).as_bytes());
    }
    let texts: Vec<String> = trainings.iter().map(|(title, t)| as_table(title, t)).collect();
    output::print(global.color, &texts.join("\n"))
}

/// Who saves longer than the time between two saves never trains: every figure would be nonsense.
fn check(training: &Training) -> Result<(), Failure> {
    let Training { step_ms, save_ms, save_interval_ms, .. } = training;
    let needed_ms = step_ms.saturating_add(*save_ms);
    if needed_ms <= *save_interval_ms {
        return Ok(());
    }
    let message = format!(
        "--save-interval is {} but must be at least a step and a save, {}",
        span(*save_interval_ms),
        span(needed_ms)
    );
    Err(Failure::usage(message).hint("it is the time from one periodic checkpoint to the next"))
}

fn as_table(title: &str, training: &Training) -> String {
    let Training { devices, step_ms, save_ms, save_interval_ms, restart_ms, grace_ms, deadline_ms } =
        training;
    let mut text = format!(
        "{title}: a step takes {}, a save {}; a checkpoint every {}; grace {}, deadline {}\n",
        span(*step_ms),
        span(*save_ms),
        span(*save_interval_ms),
        span(*grace_ms),
        span(*deadline_ms),
    );
    let rows: Vec<Vec<String>> = compare(training).iter().map(|r| cells(training, r)).collect();
    let titles =
        ["BY", "LOSES (MEAN)", "LOSES (WORST)", "WAITS (MEAN)", "WAITS (WORST)", "IN TIME"];
    text.push_str(&table::columns(&titles, &rows));
    text.push_str(&format!(
        "Each of them also pays the restart: {} of {devices} devices, {}\n",
        span(*restart_ms),
        device_seconds(restart_device_ms(training)),
    ));
    text
}

fn cells(training: &Training, row: &Row) -> Vec<String> {
    let in_time = if row.worst_wait_ms <= training.deadline_ms { "yes" } else { "no" };
    vec![
        row.policy.to_string(),
        device_seconds(row.mean_loss_device_ms),
        device_seconds(row.worst_loss_device_ms),
        span(row.mean_wait_ms),
        span(row.worst_wait_ms),
        in_time.to_owned(),
    ]
}

fn as_json(title: &str, training: &Training) -> serde_json::Value {
    let row = |row: &Row| {
        json!({
            "policy": word(row.policy),
            "mean_loss_device_ms": row.mean_loss_device_ms,
            "worst_loss_device_ms": row.worst_loss_device_ms,
            "mean_wait_ms": row.mean_wait_ms,
            "worst_wait_ms": row.worst_wait_ms,
            "in_time": row.worst_wait_ms <= training.deadline_ms,
        })
    };
    json!({
        "title": title,
        "devices": training.devices,
        "restart_device_ms": restart_device_ms(training),
        "rows": compare(training).iter().map(row).collect::<Vec<_>>(),
    })
}

/// Stable word of a policy.
fn word(policy: Policy) -> &'static str {
    match policy {
        Policy::Kill => "kill",
        Policy::GraceExit => "grace-exit",
        Policy::GraceSave => "grace-save",
        Policy::Boundary => "boundary",
        Policy::Signal => "signal",
        Policy::Client => "client",
        Policy::Planned => "planned",
    }
}
