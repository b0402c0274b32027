//! What the demo trainer does on SIGTERM and SIGUSR1, in the ways real training scripts do it.
//!
//! A handler only raises a flag; the training loop looks at the flags at each step boundary.
//! Signals that nobody asked for keep their default action: no handler is installed for them.
//! Two signals of one kind that arrive within the same instant are seen as one, as by any
//! process.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What SIGTERM does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnSigterm {
    /// No handler: the process dies.
    Default,
    /// A handler that saves nothing and exits with status 0.
    Exit0,
    /// Save at the next step boundary, then exit with status 0.
    SaveExit,
}

/// What SIGUSR1 does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnUsr1 {
    /// No handler: the process dies.
    None,
    /// Save at the next step boundary and go on.
    Save,
}

/// The flags that the handlers raise.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals {
    stop: Arc<AtomicBool>,
    save: Arc<AtomicBool>,
}

impl Signals {
    pub(crate) fn raise_stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    pub(crate) fn raise_save(&self) {
        self.save.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Whether a save was asked for since the last call.
    pub(crate) fn take_save(&self) -> bool {
        self.save.swap(false, Ordering::SeqCst)
    }
}

/// Installs the handlers asked for and a thread that serves them.
///
/// Each signal received is appended to `log` as one line with its number.
///
/// # Errors
/// If a handler cannot be installed.
pub(crate) fn install(term: OnSigterm, usr1: OnUsr1, log: Option<File>) -> Result<Signals> {
    let signals = Signals::default();
    if term == OnSigterm::Default && usr1 == OnUsr1::None {
        return Ok(signals);
    }
    let runtime = Builder::new_current_thread().enable_io().build();
    let runtime = runtime.context("could not start the runtime that waits for signals")?;
    // The handlers are in place when this function returns, not some time later.
    let (term_stream, usr1_stream) = {
        let _guard = runtime.enter();
        let term_kind = (term != OnSigterm::Default).then(SignalKind::terminate);
        let usr1_kind = (usr1 != OnUsr1::None).then(SignalKind::user_defined1);
        let open = |kind: Option<SignalKind>| kind.map(signal).transpose();
        (open(term_kind), open(usr1_kind))
    };
    let term_stream = term_stream.context("could not install a handler for SIGTERM")?;
    let usr1_stream = usr1_stream.context("could not install a handler for SIGUSR1")?;
    let flags = signals.clone();
    let serve = move || serve(&runtime, term, (term_stream, usr1_stream), &flags, log);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(serve)
        .context("could not start the thread that waits for signals")?;
    Ok(signals)
}

fn serve(
    runtime: &Runtime,
    term: OnSigterm,
    (mut term_stream, mut usr1_stream): (Option<Signal>, Option<Signal>),
    flags: &Signals,
    mut log: Option<File>,
) {
    loop {
        let number = runtime.block_on(async {
            tokio::select! {
                () = received(&mut term_stream) => SignalKind::terminate().as_raw_value(),
                () = received(&mut usr1_stream) => SignalKind::user_defined1().as_raw_value(),
            }
        });
        if let Some(log) = &mut log {
            // A full disk must not keep a signal from being served.
            let _ = log.write_all(format!("{number}\n").as_bytes());
        }
        if number == SignalKind::user_defined1().as_raw_value() {
            flags.raise_save();
        } else if term == OnSigterm::Exit0 {
            std::process::exit(0);
        } else {
            flags.raise_stop();
        }
    }
}

/// Waits for the stream's next signal; for ever where there is no stream.
async fn received(stream: &mut Option<Signal>) {
    let next = match stream {
        Some(stream) => stream.recv().await,
        None => None,
    };
    if next.is_none() {
        std::future::pending::<()>().await;
    }
}
