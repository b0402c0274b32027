//! The command-line client of Sluice: `sluice`, also usable as `kubectl sluice`.
//!
//! Each command is a module with its flags and its code. Commands return a [`failure::Failure`]
//! that knows its exit status; this file parses, dispatches and prints.

#![forbid(unsafe_code)]

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use args::{Cli, Command, CompletionArgs, Shell};
use failure::{EXIT_USAGE, Failure};

mod args;
mod ask;
mod compare;
mod config;
mod connect;
mod control;
mod demo;
mod describe;
mod doctor;
mod drill;
mod explain;
mod failure;
mod get;
mod gpus;
mod output;
mod paint;
mod rehearse;
mod run;
mod server;
mod simulate;
mod slice;
mod status;
mod table;
mod text;
mod trainer;
mod up;
mod view;
mod volume;

fn main() -> ExitCode {
    let usage = usage_name();
    let matches = Cli::command().bin_name(usage).try_get_matches();
    let cli = match matches.and_then(|m| Cli::from_arg_matches(&m)) {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing is left to do if the terminal is gone.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(EXIT_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    // The demo's stand-ins are programs of their own that know nothing of Sluice.
    match cli.command {
        Command::DemoTrain(args) => trainer::run(&args),
        Command::DemoServe(args) => server::run(&args),
        command => finish(cli.global.color, dispatch(&cli.global, command)),
    }
}

/// `kubectl sluice` if called as the plugin, else `sluice`: the name decides nothing else.
fn usage_name() -> &'static str {
    let name = std::env::args_os().next();
    let name = name.as_deref().and_then(|n| Path::new(n).file_name());
    if name.is_some_and(|n| n == "kubectl-sluice") { "kubectl sluice" } else { "sluice" }
}

fn finish(color: paint::When, result: Result<u8, Failure>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            let text = paint::resolve(&failure.text(), color.for_stderr());
            // Nothing is left to do if the terminal is gone.
            let _ = std::io::stderr().write_all(text.as_bytes());
            ExitCode::from(failure.exit)
        }
    }
}

/// Runs a command; its exit status, or why it failed.
fn dispatch(global: &args::Global, command: Command) -> Result<u8, Failure> {
    let done = |result: Result<(), Failure>| result.map(|()| 0);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::runtime(format!("could not start the runtime: {e}")))?;
    let code = runtime.block_on(async {
        match command {
            Command::Up(args) => up::up(global, args).await,
            Command::Run(args) => run::run(global, *args).await,
            Command::Get(args) => done(get::get(global, args).await),
            Command::Describe(args) => done(describe::describe(global, args).await),
            Command::Explain(args) => done(explain::explain(global, args).await),
            Command::Status(args) => done(status::status(global, args).await),
            Command::Doctor(args) => doctor::doctor(global, args).await,
            Command::Cancel(args) => done(control::cancel(global, args).await),
            Command::Rehearse(args) => done(rehearse::rehearse(global, args).await),
            Command::Freeze(args) => done(control::freeze(global, args).await),
            Command::Unfreeze => done(control::unfreeze(global).await),
            Command::ReleaseGpus(args) => done(gpus::release(global, args).await),
            Command::ResumeGpus => done(gpus::resume(global).await),
            Command::InjectFault(args) => done(drill::inject_fault(global, args).await),
            Command::ClearFaults(args) => done(drill::clear_faults(global, args).await),
            Command::Demo(args) => demo::demo(global, args).await,
            Command::Simulate(args) => done(simulate::simulate(global, &args)),
            Command::Compare(args) => done(compare::run(global, &args)),
            Command::Slice(args) => slice::slice(global, &args).await,
            Command::Volume(args) => done(volume::volume(global, &args)),
            Command::Version => done(control::version(global).await),
            Command::Config(args) => config::config(global, &args),
            Command::Completion(args) => done(completion(&args)),
            Command::DemoTrain(_) | Command::DemoServe(_) => {
                unreachable!("main() runs these without a runtime")
            }
        }
    });
    // Whatever still waits in the background (a lookup of a host name) is not waited for.
    runtime.shutdown_background();
    code
}

fn completion(args: &CompletionArgs) -> Result<(), Failure> {
    use clap_complete::{generate, shells};
    let (mut command, mut script) = (Cli::command(), Vec::new());
    match args.shell {
        Shell::Bash => generate(shells::Bash, &mut command, "sluice", &mut script),
        Shell::Zsh => generate(shells::Zsh, &mut command, "sluice", &mut script),
        Shell::Fish => generate(shells::Fish, &mut command, "sluice", &mut script),
    }
    output::write_stdout(&script)
}
