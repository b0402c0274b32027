//! `sluice demo-serve`: a small inference server over the model that `demo-train` trains.
//!
//! The protocol is lines: a client sends a line, the server answers with one line of text that
//! continues it, drawn from the model character by character. A stand-in for the workload that
//! preempts training: it holds its accelerators until it is told to end.
//!
//! Exit status: 0 ended by SIGTERM or SIGINT · 1 failed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fastrand::Rng;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use crate::trainer::data::{character, token};
use crate::trainer::model::{self, CONTEXT};

/// Longest request line, in bytes; a longer one ends its connection.
const REQUEST_LEN_MAX: u64 = 4_096;
/// Connections served at a time; more wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 64;

/// Answers lines of text with text, as a stand-in for an inference server.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DemoServeArgs {
    /// Address to listen on; port 0 takes a free one, printed in the ready line.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: std::net::SocketAddr,
    /// `model.safetensors`, or a directory that holds it; without it an untrained model answers.
    #[arg(long)]
    model: Option<PathBuf>,
    /// Time spent before the server is ready, as if loading a model, in milliseconds.
    #[arg(long, default_value_t = 500)]
    startup_ms: u32,
    /// Characters per answer.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u16).range(1..=4_096))]
    answer_len: u16,
    /// Seed of the untrained model and of what is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs `sluice demo-serve`.
pub(crate) fn run(args: &DemoServeArgs) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sluice demo-serve: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &DemoServeArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            result = listen(args) => result,
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    })
}

async fn listen(args: &DemoServeArgs) -> Result<()> {
    tokio::time::sleep(Duration::from_millis(args.startup_ms.into())).await;
    let weights = match &args.model {
        Some(path) => load(path)?,
        None => model::initial(&mut Rng::with_seed(args.seed)),
    };
    let writer = Arc::new(Writer { weights, answer_len: args.answer_len.into(), seed: args.seed });
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.with_context(|| format!("could not listen on {}", args.listen))?;
    // Whoever waits for this line may have gone; serving goes on without it.
    let _ = writeln!(std::io::stdout(), "ready {}", listener.local_addr()?);
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let slot = Arc::clone(&slots).acquire_owned().await?;
        let (stream, _) = listener.accept().await.context("could not accept a connection")?;
        let writer = Arc::clone(&writer);
        tokio::spawn(async move {
            // A client that goes away in the middle of a line is none of the server's business.
            let _ = answer(stream, &writer).await;
            drop(slot);
        });
    }
}

fn load(path: &Path) -> Result<Vec<f32>> {
    let path = if path.is_dir() { path.join("model.safetensors") } else { path.to_owned() };
    let context = || format!("could not load the model \"{}\"", path.display());
    let bytes = std::fs::read(&path).with_context(context)?;
    model::from_safetensors(&bytes, "").with_context(context)
}

async fn answer(mut stream: TcpStream, writer: &Writer) -> std::io::Result<()> {
    let (reading, mut writing) = stream.split();
    let mut reading = BufReader::new(reading);
    loop {
        let mut line = Vec::new();
        (&mut reading).take(REQUEST_LEN_MAX).read_until(b'\n', &mut line).await?;
        if line.pop() != Some(b'\n') {
            return Ok(());
        }
        let mut text = writer.continue_text(&line);
        text.push('\n');
        writing.write_all(text.as_bytes()).await?;
    }
}

/// Writes text as the model would.
struct Writer {
    weights: Vec<f32>,
    answer_len: usize,
    seed: u64,
}

impl Writer {
    /// One line that continues `prompt`; the same prompt always gets the same answer.
    fn continue_text(&self, prompt: &[u8]) -> String {
        let mut rng = Rng::with_seed(self.seed);
        let mut context = [token(b' '); CONTEXT];
        let known = &prompt[prompt.len().saturating_sub(CONTEXT)..];
        for (slot, &byte) in context[CONTEXT - known.len()..].iter_mut().zip(known) {
            *slot = token(byte);
        }
        let mut text = String::with_capacity(self.answer_len + 1);
        for _ in 0..self.answer_len {
            let drawn = draw(&model::predict(&self.weights, &context), rng.f32());
            context.rotate_left(1);
            context[CONTEXT - 1] = drawn;
            let character = character(drawn);
            text.push(if character == '\n' { ' ' } else { character });
        }
        text
    }
}

/// The token at which the summed chances pass `threshold`, 0..1.
fn draw(chances: &[f32], threshold: f32) -> u8 {
    let mut sum = 0.0;
    let drawn = chances.iter().position(|chance| {
        sum += chance;
        sum > threshold
    });
    // Rounding may leave the sum a little below one: then the last token is meant.
    let drawn = drawn.unwrap_or(chances.len() - 1);
    u8::try_from(drawn).expect("the vocabulary has fewer than 256 tokens")
}

#[cfg(test)]
mod tests;
