//! What a look at the driver and the bus comes to.

use std::collections::BTreeSet;

use super::signs::{Finding, Signs};
use super::{JOINING_MS, Judge};
use crate::health::{Action, Fault, FaultKey, Source};
use crate::protocol::Health;
use crate::reason::{Ms, Reason};
use crate::sample::{DriverState, GpuSample, GpuTableSample, PciAddress, PciGpu, nvml_code};
use crate::unit::Time;

/// Looks in a row that go unanswered before what is known counts as old: one late answer is ordinary, three are not.
const MISSED_LOOKS_MAX: u32 = 3;

/// NVML's code for a GPU that is gone.
const NVML_LOST: u32 = 15;
/// NVML's code for a GPU that works no more until it is reset.
const NVML_RESET_REQUIRED: u32 = 16;
/// NVML's code for anything it has no code for. Of all GPUs at once: their files have been taken away.
const NVML_UNKNOWN: u32 = 999;

/// Kernel drivers that own a GPU for NVML. Others (`vfio-pci`) took it for something else.
const OWNER: &str = "nvidia";

/// How much earlier a look may seem to have begun than it has: ages are rounded. Unit: ms.
const SAME_LOOK_MS: u64 = 50;

impl Judge {
    pub(super) fn look(&mut self, sample: &GpuTableSample) {
        if let DriverState::Running { version: Some(version), .. } = &sample.driver {
            self.driver_major = super::major_of(version).or(self.driver_major);
        }
        for gpu in &sample.gpus {
            if let Some((uuid, pci)) = gpu.uuid.clone().zip(gpu.pci) {
                self.names.insert(uuid, PciAddress { function: 0, ..pci });
            }
        }
        let asked_at = sample.gpus_age_ms.map(|age_ms| self.now.minus_ms(age_ms));
        let has_gpus =
            !sample.gpus.is_empty() || sample.pci.as_ref().is_some_and(|p| !p.is_empty());
        let trouble = self.trouble(sample).filter(|_| has_gpus);
        self.is_answering = has_gpus.then_some(trouble.is_none());
        match trouble {
            Some(reason) => {
                self.set_on_node(FaultKey::Driver, reason, Health::Unknown, Source::Nvml);
            }
            None => {
                self.node.remove(&FaultKey::Driver);
            }
        }
        let is_new = asked_at
            .is_some_and(|at| self.asked_at.is_none_or(|before| at > before.plus_ms(SAME_LOOK_MS)));
        if let Some(at) = asked_at.filter(|_| is_new && self.is_answering == Some(true)) {
            self.asked_at = Some(at);
            self.new_look(sample, at);
        }
    }

    /// Why the driver cannot be asked.
    fn trouble(&self, sample: &GpuTableSample) -> Option<Reason> {
        let maintenance = |why: &str| Some(Reason::DriverMaintenance { why: why.to_owned() });
        match &sample.driver {
            DriverState::Running { .. } if sample.missed_looks >= MISSED_LOOKS_MAX => {
                let age_ms = Ms(sample.gpus_age_ms.unwrap_or(0));
                Some(Reason::DriverStale { age_ms })
            }
            DriverState::Running { .. } if is_unavailable(&sample.gpus) => {
                let why = "NVML refuses every GPU with \"unknown error\" (999)".to_owned();
                Some(Reason::DriverUnavailable { why })
            }
            DriverState::Running { .. } => None,
            DriverState::Starting => maintenance("it has not answered yet"),
            DriverState::NotLoaded => maintenance("the kernel module is not loaded"),
            DriverState::Mismatch => {
                maintenance("library and kernel module are of different versions")
            }
            DriverState::Released { .. } => maintenance("it was released on request"),
            DriverState::LibraryMissing { why } => {
                Some(Reason::DriverUnavailable { why: why.clone() })
            }
            DriverState::Failed { text, .. } => {
                Some(Reason::DriverUnavailable { why: text.clone() })
            }
            DriverState::Unresponsive { since_ms, is_stuck_in_kernel } => {
                let stuck = if *is_stuck_in_kernel {
                    "the process that asks hangs in the kernel"
                } else {
                    ""
                };
                let hint = self.blocked.as_deref().unwrap_or(stuck).to_owned();
                Some(Reason::DriverUnresponsive { since_ms: Ms(*since_ms), detail: hint })
            }
        }
    }

    fn set_on_node(&mut self, key: FaultKey, reason: Reason, health: Health, source: Source) {
        let since = self.node.get(&key).map_or(self.now, |standing| standing.since);
        let (action, is_urgent, count, seen_at) = (Action::None, false, 1, self.now);
        let fault = Fault { reason, health, action, is_urgent, source, since, seen_at, count };
        self.node.insert(key, fault);
    }

    fn new_look(&mut self, sample: &GpuTableSample, at: Time) {
        let joined_at = *self.joined_at.get_or_insert(at);
        let is_joining = at.ms_since(joined_at) < JOINING_MS;
        let told: BTreeSet<PciAddress> = sample
            .gpus
            .iter()
            .filter_map(|gpu| gpu.pci)
            .map(|p| PciAddress { function: 0, ..p })
            .collect();
        for gpu in &sample.gpus {
            let Some(pci) = gpu.pci else { continue };
            self.one_gpu(gpu, pci, at, is_joining);
        }
        let Some(bus) = &sample.pci else { return };
        for gpu in bus {
            let pci = PciAddress { function: 0, ..gpu.address };
            self.on_bus(gpu, pci, told.contains(&pci), is_joining);
        }
        let gone: Vec<PciAddress> = told
            .iter()
            .filter(|pci| !bus.iter().any(|gpu| gpu.address.is_same_device(pci)))
            .copied()
            .collect();
        for pci in self.devices.keys().copied().collect::<Vec<_>>() {
            // Only what the driver knows, or knew: the log may speak of GPUs that are somebody else's.
            let was_told = self.devices.get(&pci).is_some_and(|d| d.is_listed.is_some());
            // Of one that the driver fully answers for it is the bus that was not read well.
            let is_answering = sample.gpus.iter().any(|gpu| {
                gpu.lost.is_none() && gpu.pci.is_some_and(|told| told.is_same_device(&pci))
            });
            let is_gone = !is_answering
                && (gone.contains(&pci)
                    || was_told && !bus.iter().any(|gpu| gpu.address.is_same_device(&pci)));
            let finding = is_gone.then(|| {
                Finding::unhealthy(Reason::GpuNotOnBus { pci: pci.to_string() }, Action::Reboot)
            });
            self.settle(pci, vec![(FaultKey::NotOnBus, finding, 3)], Source::Pci);
        }
    }

    fn one_gpu(&mut self, gpu: &GpuSample, pci: PciAddress, at: Time, is_joining: bool) {
        let Some(device) = self.device_mut(pci) else { return };
        device.is_listed = Some(gpu.lost.is_none());
        let is_outdated = device.asked_at.is_some_and(|told| told > at);
        let lost = gpu.lost.map(lost_finding);
        let is_known_code = matches!(gpu.lost, Some(NVML_LOST | NVML_RESET_REQUIRED));
        let (known, other) = if is_known_code { (lost, None) } else { (None, lost) };
        let mut signs: Signs = vec![(FaultKey::Lost, known, 1), (FaultKey::Unreachable, other, 3)];
        if gpu.lost.is_none() {
            signs.extend(device.seen.signs(gpu, at, is_joining));
            let errors = device.seen.new_uncorrected(gpu);
            if errors.is_none() {
                // What has reset the counter has dealt with the errors: pages retired, rows remapped, memory scrubbed.
                device.clear(FaultKey::EccUncorrected);
            }
            if let Some(errors) = errors.filter(|errors| *errors > 0) {
                let fault = Fault {
                    reason: Reason::GpuEccUncorrected { errors },
                    health: Health::Degraded,
                    action: Action::None,
                    is_urgent: false,
                    source: Source::Nvml,
                    since: at,
                    seen_at: at,
                    count: errors,
                };
                device.raise(FaultKey::EccUncorrected, fault);
            }
        }
        self.settle(pci, signs, Source::Nvml);
        if let Some(asks) = gpu.recovery_action.filter(|_| !is_outdated && gpu.lost.is_none()) {
            self.recovery_action(pci, Some(asks), Source::Nvml, at);
        }
    }

    fn on_bus(&mut self, gpu: &PciGpu, pci: PciAddress, is_told: bool, is_joining: bool) {
        let is_ours = gpu.driver.as_deref() == Some(OWNER);
        let is_missing = is_ours && !is_told && !is_joining;
        let finding = is_missing.then(|| {
            Finding::unhealthy(
                Reason::GpuNotListed { pci: pci.to_string() },
                Action::ContactSupport,
            )
        });
        if is_missing && let Some(device) = self.device_mut(pci) {
            device.is_listed = Some(false);
        }
        if is_missing || self.devices.contains_key(&pci) {
            self.settle(pci, vec![(FaultKey::NotListed, finding, 3)], Source::Pci);
        }
    }

    /// Raises what enough looks in a row have shown, and clears what as many have not.
    fn settle(&mut self, pci: PciAddress, signs: Signs, source: Source) {
        let now = self.now;
        let Some(device) = self.device_mut(pci) else { return };
        for (key, finding, looks) in signs {
            match device.seen.settled(key, finding.is_some(), looks) {
                Some(true) => {
                    let Some(finding) = finding else { continue };
                    let Finding { reason, health, action, is_urgent } = finding;
                    let fault = Fault {
                        reason,
                        health,
                        action,
                        is_urgent,
                        source,
                        since: now,
                        seen_at: now,
                        count: 1,
                    };
                    device.set(key, fault);
                }
                Some(false) => {
                    device.clear(key);
                }
                None => {}
            }
        }
    }
}

fn is_unavailable(gpus: &[GpuSample]) -> bool {
    gpus.len() > 1 && gpus.iter().all(|gpu| gpu.lost == Some(NVML_UNKNOWN))
}

fn lost_finding(code: u32) -> Finding {
    let text = nvml_code(code).unwrap_or("a code that this version does not know").to_owned();
    let reason = Reason::GpuLost { nvml: code, text };
    match code {
        NVML_LOST => Finding { is_urgent: true, ..Finding::unhealthy(reason, Action::Reboot) },
        NVML_RESET_REQUIRED => Finding::unhealthy(reason, Action::Reset),
        _ => Finding { reason, health: Health::Unknown, action: Action::None, is_urgent: false },
    }
}
