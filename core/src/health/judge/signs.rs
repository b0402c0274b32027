//! What one GPU's values say about it, compared with what was seen of it before.

use std::collections::BTreeMap;

use crate::health::{Action, FaultKey};
use crate::protocol::Health;
use crate::reason::Reason;
use crate::sample::{GpuFabric, GpuSample};
use crate::unit::Time;

/// Looks in a row after which a value that may waver counts: links are down for one look after a boot, the hardware
/// slows down for one look under a peak.
const LOOKS: u32 = 3;

/// Corrected errors from which on a GPU is avoided. A sound GPU has a few a day; doubling it would still find a storm.
const CORRECTED_PER_SECOND_MAX: u64 = 10;

/// Replays per minute and lane from which on a PCIe link is in trouble, by generation from 1. Unit: hundredths. Source:
/// DCGM 4.6, health watch PCIE, 2026-07-06.
const REPLAYS_CENTI: [u64; 6] = [15, 30, 48, 96, 192, 384];

/// Shortest time over which a rate of replays is taken: a handful comes with every retraining.
const REPLAYS_WINDOW_MS: u64 = 60_000;

/// Clock-event reasons by which the hardware protects itself: slowdown, thermal, power brake.
const HARDWARE_SLOWDOWN: u64 = 0x8;
const HARDWARE_THERMAL: u64 = 0x40;
const POWER_BRAKE: u64 = 0x80;

/// `GpuFabric::state` of a GPU that is a member.
const FABRIC_COMPLETED: u32 = 3;

/// What is wrong, if it stays so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) reason: Reason,
    pub(super) health: Health,
    pub(super) action: Action,
    pub(super) is_urgent: bool,
}

impl Finding {
    pub(super) fn unhealthy(reason: Reason, action: Action) -> Self {
        Self { reason, health: Health::Unhealthy, action, is_urgent: false }
    }

    fn degraded(reason: Reason, action: Action) -> Self {
        Self { reason, health: Health::Degraded, action, is_urgent: false }
    }
}

/// Each possible fault with what this look says of it, and in how many looks in a row it has to say so.
pub(super) type Signs = Vec<(FaultKey, Option<Finding>, u32)>;

/// What was seen of a GPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// For each fault: looks in a row that showed it, or (negative) that did not.
    rows: BTreeMap<FaultKey, i32>,
    corrected: Option<(Time, u64)>,
    uncorrected: Option<u64>,
    replays: Option<(Time, u64)>,
    widest: u32,
    /// Links that were up at some time, one bit each.
    links_up: u64,
    /// Messages of cleanup that belonged to a fault.
    pub(super) follow_ups: u64,
}

impl Seen {
    /// Whether `looks` in a row have shown the fault (`true`) or its absence (`false`).
    pub(super) fn settled(&mut self, key: FaultKey, is_there: bool, looks: u32) -> Option<bool> {
        let row = self.rows.entry(key).or_insert(0);
        *row = match (is_there, *row) {
            (true, row) if row >= 0 => row.saturating_add(1),
            (true, _) => 1,
            (false, row) if row <= 0 => row.saturating_sub(1),
            (false, _) => -1,
        };
        (row.unsigned_abs() >= looks).then_some(is_there)
    }

    /// Uncorrected errors since the look before; `None`: they are counted anew, as after a reset of the GPU or a new
    /// start of the driver.
    pub(super) fn new_uncorrected(&mut self, gpu: &GpuSample) -> Option<u64> {
        let Some(now) = gpu.ecc.uncorrected_volatile else { return Some(0) };
        let before = self.uncorrected.replace(now);
        before.map_or(Some(0), |before| now.checked_sub(before))
    }

    pub(super) fn signs(&mut self, gpu: &GpuSample, at: Time, is_joining: bool) -> Signs {
        let mut signs = vec![
            (FaultKey::RowsFailed, rows_failed(gpu), 1),
            (FaultKey::RowsPending, rows_pending(gpu), 1),
            (FaultKey::PagesPending, pages_pending(gpu), 1),
            (FaultKey::EccSram, sram(gpu), 1),
            (FaultKey::EccCorrected, self.corrected(gpu, at), LOOKS),
            (FaultKey::Throttled, throttled(gpu), LOOKS),
            (FaultKey::Links, self.links(gpu), LOOKS),
        ];
        if !is_joining {
            signs.push((FaultKey::Fabric, fabric(gpu), LOOKS));
        }
        signs.extend(self.width(gpu).map(|finding| (FaultKey::PcieWidth, finding, LOOKS)));
        signs.extend(self.replays(gpu, at).map(|finding| (FaultKey::PcieReplays, finding, 1)));
        signs
    }

    fn corrected(&mut self, gpu: &GpuSample, at: Time) -> Option<Finding> {
        let now = gpu.ecc.corrected_volatile?;
        let (since, before) = self.corrected.replace((at, now))?;
        let per_second = now.checked_sub(before)?.saturating_mul(1_000) / at.ms_since(since).max(1);
        (per_second >= CORRECTED_PER_SECOND_MAX)
            .then(|| Finding::degraded(Reason::GpuEccRate { per_second }, Action::RunDiagnostics))
    }

    /// Links that were up and are down. A link that never was up is none: cards have places for links without any.
    fn links(&mut self, gpu: &GpuSample) -> Option<Finding> {
        let bits = |is_wanted: bool| {
            let links = gpu.nvlinks.iter().filter(move |link| link.is_active == is_wanted);
            links.fold(0_u64, |bits, link| bits | 1_u64.checked_shl(link.link).unwrap_or(0))
        };
        self.links_up |= bits(true);
        let down = (self.links_up & bits(false)).count_ones();
        let links = self.links_up.count_ones();
        (down > 0).then(|| {
            Finding::degraded(Reason::GpuLinksDown { down, links }, Action::RunDiagnostics)
        })
    }

    /// Lanes lost while it works; an idle link may be narrow. `None`: this look says nothing.
    fn width(&mut self, gpu: &GpuSample) -> Option<Option<Finding>> {
        let width = gpu.pcie.width?;
        self.widest = self.widest.max(width);
        let widest = self.widest;
        let is_narrow = width < widest;
        if is_narrow && gpu.busy_percent.unwrap_or(0) == 0 {
            return None;
        }
        Some(is_narrow.then(|| {
            Finding::degraded(Reason::GpuPcieWidth { width, widest }, Action::RunDiagnostics)
        }))
    }

    /// `None`: it is not time yet.
    fn replays(&mut self, gpu: &GpuSample, at: Time) -> Option<Option<Finding>> {
        let now = gpu.pcie.replays?;
        let (since, before) = *self.replays.get_or_insert((at, now));
        let window_ms = at.ms_since(since);
        if now < before {
            self.replays = Some((at, now));
            return None;
        }
        if window_ms < REPLAYS_WINDOW_MS {
            return None;
        }
        self.replays = Some((at, now));
        let lanes = u64::from(gpu.pcie.width.unwrap_or(1).max(1));
        let generation = gpu.pcie.generation_max.or(gpu.pcie.generation).unwrap_or(1);
        let index = usize::try_from(generation.clamp(1, 6) - 1).unwrap_or(0);
        let per_minute_centi = (now - before).saturating_mul(6_000_000) / window_ms;
        let limit_centi = REPLAYS_CENTI.get(index).copied().unwrap_or(15).saturating_mul(lanes);
        Some((per_minute_centi > limit_centi).then(|| {
            let per_minute = per_minute_centi / 100;
            Finding::degraded(Reason::GpuPcieReplays { per_minute }, Action::RunDiagnostics)
        }))
    }
}

fn rows_failed(gpu: &GpuSample) -> Option<Finding> {
    let has_failed = gpu.rows.is_some_and(|rows| rows.has_failed);
    has_failed.then(|| Finding::unhealthy(Reason::GpuRowsFailed, Action::Replace))
}

fn rows_pending(gpu: &GpuSample) -> Option<Finding> {
    let is_pending = gpu.rows.is_some_and(|rows| rows.is_pending);
    is_pending.then(|| Finding::degraded(Reason::GpuRowsPending, Action::DrainAndReset))
}

fn pages_pending(gpu: &GpuSample) -> Option<Finding> {
    let is_pending = gpu.retired_pages.is_pending == Some(true);
    is_pending.then(|| Finding::degraded(Reason::GpuPagesPending, Action::DrainAndReset))
}

fn sram(gpu: &GpuSample) -> Option<Finding> {
    let is_exceeded = gpu.ecc.is_sram_threshold_exceeded == Some(true);
    is_exceeded.then(|| Finding::degraded(Reason::GpuSramThreshold, Action::Replace))
}

fn throttled(gpu: &GpuSample) -> Option<Finding> {
    let reasons = gpu.clocks.event_reasons?;
    let cause = if reasons & POWER_BRAKE != 0 {
        "power-brake"
    } else if reasons & HARDWARE_THERMAL != 0 {
        "thermal"
    } else if reasons & HARDWARE_SLOWDOWN != 0 {
        "hardware-slowdown"
    } else {
        return None;
    };
    Some(Finding::degraded(Reason::GpuThrottled { cause: cause.to_owned() }, Action::None))
}

fn fabric(gpu: &GpuSample) -> Option<Finding> {
    let GpuFabric { state, status, health_mask } = gpu.fabric?;
    let restart = Action::RestartFabricManager;
    let reason = |why: &str| Reason::GpuFabric { state, why: why.to_owned() };
    match state {
        0 => return None,
        FABRIC_COMPLETED if status == 0 => {}
        FABRIC_COMPLETED => {
            return Some(Finding::unhealthy(
                reason(&format!("registering ended with {status}")),
                restart,
            ));
        }
        _ => return Some(Finding::unhealthy(reason("it has not registered"), restart)),
    }
    // Two bits each: 1 is yes, 2 is no, 0 is not supported.
    let mask = health_mask?;
    let says = |shift: u32| mask >> shift & 0x3 == 1;
    if says(6) {
        return Some(Finding::unhealthy(reason("access timed out"), restart));
    }
    if says(4) {
        return Some(Finding::unhealthy(reason("its routes are unhealthy"), restart));
    }
    let why = if says(0) {
        "its bandwidth is degraded"
    } else if mask >> 8 & 0xf > 1 {
        "it is configured wrongly"
    } else {
        return None;
    };
    Some(Finding::degraded(reason(why), restart))
}
