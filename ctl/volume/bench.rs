//! `sluice volume bench`: what the volume of a file gives, measured by reading the file past the page cache.

mod reader;
mod render;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use clap::Args;
use sluice_core::volume::measure::{Completion, Measured, measure};

use self::reader::{Message, Run, Target};
use super::parse_bytes;
use crate::args::{Global, parse_span};
use crate::failure::Failure;
use crate::output::{self, Document, Format};
use crate::text::{bytes, safe, span};

/// Smallest file: in a smaller one, caches of the device are measured.
const FILE_BYTES_MIN: u64 = 256 << 20;

/// Reads complete only after so long: the queue has to fill, and bursts of the first moment are not what a load gets.
const WARM_UP: Duration = Duration::from_secs(1);

/// How long after its end a run is waited for. A disk that is lost answers never, not even with an error.
const GRACE: Duration = Duration::from_secs(10);

/// Time between two drawings of the progress bar.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// A device that read less of what was asked for was not asked: the file is in a cache, or has holes. Unit: 1/1000.
const DEVICE_SHARE_PERMILLE_MIN: u64 = 950;

/// Reads a file past the page cache and says what its volume gives.
#[derive(Debug, Args)]
#[command(after_help = "\
It takes what it can get: other readers of the volume are slower meanwhile. It only reads, and stops at whichever of
--time and --bytes comes first. The result is checked against what the device says it read.

Examples:
  sluice volume bench /models/llama/model-00001-of-00030.safetensors
  sluice volume bench /models/big.bin --depth 16 --time 10s --bytes 16Gi
  sluice volume bench /models/big.bin -o json | jq .bytes_per_second")]
pub(crate) struct BenchArgs {
    /// A file of at least 256 MiB on the volume.
    file: PathBuf,
    /// Reads in flight.
    #[arg(long, value_name = "NUMBER", default_value = "8", value_parser = clap::value_parser!(u64).range(1..=128))]
    depth: u64,
    /// Size of one read, a multiple of 4Ki up to 64Mi.
    #[arg(long, value_name = "SIZE", default_value = "4Mi", value_parser = parse_block)]
    block: u64,
    /// Read for at most so long.
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_time)]
    time: Duration,
    /// Read at most so much.
    #[arg(long, value_name = "SIZE", default_value = "16Gi", value_parser = parse_bytes)]
    bytes: u64,
    /// How to print it.
    #[arg(long, short, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

fn parse_block(text: &str) -> Result<u64, String> {
    let block = parse_bytes(text)?;
    let fits = block.is_multiple_of(4_096) && block <= 64 << 20;
    if fits { Ok(block) } else { Err("must be a multiple of 4Ki up to 64Mi".to_owned()) }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let time = parse_span(text)?;
    let fits = (Duration::from_secs(1)..=Duration::from_secs(60)).contains(&time);
    if fits { Ok(time) } else { Err("must be from 1s to 60s".to_owned()) }
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Outcome {
    target: Target,
    measured: Measured,
    /// Read by the run, warm-up included.
    read_bytes: u64,
    /// Read by the device meanwhile. `None`: it could not be asked.
    device_bytes: Option<u64>,
}

impl Outcome {
    /// Whether what was read came from the device. `None`: it could not be asked.
    fn is_from_device(&self) -> Option<bool> {
        let device = u128::from(self.device_bytes?) * 1_000;
        Some(device >= u128::from(self.read_bytes) * u128::from(DEVICE_SHARE_PERMILLE_MIN))
    }
}

/// Runs `sluice volume bench`.
///
/// # Errors
/// The file cannot be read past the page cache, is too small, or its volume does not answer.
pub(super) fn run(global: &Global, args: &BenchArgs) -> Result<(), Failure> {
    let outcome = bench(args)?;
    let view = render::BenchView::of(args, &outcome);
    if let Some(text) = output::encode(args.output, &Document::new("VolumeBench", &view))? {
        return output::write_stdout(text.as_bytes());
    }
    output::print(global.color, &render::render(&view))
}

fn bench(args: &BenchArgs) -> Result<Outcome, Failure> {
    let run = Run {
        file: args.file.clone(),
        depth: args.depth,
        block_bytes: args.block,
        time: args.time,
        budget_bytes: args.bytes,
        file_bytes_min: FILE_BYTES_MIN,
    };
    let started = Instant::now();
    let messages = reader::start(run);
    let mut bar = Bar::new(args.time);
    let (mut target, mut done, mut device_bytes) = (None, Vec::<Completion>::new(), None);
    loop {
        match messages.recv_timeout(DRAW_INTERVAL) {
            Ok(Message::Opened(found)) => target = Some(found),
            Ok(Message::Read(completion)) => done.push(completion),
            Ok(Message::Ended { device_bytes: read }) => {
                device_bytes = read;
                break;
            }
            Ok(Message::Failed(why)) => return Err(failed(&args.file, &why)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if started.elapsed() > args.time + GRACE {
            bar.clear();
            return Err(silent(&args.file, started.elapsed()));
        }
        bar.draw(started.elapsed(), &done);
    }
    bar.clear();
    let warm_up_us = u64::try_from(WARM_UP.min(args.time / 5).as_micros()).unwrap_or(0);
    let end_us = done.iter().map(|d| d.at_us).max().unwrap_or(0);
    let measured = target.zip(measure(&done, warm_up_us.min(end_us / 5)));
    let Some((target, measured)) = measured else {
        return Err(Failure::runtime("nothing was read").hint("read for longer with --time"));
    };
    let read_bytes = done.iter().map(|completion| completion.bytes).sum();
    Ok(Outcome { target, measured, read_bytes, device_bytes })
}

fn failed(file: &Path, why: &str) -> Failure {
    Failure::runtime(format!(
        "could not measure \"{}\": {}",
        safe(&file.to_string_lossy()),
        safe(why)
    ))
}

fn silent(file: &Path, elapsed: Duration) -> Failure {
    let file = safe(&file.to_string_lossy()).clone();
    let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    Failure::runtime(format!("the volume of \"{file}\" has not answered for {}", span(ms))).hint(
        "a Google disk that is lost hangs for ever: look at the kernel's log and at the VM's disks",
    )
}

/// Progress, on a terminal only.
struct Bar {
    time: Duration,
    is_shown: bool,
    drawn: Option<Instant>,
}

impl Bar {
    fn new(time: Duration) -> Self {
        Self { time, is_shown: std::io::stderr().is_terminal(), drawn: None }
    }

    fn draw(&mut self, elapsed: Duration, done: &[Completion]) {
        if !self.is_shown || self.drawn.is_some_and(|drawn| drawn.elapsed() < DRAW_INTERVAL) {
            return;
        }
        self.drawn = Some(Instant::now());
        let recent_us = u64::try_from(elapsed.as_micros()).unwrap_or(0).saturating_sub(1_000_000);
        let recent: u64 =
            done.iter().rev().take_while(|d| d.at_us > recent_us).map(|d| d.bytes).sum();
        let line = bar_line(elapsed, self.time, recent);
        self.write(&format!("\r{line}"));
    }

    fn clear(&mut self) {
        if self.drawn.is_some() {
            self.write(&format!("\r{:60}\r", ""));
        }
    }

    fn write(&self, text: &str) {
        let mut stderr = std::io::stderr().lock();
        // A terminal that has gone takes no progress bar.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}

/// `[#####...............]  26%  1.2 GiB/s`
fn bar_line(elapsed: Duration, time: Duration, recent_bytes: u64) -> String {
    const WIDTH: u128 = 20;
    let whole = time.as_micros().max(1);
    let part = elapsed.as_micros().min(whole);
    let filled = usize::try_from(part * WIDTH / whole).unwrap_or(0);
    let percent = part * 100 / whole;
    let rate = bytes(recent_bytes);
    format!("[{:.<20}] {percent:3}%  {rate:>9}/s  ", "#".repeat(filled))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::bar_line;

    #[test]
    fn progress_has_a_bar_a_share_and_a_rate() {
        let line = |ms| bar_line(Duration::from_millis(ms), Duration::from_secs(5), 1_288_490_189);
        assert_eq!(line(0), "[....................]   0%    1.2 GiB/s  ");
        assert_eq!(line(1_300), "[#####...............]  26%    1.2 GiB/s  ");
        assert_eq!(line(9_000), "[####################] 100%    1.2 GiB/s  ");
    }
}
