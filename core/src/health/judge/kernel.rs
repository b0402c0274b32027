//! What the kernel's log comes to.

use super::{Change, Judge};
use crate::health::kmsg::{KernelEvent, Occurrence, SwitchLine, XidLine};
use crate::health::{
    Action, Class, Fault, FaultKey, NvlinkOutcome, RecoveryAction, Repeat, Source,
};
use crate::protocol::Health;
use crate::reason::Reason;
use crate::sample::PciAddress;
use crate::unit::Time;

/// From so many on, messages worth knowing make the device `Degraded` (class `warn-repeated`).
const WARNINGS_MAX: u64 = 5;

/// Xid of a program's page fault: on one GPU alone, again and again, it may be the GPU's.
const PAGE_FAULT: u32 = 31;

/// Page faults on one GPU from which on it is worth a test, if no other GPU has any.
const PAGE_FAULTS_MAX: u64 = 2;

/// Longest text of a message in a reason. Unit: characters.
const TEXT_CHARS_MAX: usize = 160;

/// What a code makes of the device.
struct Ruling {
    health: Health,
    action: Action,
    is_urgent: bool,
}

impl Ruling {
    fn new(health: Health, action: Action) -> Self {
        Self { health, action, is_urgent: false }
    }
}

impl Judge {
    pub(super) fn kernel(&mut self, event: &KernelEvent, at: Time) {
        match &event.what {
            Occurrence::Xid { line, follows } => self.xid(line, *follows, event, at),
            Occurrence::Switch(line) => self.switch(line, event, at),
            Occurrence::Reset { pci, uuid, has_succeeded } => {
                let pci = pci.or_else(|| self.names.get(uuid).copied());
                if let Some(device) =
                    pci.filter(|_| *has_succeeded).and_then(|p| self.device_mut(p))
                {
                    device.end(Fault::ends_with_reset);
                }
            }
            Occurrence::Blocked { task, pid, seconds } => {
                let task: String = task.chars().take(64).collect();
                self.blocked = Some(format!("task {task} ({pid}) hung for {seconds} s"));
            }
        }
    }

    fn xid(&mut self, line: &XidLine, follows: Option<u32>, event: &KernelEvent, at: Time) {
        let row = self.table.xid(line.code).cloned();
        let class = row.as_ref().map(|row| row.class);
        if class == Some(Class::FollowUp) && follows.is_some() {
            return self.follow_up(line.pci, follows, event, at);
        }
        if let Some(to) = line.action {
            return self.recovery_action(line.pci, to, Source::KernelLog, at);
        }
        let what = row.as_ref().map_or_else(|| "unknown code".to_owned(), |row| row.what.clone());
        let reason = Reason::GpuXid { xid: line.code, what, text: short(&line.text) };
        let key = FaultKey::Xid(line.code);
        let known = self.devices.get(&line.pci).and_then(|d| d.fault(key)).map(|f| f.count);
        if event.is_repeat && known.is_none() {
            // Repeats are told last: what has cured the fault meanwhile came after them.
            return;
        }
        let before = known.unwrap_or(0);
        let mut ruling = self.ruling(line, class, before + event.count);
        let Some(device) = self.device_mut(line.pci) else { return };
        if let Some(row) = &row {
            if row.repeat == Repeat::Replace && device.was_cured_of(key) {
                ruling.action = Action::Replace;
            }
            ruling.is_urgent = ruling.health == Health::Unhealthy && row.is_urgent;
            if let Some(cancelled) = row.cancels {
                device.clear(FaultKey::Xid(cancelled));
            }
        }
        let Ruling { health, action, is_urgent } = ruling;
        let (source, count) = (Source::KernelLog, event.count);
        device.raise(
            key,
            Fault { reason, health, action, is_urgent, source, since: at, seen_at: at, count },
        );
        let driver_major = self.driver_major;
        let asks = row.as_ref().and_then(|row| row.asks_since);
        let asks = asks.is_some_and(|since| driver_major.is_none_or(|major| major >= since));
        if let Some(device) =
            self.device_mut(line.pci).filter(|_| asks && health > Health::Degraded)
        {
            device.awaits_request(key);
        }
        if let Some(pid) = line.pid.filter(|_| class == Some(Class::App)) {
            let reason = Reason::WorkerGpuFault {
                pci: line.pci.to_string(),
                xid: line.code,
                text: short(&line.text),
            };
            self.changes.push(Change::Worker { pid, reason, count: event.count });
        }
    }

    /// The cleanup after a fault belongs to it.
    fn follow_up(&mut self, pci: PciAddress, follows: Option<u32>, event: &KernelEvent, at: Time) {
        let Some(device) = self.device_mut(pci) else { return };
        let count = event.count;
        device.seen.follow_ups = device.seen.follow_ups.saturating_add(count);
        if let Some(code) = follows {
            device.change(FaultKey::Xid(code), |fault| fault.seen_at = fault.seen_at.max(at));
        }
    }

    fn ruling(&self, line: &XidLine, class: Option<Class>, count: u64) -> Ruling {
        let Some(class) = class else { return Ruling::new(Health::Unknown, Action::None) };
        match class {
            Class::App => Ruling::new(Health::Healthy, self.hint(line, count)),
            Class::Warn | Class::Carrier => Ruling::new(Health::Healthy, Action::None),
            Class::FollowUp => Ruling::new(Health::Healthy, Action::RestartFabricManager),
            Class::WarnRepeated if count >= WARNINGS_MAX => {
                Ruling::new(Health::Degraded, Action::RunDiagnostics)
            }
            Class::WarnRepeated => Ruling::new(Health::Healthy, Action::None),
            Class::Degrade => Ruling::new(Health::Degraded, Action::None),
            Class::ResetSuspected => Ruling::new(Health::Degraded, Action::Reset),
            Class::RebootSuspected => Ruling::new(Health::Degraded, Action::Reboot),
            Class::Reset => Ruling::new(Health::Unhealthy, Action::Reset),
            Class::Reboot => Ruling::new(Health::Unhealthy, Action::Reboot),
            Class::Support => Ruling::new(Health::Unhealthy, Action::ContactSupport),
            Class::Decode => self.decoded(line),
        }
    }

    /// Page faults of one GPU, again and again, while no other has any.
    fn hint(&self, line: &XidLine, count: u64) -> Action {
        let has = |device: &super::Device| device.fault(FaultKey::Xid(PAGE_FAULT)).is_some();
        let others = self.devices.iter().filter(|(pci, d)| **pci != line.pci && has(d)).count();
        let is_suspect = line.code == PAGE_FAULT && count >= PAGE_FAULTS_MAX && others == 0;
        if is_suspect { Action::RunDiagnostics } else { Action::None }
    }

    /// Registers go before the word, the word before the number.
    fn decoded(&self, line: &XidLine) -> Ruling {
        let error = line.nvlink.as_ref();
        let outcome = error.and_then(|e| self.table.nvlink(line.code, e, self.driver_major));
        let is_fatal = match outcome {
            Some(NvlinkOutcome::Reset) => Some(true),
            Some(NvlinkOutcome::Ignore | NvlinkOutcome::FollowAction) => Some(false),
            None => error.and_then(|error| error.is_fatal),
        };
        match is_fatal {
            Some(true) => Ruling::new(Health::Unhealthy, Action::Reset),
            Some(false) => Ruling::new(Health::Healthy, Action::None),
            // Neither word nor row: links had an error, and nobody knows which.
            None => Ruling::new(Health::Degraded, Action::None),
        }
    }

    fn switch(&mut self, line: &SwitchLine, event: &KernelEvent, at: Time) {
        let is_fatal = self.table.is_switch_fatal(line.code, line.is_fatal);
        let (health, action) = if is_fatal {
            (Health::Unhealthy, Action::Reboot)
        } else {
            (Health::Healthy, Action::None)
        };
        let pci = line.pci.to_string();
        let reason = Reason::SwitchSxid { pci, sxid: line.code, text: short(&line.text) };
        let (source, count) = (Source::KernelLog, event.count);
        let fault = Fault {
            reason,
            health,
            action,
            is_urgent: is_fatal,
            source,
            since: at,
            seen_at: at,
            count,
        };
        self.raise_on_node(FaultKey::Switch(line.code), fault);
    }

    pub(super) fn raise_on_node(&mut self, key: FaultKey, fault: Fault) {
        let mut device = super::Device::default();
        if let Some(standing) = self.node.remove(&key) {
            device.take_up(key, standing, false);
        }
        device.raise(key, fault);
        self.node.extend(device.fault(key).cloned().map(|fault| (key, fault)));
    }

    /// The driver asks for something, in its log or when asked. `to` is `None` where the message is cut off.
    pub(super) fn recovery_action(
        &mut self,
        pci: PciAddress,
        to: Option<u32>,
        source: Source,
        at: Time,
    ) {
        let asks = to.map(RecoveryAction::of);
        let Some(device) = self.device_mut(pci) else { return };
        if asks == Some(RecoveryAction::None) {
            let had_asked = device.clear(FaultKey::Action);
            if device.clear(FaultKey::ActionUnknown) || had_asked {
                device.request_done();
            }
            let asks_reboot = |d: &super::Device| {
                d.fault(FaultKey::Action).is_some_and(|f| f.action == Action::Reboot)
            };
            if !self.devices.values().any(asks_reboot) {
                self.node.remove(&FaultKey::Action);
            }
            return;
        }
        if source == Source::KernelLog {
            device.asked_at = Some(at);
        }
        let value = to.map_or_else(|| "cut off".to_owned(), |to| to.to_string());
        let fault = |reason, health, action| Fault {
            reason,
            health,
            action,
            is_urgent: false,
            source,
            since: at,
            seen_at: at,
            count: 1,
        };
        let Some(asks) = asks.filter(|asks| !matches!(asks, RecoveryAction::Other(_))) else {
            let reason = Reason::GpuActionUnknown { value };
            device.raise(FaultKey::ActionUnknown, fault(reason, Health::Unknown, Action::None));
            return;
        };
        let action = asks.action();
        let reason = Reason::GpuActionAsked { action: action.to_string(), value };
        let health = if action.needs_drain() { Health::Unhealthy } else { Health::Degraded };
        let is_known = device.fault(FaultKey::Action).is_some_and(|f| f.action >= action);
        device.requested(at);
        if is_known && source == Source::Nvml {
            // The same answer at each look is one fault, not many.
            device.change(FaultKey::Action, |fault| fault.seen_at = at);
            return;
        }
        device.raise(FaultKey::Action, fault(reason.clone(), health, action));
        if asks == RecoveryAction::Reboot {
            self.raise_on_node(FaultKey::Action, fault(reason, health, action));
        }
    }
}

fn short(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}
