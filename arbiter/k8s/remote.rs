//! The state's own thread. Whoever decides waits for a commit without holding up the network; the connection to the API
//! server, the renewal of the Lease among them, goes on meanwhile.

use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::{mpsc as requests, oneshot, watch};
use tracing::info;

use super::state::{State, StateError};
use super::{Change, Election, Lease, Settings, connect};

/// What an earlier arbiter left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TakenUp {
    /// This arbiter's epoch: already one more than the last.
    pub epoch: u64,
    /// Latest time at which something was stored. Unit: ms.
    pub last_now_ms: u64,
    /// Number of the next decision.
    pub next_sequence: u64,
    /// All records, by key.
    pub records: Vec<(String, Vec<u8>)>,
}

/// What is to become durable at once.
#[derive(Debug)]
struct Commit {
    changes: Vec<Change>,
    last_now_ms: u64,
    next_sequence: u64,
    done: mpsc::SyncSender<Result<(), StateError>>,
}

/// The state, while this replica holds the Lease.
#[derive(Debug)]
pub(crate) struct Remote {
    commits: requests::Sender<Commit>,
    place: String,
}

/// Keeps the Lease.
#[derive(Debug)]
pub(crate) struct Keeper {
    stop: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Keeper {
    /// Gives the Lease up, so that the next replica need not wait. Nothing can be stored from then on.
    ///
    /// Blocks, for as long as the Lease is good at most.
    pub(crate) fn give_up(self) {
        drop(self.stop);
        // It has ended in any case.
        let _ = self.thread.join();
    }
}

/// The Lease was lost: this replica must not act any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

impl Remote {
    /// Waits until this replica holds the Lease and has taken up the state. The receiver tells if the Lease is lost.
    ///
    /// # Errors
    /// There is no cluster, it refuses, or the state cannot be read.
    pub(crate) async fn win(
        settings: &Settings,
        tell: impl Fn(&str) + Send + 'static,
    ) -> anyhow::Result<(Self, TakenUp, Keeper, oneshot::Receiver<Lost>)> {
        let (commits, mut received) = requests::channel::<Commit>(1);
        let (stop, stopped) = oneshot::channel();
        let (lost_sender, lost) = oneshot::channel();
        let (won_sender, won) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("could not start a runtime")?;
        let settings = settings.clone();
        let thread = std::thread::Builder::new().name("state".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let until = async move {
                    // An error means that the sender is gone, which is a stop as well.
                    let _ = stopped.await;
                };
                if !run(&settings, tell, won_sender, &mut received, until).await {
                    // Nobody waits for it any more if the arbiter is stopping.
                    let _ = lost_sender.send(Lost);
                }
            });
        });
        let thread = thread.context("could not start the thread of the state")?;
        let (taken, place) = won.await.context("the thread of the state ended in a bug")??;
        Ok((Self { commits, place }, taken, Keeper { stop, thread }, lost))
    }

    /// Where the state lies, for people.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Makes `changes` durable, all or none. Blocks until that is done, for as long as the Lease is good at most.
    ///
    /// # Errors
    /// They were not stored, or nobody knows; this replica must not act any more.
    pub(crate) fn commit(
        &self,
        changes: Vec<Change>,
        last_now_ms: u64,
        next_sequence: u64,
    ) -> Result<(), StateError> {
        let (done, answer) = mpsc::sync_channel(1);
        let ended = || StateError::OutOfTime {
            object: self.place.clone(),
            why: "the Lease was lost".to_owned(),
        };
        let commit = Commit { changes, last_now_ms, next_sequence, done };
        self.commits.try_send(commit).map_err(|_| ended())?;
        answer.recv().map_err(|_| ended())?
    }
}

type Won = oneshot::Sender<anyhow::Result<(TakenUp, String)>>;

/// Everything from the election to the end; whether the Lease was kept until `stop`.
async fn run(
    settings: &Settings,
    tell: impl Fn(&str),
    won: Won,
    commits: &mut requests::Receiver<Commit>,
    stop: impl Future<Output = ()>,
) -> bool {
    let (client, namespace, lease) = match win(settings, tell).await {
        Ok(won) => won,
        Err(error) => {
            // Nobody waits any more if the arbiter was stopped meanwhile.
            drop(won.send(Err(error)));
            return true;
        }
    };
    let (good, good_until) = watch::channel(lease.good_until());
    let name = &settings.name;
    let serve = async {
        let place = format!("kubernetes:{namespace}/configmaps/{name}-state");
        match State::take_over(client, &namespace, name, good_until).await {
            Ok(state) => {
                let taken = taken_up(&state);
                info!(place, epoch = taken.epoch, "state taken up");
                if won.send(Ok((taken, place))).is_ok() {
                    serve(state, commits).await;
                }
            }
            Err(error) => drop(won.send(Err(error.into()))),
        }
        // Nothing may be written any more.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        kept = lease.keep(&good, stop) => kept,
        () = serve => true,
    }
}

async fn win(
    settings: &Settings,
    tell: impl Fn(&str),
) -> anyhow::Result<(kube::Client, String, Lease)> {
    let (client, namespace) = connect(settings).await?;
    let good_for = Duration::from_millis(settings.lease_ms);
    let Settings { name, identity, .. } = settings;
    let election = Election::new(client.clone(), &namespace, name, identity, good_for);
    let lease = election.win(tell).await.with_context(|| {
        format!("the API server refuses Lease \"{name}\" in namespace \"{namespace}\"")
    })?;
    Ok((client, namespace, lease))
}

fn taken_up(state: &State) -> TakenUp {
    let head = state.head();
    TakenUp {
        epoch: head.epoch,
        last_now_ms: head.last_now_ms,
        next_sequence: head.next_sequence,
        records: state.records().map(|(key, value)| (key.clone(), value.clone())).collect(),
    }
}

async fn serve(mut state: State, commits: &mut requests::Receiver<Commit>) {
    while let Some(Commit { changes, last_now_ms, next_sequence, done }) = commits.recv().await {
        let result = state.commit(changes, last_now_ms, next_sequence).await;
        let has_failed = result.is_err();
        // Whoever no longer waits for the answer does not need it.
        drop(done.send(result));
        if has_failed {
            return;
        }
    }
}
