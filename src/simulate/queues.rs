//! Queues, cohorts, flavors and topologies from files in Kueue's YAML, as far as the engine knows them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use sluice_core::kueue::matching::Labels;
use sluice_core::kueue::model::{
    BorrowWithinCohort, ClusterQueue, Cohort, FlavorQuotas, FlavorSearch, Fungibility,
    NamespaceSelector, Preemption, PreemptionPolicy, QueueingStrategy, Quota, ResourceFlavor,
    ResourceGroup, StopPolicy, Topology,
};
use sluice_core::kueue::name::QueueName;
use sluice_core::kueue::snapshot::Setup;
use sluice_core::kueue::weight::FairWeight;

use super::amount::{self, Written};
use super::error::{Error, read_text};

/// Largest queues file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What queues files define.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    pub setup: Setup,
    /// LocalQueues by name and by `namespace/name`, with the cluster queue that each leads to.
    pub local: BTreeMap<String, QueueName>,
}

/// Reads the queues of all `paths` together.
pub(super) fn load_queues(paths: &[PathBuf]) -> Result<Queues, Error> {
    let mut queues = Queues::default();
    for path in paths {
        let text = read_text(path, FILE_BYTES_MAX)?;
        let documents: Vec<Object> =
            serde_saphyr::from_multiple(&text).map_err(|error| Error::yaml(path, &error))?;
        for object in documents {
            let what = format!("{} \"{}\"", object.kind, object.metadata.name);
            queues.add(object).map_err(|problem| bad(path, &what, &problem))?;
        }
    }
    Ok(queues)
}

fn bad(path: &Path, what: &str, problem: &str) -> Error {
    Error::input(path, None, format!("{what}: {problem}"))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    api_version: String,
    kind: String,
    metadata: Metadata,
    #[serde(default)]
    spec: Value,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
}

impl Queues {
    fn add(&mut self, object: Object) -> Result<(), String> {
        let known = ["kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"];
        if !known.contains(&object.api_version.as_str()) {
            return Err(format!(
                "apiVersion is {:?} but must be {}",
                object.api_version,
                known.join(" or ")
            ));
        }
        let name = object.metadata.name.as_str();
        let spec =
            if object.spec.is_null() { Value::Object(serde_json::Map::new()) } else { object.spec };
        match object.kind.as_str() {
            "ClusterQueue" => {
                self.setup.queues.push(read::<QueueSpec>(spec)?.to_queue(name)?);
            }
            "Cohort" => self.setup.cohorts.push(read::<CohortSpec>(spec)?.to_cohort(name)?),
            "ResourceFlavor" => self.setup.flavors.push(read::<FlavorSpec>(spec)?.to_flavor(name)),
            "Topology" => {
                let levels = read::<TopologySpec>(spec)?.levels;
                let levels = levels.into_iter().map(|level| level.node_label).collect();
                self.setup.topologies.push(Topology { name: name.into(), levels });
            }
            "LocalQueue" => {
                let target: QueueName = read::<LocalQueueSpec>(spec)?.cluster_queue.into();
                let full = format!("{}/{name}", object.metadata.namespace);
                self.local.insert(full, target.clone());
                self.local.insert(name.to_owned(), target);
            }
            kind => {
                return Err(format!(
                    "kind is {kind:?} but must be ClusterQueue, Cohort, LocalQueue, ResourceFlavor or Topology"
                ));
            }
        }
        Ok(())
    }
}

fn read<T: serde::de::DeserializeOwned>(spec: Value) -> Result<T, String> {
    serde_json::from_value(spec).map_err(|error| format!("spec: {error}"))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct QueueSpec {
    #[serde(alias = "cohortName")]
    cohort: Option<String>,
    #[serde(default)]
    resource_groups: Vec<GroupSpec>,
    #[serde(default)]
    preemption: PreemptionSpec,
    #[serde(default)]
    flavor_fungibility: FungibilitySpec,
    #[serde(default)]
    queueing_strategy: Strategy,
    #[serde(default)]
    stop_policy: Stop,
    #[serde(default)]
    fair_sharing: WeightSpec,
    /// Namespaces are not simulated: every workload may use its queue.
    #[serde(default, rename = "namespaceSelector")]
    _namespace_selector: Value,
}

impl QueueSpec {
    fn to_queue(&self, name: &str) -> Result<ClusterQueue, String> {
        Ok(ClusterQueue {
            name: name.into(),
            cohort: self.cohort.as_deref().filter(|name| !name.is_empty()).map(Into::into),
            strategy: match self.queueing_strategy {
                Strategy::BestEffortFIFO => QueueingStrategy::BestEffortFifo,
                Strategy::StrictFIFO => QueueingStrategy::StrictFifo,
            },
            groups: groups(&self.resource_groups)?,
            preemption: self.preemption.to_preemption(),
            fungibility: self.flavor_fungibility.to_fungibility(),
            fair_weight: self.fair_sharing.to_weight()?,
            namespaces: NamespaceSelector::Matching(Vec::new()),
            checks: Vec::new(),
            stop: match self.stop_policy {
                Stop::None => StopPolicy::None,
                Stop::Hold => StopPolicy::Hold,
                Stop::HoldAndDrain => StopPolicy::HoldAndDrain,
            },
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CohortSpec {
    #[serde(alias = "parentName")]
    parent: Option<String>,
    #[serde(default)]
    resource_groups: Vec<GroupSpec>,
    #[serde(default)]
    fair_sharing: WeightSpec,
}

impl CohortSpec {
    fn to_cohort(&self, name: &str) -> Result<Cohort, String> {
        Ok(Cohort {
            name: name.into(),
            parent: self.parent.as_deref().filter(|name| !name.is_empty()).map(Into::into),
            groups: groups(&self.resource_groups)?,
            fair_weight: self.fair_sharing.to_weight()?,
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FlavorSpec {
    #[serde(default)]
    node_labels: Labels,
    topology_name: Option<String>,
}

impl FlavorSpec {
    fn to_flavor(&self, name: &str) -> ResourceFlavor {
        ResourceFlavor {
            name: name.into(),
            node_labels: self.node_labels.clone(),
            taints: Vec::new(),
            tolerations: Vec::new(),
            topology: self.topology_name.as_deref().map(Into::into),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TopologySpec {
    levels: Vec<LevelSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LevelSpec {
    node_label: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LocalQueueSpec {
    cluster_queue: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GroupSpec {
    covered_resources: Vec<String>,
    flavors: Vec<QuotasSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuotasSpec {
    name: String,
    resources: Vec<QuotaSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct QuotaSpec {
    name: String,
    nominal_quota: Written,
    borrowing_limit: Option<Written>,
    lending_limit: Option<Written>,
}

fn groups(specs: &[GroupSpec]) -> Result<Vec<ResourceGroup>, String> {
    let group = |group: &GroupSpec| {
        let flavors: Result<Vec<_>, String> = group.flavors.iter().map(quotas).collect();
        let resources = group.covered_resources.iter().map(|name| name.as_str().into()).collect();
        Ok(ResourceGroup { resources, flavors: flavors? })
    };
    specs.iter().map(group).collect()
}

fn quotas(spec: &QuotasSpec) -> Result<FlavorQuotas, String> {
    let mut quotas = BTreeMap::new();
    for resource in &spec.resources {
        let read = |Written(text): &Written| {
            amount::parse(&resource.name, text).ok_or_else(|| {
                format!("{} is {text:?} but must be {}", resource.name, amount::EXPECTED)
            })
        };
        let quota = Quota {
            nominal: read(&resource.nominal_quota)?,
            borrowing_limit: resource.borrowing_limit.as_ref().map(read).transpose()?,
            lending_limit: resource.lending_limit.as_ref().map(read).transpose()?,
        };
        quotas.insert(resource.name.as_str().into(), quota);
    }
    Ok(FlavorQuotas { flavor: spec.name.as_str().into(), quotas })
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WeightSpec {
    weight: Option<Written>,
}

impl WeightSpec {
    fn to_weight(&self) -> Result<FairWeight, String> {
        let Some(Written(text)) = &self.weight else { return Ok(FairWeight::ONE) };
        FairWeight::parse(text).map_err(|error| error.to_string())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PreemptionSpec {
    within_cluster_queue: Victims,
    reclaim_within_cohort: Victims,
    borrow_within_cohort: BorrowSpec,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum Victims {
    #[default]
    Never,
    LowerPriority,
    LowerOrNewerEqualPriority,
    Any,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct BorrowSpec {
    policy: Victims,
    max_priority_threshold: Option<i32>,
}

impl PreemptionSpec {
    fn to_preemption(&self) -> Preemption {
        let policy = |victims| match victims {
            Victims::Never => PreemptionPolicy::Never,
            Victims::LowerPriority => PreemptionPolicy::LowerPriority,
            Victims::LowerOrNewerEqualPriority => PreemptionPolicy::LowerOrNewerEqualPriority,
            Victims::Any => PreemptionPolicy::Any,
        };
        Preemption {
            within_queue: policy(self.within_cluster_queue),
            reclaim_within_cohort: policy(self.reclaim_within_cohort),
            borrow_within_cohort: match self.borrow_within_cohort.policy {
                Victims::Never => BorrowWithinCohort::Never,
                Victims::LowerPriority | Victims::LowerOrNewerEqualPriority | Victims::Any => {
                    BorrowWithinCohort::LowerPriority {
                        max_priority: self.borrow_within_cohort.max_priority_threshold,
                    }
                }
            },
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct FungibilitySpec {
    when_can_borrow: Search,
    when_can_preempt: Option<Search>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum Search {
    #[default]
    #[serde(alias = "Borrow", alias = "Preempt")]
    MayStopSearch,
    TryNextFlavor,
}

impl FungibilitySpec {
    fn to_fungibility(&self) -> Fungibility {
        let search = |search| match search {
            Search::MayStopSearch => FlavorSearch::MayStopSearch,
            Search::TryNextFlavor => FlavorSearch::TryNextFlavor,
        };
        Fungibility {
            when_can_borrow: search(self.when_can_borrow),
            when_can_preempt: search(self.when_can_preempt.unwrap_or(Search::TryNextFlavor)),
            ..Fungibility::DEFAULT
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum Strategy {
    #[default]
    BestEffortFIFO,
    StrictFIFO,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum Stop {
    #[default]
    None,
    Hold,
    HoldAndDrain,
}
