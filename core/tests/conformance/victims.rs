//! Kind `victims`: which running workloads give way to an incoming one whose flavors are chosen.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sluice_core::kueue::name::FlavorResource;
use sluice_core::kueue::preempt::{Claim, FairSharing, FairStrategy, VictimRule, find_victims};
use sluice_core::kueue::topology::TopologyDemand;
use sluice_core::kueue::whatif::WhatIf;
use sluice_core::kueue::workload::Usage;

use crate::parse::{self, list, text};

/// Fair sharing with the switches that the case sets.
pub(crate) fn fair_sharing(gates: &Value) -> FairSharing {
    let default = FairSharing::default();
    let gate = |name: &str, default| gates[name].as_bool().unwrap_or(default);
    FairSharing {
        reclaims_own_quota: gate("FairSharingPreemptWithinNominal", default.reclaims_own_quota),
        tries_again: gate("FairSharingReevaluatePreemptionCandidates", default.tries_again),
        ..default
    }
}

fn strategies(value: &Value) -> Vec<FairStrategy> {
    let strategy = |value: &Value| match text(value) {
        "LessThanOrEqualToFinalShare" => FairStrategy::LessThanOrEqualToFinalShare,
        "LessThanInitialShare" => FairStrategy::LessThanInitialShare,
        other => panic!("unknown strategy {other}"),
    };
    list(value).iter().map(strategy).collect()
}

pub(crate) fn decide(case: &Value) -> Value {
    let input = &case["input"];
    let snapshot = parse::snapshot(input, &case["gates"]);
    let incoming = &input["incoming"];
    let queue = text(&incoming["queue"]).into();
    let workload = parse::workload(incoming, &queue, &case["gates"]);

    let mut contested = BTreeSet::new();
    let mut usage = Usage::new();
    for entry in list(&incoming["assignment"]) {
        let fr =
            FlavorResource::new(&text(&entry["flavor"]).into(), &text(&entry["resource"]).into());
        let name = text(&entry["podset"]);
        let pod_set =
            workload.pod_sets.iter().find(|pod_set| pod_set.name.as_str() == name).unwrap();
        let per_pod = pod_set.requests.get(&fr.resource).copied().unwrap_or(0);
        if per_pod > 0 {
            *usage.entry(fr.clone()).or_insert(0) += per_pod * i64::from(pod_set.count);
        }
        if entry["mode"] == "Preempt" {
            contested.insert(fr);
        }
    }
    let node = snapshot.queue(&queue).unwrap().node;
    let claim =
        Claim { workload: &workload, node, contested, usage, topology: TopologyDemand::default() };
    let rule = if input["fair_sharing"] == true {
        VictimRule::FairSharing(FairSharing {
            strategies: strategies(&input["strategies"]),
            ..fair_sharing(&case["gates"])
        })
    } else {
        VictimRule::Classical
    };
    let mut whatif = WhatIf::new(&snapshot);
    let victims = find_victims(&mut whatif, &claim, &rule.into(), parse::NOW_MS);
    let by_name: BTreeMap<String, &str> = victims
        .iter()
        .map(|victim| {
            let reason = if victim.is_leaving { "already-evicting" } else { victim.reason.code() };
            (victim.workload.to_string(), reason)
        })
        .collect();
    assert_eq!(by_name.len(), victims.len(), "a workload is a victim at most once");
    let victim = |(workload, reason)| json!({"workload": workload, "reason": reason});
    json!({"victims": by_name.into_iter().map(victim).collect::<Vec<_>>()})
}
