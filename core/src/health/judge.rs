//! The judge: what is known of every device and of the node, and the verdict on it.
//!
//! Pieces beside this file: the kernel's log (`kernel`), a look at the driver and the bus (`look`, `signs`), one
//! device (`device`), verdicts (`verdict`).

mod device;
mod kernel;
mod look;
mod signs;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeMap;

use super::kmsg::KernelEvent;
use super::{Action, Fault, FaultKey, Source, Table};
use crate::protocol::Health;
use crate::reason::Reason;
use crate::sample::{GpuTableSample, PciAddress};
use crate::unit::Time;
use device::Device;

pub use verdict::Verdict;

/// Most devices that are judged; the largest hosts have 16, and each part of a GPU counts to its GPU.
const DEVICES_MAX: usize = 256;

/// A fault that made a device `Degraded`, or that is merely worth knowing, is forgotten when it has not been seen for so
/// long. A day: what comes once a shift is one fault, what came last week is none.
const FORGOTTEN_MS: u64 = 24 * 3_600_000;

/// The same for what nobody knows the meaning of.
const UNKNOWN_FORGOTTEN_MS: u64 = 3_600_000;

/// For so long after its first look a node is joining: links come up, the fabric is configured.
const JOINING_MS: u64 = 300_000;

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// The kernel's log says something.
    Kernel {
        /// What.
        event: &'a KernelEvent,
        /// When, on the judge's clock.
        at: Time,
    },
    /// What driver and PCI bus show now.
    Look(&'a GpuTableSample),
    /// The version of the driver's module, read without its help: `570.133.20`.
    DriverVersion(&'a str),
    /// Somebody says that the device is in order again.
    Cleared(PciAddress),
    /// Time has passed.
    Tick,
}

/// What is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The verdict on a device.
    Device(PciAddress),
    /// The verdict on the node, and with it on all its devices.
    Node,
    /// A program met an error that is its own.
    Worker {
        /// The process.
        pid: u32,
        /// Why.
        reason: Reason,
        /// How often.
        count: u64,
    },
}

/// A fault as it is kept over a restart of the agent: what cannot be seen again by looking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The device; `None`: the node.
    pub pci: Option<PciAddress>,
    /// Which fault.
    pub key: FaultKey,
    /// The fault. `None`: it is over, but it has been there before.
    pub fault: Option<Fault>,
    /// The driver asks for what this fault needs, or will: its request stands for the fault, and its "nothing" ends it.
    pub awaits_request: bool,
}

/// The judge's state. See the module.
#[derive(Clone, Debug)]
pub struct Judge {
    table: Table,
    now: Time,
    devices: BTreeMap<PciAddress, Device>,
    node: BTreeMap<FaultKey, Fault>,
    /// NVML's names of GPUs.
    names: BTreeMap<String, PciAddress>,
    driver_major: Option<u32>,
    /// The driver can be asked, and was not long ago. `None`: nobody asks it here.
    is_answering: Option<bool>,
    /// When the newest look began.
    asked_at: Option<Time>,
    joined_at: Option<Time>,
    /// The newest task that hung.
    blocked: Option<String>,
    changes: Vec<Change>,
}

impl Judge {
    /// A judge who knows nothing yet.
    #[must_use]
    pub fn new(now: Time, table: Table) -> Self {
        Self {
            table,
            now,
            devices: BTreeMap::new(),
            node: BTreeMap::new(),
            names: BTreeMap::new(),
            driver_major: None,
            is_answering: None,
            asked_at: None,
            joined_at: None,
            blocked: None,
            changes: Vec::new(),
        }
    }

    /// Takes up what an earlier one left. `has_rebooted`: the machine was started since, which ends some faults.
    pub fn restore(&mut self, standing: Vec<Standing>, has_rebooted: bool) {
        for Standing { pci, key, fault, awaits_request } in standing {
            let now = self.now;
            let fault = fault.map(|fault| {
                let (since, seen_at) = (fault.since.min(now), fault.seen_at.min(now));
                Fault { since, seen_at, ..fault }
            });
            let Some(pci) = pci else {
                if let Some(fault) = fault.filter(|f| !has_rebooted || !f.ends_with_reboot()) {
                    self.node.insert(key, fault);
                }
                continue;
            };
            let Some(device) = self.device_mut(pci) else { continue };
            match fault {
                Some(fault) => device.take_up(key, fault, awaits_request),
                None => device.note_cured(key),
            }
            if has_rebooted {
                device.end(Fault::ends_with_reboot);
            }
        }
    }

    /// What the next judge has to be told: see [`Self::restore`].
    #[must_use]
    pub fn standing(&self) -> Vec<Standing> {
        let node =
            self.node.iter().filter(|(key, fault)| is_kept(**key, fault)).map(|(key, fault)| {
                Standing { pci: None, key: *key, fault: Some(fault.clone()), awaits_request: false }
            });
        let devices = self.devices.iter().flat_map(|(pci, device)| {
            let kept = device.faults().filter(|(key, fault)| is_kept(**key, fault));
            let faults = kept.map(|(key, fault)| Standing {
                pci: Some(*pci),
                key: *key,
                fault: Some(fault.clone()),
                awaits_request: device.is_awaiting_request(*key),
            });
            let cured = device.cured().filter(|key| device.fault(**key).is_none());
            let cured = cured.map(|key| Standing {
                pci: Some(*pci),
                key: *key,
                fault: None,
                awaits_request: false,
            });
            faults.chain(cured)
        });
        node.chain(devices).collect()
    }

    /// Takes one input. `now` never goes back: an earlier value counts as the last one.
    pub fn step(&mut self, now: Time, input: Input<'_>) -> Vec<Change> {
        self.now = self.now.max(now);
        let before = self.summaries();
        match input {
            Input::Kernel { event, at } => self.kernel(event, at.min(self.now)),
            Input::Look(sample) => self.look(sample),
            Input::DriverVersion(version) => self.driver_major = major_of(version),
            Input::Cleared(pci) => self.cleared(pci),
            Input::Tick => {}
        }
        self.forget_old();
        self.compare(&before);
        std::mem::take(&mut self.changes)
    }

    /// Devices of which something was said.
    pub fn devices(&self) -> impl Iterator<Item = PciAddress> {
        self.devices.keys().copied()
    }

    fn device_mut(&mut self, pci: PciAddress) -> Option<&mut Device> {
        let pci = PciAddress { function: 0, ..pci };
        if self.devices.len() >= DEVICES_MAX && !self.devices.contains_key(&pci) {
            return None;
        }
        Some(self.devices.entry(pci).or_default())
    }

    fn cleared(&mut self, pci: PciAddress) {
        if let Some(device) = self.device_mut(pci) {
            device.end(|_| true);
        }
        self.node.retain(|_, fault| fault.source != Source::KernelLog);
    }

    fn forget_old(&mut self) {
        let now = self.now;
        let is_old = |key: FaultKey, fault: &Fault| {
            let quiet_ms = now.ms_since(fault.seen_at);
            is_kept(key, fault)
                && fault.action < Action::ContactSupport
                && match fault.health {
                    Health::Healthy | Health::Degraded => quiet_ms >= FORGOTTEN_MS,
                    Health::Unknown => quiet_ms >= UNKNOWN_FORGOTTEN_MS,
                    Health::Unhealthy => false,
                }
        };
        self.node.retain(|key, fault| !is_old(*key, fault));
        for device in self.devices.values_mut() {
            device.forget(is_old);
        }
    }

    /// What others see of each verdict, for telling what has changed.
    fn summaries(&self) -> BTreeMap<Option<PciAddress>, Summary> {
        let device = |pci: &PciAddress| (Some(*pci), Summary::of(&self.own_verdict(*pci)));
        let node = (None, Summary::of(&self.node_verdict()));
        self.devices.keys().map(device).chain([node]).collect()
    }

    fn compare(&mut self, before: &BTreeMap<Option<PciAddress>, Summary>) {
        for (of, summary) in self.summaries() {
            if before.get(&of).unwrap_or(&Summary::default()) != &summary {
                self.changes.push(of.map_or(Change::Node, Change::Device));
            }
        }
    }
}

/// Whether no look shows it again: it is kept over a restart of the agent, and forgotten once it is old.
fn is_kept(key: FaultKey, fault: &Fault) -> bool {
    fault.source == Source::KernelLog || key == FaultKey::EccUncorrected
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Summary(Option<(Health, Action, Option<&'static str>)>);

impl Summary {
    fn of(verdict: &Verdict) -> Self {
        let code = verdict.reason().map(Reason::code);
        let is_fine = verdict.health == Health::Healthy && code.is_none();
        Self((!is_fine).then_some((verdict.health, verdict.action, code)))
    }
}

fn major_of(version: &str) -> Option<u32> {
    version.split('.').next()?.trim().parse().ok()
}
