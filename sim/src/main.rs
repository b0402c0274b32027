//! Runs Sluice's core against a simulated cluster, with faults: `cargo sim --runs 1000`.
//!
//! One seed and one commit reproduce a run exactly. A broken promise ends the program with status 1 and
//! prints the seed and the events that led to it.

#![forbid(unsafe_code)]

mod checker;
mod crash_points;
mod device;
mod fault;
mod gang;
mod launcher;
mod node;
mod rng;
mod run;
mod world;

use std::process::ExitCode;

use run::{Failure, Summary, run};

const USAGE: &str = "usage: sluice-sim [--runs N] [--seed FIRST] | --crash-points\n  runs N seeds from FIRST on (default 100 from 1); a failing seed is printed with its trace";

fn main() -> ExitCode {
    if std::env::args().skip(1).eq(["--crash-points"]) {
        return crash_points();
    }
    let (first, runs) = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("sluice-sim: {error}\n{USAGE}");
            return ExitCode::from(64);
        }
    };
    let mut total = Summary::default();
    for seed in first..first.saturating_add(runs) {
        match run(seed) {
            Ok(summary) => add(&mut total, summary),
            Err(failure) => return report(seed, &failure),
        }
    }
    println!(
        "{runs} runs: {} virtual seconds, {} drains ({} with a checkpoint, {} by signal or file, {} by file; {} rehearsals), {} arbiter starts, no promise broken",
        total.virtual_ms / 1_000,
        total.drains,
        total.durable,
        total.signalled,
        total.by_client,
        total.rehearsed,
        total.epochs
    );
    ExitCode::SUCCESS
}

fn crash_points() -> ExitCode {
    match crash_points::run_all() {
        Ok(crashes) => {
            println!("{crashes} crashes, each at a point of its own, no promise broken");
            ExitCode::SUCCESS
        }
        Err((place, failure)) => {
            for line in &failure.trace {
                println!("{line}");
            }
            println!("{place}, at {} ms: {}", failure.at_ms, failure.violation);
            ExitCode::FAILURE
        }
    }
}

fn add(total: &mut Summary, run: Summary) {
    total.drains += run.drains;
    total.durable += run.durable;
    total.signalled += run.signalled;
    total.by_client += run.by_client;
    total.rehearsed += run.rehearsed;
    total.epochs += run.epochs;
    total.virtual_ms += run.virtual_ms;
}

fn report(seed: u64, failure: &Failure) -> ExitCode {
    for line in &failure.trace {
        println!("{line}");
    }
    println!("seed {seed} at {} ms: {}", failure.at_ms, failure.violation);
    println!("again: cargo sim --seed {seed} --runs 1");
    ExitCode::FAILURE
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<(u64, u64), String> {
    let (mut first, mut runs) = (1, 100);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let number =
            value.parse().map_err(|_| format!("{flag} is {value:?} but must be a whole number"))?;
        match flag.as_str() {
            "--seed" => first = number,
            "--runs" => runs = number,
            _ => return Err(format!("{flag:?} is not a flag")),
        }
    }
    Ok((first, runs))
}
