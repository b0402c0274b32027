//! What this machine needs for a call to the arbiter that changes nothing, and for making a small file durable.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use sluice::wire::pb;
use sluice::wire::pb::admin_client::AdminClient;
use tonic::transport::Channel;

const CALLS: usize = 500;
const FLUSHES: usize = 100;

/// Measures and prints both.
pub(crate) async fn print(admin: &mut AdminClient<Channel>, dir: &Path) -> Result<()> {
    let mut calls = Vec::new();
    for _ in 0..CALLS {
        let started = Instant::now();
        admin.get_status(pb::GetStatusRequest {}).await?;
        calls.push(micros(started));
    }
    print_times("yardstick: one call (GetStatus)", &mut calls);
    let mut flushes = Vec::new();
    for _ in 0..FLUSHES {
        flushes.push(durable_write(dir)?);
    }
    print_times("yardstick: 2 KiB written, flushed, renamed, directory flushed", &mut flushes);
    Ok(())
}

/// As the agent's journal does it.
fn durable_write(dir: &Path) -> Result<u64> {
    let started = Instant::now();
    let (temporary, path) = (dir.join("yardstick.tmp"), dir.join("yardstick"));
    let mut file = File::create(&temporary)?;
    file.write_all(&[b'x'; 2048])?;
    file.sync_all()?;
    fs::rename(&temporary, &path)?;
    File::open(dir)?.sync_all()?;
    Ok(micros(started))
}

fn micros(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Prints the middle, the tail and the worst. Unit of `times`: µs.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn print_times(what: &str, times_us: &mut [u64]) {
    times_us.sort_unstable();
    let at = |share_permille: usize| -> f64 {
        let rank =
            (times_us.len() * share_permille).div_ceil(1_000).clamp(1, times_us.len().max(1));
        times_us.get(rank - 1).map_or(f64::NAN, |us| *us as f64 / 1e3)
    };
    let (p50, p90, p99, max) = (at(500), at(900), at(990), at(1_000));
    println!(
        "{what}: p50 {p50:.2} ms, p90 {p90:.2} ms, p99 {p99:.2} ms, max {max:.2} ms (n = {})",
        times_us.len()
    );
}
