//! Keeps one child asking, and knows how old its answer is.
//!
//! ```text
//! no child ──start──▶ asked ──answer──▶ asked …
//!    ▲                  │ no answer for `unresponsive_after`; or a release
//!    │ back-off         ▼
//!    └───reaped─── ending: asked → SIGTERM → SIGKILL
//! ```
//!
//! There is at most one child: one that hangs in the kernel cannot be reaped, and a second beside it would hang too.
//! Nothing here waits longer than [`Settings::answer_wait`].

use std::time::{Duration, Instant};

use sluice_core::sample::{DriverState, GpuSample};
use tracing::{info, warn};

use super::Settings;
use super::control::{Listener, Order};
use super::frame::Answer;
use super::process::Probe;

/// Longest wait before another child is started, in looks: a driver that is being replaced is back within a minute of
/// being there.
const BACK_OFF_LOOKS_MAX: u32 = 12;

/// How long a child that has closed its socket may take to be gone, before that is left to the next look.
const EXIT_WAIT: Duration = Duration::from_millis(200);

/// What is known of the driver.
#[derive(Debug)]
pub(crate) struct Supervisor {
    settings: Settings,
    probe: Option<Probe>,
    /// When the next child may be started.
    not_before: Option<Instant>,
    /// Ends without an answer since the last one.
    failures: u32,
    starts: u32,
    /// What was last told or found.
    pub(crate) driver: DriverState,
    /// The last GPUs told.
    pub(crate) gpus: Vec<GpuSample>,
    /// When they were asked for.
    pub(crate) answered_at: Option<Instant>,
    /// How long that took.
    pub(crate) look: Option<Duration>,
    /// Looks since then that brought nothing.
    pub(crate) missed_looks: u32,
    /// When the oldest question was asked that nobody has answered.
    silent_since: Option<Instant>,
}

impl Supervisor {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            probe: None,
            not_before: None,
            failures: 0,
            starts: 0,
            driver: DriverState::Starting,
            gpus: Vec::new(),
            answered_at: None,
            look: None,
            missed_looks: 0,
            silent_since: None,
        }
    }

    /// Children started after the first.
    pub(crate) fn restarts(&self) -> u32 {
        self.starts.saturating_sub(1)
    }

    /// There is a child.
    pub(crate) fn has_child(&self) -> bool {
        self.probe.is_some()
    }

    /// Does what is to be done now, and waits a moment for an answer.
    pub(crate) fn turn(&mut self, listener: &Listener) {
        let now = Instant::now();
        self.reap(now);
        match listener.order(now) {
            Order::Ask => self.ask(now, listener),
            Order::Release { until } => {
                self.end(now, listener);
                if self.probe.is_none() {
                    self.missed_looks = 0;
                    self.silent_since = None;
                    self.failures = 0;
                    let left = until.saturating_duration_since(now).as_millis();
                    let remaining_ms = u64::try_from(left).unwrap_or(u64::MAX);
                    self.driver = DriverState::Released { remaining_ms };
                }
            }
            Order::Stop => self.end(now, listener),
        }
        self.press(Instant::now());
    }

    /// How long until something is due that does not wait for the next look: a step in the ending of a child.
    pub(crate) fn next_step(&self) -> Option<Duration> {
        self.probe.as_ref().filter(|probe| probe.is_ending()).map(|_| self.settings.grace)
    }

    fn ask(&mut self, now: Instant, listener: &Listener) {
        if matches!(self.driver, DriverState::Released { .. }) {
            info!("the GPUs' driver is asked again");
            self.driver = DriverState::Starting;
            self.not_before = None;
        }
        if self.probe.is_none() && self.not_before.is_none_or(|at| at <= now) {
            self.start(now);
        }
        let is_answered = match &mut self.probe {
            Some(probe) if !probe.is_ending() => {
                probe.ask(now);
                self.silent_since = self.silent_since.or(probe.asked_at);
                self.await_answer(listener)
            }
            Some(_) | None => false,
        };
        self.missed_looks = if is_answered { 0 } else { self.missed_looks.saturating_add(1) };
    }

    fn start(&mut self, now: Instant) {
        match Probe::start(&self.settings) {
            Ok(probe) => {
                self.probe = Some(probe);
                self.starts = self.starts.saturating_add(1);
            }
            Err(error) => {
                let text =
                    format!("the process that asks the driver could not be started: {error}");
                self.failed(now, DriverState::Failed { code: None, text });
            }
        }
    }

    /// Whether an answer has come within the time for it.
    fn await_answer(&mut self, listener: &Listener) -> bool {
        let deadline = Instant::now() + self.settings.answer_wait;
        while let Some(probe) = &mut self.probe {
            probe.hear();
            let asked_at = probe.asked_at;
            match probe.answer() {
                Ok(Some(answer)) => {
                    self.take(answer, asked_at.unwrap_or(deadline));
                    return true;
                }
                Ok(None) => {}
                Err(why) => return self.lost(&why),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || listener.has_other_order(Instant::now()) {
                return false;
            }
            listener.wait(Some(probe.socket()), left + Duration::from_millis(1));
        }
        false
    }

    fn take(&mut self, answer: Answer, asked_at: Instant) {
        let now = Instant::now();
        self.silent_since = None;
        let is_running = matches!(answer.driver, DriverState::Running { .. });
        if self.driver != answer.driver {
            info!(driver = ?answer.driver, "the GPUs' driver answers");
        }
        if is_running {
            self.failures = 0;
            self.driver = answer.driver;
            self.gpus = answer.gpus;
            self.answered_at = Some(asked_at);
            self.look = Some(now.saturating_duration_since(asked_at));
        } else {
            // The child ends by itself, as only a new one finds a library that was replaced.
            if let Some(probe) = &mut self.probe {
                probe.end(now);
            }
            self.failed(now, answer.driver);
            self.await_exit();
        }
    }

    /// The child no longer talks. No answer.
    fn lost(&mut self, why: &str) -> bool {
        let now = Instant::now();
        self.await_exit();
        if let Some(probe) = &mut self.probe {
            probe.terminate(now);
            let text = format!("the process that asks the driver does not make sense: {why}");
            self.failed(now, DriverState::Failed { code: None, text });
        }
        false
    }

    /// Gives a child that is about to end a moment, so that how it ended is known at once.
    fn await_exit(&mut self) {
        let deadline = Instant::now() + EXIT_WAIT;
        while self.probe.is_some() && Instant::now() < deadline {
            self.reap(Instant::now());
            if self.probe.is_some() {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    /// Lets go of a child that is gone.
    fn reap(&mut self, now: Instant) {
        let Some(probe) = &mut self.probe else { return };
        probe.hear();
        let Some(how) = probe.exited() else { return };
        let was_ended = probe.is_ending();
        self.probe = None;
        if !was_ended {
            let text = format!("the process that asks the driver {how}");
            warn!("{text}");
            self.silent_since = None;
            self.failed(now, DriverState::Failed { code: None, text });
        }
    }

    /// Another child has to wait, the longer the more have failed.
    fn failed(&mut self, now: Instant, driver: DriverState) {
        self.driver = driver;
        self.back_off(now);
    }

    fn back_off(&mut self, now: Instant) {
        let looks = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX).min(BACK_OFF_LOOKS_MAX);
        self.failures = self.failures.saturating_add(1).min(31);
        self.not_before = Some(now + self.settings.interval.saturating_mul(looks));
    }

    fn end(&mut self, now: Instant, listener: &Listener) {
        let Some(probe) = &mut self.probe else { return };
        probe.end(now);
        // Its socket closes when it ends; until then there may be an answer that nobody waits for any more.
        let deadline = now + self.settings.answer_wait;
        while let Some(probe) = &mut self.probe {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            listener.wait(Some(probe.socket()), left + Duration::from_millis(1));
            if probe.answer().is_err() {
                self.await_exit();
                return;
            }
        }
    }

    /// Ages what is not answered, and ends a child that hangs.
    fn press(&mut self, now: Instant) {
        let Some(since) = self.silent_since else {
            if let Some(probe) = &mut self.probe {
                probe.press(&self.settings, now);
            }
            return;
        };
        let silent = now.saturating_duration_since(since);
        let is_stuck = self.probe.as_ref().is_some_and(|probe| probe.is_stuck(&self.settings, now));
        if let Some(probe) = &mut self.probe {
            let asked = probe.asked_at.map(|at| now.saturating_duration_since(at));
            let hangs = asked.is_some_and(|asked| asked >= self.settings.unresponsive_after);
            if hangs && !probe.is_ending() {
                warn!(
                    "the GPUs' driver has not answered for long; the process that asks it is ended"
                );
                probe.terminate(now);
                self.back_off(now);
            } else {
                probe.press(&self.settings, now);
            }
        }
        if silent >= self.settings.unresponsive_after {
            let since_ms = u64::try_from(silent.as_millis()).unwrap_or(u64::MAX);
            self.driver = DriverState::Unresponsive { since_ms, is_stuck_in_kernel: is_stuck };
        }
    }
}
