//! What lasts over restarts of the agent and of the machine; and the kernel's own file.

use std::fs::OpenOptions;
use std::io::Write as _;

use sluice::wire::pb::{Action, DrainNeed, Health};

use super::{FIRST, Log};
use crate::cluster::{Cluster, Setup};

#[test]
fn case_25_record_is_taken_once_over_restarts_of_the_agent() {
    let mut log = Log::new(&[]);
    log.xid("119, pid=7, name=x, Timeout");
    log.xid("94, pid=7, name=x, Contained");
    let before = log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 2);
    log.cluster.wait("the place in the log to be noted down", |cluster| {
        let kept = cluster.path("state/agents/n1/health.json");
        let text = std::fs::read_to_string(kept).ok()?;
        text.contains("\"last_sequence\":2,").then_some(())
    });
    let counters = log.counters();
    log.cluster.kill_agent("n1");
    log.cluster.start_agent("n1");
    let after = log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 2);
    let counts = |device: &sluice::wire::pb::Device| -> Vec<u64> {
        device.faults.iter().map(|fault| fault.count).collect()
    };
    assert_eq!(counts(&after), counts(&before));
    assert_eq!(log.counters().events, counters.events);
    log.xid("119, pid=7, name=x, Timeout again");
    let device = log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 2);
    assert_eq!(device.faults[0].count, 2);
}

#[test]
fn case_25_log_of_the_boot_is_read_from_its_start_where_nothing_was_noted_down() {
    let mut log = Log::new(&[]);
    log.cluster.kill_agent("n1");
    log.xid("119, pid=7, name=x, Timeout");
    std::fs::remove_file(log.cluster.path("state/agents/n1/health.json")).unwrap_or_default();
    log.cluster.start_agent("n1");
    log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
}

#[test]
fn request_that_is_withdrawn_after_a_restart_of_the_agent_ends_what_it_stood_for() {
    let mut log = Log::new(&[]);
    log.xid("120, GSP task timeout @ pc:0x2b9e1ac, task: 1");
    log.xid("154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)");
    log.expect(Health::Unhealthy, Action::DrainAndReset, DrainNeed::Save, 2);
    let kept = log.cluster.path("state/agents/n1/health.json");
    log.cluster.wait("the faults to be noted down", |_| {
        let text = std::fs::read_to_string(&kept).ok()?;
        text.contains("\"last_sequence\":2,").then_some(())
    });
    log.cluster.kill_agent("n1");
    log.cluster.start_agent("n1");
    log.expect(Health::Unhealthy, Action::DrainAndReset, DrainNeed::Save, 2);
    log.xid("154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)");
    log.expect_healthy();
}

#[test]
fn case_26_reset_and_reboot_end_what_they_can() {
    let mut log = Log::new(&[]);
    log.say(&format!("NVRM: GPU at {FIRST}: GPU-5fd4c08b-7a1c-4b1c-9d5f-3d9b4e0f2a11"));
    log.xid("119, pid=7, name=x, Timeout");
    log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
    log.say("NVRM: GPU reset executed: GPU-5fd4c08b-7a1c-4b1c-9d5f-3d9b4e0f2a11, success: true");
    log.expect_healthy();
    log.xid("79, GPU has fallen off the bus.");
    log.xid("142, pid=7, name=x, NVENC3 Error");
    log.expect(Health::Unhealthy, Action::Reboot, DrainNeed::Hurry, 2);
    let kept = log.cluster.path("state/agents/n1/health.json");
    log.cluster.wait("the faults to be noted down", |_| {
        std::fs::read_to_string(&kept).ok()?.contains("xid-142").then_some(())
    });
    // The machine is started again: another boot, another log.
    log.cluster.kill_agent("n1");
    let text = std::fs::read_to_string(&kept).unwrap();
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(text.contains(boot_id.trim()));
    std::fs::write(&kept, text.replace(boot_id.trim(), "00000000-0000-4000-8000-000000000000"))
        .unwrap();
    std::fs::write(log.cluster.path("kmsg"), "").unwrap();
    log.sequence = 0;
    log.cluster.start_agent("n1");
    log.say("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.133.20");
    log.expect(Health::Unhealthy, Action::ContactSupport, DrainNeed::None, 1);
    // The same once more: the board is to be replaced.
    log.xid("79, GPU has fallen off the bus.");
    log.expect(Health::Unhealthy, Action::Replace, DrainNeed::Hurry, 2);
}

#[test]
fn file_of_faults_that_cannot_be_read_is_put_aside() {
    let mut log = Log::new(&[]);
    log.cluster.kill_agent("n1");
    let kept = log.cluster.path("state/agents/n1/health.json");
    std::fs::write(&kept, "{\"boot_id\": 7").unwrap();
    log.cluster.start_agent("n1");
    log.xid("119, pid=7, name=x, Timeout");
    log.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
    assert!(kept.with_extension("unreadable").exists());
}

#[test]
fn log_that_cannot_be_opened_is_said_and_the_agent_goes_on() {
    let mut setup = Setup::nodes(&[("n1", 1)]);
    setup.agent_flags = ["--kmsg-path", "/nonexistent/kmsg"].map(str::to_owned).to_vec();
    let mut cluster = Cluster::unstarted(setup);
    cluster.start_agent("n1");
    let problem = cluster.wait("the problem to be told", |cluster| {
        let log = cluster.report_of("n1").report?.health?.kernel_log?;
        Some(log.problem).filter(|problem| !problem.is_empty())
    });
    assert!(problem.contains("/nonexistent/kmsg"), "{problem}");
}

/// Writes into the kernel's own log, in the name of a device that cannot exist.
#[test]
fn kernels_own_file_is_read_from_its_start_and_followed() {
    let Ok(mut kernel) = OpenOptions::new().write(true).open("/dev/kmsg") else {
        println!("skipped: /dev/kmsg cannot be opened for writing here");
        return;
    };
    if OpenOptions::new().read(true).open("/dev/kmsg").is_err() {
        println!("skipped: /dev/kmsg cannot be opened for reading here");
        return;
    }
    let mut setup = Setup::nodes(&[("n1", 2)]);
    setup.agent_flags = ["--kmsg-any-facility"].map(str::to_owned).to_vec();
    let mut cluster = Cluster::unstarted(setup);
    // A message without its end could still be continued: the kernel shows it only once another one has come.
    kernel.write_all(format!("NVRM: Xid ({FIRST}): 119, a test of sluice\n").as_bytes()).unwrap();
    cluster.start_agent("n1");
    let is_unhealthy = |cluster: &Cluster, index: usize| {
        let report = cluster.report_of("n1").report?;
        (report.devices.get(index)?.health() == Health::Unhealthy).then_some(())
    };
    cluster.wait("a record from before the agent's start", |cluster| is_unhealthy(cluster, 0));
    let second = super::SECOND;
    kernel.write_all(format!("NVRM: Xid ({second}): 119, a test of sluice\n").as_bytes()).unwrap();
    cluster.wait("a record of now", |cluster| is_unhealthy(cluster, 1));
}
