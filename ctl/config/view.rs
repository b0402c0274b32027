//! What `sluice config check` found, as JSON or YAML.

use serde::Serialize;

use sluice::queues::{
    LocalQueue, Note, Place, PriorityClass, PrioritySource, Problem, Problems, Queues, Unit,
};
use sluice_core::kueue::model::{
    BorrowWithinCohort, ClusterQueue, Cohort, FlavorPreference, FlavorSearch, NamespaceSelector,
    PreemptionPolicy, QueueingStrategy, ResourceFlavor, ResourceGroup, StopPolicy,
};

/// What was found.
#[derive(Debug, Default, Serialize)]
pub(super) struct CheckView {
    /// Whether the configuration can be used.
    usable: bool,
    /// What is wrong; none if it can be used.
    problems: Vec<ProblemView>,
    problems_left_out: usize,
    /// What people should know.
    notes: Vec<NoteView>,
    notes_left_out: usize,
    cohorts: Vec<CohortView>,
    queues: Vec<QueueView>,
    local_queues: Vec<LocalQueueView>,
    flavors: Vec<FlavorView>,
    priority_classes: Vec<ClassView>,
    nodes: usize,
}

#[derive(Debug, Serialize)]
struct ProblemView {
    code: &'static str,
    #[serde(flatten)]
    place: PlaceView,
    /// The field; empty for the document as a whole.
    path: String,
    /// Follows the path in a sentence.
    message: String,
}

#[derive(Debug, Serialize)]
struct NoteView {
    code: &'static str,
    #[serde(flatten)]
    place: PlaceView,
    message: String,
}

/// Where something is; `null` where it is about all files, or the file as a whole.
#[derive(Debug, Default, Serialize)]
struct PlaceView {
    file: Option<String>,
    document: Option<usize>,
    line: Option<u64>,
    object_kind: Option<String>,
    object_name: Option<String>,
}

#[derive(Debug, Serialize)]
struct CohortView {
    name: String,
    parent: Option<String>,
    weight_nano: u64,
    quotas: Vec<QuotaView>,
}

#[derive(Debug, Serialize)]
struct QueueView {
    name: String,
    cohort: Option<String>,
    queueing_strategy: &'static str,
    within_cluster_queue: &'static str,
    reclaim_within_cohort: &'static str,
    borrow_within_cohort: &'static str,
    max_priority_threshold: Option<i32>,
    when_can_borrow: &'static str,
    when_can_preempt: &'static str,
    flavor_preference: &'static str,
    stop_policy: &'static str,
    weight_nano: u64,
    /// Whether any namespace may use it.
    open_to_namespaces: bool,
    admission_checks: Vec<String>,
    quotas: Vec<QuotaView>,
}

/// A quota in the unit that is named.
#[derive(Debug, Serialize)]
struct QuotaView {
    flavor: String,
    resource: String,
    /// `milli-cpu`, `bytes` or `units`.
    unit: &'static str,
    nominal: i64,
    borrowing_limit: Option<i64>,
    lending_limit: Option<i64>,
}

#[derive(Debug, Serialize)]
struct LocalQueueView {
    namespace: String,
    name: String,
    cluster_queue: String,
    stop_policy: &'static str,
}

#[derive(Debug, Serialize)]
struct FlavorView {
    name: String,
    node_labels: std::collections::BTreeMap<String, String>,
    topology: Option<String>,
}

#[derive(Debug, Serialize)]
struct ClassView {
    name: String,
    value: i32,
    /// `WorkloadPriorityClass` or `PriorityClass`.
    source: &'static str,
    default: bool,
}

impl CheckView {
    /// A configuration that can be used.
    pub(super) fn of(queues: &Queues) -> Self {
        let setup = &queues.setup;
        Self {
            usable: true,
            notes: queues.notes.iter().map(NoteView::of).collect(),
            notes_left_out: queues.notes_left_out,
            cohorts: setup.cohorts.iter().map(CohortView::of).collect(),
            queues: setup.queues.iter().map(QueueView::of).collect(),
            local_queues: queues.local_queues.iter().map(LocalQueueView::of).collect(),
            flavors: setup.flavors.iter().map(FlavorView::of).collect(),
            priority_classes: queues.priority_classes.iter().map(ClassView::of).collect(),
            nodes: setup.nodes.len(),
            ..Self::default()
        }
    }

    /// One that cannot be used.
    pub(super) fn of_problems(problems: &Problems) -> Self {
        Self {
            problems: problems.problems.iter().map(ProblemView::of).collect(),
            problems_left_out: problems.left_out,
            ..Self::default()
        }
    }
}

impl ProblemView {
    fn of(problem: &Problem) -> Self {
        Self {
            code: problem.kind.code(),
            place: PlaceView::of(problem.place.as_deref()),
            path: problem.path.clone(),
            message: problem.message.clone(),
        }
    }
}

impl NoteView {
    fn of(note: &Note) -> Self {
        Self {
            code: note.kind.code(),
            place: PlaceView::of(note.place.as_deref()),
            message: note.message.clone(),
        }
    }
}

impl PlaceView {
    fn of(place: Option<&Place>) -> Self {
        let Some(place) = place else { return Self::default() };
        let is_document = place.document > 0;
        Self {
            file: Some(place.source.to_string()),
            document: is_document.then_some(place.document),
            line: is_document.then_some(place.line),
            object_kind: place.kind.clone(),
            object_name: place.name.clone(),
        }
    }
}

impl CohortView {
    fn of(cohort: &Cohort) -> Self {
        Self {
            name: cohort.name.to_string(),
            parent: cohort.parent.as_ref().map(ToString::to_string),
            weight_nano: cohort.fair_weight.nano_units(),
            quotas: quotas(&cohort.groups),
        }
    }
}

impl QueueView {
    fn of(queue: &ClusterQueue) -> Self {
        let (borrow, threshold) = borrow_words(queue.preemption.borrow_within_cohort);
        Self {
            name: queue.name.to_string(),
            cohort: queue.cohort.as_ref().map(ToString::to_string),
            queueing_strategy: strategy_word(queue.strategy),
            within_cluster_queue: policy_word(queue.preemption.within_queue),
            reclaim_within_cohort: policy_word(queue.preemption.reclaim_within_cohort),
            borrow_within_cohort: borrow,
            max_priority_threshold: threshold,
            when_can_borrow: search_word(queue.fungibility.when_can_borrow),
            when_can_preempt: search_word(queue.fungibility.when_can_preempt),
            flavor_preference: match queue.fungibility.preference {
                FlavorPreference::BorrowingOverPreemption => "BorrowingOverPreemption",
                FlavorPreference::PreemptionOverBorrowing => "PreemptionOverBorrowing",
            },
            stop_policy: stop_word(queue.stop),
            weight_nano: queue.fair_weight.nano_units(),
            open_to_namespaces: queue.namespaces != NamespaceSelector::Nobody,
            admission_checks: queue.checks.iter().map(|rule| rule.check.to_string()).collect(),
            quotas: quotas(&queue.groups),
        }
    }
}

fn quotas(groups: &[ResourceGroup]) -> Vec<QuotaView> {
    let mut views = Vec::new();
    for (group, flavor) in groups.iter().flat_map(|g| g.flavors.iter().map(move |f| (g, f))) {
        for resource in &group.resources {
            let Some(quota) = flavor.quotas.get(resource) else { continue };
            views.push(QuotaView {
                flavor: flavor.flavor.to_string(),
                resource: resource.to_string(),
                unit: match Unit::of(resource) {
                    Unit::MilliCpu => "milli-cpu",
                    Unit::Byte => "bytes",
                    Unit::Whole => "units",
                },
                nominal: quota.nominal,
                borrowing_limit: quota.borrowing_limit,
                lending_limit: quota.lending_limit,
            });
        }
    }
    views
}

impl LocalQueueView {
    fn of(queue: &LocalQueue) -> Self {
        Self {
            namespace: queue.namespace.clone(),
            name: queue.name.to_string(),
            cluster_queue: queue.queue.to_string(),
            stop_policy: stop_word(queue.stop),
        }
    }
}

impl FlavorView {
    fn of(flavor: &ResourceFlavor) -> Self {
        Self {
            name: flavor.name.to_string(),
            node_labels: flavor.node_labels.clone(),
            topology: flavor.topology.as_ref().map(ToString::to_string),
        }
    }
}

impl ClassView {
    fn of(class: &PriorityClass) -> Self {
        Self {
            name: class.name.clone(),
            value: class.value,
            source: source_word(class.source),
            default: class.is_default,
        }
    }
}

/// Kueue's word.
pub(super) fn strategy_word(strategy: QueueingStrategy) -> &'static str {
    match strategy {
        QueueingStrategy::StrictFifo => "StrictFIFO",
        QueueingStrategy::BestEffortFifo => "BestEffortFIFO",
    }
}

/// Kueue's word.
pub(super) fn policy_word(policy: PreemptionPolicy) -> &'static str {
    match policy {
        PreemptionPolicy::Never => "Never",
        PreemptionPolicy::LowerPriority => "LowerPriority",
        PreemptionPolicy::LowerOrNewerEqualPriority => "LowerOrNewerEqualPriority",
        PreemptionPolicy::Any => "Any",
    }
}

/// Kueue's word, and the threshold.
pub(super) fn borrow_words(policy: BorrowWithinCohort) -> (&'static str, Option<i32>) {
    match policy {
        BorrowWithinCohort::Never => ("Never", None),
        BorrowWithinCohort::LowerPriority { max_priority } => ("LowerPriority", max_priority),
    }
}

fn search_word(search: FlavorSearch) -> &'static str {
    match search {
        FlavorSearch::MayStopSearch => "MayStopSearch",
        FlavorSearch::TryNextFlavor => "TryNextFlavor",
    }
}

/// Kueue's word.
pub(super) fn stop_word(stop: StopPolicy) -> &'static str {
    match stop {
        StopPolicy::None => "None",
        StopPolicy::Hold => "Hold",
        StopPolicy::HoldAndDrain => "HoldAndDrain",
    }
}

/// The kind of the class.
pub(super) fn source_word(source: PrioritySource) -> &'static str {
    match source {
        PrioritySource::Workload => "WorkloadPriorityClass",
        PrioritySource::Pod => "PriorityClass",
    }
}
