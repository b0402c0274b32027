//! What lasts over a restart of the agent, and of the machine.

use super::{Bench, table};
use crate::health::{Action, Judge};
use crate::protocol::{DrainNeed, Health};

/// The same log goes on with a new judge.
fn restarted(bench: &Bench, has_rebooted: bool) -> Bench {
    let mut next = Bench::new();
    if !has_rebooted {
        next.now = bench.now;
    }
    next.judge = Judge::new(next.now, table());
    next.judge.restore(bench.judge.standing(), has_rebooted);
    next
}

#[test]
fn restart_of_the_agent_changes_no_verdict() {
    let mut bench = Bench::new();
    bench.xid("119, x").xid("999, x").asks(0, 2).xid("94, pid=7, name=x, Contained");
    bench.say("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up");
    let next = restarted(&bench, false);
    assert_eq!(next.judge.standing().len(), bench.judge.standing().len());
    assert_eq!(next.verdict().faults.len(), bench.verdict().faults.len());
    assert_eq!(next.judge.node_verdict().action, bench.judge.node_verdict().action);
    next.expect(Health::Unhealthy, Action::Reboot, DrainNeed::Hurry, bench.verdict().faults.len());
}

#[test]
fn restart_of_the_machine_ends_what_it_can_and_nothing_else() {
    let mut bench = Bench::new();
    bench.xid("119, x").asks(0, 2).xid("142, x");
    let next = restarted(&bench, true);
    next.expect(Health::Unhealthy, Action::ContactSupport, DrainNeed::None, 1);
    assert_eq!(next.judge.node_verdict().faults, []);
}

#[test]
fn gpu_that_falls_off_the_bus_again_after_the_restart_is_to_be_replaced() {
    let mut bench = Bench::new();
    bench.xid("79, GPU has fallen off the bus.");
    let mut next = restarted(&bench, true);
    next.expect_healthy();
    // Told over one more restart of the agent, too.
    next = restarted(&next, false);
    next.xid("79, GPU has fallen off the bus.");
    next.expect(Health::Unhealthy, Action::Replace, DrainNeed::Hurry, 1);
    // And then a restart of the machine is no cure.
    let next = restarted(&next, true);
    next.expect(Health::Unhealthy, Action::Replace, DrainNeed::Hurry, 1);
}

#[test]
fn request_that_is_withdrawn_after_a_restart_of_the_agent_ends_what_it_stood_for() {
    // The driver asks before the restart, or after it; the fault awaits its word in both cases.
    for asks_before in [true, false] {
        let mut bench = Bench::new();
        bench.xid("120, GSP task timeout");
        if asks_before {
            bench.asks(0, 4);
        }
        let mut next = restarted(&restarted(&bench, false), false);
        if !asks_before {
            next.asks(0, 4);
        }
        // What it asks for stands for the fault, which alone would have asked for more.
        next.expect(Health::Unhealthy, Action::DrainAndReset, DrainNeed::Save, 2);
        next.asks(4, 0);
        next.expect_healthy();
        assert_eq!(next.judge.standing(), []);
    }
    // A code for which the driver never asks stands until it is dealt with.
    let mut bench = Bench::new();
    bench.xid("119, x").asks(0, 1);
    let mut next = restarted(&bench, false);
    next.asks(1, 0);
    next.expect(Health::Unhealthy, Action::Reset, DrainNeed::Save, 1);
}

#[test]
fn uncorrected_errors_last_over_the_agent_and_end_with_what_resets_their_counter() {
    let degraded = || {
        let mut bench = Bench::new().with_gpus();
        bench.gpu().ecc.uncorrected_volatile = Some(7);
        bench.look();
        bench.gpu().ecc.uncorrected_volatile = Some(9);
        bench.look();
        bench.expect(Health::Degraded, Action::None, DrainNeed::None, 1);
        bench
    };
    let bench = degraded();
    let mut next = restarted(&bench, false).with_gpus();
    assert_eq!(next.judge.standing(), bench.judge.standing());
    next.gpu().ecc.uncorrected_volatile = Some(9);
    next.look();
    next.expect(Health::Degraded, Action::None, DrainNeed::None, 1);
    // The machine was restarted.
    let mut rebooted = restarted(&bench, true).with_gpus();
    rebooted.looks(3);
    rebooted.expect_healthy();
    // The GPU was reset, or the driver started anew: it counts from zero.
    let mut reset = degraded();
    reset.gpu().ecc.uncorrected_volatile = Some(0);
    reset.look().expect_healthy();
    // Nothing came for a day.
    let mut quiet = degraded();
    quiet.now = quiet.now.plus_ms(24 * 3_600_000 - 10_000);
    quiet.look();
    quiet.expect(Health::Degraded, Action::None, DrainNeed::None, 1);
    quiet.looks(3).expect_healthy();
}
