//! Tests of the judge: each input of a real fault with its verdict.

mod log;
mod looks;
mod restart;

use std::collections::BTreeMap;

use super::{Change, Input, Judge, Verdict};
use crate::health::kmsg::{KernelLog, LogCounters};
use crate::health::{Action, Class, NvlinkOutcome, NvlinkRow, Repeat, SwitchRow, Table, XidRow};
use crate::protocol::{DrainNeed, Health};
use crate::reason::Reason;
use crate::sample::{DriverState, GpuSample, GpuTableSample, PciAddress, PciGpu};
use crate::unit::Time;

/// The rows that the tests speak of. All rows are in the shell's data file.
fn table() -> Table {
    let rows: &[(&[u32], Class, Option<u32>)] = &[
        (&[13, 31, 43], Class::App, None),
        (&[94], Class::App, Some(565)),
        (&[63], Class::Warn, Some(565)),
        (&[162, 163], Class::Warn, None),
        (&[38, 44], Class::WarnRepeated, None),
        (&[45], Class::FollowUp, None),
        (&[74], Class::Degrade, Some(565)),
        (&[109], Class::Degrade, Some(570)),
        (&[169], Class::ResetSuspected, None),
        (&[46, 119, 140], Class::Reset, None),
        (&[48, 62, 95, 120], Class::Reset, Some(565)),
        (&[64, 79], Class::Reboot, Some(565)),
        (&[142], Class::Support, None),
        (&[145, 149], Class::Decode, Some(565)),
        (&[154], Class::Carrier, None),
    ];
    let mut xids = BTreeMap::new();
    for (codes, class, asks_since) in rows {
        for code in *codes {
            let row = XidRow {
                what: format!("code {code}"),
                class: *class,
                asks_since: *asks_since,
                repeat: if [64, 79].contains(code) { Repeat::Replace } else { Repeat::Same },
                is_urgent: [79, 145, 149].contains(code),
                cancels: (*code == 162).then_some(163),
            };
            xids.insert(*code, row);
        }
    }
    let switches = BTreeMap::from([(12_020, SwitchRow { is_always_fatal: true })]);
    let nvlink = |number, errors, outcome| NvlinkRow {
        code: 145,
        unit: "RLW_REMAP".to_owned(),
        number,
        errors,
        outcome,
    };
    let nvlink =
        vec![nvlink(4, 0xc0, NvlinkOutcome::Reset), nvlink(4, 0x300, NvlinkOutcome::Ignore)];
    Table::new(xids, switches, nvlink)
}

/// A judge, and the log that it reads.
struct Bench {
    judge: Judge,
    log: KernelLog,
    sequence: u64,
    now: Time,
    workers: Vec<u32>,
    sample: GpuTableSample,
}

fn pci(text: &str) -> PciAddress {
    text.parse().unwrap()
}

impl Bench {
    fn new() -> Self {
        let now = Time(1_000_000);
        Self {
            judge: Judge::new(now, table()),
            log: KernelLog::new(None, LogCounters::default(), false),
            sequence: 0,
            now,
            workers: Vec::new(),
            sample: GpuTableSample::default(),
        }
    }

    fn step(&mut self, input: Input<'_>) {
        for change in self.judge.step(self.now, input) {
            if let Change::Worker { pid, .. } = change {
                self.workers.push(pid);
            }
        }
    }

    /// The kernel says this, and what has happened again is told.
    fn say(&mut self, message: &str) -> &mut Self {
        self.sequence += 1;
        self.now = self.now.plus_ms(10);
        let record = format!("6,{},{},-;{message}", self.sequence, self.now.0 * 1_000);
        let mut events: Vec<_> = self.log.take(record.as_bytes()).into_iter().collect();
        events.extend(self.log.repeats());
        for event in &events {
            self.step(Input::Kernel { event, at: self.now });
        }
        self
    }

    /// The driver of GPU d8 says this.
    fn xid(&mut self, rest: &str) -> &mut Self {
        self.say(&format!("NVRM: Xid (PCI:0000:d8:00): {rest}"))
    }

    fn asks(&mut self, from: u32, to: u32) -> &mut Self {
        self.xid(&format!("154, GPU recovery action changed from {from:#x} (X) to {to:#x} (Y)"))
    }

    fn verdict(&self) -> Verdict {
        self.judge.device_verdict(pci("0000:d8:00.0"))
    }

    #[track_caller]
    fn expect(&self, health: Health, action: Action, drain: DrainNeed, faults: usize) {
        let verdict = self.verdict();
        let found = (verdict.health, verdict.action, verdict.drain, verdict.faults.len());
        assert_eq!(found, (health, action, drain, faults), "{verdict:?}");
    }

    fn expect_healthy(&self) {
        self.expect(Health::Healthy, Action::None, DrainNeed::None, 0);
    }

    fn code(&self) -> Option<&'static str> {
        self.verdict().reason().map(Reason::code)
    }

    /// GPUs d8 and b3, which are in order.
    fn with_gpus(mut self) -> Self {
        self.sample = GpuTableSample {
            driver: DriverState::Running {
                version: Some("570.133.20".to_owned()),
                nvml_version: None,
                cuda_version: None,
            },
            gpus_age_ms: Some(0),
            ..GpuTableSample::default()
        };
        let mut bus = Vec::new();
        for (index, text) in ["0000:b3:00.0", "0000:d8:00.0"].into_iter().enumerate() {
            let address = pci(text);
            let uuid = Some(format!("GPU-{index}"));
            self.sample.gpus.push(GpuSample { uuid, pci: Some(address), ..GpuSample::default() });
            let driver = Some("nvidia".to_owned());
            bus.push(PciGpu { address, driver, ..PciGpu::default() });
        }
        self.sample.pci = Some(bus);
        self
    }

    fn gpu(&mut self) -> &mut GpuSample {
        &mut self.sample.gpus[1]
    }

    /// A look, five seconds after the one before.
    fn look(&mut self) -> &mut Self {
        self.now = self.now.plus_ms(5_000);
        let sample = self.sample.clone();
        self.step(Input::Look(&sample));
        self
    }

    fn looks(&mut self, count: u32) -> &mut Self {
        for _ in 0..count {
            self.look();
        }
        self
    }
}
