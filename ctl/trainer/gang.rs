//! The gang: the ranks that train one model together, joined by a unix socket.
//!
//! Rank 0 listens, the others dial. Whatever has to be agreed goes through rank 0 and back: the
//! sums of gradients, whether somebody was asked to save or to stop, and barriers. A rank that
//! dies closes its sockets, so that the others see it at once and fail with [`PeerLost`].
//!
//! | frame | bytes |
//! |---|---|
//! | header | kind `u8`, votes `u8`, two zero bytes, payload length in bytes `u32` |
//! | payload | little-endian 4-byte values: three `u32` for hello, `f32` for sums, none for the rest |

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::model::{PARAMETERS, add};

/// How long ranks wait for one another at the start. Launchers start them within 30 s of each
/// other; twice that leaves room for one of them to load slowly.
const JOIN_WAIT: Duration = Duration::from_secs(60);
/// Pause between two looks at the rendezvous socket.
const JOIN_RETRY: Duration = Duration::from_millis(20);
/// How long a rank waits for a peer that is alive but silent. Long enough for the slowest save.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// How long a caller may take to introduce itself; strangers are dropped.
const HELLO_WAIT: Duration = Duration::from_secs(5);
/// Sums of all parameters and of the loss: the largest payload there is.
const PAYLOAD_LEN_MAX: usize = (PARAMETERS + 1) * 4;

const HELLO: u8 = 1;
const SUMS: u8 = 2;
const BARRIER: u8 = 3;

/// Votes are or-ed over all ranks: whoever was asked, all of them act, at the same step.
pub(crate) const VOTE_SAVE: u8 = 1;
/// See [`VOTE_SAVE`].
pub(crate) const VOTE_STOP: u8 = 2;

/// A peer vanished or fell silent; the process ends with status 75 (try again later).
#[derive(Debug, thiserror::Error)]
#[error("lost {peer}: {why}; the gang cannot go on and resumes from its last checkpoint")]
pub(crate) struct PeerLost {
    peer: String,
    why: String,
}

/// Who this process is in its gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) rank: usize,
    pub(crate) world: usize,
    /// The step it resumes from; all ranks must agree.
    pub(crate) step: u16,
}

/// This rank's connections to the others.
#[derive(Debug)]
pub(crate) enum Gang {
    /// A gang of one.
    Alone,
    /// Rank 0, with the connections to ranks 1, 2, … in this order.
    Root(Vec<UnixStream>),
    /// Any other rank, with its connection to rank 0.
    Peer(UnixStream),
}

impl Gang {
    /// Waits until all ranks are there. `None` if `is_stopping` became true meanwhile.
    ///
    /// # Errors
    /// [`PeerLost`] if a rank does not come within a minute; otherwise if the socket cannot be
    /// used or the ranks want to resume from different steps.
    pub(crate) fn join(
        place: &Path,
        me: Identity,
        is_stopping: impl Fn() -> bool,
    ) -> Result<Option<Gang>> {
        let joined = match (me.world, me.rank) {
            (1, _) => Some(Gang::Alone),
            (_, 0) => listen(place, me, &is_stopping)?,
            (_, _) => dial(place, me, &is_stopping)?,
        };
        let Some(mut gang) = joined else { return Ok(None) };
        match gang.barrier() {
            Ok(()) => Ok(Some(gang)),
            // All were told to stop, and another rank was faster than this one.
            Err(_) if is_stopping() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds up the sums and the votes of all ranks; every rank gets the same bits back.
    ///
    /// # Errors
    /// [`PeerLost`].
    pub(crate) fn reduce(&mut self, sums: Vec<f32>, votes: u8) -> Result<(Vec<f32>, u8)> {
        match self {
            Gang::Alone => Ok((sums, votes)),
            Gang::Peer(root) => {
                send(root, 0, SUMS, votes, &to_bytes(&sums))?;
                let (votes, bytes) = receive(root, 0, SUMS)?;
                Ok((from_bytes(&bytes), votes))
            }
            Gang::Root(peers) => {
                let (mut all_sums, mut all_votes) = (vec![sums], votes);
                for (index, peer) in peers.iter_mut().enumerate() {
                    let (votes, bytes) = receive(peer, index + 1, SUMS)?;
                    all_sums.push(from_bytes(&bytes));
                    all_votes |= votes;
                }
                let total = tree_sum(all_sums);
                let bytes = to_bytes(&total);
                for (index, peer) in peers.iter_mut().enumerate() {
                    send(peer, index + 1, SUMS, all_votes, &bytes)?;
                }
                Ok((total, all_votes))
            }
        }
    }

    /// Waits until every rank has come here.
    ///
    /// # Errors
    /// [`PeerLost`].
    pub(crate) fn barrier(&mut self) -> Result<()> {
        match self {
            Gang::Alone => {}
            Gang::Peer(root) => {
                send(root, 0, BARRIER, 0, &[])?;
                receive(root, 0, BARRIER)?;
            }
            Gang::Root(peers) => {
                for (index, peer) in peers.iter_mut().enumerate() {
                    receive(peer, index + 1, BARRIER)?;
                }
                for (index, peer) in peers.iter_mut().enumerate() {
                    send(peer, index + 1, BARRIER, 0, &[])?;
                }
            }
        }
        Ok(())
    }
}

/// Sums vectors pairwise: `((a + b) + (c + d))`.
///
/// A rank that holds a power of two of neighbouring vectors computes exactly one branch of the
/// tree, so the result has the same bits however many ranks share the work.
pub(crate) fn tree_sum(mut level: Vec<Vec<f32>>) -> Vec<f32> {
    assert!(level.len().is_power_of_two(), "the tree must be the same for any number of ranks");
    while level.len() > 1 {
        let mut pairs = level.into_iter();
        let mut above = Vec::new();
        while let (Some(mut left), Some(right)) = (pairs.next(), pairs.next()) {
            add(&mut left, &right);
            above.push(left);
        }
        level = above;
    }
    level.pop().expect("halving a power of two ends at one")
}

fn listen(place: &Path, me: Identity, is_stopping: impl Fn() -> bool) -> Result<Option<Gang>> {
    let shown = place.display();
    match std::fs::remove_file(place) {
        // The socket of an earlier attempt: its owner is gone, or this rank would not run.
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => bail!("could not replace the socket \"{shown}\": {error}"),
    }
    let listener = UnixListener::bind(place).with_context(|| {
        format!("could not listen on \"{shown}\" (give a shorter path with --rendezvous?)")
    })?;
    listener.set_nonblocking(true)?;
    let mut peers: Vec<Option<UnixStream>> = (1..me.world).map(|_| None).collect();
    let started = Instant::now();
    while let Some(missing) = peers.iter().position(Option::is_none) {
        match listener.accept() {
            Ok((stream, _)) => {
                if let Some((rank, stream)) = greet(stream, me)? {
                    peers[rank - 1] = Some(stream);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if is_stopping() {
                    return Ok(None);
                }
                check_join_wait(started, missing + 1, "it did not come to the rendezvous")?;
                thread::sleep(JOIN_RETRY);
            }
            Err(error) => bail!("could not accept on \"{shown}\": {error}"),
        }
    }
    // All have come, so nobody needs the name any more; failing to tidy it up harms nothing.
    let _ = std::fs::remove_file(place);
    Ok(Some(Gang::Root(peers.into_iter().flatten().collect())))
}

/// Reads a caller's hello. `None` for a stranger, or for a rank that died on its way.
fn greet(mut stream: UnixStream, me: Identity) -> Result<Option<(usize, UnixStream)>> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(HELLO_WAIT))?;
    let Ok((_, bytes)) = receive(&mut stream, 0, HELLO) else { return Ok(None) };
    let [rank, world, step] = bytes.as_chunks::<4>().0 else { return Ok(None) };
    let [rank, world, step] = [rank, world, step].map(|value| u32::from_le_bytes(*value));
    let rank = usize::try_from(rank)?;
    ensure!(
        usize::try_from(world)? == me.world && (1..me.world).contains(&rank),
        "rank {rank} of {world} called, but this is a gang of {}; set RANK and WORLD_SIZE alike",
        me.world
    );
    ensure!(
        step == u32::from(me.step),
        "rank {rank} resumes from step {step} but rank 0 from step {}; do both see the same \
         --output-dir?",
        me.step
    );
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    Ok(Some((rank, stream)))
}

fn dial(place: &Path, me: Identity, is_stopping: impl Fn() -> bool) -> Result<Option<Gang>> {
    let started = Instant::now();
    let mut stream = loop {
        match UnixStream::connect(place) {
            Ok(stream) => break stream,
            Err(error) if is_not_there_yet(error.kind()) => {
                if is_stopping() {
                    return Ok(None);
                }
                check_join_wait(started, 0, "nobody listens at the rendezvous")?;
                thread::sleep(JOIN_RETRY);
            }
            Err(error) => bail!("could not connect to \"{}\": {error}", place.display()),
        }
    };
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let hello = [u32::try_from(me.rank)?, u32::try_from(me.world)?, u32::from(me.step)];
    let hello: Vec<u8> = hello.iter().flat_map(|value| value.to_le_bytes()).collect();
    send(&mut stream, 0, HELLO, 0, &hello)?;
    Ok(Some(Gang::Peer(stream)))
}

fn is_not_there_yet(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::WouldBlock)
}

fn check_join_wait(started: Instant, rank: usize, why: &str) -> Result<()> {
    if started.elapsed() < JOIN_WAIT {
        return Ok(());
    }
    Err(lost(rank, &format!("{why} within {} s", JOIN_WAIT.as_secs())).into())
}

fn lost(rank: usize, why: &impl ToString) -> PeerLost {
    PeerLost { peer: format!("rank {rank}"), why: why.to_string() }
}

fn cannot_hear(rank: usize, error: &std::io::Error) -> PeerLost {
    match error.kind() {
        ErrorKind::UnexpectedEof => lost(rank, &"it closed the connection"),
        // What a read timeout looks like on Linux.
        ErrorKind::WouldBlock => {
            lost(rank, &format!("it was silent for {} s", SILENCE_MAX.as_secs()))
        }
        _ => lost(rank, error),
    }
}

fn send(stream: &mut UnixStream, rank: usize, kind: u8, votes: u8, payload: &[u8]) -> Result<()> {
    let len = u32::try_from(payload.len()).expect("payloads are below PAYLOAD_LEN_MAX");
    let mut frame = vec![kind, votes, 0, 0];
    frame.extend(len.to_le_bytes());
    frame.extend(payload);
    stream.write_all(&frame).map_err(|error| lost(rank, &error))?;
    Ok(())
}

/// Reads one frame of the kind expected next; any other means that the ranks fell out of step.
fn receive(stream: &mut UnixStream, rank: usize, kind: u8) -> Result<(u8, Vec<u8>)> {
    let mut header = [0; 8];
    stream.read_exact(&mut header).map_err(|error| cannot_hear(rank, &error))?;
    let [got, votes, _, _, len @ ..] = header;
    let len = usize::try_from(u32::from_le_bytes(len))?;
    let is_fitting = if kind == SUMS { len == PAYLOAD_LEN_MAX } else { len <= PAYLOAD_LEN_MAX };
    ensure!(
        got == kind && is_fitting,
        "rank {rank} sent frame {got} of {len} bytes where {kind} was due; do all ranks run the \
         same version?"
    );
    let mut payload = vec![0; len];
    stream.read_exact(&mut payload).map_err(|error| cannot_hear(rank, &error))?;
    Ok((votes, payload))
}

fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
}

#[cfg(test)]
mod tests;
