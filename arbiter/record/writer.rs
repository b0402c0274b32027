//! The thread that writes.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};

use sluice::wire::{pb, record};
use tracing::warn;

use super::Entry;
use super::file::Files;

/// Writes entries until the other side is gone or the disk fails.
pub(super) fn run(entries: &Receiver<Entry>, mut files: Files, is_full: &AtomicBool) {
    if let Err(error) = write_all(entries, &mut files, is_full) {
        warn!(%error, "inputs are not recorded any more; make room and restart the arbiter");
    }
}

fn write_all(entries: &Receiver<Entry>, files: &mut Files, is_full: &AtomicBool) -> io::Result<()> {
    loop {
        let entry = match entries.try_recv() {
            Ok(entry) => entry,
            Err(TryRecvError::Disconnected) => return files.flush(),
            Err(TryRecvError::Empty) => {
                // Nothing waits: the moment to let the system have what is in the buffer.
                files.flush()?;
                let Ok(entry) = entries.recv() else { return Ok(()) };
                entry
            }
        };
        match entry {
            Entry::Start(snapshot) => files.begin((&*snapshot).into())?,
            Entry::Step { at, input, outputs, digest } => {
                let step = pb::RecordStep { outputs, digest, ..record::step(at, &input) };
                if files.append(step)? {
                    is_full.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}
