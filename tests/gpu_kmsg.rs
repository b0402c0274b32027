//! Faults that the kernel's log tells, from the record to what the agent says of the device. The log is a file here, and
//! the devices are simulated; numbers are those of the cases they were collected as.

mod forms;
mod lasting;
mod storms;

use std::fs::OpenOptions;
use std::io::Write as _;

use sluice::wire::pb::{self, Action, DrainNeed, Health};

use crate::cluster::{Cluster, Setup};

/// Where the two simulated devices are, as the driver spells it.
const FIRST: &str = "PCI:ffff00:00:00";
const SECOND: &str = "PCI:ffff00:01:00";

/// An agent without an arbiter, and the log that it reads.
struct Log {
    cluster: Cluster,
    sequence: u64,
    /// When it began: what is old is forgotten, and machines may have been up for long. Unit: µs since boot.
    began_us: u64,
}

/// How long this machine has been up. Unit: µs.
fn uptime_us() -> u64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    let (seconds, rest) = text.split_once('.').unwrap();
    let hundredths: u64 = rest.get(..2).unwrap().parse().unwrap();
    seconds.parse::<u64>().unwrap() * 1_000_000 + hundredths * 10_000
}

impl Log {
    fn new(flags: &[&str]) -> Self {
        let mut setup = Setup::nodes(&[("n1", 2)]);
        setup.agent_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut cluster = Cluster::unstarted(setup);
        let path = cluster.path("kmsg");
        std::fs::write(&path, "").unwrap();
        cluster.setup.agent_flags.extend(["--kmsg-path".to_owned(), path.display().to_string()]);
        cluster.start_agent("n1");
        Self { cluster, sequence: 0, began_us: uptime_us() }
    }

    fn append(&self, bytes: &[u8]) {
        let path = self.cluster.path("kmsg");
        OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
    }

    /// A record with the next number.
    fn record(&mut self, priority: u32, message: &str) -> String {
        self.sequence += 1;
        let at_us = self.began_us + self.sequence * 10;
        format!("{priority},{},{at_us},-;{message}\n", self.sequence)
    }

    /// The kernel says this.
    fn say(&mut self, message: &str) {
        let record = self.record(6, message);
        self.append(record.as_bytes());
    }

    /// The driver says this of the first device.
    fn xid(&mut self, rest: &str) {
        self.say(&format!("NVRM: Xid ({FIRST}): {rest}"));
    }

    fn report(&self) -> pb::NodeReport {
        self.cluster.report_of("n1").report.unwrap()
    }

    fn device(&self, index: usize) -> pb::Device {
        self.report().devices.swap_remove(index)
    }

    fn counters(&self) -> pb::KernelLog {
        self.report().health.unwrap().kernel_log.unwrap()
    }

    /// Waits until everything that was written has been read and judged.
    fn settle(&self) -> pb::KernelLog {
        let last = self.sequence;
        self.cluster.wait(&format!("record {last} to be read"), |_| {
            let counters = self.counters();
            (counters.last_sequence == Some(last)).then_some(counters)
        })
    }

    /// After everything has been read: what the first device is, and how many faults it has.
    #[track_caller]
    fn expect(
        &self,
        health: Health,
        action: Action,
        drain: DrainNeed,
        faults: usize,
    ) -> pb::Device {
        self.settle();
        let device = self.device(0);
        let found = (device.health(), device.action(), device.drain(), device.faults.len());
        assert_eq!(found, (health, action, drain, faults), "{device:#?}");
        device
    }

    #[track_caller]
    fn expect_healthy(&self) {
        self.expect(Health::Healthy, Action::None, DrainNeed::None, 0);
    }

    fn node_health(&self) -> pb::NodeHealth {
        self.report().health.unwrap()
    }
}
