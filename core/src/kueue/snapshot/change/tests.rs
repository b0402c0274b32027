use proptest::prelude::*;

use crate::kueue::fixture::{cluster, cohort, flavor, gpus_of, nominal, queue, running};
use crate::kueue::model::Quota;
use crate::kueue::snapshot::{Setup, Snapshot};
use crate::kueue::whatif::WhatIf;

/// Two queues below a cohort; "a" lends only some of what it has.
fn setup(nominals: (i64, i64), limits: (Option<i64>, Option<i64>)) -> Setup {
    let quota = |gpus, (borrowing_limit, lending_limit)| Quota {
        borrowing_limit,
        lending_limit,
        ..nominal(gpus)
    };
    let mut queues = vec![queue("a", Some("team"), 0), queue("b", Some("team"), 0)];
    let quotas = [quota(nominals.0, limits), quota(nominals.1, (None, None))];
    for (queue, quota) in queues.iter_mut().zip(quotas) {
        *queue.groups[0].flavors[0].quotas.get_mut(&"gpu".into()).unwrap() = quota;
    }
    let cohorts = vec![cohort("team", None)];
    Setup { flavors: vec![flavor("a3"), flavor("a4")], cohorts, queues, ..Setup::default() }
}

/// What each queue could still have, and uses.
fn numbers(snapshot: &Snapshot) -> Vec<(i64, i64, i64)> {
    let whatif = WhatIf::new(snapshot);
    let ledger = whatif.ledger();
    let fr = gpus_of("a3");
    let of = |queue: &crate::kueue::snapshot::QueueState| {
        let quota = snapshot.tree().subtree_quota(queue.node, &fr);
        (quota, ledger.usage(queue.node, &fr), ledger.available(queue.node, &fr))
    };
    snapshot.queues().map(of).collect()
}

#[test]
fn a_flavor_that_the_queue_does_not_offer_changes_nothing() {
    let mut snapshot = cluster(vec![queue("a", None, 4)]);
    let before = format!("{snapshot:?}");
    assert!(!snapshot.add_quota(&"a".into(), &gpus_of("a4"), 1));
    assert!(!snapshot.add_quota(&"elsewhere".into(), &gpus_of("a3"), 1));
    assert_eq!(format!("{snapshot:?}"), before);
}

proptest! {
    #[test]
    fn quota_that_is_added_is_as_if_it_had_been_there(
        gpus in (0_i64..10, 0_i64..10),
        used in (0_i64..12, 0_i64..12),
        limits in (prop::option::of(0_i64..4), prop::option::of(0_i64..4)),
        more in -5_i64..8,
    ) {
        let fill = |snapshot: &mut Snapshot| {
            snapshot.insert(running("x", "a", 0, used.0));
            snapshot.insert(running("y", "b", 0, used.1));
        };
        let mut changed = Snapshot::new(setup(gpus, limits));
        fill(&mut changed);
        prop_assert!(changed.add_quota(&"a".into(), &gpus_of("a3"), more));
        let mut fresh = Snapshot::new(setup(((gpus.0 + more).max(0), gpus.1), limits));
        fill(&mut fresh);
        prop_assert_eq!(numbers(&changed), numbers(&fresh));
    }

    #[test]
    fn the_shortage_is_exactly_what_is_lacking(
        gpus in (0_i64..10, 0_i64..10),
        used in (0_i64..12, 0_i64..12),
        limits in (prop::option::of(0_i64..4), prop::option::of(0_i64..4)),
        wanted in 1_i64..12,
    ) {
        let mut snapshot = Snapshot::new(setup(gpus, limits));
        snapshot.insert(running("x", "a", 0, used.0));
        snapshot.insert(running("y", "b", 0, used.1));
        let (name, fr) = ("a".into(), gpus_of("a3"));
        let node = snapshot.queue(&name).unwrap().node;
        let available = |snapshot: &Snapshot| WhatIf::new(snapshot).ledger().available(node, &fr);
        let shortage = WhatIf::new(&snapshot).ledger().shortage(node, &fr, wanted);
        let has_room = available(&snapshot) >= wanted
            && snapshot.tree().potential_available(node, &fr) >= wanted;
        prop_assert_eq!(shortage == 0, has_room);
        if shortage > 0 {
            let mut less = snapshot.clone();
            less.add_quota(&name, &fr, shortage - 1);
            prop_assert!(available(&less) < wanted);
            snapshot.add_quota(&name, &fr, shortage);
            prop_assert!(available(&snapshot) >= wanted);
            prop_assert!(snapshot.tree().potential_available(node, &fr) >= wanted);
        }
    }
}
