//! What the thread that asks the driver is to do: ask, keep away, or end.

use std::cell::Cell;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Ask the driver.
    Ask,
    /// Keep no file of it open until then.
    Release {
        /// When it is asked again by itself.
        until: Instant,
    },
    /// End: the agent stops.
    Stop,
}

/// The end that gives orders. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    order: Mutex<Order>,
    wake: UnixStream,
}

impl Control {
    /// Both ends.
    ///
    /// # Errors
    /// The system refuses another pair of files.
    pub(crate) fn new() -> std::io::Result<(Self, Listener)> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let shared = Arc::new(Shared { order: Mutex::new(Order::Ask), wake });
        Ok((
            Self { shared: shared.clone() },
            Listener { shared, woken, is_hurried: Cell::new(false) },
        ))
    }

    /// Gives an order; the thread hears it at once. Nothing follows [`Order::Stop`].
    pub(crate) fn give(&self, order: Order) {
        {
            let mut current = self.shared.order();
            if *current != Order::Stop {
                *current = order;
            }
        }
        self.hurry();
    }

    /// Makes the thread look now rather than at the end of its interval.
    pub(crate) fn hurry(&self) {
        // Full means that it is awake already.
        let _ = (&self.shared.wake).write(&[1]);
    }
}

impl Shared {
    fn order(&self) -> MutexGuard<'_, Order> {
        // A panic while it was held cannot leave a plain value half-changed.
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end that hears them.
#[derive(Debug)]
pub(crate) struct Listener {
    shared: Arc<Shared>,
    woken: UnixStream,
    /// Somebody called while something else was waited for: the next sleep is none.
    is_hurried: Cell<bool>,
}

impl Listener {
    /// The order in force. One that has run out is over.
    pub(crate) fn order(&self, now: Instant) -> Order {
        let mut order = self.shared.order();
        if matches!(*order, Order::Release { until } if until <= now) {
            *order = Order::Ask;
        }
        *order
    }

    /// Waits for an order, `other` or the end of `most`; whether `other` has something to read.
    pub(super) fn wait(&self, other: Option<BorrowedFd<'_>>, most: Duration) -> bool {
        let mut fds = vec![PollFd::new(self.woken.as_fd(), PollFlags::POLLIN)];
        fds.extend(other.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let ms = u16::try_from(most.as_millis()).unwrap_or(u16::MAX);
        // Interrupted: the caller looks at the time anyway.
        let _ = poll(&mut fds, PollTimeout::from(ms));
        fds.get(1).is_some_and(|fd| fd.any().unwrap_or(false))
    }

    /// Waits for `deadline` or an order, whichever comes first.
    pub(crate) fn sleep_until(&self, deadline: Instant) {
        loop {
            if self.has_been_woken() || self.is_hurried.take() {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // Never shorter than asked for, or the last millisecond would be a spin.
            self.wait(None, left + Duration::from_millis(1));
        }
    }

    /// Whether something else than asking is to be done. A call to hurry is kept for [`Listener::sleep_until`].
    pub(super) fn has_other_order(&self, now: Instant) -> bool {
        if self.has_been_woken() {
            self.is_hurried.set(true);
        }
        self.order(now) != Order::Ask
    }

    /// Whether somebody called since this was last asked.
    fn has_been_woken(&self) -> bool {
        let mut bytes = [0; 64];
        let mut is_woken = false;
        while matches!((&self.woken).read(&mut bytes), Ok(1..)) {
            is_woken = true;
        }
        is_woken
    }
}
