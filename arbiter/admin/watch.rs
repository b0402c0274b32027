//! Streams: one workload as it changes, and decisions as they are made.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use sluice::wire::{field, pb};
use sluice_core::arbiter::Input;
use sluice_core::id::{LauncherId, WorkloadName};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{AdminService, found, no_such, on_disk};
use crate::run::{Handle, Stopped};
use crate::view;

/// Most decisions read from the store at once.
const DECISIONS_READ_MAX: usize = 256;
/// Messages waiting for a watcher. One: a slow watcher is told the newest state, not every one.
const WAITING_MAX: usize = 1;

type Watch<T> = ReceiverStream<Result<T, Status>>;

/// Which rank of which workload a launcher stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Seat {
    workload: WorkloadName,
    rank: u32,
    launcher: LauncherId,
}

/// Launchers that watch. A launcher whose connection breaks may be back before the old stream is
/// seen to end: only the end of the newest stream counts.
#[derive(Debug, Default)]
pub(super) struct Presence {
    watches: std::sync::Mutex<(u64, BTreeMap<Seat, u64>)>,
    /// Held while core's input is put in line, so that core sees coming and going in their order.
    turnstile: tokio::sync::Mutex<()>,
}

impl Presence {
    async fn enter(&self, seat: &Seat, handle: &Handle) -> Result<u64, Stopped> {
        let _turn = self.turnstile.lock().await;
        let watch = {
            let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
            watches.0 += 1;
            let watch = watches.0;
            watches.1.insert(seat.clone(), watch);
            watch
        };
        let Seat { workload, rank, launcher } = seat.clone();
        drop(handle.post(Input::Attach { workload, rank, launcher }).await?);
        Ok(watch)
    }

    async fn leave(&self, seat: Seat, watch: u64, handle: &Handle) {
        let _turn = self.turnstile.lock().await;
        {
            let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
            if watches.1.get(&seat) != Some(&watch) {
                return;
            }
            watches.1.remove(&seat);
        }
        let Seat { workload, rank, launcher } = seat;
        // If the arbiter is stopping all launchers are away after its next start anyway.
        drop(handle.post(Input::Detach { workload, rank, launcher }).await);
    }
}

/// One workload now and after each change.
pub(super) async fn workload(
    service: &AdminService,
    request: pb::WatchWorkloadRequest,
) -> Result<Watch<pb::WatchWorkloadResponse>, Status> {
    let name: WorkloadName = field::name("name", &request.name)?;
    let launcher: Option<LauncherId> = field::optional_name("launcher", &request.launcher)?;
    let asked = name.clone();
    service.handle.ask(move |view| found(view, &asked)).await??;
    // Only for what there is: a subscription stays. What changes in between is seen at the first look.
    let changes = service.watchers.subscribe(&name);
    let seat =
        launcher.map(|launcher| Seat { workload: name.clone(), rank: request.rank, launcher });
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    tokio::spawn(attend(service.clone(), name, seat, changes, sender));
    Ok(ReceiverStream::new(receiver))
}

async fn attend(
    service: AdminService,
    name: WorkloadName,
    seat: Option<Seat>,
    changes: watch::Receiver<()>,
    sender: mpsc::Sender<Result<pb::WatchWorkloadResponse, Status>>,
) {
    let AdminService { handle, presence, mut stopped, .. } = service;
    let watch = match &seat {
        Some(seat) => presence.enter(seat, &handle).await.ok(),
        None => None,
    };
    tokio::select! {
        () = follow(&handle, &name, changes, &sender) => {}
        _ = stopped.wait_for(|stopped| *stopped) => {
            // It is not the launcher that has gone. A watcher that is gone need not be told.
            drop(sender.try_send(Err(Stopped.into())));
            return;
        }
    }
    if let (Some(seat), Some(watch)) = (seat, watch) {
        presence.leave(seat, watch, &handle).await;
    }
}

/// Until the watcher or the workload is gone, or the arbiter stops.
async fn follow(
    handle: &Handle,
    name: &WorkloadName,
    mut changes: watch::Receiver<()>,
    sender: &mpsc::Sender<Result<pb::WatchWorkloadResponse, Status>>,
) {
    loop {
        // Room first, then the look: what is sent is as new as can be.
        let Ok(room) = sender.reserve().await else { return };
        changes.mark_unchanged();
        let asked = name.clone();
        let Ok(workload) = handle.ask(move |view| view::workload_named(view, &asked)).await else {
            return room.send(Err(Stopped.into()));
        };
        if workload.is_none() {
            return room.send(Err(no_such(name)));
        }
        room.send(Ok(pb::WatchWorkloadResponse { workload }));
        tokio::select! {
            () = sender.closed() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

/// Decisions above `after`, as they are made.
pub(super) fn decisions(service: &AdminService, after: u64) -> Watch<pb::WatchDecisionsResponse> {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    tokio::spawn(tell_decisions(service.clone(), after, sender));
    ReceiverStream::new(receiver)
}

async fn tell_decisions(
    service: AdminService,
    mut after: u64,
    sender: mpsc::Sender<Result<pb::WatchDecisionsResponse, Status>>,
) {
    let AdminService { mut last_decision, mut stopped, .. } = service.clone();
    loop {
        last_decision.mark_unchanged();
        let store = service.store.clone();
        let read = on_disk(move || store.decisions_after(after, DECISIONS_READ_MAX)).await;
        let found = match read {
            Ok(found) => found,
            // A watcher that is gone need not be told.
            Err(status) => return drop(sender.send(Err(status)).await),
        };
        let is_all = found.len() < DECISIONS_READ_MAX;
        for decision in found {
            after = after.max(decision.sequence);
            let message = pb::WatchDecisionsResponse { decision: Some(decision) };
            if sender.send(Ok(message)).await.is_err() {
                return;
            }
        }
        if is_all {
            tokio::select! {
                () = sender.closed() => return,
                _ = stopped.wait_for(|stopped| *stopped) => return,
                changed = last_decision.changed() => if changed.is_err() { return },
            }
        }
    }
}
