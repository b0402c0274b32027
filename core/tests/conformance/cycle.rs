//! Kind `cycle`: one whole scheduling cycle over all queues.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sluice_core::kueue::cycle::{CycleOutcome, Decision, Options, Rule, run_cycle};
use sluice_core::kueue::name::QueueName;
use sluice_core::kueue::order::{Pending, PendingQueue};
use sluice_core::kueue::preempt::{Victim, VictimRule};
use sluice_core::kueue::snapshot::{Running, Snapshot};
use sluice_core::kueue::workload::{
    Admission, DelayedPlacement, Placement, PodSetAdmission, Workload,
};

use crate::parse::{self, labels, list, text};
use crate::victims::fair_sharing;

type Queues = BTreeMap<QueueName, PendingQueue>;

pub(crate) fn decide(case: &Value) -> Value {
    let input = &case["input"];
    let mut snapshot = Snapshot::new(parse::setup(input, &case["gates"]));
    let mut queues: Queues = snapshot
        .queues()
        .map(|queue| (queue.spec.name.clone(), PendingQueue::new(queue.spec.strategy)))
        .collect();
    let mut second_pass = Vec::new();
    for workload in workloads(case) {
        let workload = Arc::new(workload);
        if workload.reservation.is_some() {
            if workload.needs_second_pass() {
                second_pass.push(Pending::new(Arc::clone(&workload)));
            }
            snapshot.insert(Running::new(workload));
        } else if let Some(queue) = queues.get_mut(&workload.queue) {
            queue.push(workload);
        }
    }
    let mut heads = second_pass;
    for (name, queue) in &mut queues {
        if snapshot.queue(name).unwrap().inactive.is_none() {
            heads.extend(queue.pop());
        }
    }
    let outcome = run_cycle(&snapshot, &heads, &options(case), parse::NOW_MS);
    give_back(&mut queues, heads, &outcome);
    in_corpus_form(&outcome, &queues, &snapshot, &case["expect"])
}

/// The case's workloads, each with the cluster queue that its local queue leads to.
fn workloads(case: &Value) -> Vec<Workload> {
    let input = &case["input"];
    let local_queues: BTreeMap<(&str, &str), &str> = list(&input["local_queues"])
        .iter()
        .map(|value| ((text(&value["namespace"]), text(&value["name"])), text(&value["queue"])))
        .collect();
    let parse = |value: &Value| {
        let local_queue = (text(&value["namespace"]), text(&value["local_queue"]));
        let held = text(&value["admission"]["queue"]);
        let queue = local_queues.get(&local_queue).copied().unwrap_or(held);
        parse::workload(value, &queue.into(), &case["gates"])
    };
    list(&input["workloads"]).iter().map(parse).collect()
}

fn options(case: &Value) -> Options<'static> {
    let input = &case["input"];
    let mut options = Options::classical();
    if input["fair_sharing"] == true {
        options.victims = VictimRule::FairSharing(fair_sharing(&case["gates"])).into();
    }
    let rules = [
        ("PartialAdmission", Rule::PartialAdmission),
        ("RecomputeAssignmentUponPreemptionTargetsOverlap", Rule::RecomputeOnOverlap),
        ("TASRecomputeAssignmentWithinSchedulingCycle", Rule::RecomputePlacement),
        ("PrioritySortingWithinCohort", Rule::PriorityFirst),
        ("FairSharingPrioritizeNonBorrowing", Rule::NonBorrowingFirst),
        ("TASFailedNodeReplacementFailFast", Rule::EvictUnreplaceable),
    ];
    let is_off = |gate: &str| case["gates"][gate] == false;
    options.off =
        rules.into_iter().filter(|(gate, _)| is_off(gate)).map(|(_, rule)| rule).collect();
    options.namespaces = list(&input["namespaces"])
        .iter()
        .map(|value| (text(&value["name"]).to_owned(), labels(&value["labels"])))
        .collect();
    options
}

fn give_back(queues: &mut Queues, heads: Vec<Pending>, outcome: &CycleOutcome) {
    for head in heads {
        let verdict =
            outcome.verdicts.iter().find(|verdict| verdict.workload == head.workload.key).unwrap();
        if let Some(reason) = verdict.requeue {
            let pending = Pending { progress: verdict.progress.clone(), ..head };
            queues.get_mut(&verdict.queue).unwrap().requeue(pending, reason);
        }
    }
}

fn in_corpus_form(
    outcome: &CycleOutcome,
    queues: &Queues,
    snapshot: &Snapshot,
    expect: &Value,
) -> Value {
    let (mut admissions, mut reasons) = (Map::new(), Map::new());
    let (mut victims, mut evictions) = (BTreeSet::new(), BTreeSet::new());
    for verdict in &outcome.verdicts {
        let key = verdict.workload.to_string();
        match &verdict.decision {
            Decision::Admit(new) => {
                let held = snapshot.running(&verdict.workload);
                let held = held.and_then(|held| held.workload.reservation.as_ref());
                if held.map(|held| &held.admission) != Some(new) {
                    admissions.insert(key.clone(), admission(new));
                }
            }
            Decision::Preempt(list) => {
                victims.extend(list.iter().filter(|v| !v.is_leaving).cloned());
            }
            Decision::Evict(reason) => {
                evictions.insert((key.clone(), reason.code()));
            }
            Decision::AwaitVictims | Decision::Wait => {}
        }
        if let Some(reason) = verdict.reason {
            reasons.insert(key, reason.code().into());
        }
    }
    let victim = |victim: &Victim| {
        let is_asserted = !list(&expect["victims"]).iter().any(|v| v["reason"] == "unspecified");
        let reason = if is_asserted { victim.reason.code() } else { "unspecified" };
        json!({"workload": victim.workload.to_string(), "reason": reason})
    };
    let mut form = json!({
        "admissions": admissions,
        "victims": victims.iter().map(victim).collect::<Vec<_>>(),
        "pending_active": keys(queues, |queue| queue.active().collect()),
        "pending_parked": keys(queues, |queue| queue.parked().collect()),
    });
    if !evictions.is_empty() {
        let eviction = |(workload, reason)| json!({"workload": workload, "reason": reason});
        form["evictions"] = evictions.into_iter().map(eviction).collect();
    }
    if expect.get("pending_reason").is_some() {
        form["pending_reason"] = reasons.into();
    }
    form
}

fn keys(queues: &Queues, select: impl Fn(&PendingQueue) -> Vec<&Pending>) -> Value {
    let keys = |queue: &PendingQueue| {
        let mut keys: Vec<String> =
            select(queue).iter().map(|pending| pending.workload.key.to_string()).collect();
        keys.sort();
        keys
    };
    let lists = queues.iter().map(|(name, queue)| (name.to_string(), keys(queue)));
    let filled: BTreeMap<String, Vec<String>> =
        lists.filter(|(_, keys)| !keys.is_empty()).collect();
    json!(filled)
}

fn admission(admission: &Admission) -> Value {
    let pod_sets: Vec<Value> = admission.pod_sets.iter().map(pod_set).collect();
    json!({"queue": admission.queue.as_str(), "podsets": pod_sets})
}

fn pod_set(pod_set: &PodSetAdmission) -> Value {
    let flavors: BTreeMap<&str, &str> =
        pod_set.flavors.iter().map(|(name, flavor)| (name.as_str(), flavor.as_str())).collect();
    let usage: BTreeMap<&str, i64> =
        pod_set.usage.iter().map(|(name, &amount)| (name.as_str(), amount)).collect();
    let mut value = json!({
        "name": pod_set.name.as_str(), "count": pod_set.count, "flavors": flavors, "usage": usage,
    });
    if let Some(found) = &pod_set.placement {
        value["placement"] = placement(found);
    }
    if let Some(state) = pod_set.delayed_placement {
        let state = match state {
            DelayedPlacement::Pending => "Pending",
            DelayedPlacement::Ready => "Ready",
        };
        value["placement_delayed"] = state.into();
    }
    value
}

fn placement(placement: &Placement) -> Value {
    let domains: Vec<Value> = placement
        .domains
        .iter()
        .map(|domain| json!({"values": domain.values, "pods": domain.pods}))
        .collect();
    json!({"levels": placement.levels, "domains": domains})
}
