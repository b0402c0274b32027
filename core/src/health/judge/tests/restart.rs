//! What lasts over a restart of the agent, and of the machine.

use super::{Bench, table};
use crate::health::{Action, Judge};
use crate::protocol::{DrainNeed, Health};

/// The same log goes on with a new judge.
fn restarted(bench: &Bench, has_rebooted: bool) -> Bench {
    let mut next = Bench::new();
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
