//! Kind `place`: which topology domains get how many pods of each pod set, or why none.

use serde_json::{Map, Value, json};
use sluice_core::kueue::tas::{
    Assumed, Capacity, Exclusions, Failure, FlavorNodes, LayerFit, Node, OtherPod, PodSetRequest,
    PreferredTerm, Switches, TasSnapshot, UnconstrainedOrder, Unit,
};
use sluice_core::kueue::workload::{PlacedDomain, Placement, PodSet, TopologyRequest};

use crate::parse::{self, list, text};

pub(crate) fn decide(case: &Value) -> Value {
    let input = &case["input"];
    let snapshot = snapshot(input, &case["gates"]);
    let pod_sets: Vec<ParsedPodSet> = list(&input["podsets"]).iter().map(pod_set).collect();
    let requests: Vec<PodSetRequest<'_>> = pod_sets.iter().map(ParsedPodSet::request).collect();
    let outcome = snapshot.place(&requests, Capacity::Free, &mut Assumed::default());
    let answer = |index: usize, result: &Result<Placement, Failure>| {
        let name = pod_sets[index].pod_set.name.as_str();
        match result {
            Ok(placement) => json!({"podset": name, "placement": placement_value(placement)}),
            Err(failure) => json!({"podset": name, "failure": failure_value(failure)}),
        }
    };
    let mut answers: Vec<(usize, Value)> = outcome
        .pod_sets
        .iter()
        .map(|outcome| (outcome.index, answer(outcome.index, &outcome.result)))
        .collect();
    answers.sort_by_key(|(index, _)| *index);
    let mut answers: Vec<Value> = answers.into_iter().map(|(_, answer)| answer).collect();
    for (answer, expected) in answers.iter_mut().zip(list(&case["expect"]["podsets"])) {
        if let Some(failure) = answer.get_mut("failure") {
            drop_unnamed_level(failure, &expected["failure"]);
        }
    }
    json!({"podsets": answers})
}

/// A case may name an unknown slice level or leave it to the code; the level is compared where it is named.
fn drop_unnamed_level(failure: &mut Value, expected: &Value) {
    if failure["code"] == "unknown-slice-level"
        && expected["level"].is_null()
        && let Some(failure) = failure.as_object_mut()
    {
        failure.remove("level");
    }
}

/// The nodes of the case with what is in use on them.
pub(crate) fn snapshot(input: &Value, gates: &Value) -> TasSnapshot {
    let levels = list(&input["levels"]).iter().map(|level| text(level).to_owned()).collect();
    let flavor = FlavorNodes {
        levels,
        node_labels: parse::labels(&input["flavor_node_labels"]),
        tolerations: list(&input["flavor_tolerations"]).iter().map(parse::toleration).collect(),
        ..FlavorNodes::default()
    };
    let nodes: Vec<Node> = list(&input["nodes"]).iter().map(node).collect();
    let other_pods: Vec<OtherPod> = list(&input["other_pods"]).iter().map(other_pod).collect();
    let mut snapshot = TasSnapshot::new(flavor, switches(gates), &nodes, &other_pods);
    // The other flavor is on the same hosts, and what it uses counts like the flavor's own.
    for usage in list(&input["usage_same_flavor"]).iter().chain(list(&input["usage_other_flavor"]))
    {
        let placement =
            parse::placement(&json!({"levels": [], "domains": [usage]})).expect("an object");
        let usage = snapshot.usage_of(&placement, &parse::requests(&usage["per_pod"]));
        snapshot.add(&usage);
    }
    snapshot
}

pub(crate) fn switches(gates: &Value) -> Switches {
    let is_on = |gate: &str| gates[gate] == true;
    Switches {
        unconstrained: if gates["TASProfileMixed"] == false {
            UnconstrainedOrder::BestFit
        } else {
            UnconstrainedOrder::LeastFree
        },
        is_balanced: is_on("TASBalancedPlacement"),
        respects_preferred_affinity: is_on("TASRespectNodeAffinityPreferred"),
        is_elastic: is_on("ElasticJobsViaWorkloadSlicesWithTAS"),
        ..Switches::default()
    }
}

pub(crate) fn node(value: &Value) -> Node {
    Node {
        name: text(&value["name"]).to_owned(),
        labels: parse::labels(&value["labels"]),
        allocatable: parse::requests(&value["allocatable"]),
        taints: list(&value["taints"]).iter().map(parse::taint).collect(),
        is_ready: value["ready"] == true,
        is_unschedulable: value["unschedulable"] == true,
        degraded: std::collections::BTreeMap::new(),
    }
}

pub(crate) fn other_pod(value: &Value) -> OtherPod {
    OtherPod {
        node: text(&value["node"]).to_owned(),
        requests: parse::requests(&value["requests"]),
        has_ended: matches!(text(&value["phase"]), "Succeeded" | "Failed"),
    }
}

/// A pod set of a case; requests borrow from it.
pub(crate) struct ParsedPodSet {
    pub(crate) pod_set: PodSet,
    is_implied: bool,
    preferred: Vec<PreferredTerm>,
    pub(crate) previous: Option<Placement>,
}

impl ParsedPodSet {
    pub(crate) fn request(&self) -> PodSetRequest<'_> {
        PodSetRequest {
            is_implied: self.is_implied,
            preferred: &self.preferred,
            previous: self.previous.as_ref(),
            ..PodSetRequest::new(&self.pod_set)
        }
    }
}

pub(crate) fn pod_set(value: &Value) -> ParsedPodSet {
    let mut pod_set = parse::pod_set(value);
    if let Some(group) = value["group"].as_str() {
        pod_set.topology.get_or_insert_with(TopologyRequest::default).group =
            Some(group.to_owned());
    }
    let requirements = |term: &Value| list(term).iter().map(parse::requirement).collect();
    pod_set.affinity_terms.extend(list(&value["required_affinity"]).iter().map(requirements));
    let preferred = |term: &Value| PreferredTerm {
        weight: term["weight"].as_i64().unwrap(),
        requirements: requirements(&term["match"]),
    };
    ParsedPodSet {
        pod_set,
        is_implied: value["implied"] == true,
        preferred: list(&value["preferred_affinity"]).iter().map(preferred).collect(),
        previous: parse::placement(&value["previous"]),
    }
}

pub(crate) fn placement_value(placement: &Placement) -> Value {
    let domain = |domain: &PlacedDomain| json!({"values": domain.values, "pods": domain.pods});
    let domains: Vec<Value> = placement.domains.iter().map(domain).collect();
    json!({"levels": placement.levels, "domains": domains})
}

pub(crate) fn failure_value(failure: &Failure) -> Value {
    let mut value = json!({"code": failure.code()});
    match failure {
        Failure::NoneFit { unit, requested, .. } => {
            value["unit"] = unit_value(*unit);
            value["requested"] = json!(requested);
        }
        Failure::SomeFit { unit, fits, requested, .. } => {
            value["unit"] = unit_value(*unit);
            value["fits"] = json!(fits);
            value["requested"] = json!(requested);
        }
        Failure::LayersDoNotFit { layers, .. } => {
            let layer = |LayerFit { level, fits, requested }: &LayerFit| json!({"level": level, "fits": fits, "requested": requested});
            value["layers"] = layers.iter().map(layer).collect();
        }
        Failure::NoDomainsAtLevel { level }
        | Failure::UnknownLevel { level }
        | Failure::UnknownSliceLevel { level } => value["level"] = json!(level),
        // The corpus gives only the code of all others.
        other => assert_eq!(other.excluded(), None),
    }
    if let Some(Exclusions { total_nodes, .. }) = failure.excluded() {
        value["total_nodes"] = json!(total_nodes);
        value["excluded"] = excluded_value(failure.excluded().unwrap());
    }
    value
}

fn unit_value(unit: Unit) -> Value {
    json!(unit.to_string())
}

fn excluded_value(excluded: &Exclusions) -> Value {
    let mut value = Map::new();
    for (name, count) in [
        ("nodeSelector", excluded.node_selector),
        ("affinity", excluded.affinity),
        ("topologyDomain", excluded.topology_domain),
    ] {
        if count > 0 {
            value.insert(name.to_owned(), json!(count));
        }
    }
    let taints = excluded.taints.iter().map(|(taint, count)| (format!("taint:{taint}"), count));
    let resources =
        excluded.resources.iter().map(|(name, count)| (format!("resource:{name}"), count));
    value.extend(taints.chain(resources).map(|(name, count)| (name, json!(count))));
    Value::Object(value)
}
