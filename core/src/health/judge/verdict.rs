//! The verdict on a device or on the node: the worst of what is wrong with it.

use super::Judge;
use crate::health::{Action, Fault};
use crate::protocol::{DrainNeed, Health};
use crate::reason::Reason;
use crate::sample::PciAddress;

/// What is thought of a device or a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Fit for work?
    pub health: Health,
    /// What is to be done.
    pub action: Action,
    /// Whether those who work on it have to leave.
    pub drain: DrainNeed,
    /// What is wrong, worst first; those that make it no less healthy come last.
    pub faults: Vec<Fault>,
}

impl Verdict {
    fn of<'a>(base: Health, faults: impl Iterator<Item = &'a Fault>) -> Self {
        let mut faults: Vec<Fault> = faults.cloned().collect();
        faults.sort_by(|a, b| {
            b.rank().cmp(&a.rank()).then(a.since.cmp(&b.since)).then(a.source.cmp(&b.source))
        });
        let drains = |f: &&Fault| f.health == Health::Unhealthy && f.action.needs_drain();
        let drain = match faults.iter().filter(drains).map(|fault| fault.is_urgent).max() {
            None => DrainNeed::None,
            Some(false) => DrainNeed::Save,
            Some(true) => DrainNeed::Hurry,
        };
        let health = faults.iter().map(|fault| fault.health).max().unwrap_or(base).max(base);
        let action = faults.iter().map(|fault| fault.action).max().unwrap_or_default();
        Self { health, action, drain, faults }
    }

    /// The worst of its faults.
    #[must_use]
    pub fn worst(&self) -> Option<&Fault> {
        self.faults.first()
    }

    /// Why it is not healthy, or what is worth knowing.
    #[must_use]
    pub fn reason(&self) -> Option<&Reason> {
        self.worst().map(|fault| &fault.reason)
    }
}

impl Judge {
    /// The verdict on a device: its own faults, and those of the node.
    #[must_use]
    pub fn device_verdict(&self, pci: PciAddress) -> Verdict {
        let pci = PciAddress { function: 0, ..pci };
        let device = self.devices.get(&pci);
        let own = device.into_iter().flat_map(|device| device.faults().map(|(_, fault)| fault));
        Verdict::of(self.base(pci), own.chain(self.of_all()))
    }

    /// The verdict on a device of which nothing was said: it still is of this node.
    #[must_use]
    pub fn others_verdict(&self) -> Verdict {
        Verdict::of(Health::Healthy, self.of_all())
    }

    /// Faults of the node that are all its devices'. What is merely worth knowing says nothing of them.
    fn of_all(&self) -> impl Iterator<Item = &Fault> {
        self.node.values().filter(|fault| fault.health != Health::Healthy)
    }

    /// The verdict on a device by its own faults.
    #[must_use]
    pub fn own_verdict(&self, pci: PciAddress) -> Verdict {
        let device = self.devices.get(&pci);
        let own = device.into_iter().flat_map(|device| device.faults().map(|(_, fault)| fault));
        Verdict::of(self.base(pci), own)
    }

    /// The verdict on the node.
    #[must_use]
    pub fn node_verdict(&self) -> Verdict {
        Verdict::of(Health::Healthy, self.node.values())
    }

    /// What is thought of a device of which nothing bad is known.
    fn base(&self, pci: PciAddress) -> Health {
        let device = self.devices.get(&pci);
        match (self.is_answering, device.and_then(|device| device.is_listed)) {
            // Nobody asks the driver here, or it has not been asked about this one.
            (None, _) | (_, None) | (Some(true), Some(true)) => Health::Healthy,
            (Some(false), _) | (_, Some(false)) => Health::Unknown,
        }
    }

    /// Messages of cleanup that belonged to a fault of the device.
    #[must_use]
    pub fn follow_ups(&self, pci: PciAddress) -> u64 {
        self.devices.get(&pci).map_or(0, |device| device.seen.follow_ups)
    }
}
