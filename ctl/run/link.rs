//! The launcher's view of its workload: a watch that is opened again whenever it breaks.
//!
//! The open watch is also the launcher's presence: the arbiter counts it as attached.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::Status;

use sluice::net::{self, Address};
use sluice::wire::pb;

use crate::connect::admin_client;
use crate::text::safe;

/// First pause after the watch broke.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest pause: an arbiter that has come back hears of the launcher well before it is taken for
/// gone (30 s by default).
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// How the watch stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Link {
    /// Not opened yet.
    Opening,
    /// Open; the workload shown is the newest.
    Up,
    /// The arbiter does not answer, and why.
    Down(String),
    /// The arbiter does not know the workload, and what it said.
    Unknown(String),
}

/// What is seen.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// How the watch stands.
    pub(crate) link: Link,
    /// The newest workload; kept while the watch is broken.
    pub(crate) workload: Option<pb::Workload>,
}

/// A watch that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Receives every change; the newest replaces older ones.
    pub(crate) seen: watch::Receiver<Seen>,
    task: JoinHandle<()>,
}

impl Watch {
    /// Begins to watch.
    pub(crate) fn start(arbiter: Address, request: pb::WatchWorkloadRequest) -> Self {
        let first = Seen { link: Link::Opening, workload: None };
        let (sender, seen) = watch::channel(first);
        let task = tokio::spawn(keep_open(arbiter, request, sender));
        Self { seen, task }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep_open(
    arbiter: Address,
    request: pb::WatchWorkloadRequest,
    sender: watch::Sender<Seen>,
) {
    let mut pause = PAUSE_MIN;
    while !sender.is_closed() {
        let link = match follow(&arbiter, &request, &sender, &mut pause).await {
            Ok(()) => Link::Down("it has closed the stream".to_owned()),
            Err(Broken::Unreachable(why)) => Link::Down(why),
            Err(Broken::Answered(s)) if s.code() == tonic::Code::NotFound => {
                Link::Unknown(safe(s.message()))
            }
            Err(Broken::Answered(s)) => Link::Down(safe(s.message())),
            Err(Broken::Off) => Link::Down("the connection broke".to_owned()),
        };
        sender.send_if_modified(|seen| {
            // While it is away only the first reason is told: the later ones are its echo.
            let still_down = matches!((&seen.link, &link), (Link::Down(_), Link::Down(_)));
            let changed = !still_down && seen.link != link;
            if changed {
                seen.link = link;
            }
            changed
        });
        // Half of the pause is random: launchers of one arbiter do not all come back at once.
        let half = u64::try_from(pause.as_millis() / 2).unwrap_or(u64::MAX);
        tokio::time::sleep(Duration::from_millis(half + fastrand::u64(..=half))).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Why a stream came to nothing.
enum Broken {
    /// It was open and ended with an error.
    Off,
    Unreachable(String),
    Answered(Box<Status>),
}

/// Opens one stream and follows it to its end.
async fn follow(
    arbiter: &Address,
    request: &pb::WatchWorkloadRequest,
    sender: &watch::Sender<Seen>,
    pause: &mut Duration,
) -> Result<(), Broken> {
    let answered = |s: Status| Broken::Answered(Box::new(s));
    let channel = net::connect(arbiter).await.map_err(|e| Broken::Unreachable(e.to_string()))?;
    let answer = admin_client(channel).watch_workload(request.clone()).await.map_err(answered)?;
    let mut stream = answer.into_inner();
    while let Some(message) = stream.message().await.map_err(|_| Broken::Off)? {
        *pause = PAUSE_MIN;
        if message.workload.is_some() {
            sender.send_replace(Seen { link: Link::Up, workload: message.workload });
        }
    }
    Ok(())
}
