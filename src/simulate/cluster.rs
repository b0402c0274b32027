//! Queues and nodes that are made by a rule: many alike.

use std::collections::BTreeMap;

use serde::Deserialize;
use sluice_core::kueue::matching::Labels;
use sluice_core::kueue::model::{
    ClusterQueue, FlavorQuotas, Fungibility, NamespaceSelector, Preemption, PreemptionPolicy,
    QueueingStrategy, Quota, ResourceFlavor, ResourceGroup, StopPolicy, Topology,
};
use sluice_core::kueue::snapshot::Setup;
use sluice_core::kueue::tas::Node;
use sluice_core::kueue::weight::FairWeight;
use sluice_core::kueue::workload::Requests;

use super::amount::Written;
use super::file::PlainNodes;
use super::row::{Bad, requests};
use super::scenario::Scenario;

/// The label that names a node.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// Most nodes of a simulation.
const NODES_MAX: u32 = 1_000_000;
/// Most queues that one set makes.
const QUEUES_MAX: u32 = 100_000;
/// Pods that a node takes where nothing else is said: the kubelet's default.
const PODS_PER_NODE: i64 = 110;
/// The GPUs of a bare trace.
const GPU: &str = "nvidia.com/gpu";

/// Cluster queues that are all alike, in cohorts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueSet {
    /// The cluster queue that they are copies of; it is not there itself.
    pub like: String,
    #[serde(default = "one")]
    pub cohorts: u32,
    pub queues_per_cohort: u32,
    /// Name of a cohort; `{cohort}` is its number.
    pub cohort: String,
    /// Name of a queue; `{cohort}` and `{queue}` are numbers.
    pub name: String,
}

fn one() -> u32 {
    1
}

impl QueueSet {
    /// The queues, copied from the one of `known` that they are like.
    pub(super) fn make(&self, known: &[ClusterQueue]) -> Result<Vec<ClusterQueue>, Bad> {
        let Some(like) = known.iter().find(|queue| queue.name.as_str() == self.like) else {
            return Err(Bad::new(
                "like",
                format!("is {:?}, which no ClusterQueue is called", self.like),
            ));
        };
        let total = self.cohorts.checked_mul(self.queues_per_cohort);
        if !total.is_some_and(|total| (1..=QUEUES_MAX).contains(&total)) {
            let problem = format!("times cohorts must be from 1 to {QUEUES_MAX}");
            return Err(Bad::new("queues_per_cohort", problem));
        }
        let is_told_apart = (self.cohorts == 1 || self.name.contains("{cohort}"))
            && (self.queues_per_cohort == 1 || self.name.contains("{queue}"));
        if !is_told_apart {
            let problem =
                "must contain {queue} and {cohort} where there are several: names are unique";
            return Err(Bad::new("name", problem));
        }
        let mut made = Vec::new();
        for cohort in 0..self.cohorts {
            let cohort = cohort.to_string();
            for queue in 0..self.queues_per_cohort {
                let name = self.name.replace("{cohort}", &cohort);
                let name = name.replace("{queue}", &queue.to_string());
                let cohort = self.cohort.replace("{cohort}", &cohort);
                made.push(ClusterQueue {
                    name: name.into(),
                    cohort: Some(cohort.into()),
                    ..like.clone()
                });
            }
        }
        Ok(made)
    }
}

/// Nodes that are all alike but for their numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeSet {
    #[serde(default = "one")]
    pub count: u32,
    /// `{}` is the node's number from 0, `{/64}` that number divided by 64, `{%64}` what remains.
    pub name: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    pub allocatable: BTreeMap<String, Written>,
}

impl NodeSet {
    pub(super) fn make(&self) -> Result<Vec<Node>, Bad> {
        if self.count == 0 || self.count > NODES_MAX {
            return Err(Bad::new(
                "count",
                format!("is {} but must be from 1 to {NODES_MAX}", self.count),
            ));
        }
        let mut allocatable = requests(&self.allocatable)
            .map_err(|bad| Bad { field: format!("allocatable.{}", bad.field), ..bad })?;
        allocatable.entry("pods".into()).or_insert(PODS_PER_NODE);
        if self.count > 1 && !self.name.contains("{}") {
            return Err(Bad::new(
                "name",
                "must contain {} where there are several: names are unique",
            ));
        }
        (0..self.count).map(|number| self.node(number, &allocatable)).collect()
    }

    fn node(&self, number: u32, allocatable: &Requests) -> Result<Node, Bad> {
        let name = number_in(&self.name, number).map_err(|problem| Bad::new("name", problem))?;
        let mut labels = Labels::new();
        for (key, value) in &self.labels {
            let value = number_in(value, number)
                .map_err(|problem| Bad::new(&format!("labels.{key}"), problem))?;
            labels.insert(key.clone(), value);
        }
        labels.entry(HOSTNAME.to_owned()).or_insert_with(|| name.clone());
        Ok(ready_node(name, labels, allocatable.clone()))
    }
}

/// `text` with the node's number where its braces say so.
fn number_in(text: &str, number: u32) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        let expected = || format!("is {text:?}; in braces stand nothing, /N or %N, N from 1 on");
        let (inside, behind) = after.split_once('}').ok_or_else(expected)?;
        let value = if inside.is_empty() {
            number
        } else {
            let (sign, by) = inside.split_at_checked(1).ok_or_else(expected)?;
            let by: u32 = by.parse().ok().filter(|by| *by > 0).ok_or_else(expected)?;
            match sign {
                "/" => number / by,
                "%" => number % by,
                _ => return Err(expected()),
            }
        };
        out.push_str(before);
        out.push_str(&value.to_string());
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

fn ready_node(name: String, labels: Labels, allocatable: Requests) -> Node {
    Node {
        name,
        labels,
        allocatable,
        taints: Vec::new(),
        is_ready: true,
        is_unschedulable: false,
        degraded: Requests::new(),
    }
}

/// The nodes of a bare trace.
pub(super) fn plain_nodes(nodes: PlainNodes) -> Vec<Node> {
    let node = |number: u32| {
        let name = format!("node-{number}");
        let labels = Labels::from([(HOSTNAME.to_owned(), name.clone())]);
        let gpus = i64::from(nodes.gpus_per_node);
        ready_node(name, labels, [(GPU.into(), gpus), ("pods".into(), PODS_PER_NODE)].into())
    };
    (0..nodes.count).map(node).collect()
}

/// What a bare trace runs on without queues of its own: one queue with all GPUs, in which higher priority preempts.
pub(super) fn plain_setup(nodes: PlainNodes) -> Setup {
    let nominal = i64::from(nodes.count) * i64::from(nodes.gpus_per_node);
    let quota = Quota { nominal, ..Quota::default() };
    let quotas = FlavorQuotas { flavor: "default".into(), quotas: [(GPU.into(), quota)].into() };
    let queue = ClusterQueue {
        name: "default".into(),
        cohort: None,
        strategy: QueueingStrategy::BestEffortFifo,
        groups: vec![ResourceGroup { resources: vec![GPU.into()], flavors: vec![quotas] }],
        preemption: Preemption {
            within_queue: PreemptionPolicy::LowerPriority,
            ..Preemption::NEVER
        },
        fungibility: Fungibility::DEFAULT,
        fair_weight: FairWeight::ONE,
        namespaces: NamespaceSelector::Matching(Vec::new()),
        checks: Vec::new(),
        stop: StopPolicy::None,
    };
    let flavor = ResourceFlavor {
        name: "default".into(),
        node_labels: Labels::new(),
        taints: Vec::new(),
        tolerations: Vec::new(),
        topology: Some("nodes".into()),
    };
    Setup {
        flavors: vec![flavor],
        queues: vec![queue],
        topologies: vec![Topology { name: "nodes".into(), levels: vec![HOSTNAME.to_owned()] }],
        nodes: plain_nodes(nodes),
        ..Setup::default()
    }
}

/// Takes admission checks as passed and namespaces as allowed: neither is simulated.
pub(super) fn drop_checks(scenario: &mut Scenario) {
    for queue in &mut scenario.setup.queues {
        if !queue.checks.is_empty() {
            queue.checks.clear();
            let name = queue.name.as_str();
            scenario.warnings.push(format!(
                "queue \"{name}\": its admission checks are taken as passed: nobody answers them here"
            ));
        }
        queue.namespaces = NamespaceSelector::Matching(Vec::new());
    }
}

#[cfg(test)]
mod tests;
