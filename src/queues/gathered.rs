//! All objects read so far, and whether they fit together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_core::kueue::matching::Labels;
use sluice_core::kueue::model::NamespaceSelector;
use sluice_core::kueue::model::{AdmissionCheck, ClusterQueue, Cohort, ResourceFlavor, Topology};
use sluice_core::kueue::name::CohortName;
use sluice_core::kueue::snapshot::{COHORT_DEPTH_MAX, Setup};
use sluice_core::kueue::tas::Node;

use super::findings::{Findings, Kind};
use super::node::PODS_DEFAULT;
use super::problem::{NoteKind, Place, ProblemKind, Problems};
use super::{LocalQueue, PriorityClass, Queues};

/// Most ClusterQueues. Kueue's own large-scale test has 1,000.
pub const QUEUES_MAX: usize = 10_000;

/// Most cohorts of a circle that are named.
const CIRCLE_SHOWN_MAX: usize = 40;

/// The label with the name of its namespace, which Kubernetes sets on every one.
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// An object that was read.
pub(super) enum Found {
    Queue(ClusterQueue),
    Flavor(ResourceFlavor),
    Cohort(Cohort),
    Topology(Topology),
    Check(AdmissionCheck),
    LocalQueue(Option<LocalQueue>),
    Class(Option<PriorityClass>),
    /// And whether it does not say how many pods it takes.
    Node((Node, bool)),
    Namespace(String, Labels),
}

/// All objects read so far.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    queues: Vec<ClusterQueue>,
    flavors: Vec<ResourceFlavor>,
    cohorts: Vec<Cohort>,
    topologies: Vec<Topology>,
    checks: Vec<AdmissionCheck>,
    local_queues: Vec<LocalQueue>,
    classes: Vec<PriorityClass>,
    /// Where the default class is.
    default_class: Option<Arc<Place>>,
    /// A second default class.
    second_default: Option<Arc<Place>>,
    nodes: Vec<Node>,
    nodes_without_pods: usize,
    namespaces: BTreeMap<String, Labels>,
}

impl Gathered {
    /// Adds an object whose name is unique.
    pub(super) fn add(&mut self, found: Found, place: &Arc<Place>) {
        match found {
            Found::Queue(queue) => self.queues.push(queue),
            Found::Flavor(flavor) => self.flavors.push(flavor),
            Found::Cohort(cohort) => self.cohorts.push(cohort),
            Found::Topology(topology) => self.topologies.push(topology),
            Found::Check(check) => self.checks.push(check),
            Found::LocalQueue(queue) => self.local_queues.extend(queue),
            Found::Class(class) => {
                if class.as_ref().is_some_and(|class| class.is_default) {
                    let is_first = self.default_class.is_none();
                    let slot =
                        if is_first { &mut self.default_class } else { &mut self.second_default };
                    slot.get_or_insert_with(|| place.clone());
                }
                self.classes.extend(class);
            }
            Found::Node((node, lacks_pods)) => {
                self.nodes.push(node);
                self.nodes_without_pods += usize::from(lacks_pods);
            }
            Found::Namespace(name, labels) => {
                self.namespaces.insert(name, labels);
            }
        }
    }

    /// The configuration, if everything fits together.
    ///
    /// # Errors
    /// All problems.
    pub(super) fn finish(mut self, findings: Findings) -> Result<Queues, Problems> {
        findings.check_references();
        self.check_default_class(&findings);
        self.check_cohorts(&findings);
        let most = QUEUES_MAX;
        if self.queues.len() > most {
            let count = self.queues.len();
            findings.problem(ProblemKind::TooMany, None, "", || {
                format!("there are {count} ClusterQueues; at most {most} are possible")
            });
        }
        if self.queues.is_empty() && !findings.has_problems() {
            findings.problem(ProblemKind::NoClusterQueue, None, "", || {
                "there is no ClusterQueue, so nothing would ever be admitted; add one".to_owned()
            });
        }
        self.tell_about_pods(&findings);
        let documented = self.namespaces.keys().cloned().collect();
        self.name_namespaces();
        self.sort();
        self.tell_about_namespaces(&documented, &findings);
        let (notes, notes_left_out) = findings.finish()?;
        let setup = Setup {
            flavors: self.flavors,
            cohorts: self.cohorts,
            queues: self.queues,
            checks: self.checks,
            topologies: self.topologies,
            nodes: self.nodes,
            ..Setup::default()
        };
        Ok(Queues {
            setup,
            local_queues: self.local_queues,
            priority_classes: self.classes,
            namespaces: self.namespaces,
            notes,
            notes_left_out,
        })
    }

    /// By name, so that the order of documents and files decides nothing.
    fn sort(&mut self) {
        self.queues.sort_by(|a, b| a.name.cmp(&b.name));
        self.flavors.sort_by(|a, b| a.name.cmp(&b.name));
        self.cohorts.sort_by(|a, b| a.name.cmp(&b.name));
        self.topologies.sort_by(|a, b| a.name.cmp(&b.name));
        self.checks.sort_by(|a, b| a.name.cmp(&b.name));
        self.local_queues.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        self.classes.sort_by(|a, b| (&a.name, a.source).cmp(&(&b.name, b.source)));
        self.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Every namespace that is known has the label with its name.
    fn name_namespaces(&mut self) {
        for queue in &self.local_queues {
            self.namespaces.entry(queue.namespace.clone()).or_default();
        }
        for (name, labels) in &mut self.namespaces {
            labels.insert(NAMESPACE_LABEL.to_owned(), name.clone());
        }
    }

    /// LocalQueues in namespaces that their ClusterQueue does not let in. `documented` are those with a document.
    fn tell_about_namespaces(&self, documented: &BTreeSet<String>, findings: &Findings) {
        for local in &self.local_queues {
            let target = self.queues.binary_search_by(|queue| queue.name.cmp(&local.queue));
            let Some(queue) = target.ok().and_then(|found| self.queues.get(found)) else {
                continue;
            };
            let labels = &self.namespaces[&local.namespace];
            if queue.namespaces == NamespaceSelector::Nobody || queue.namespaces.admits(labels) {
                continue;
            }
            let unique = format!("{}/{}", local.namespace, local.name);
            let place = findings.place_of(Kind::LocalQueue, &unique);
            let known = if documented.contains(&local.namespace) {
                "mend one of the two"
            } else {
                "its labels are not known: add the Namespace, or mend the selector"
            };
            let message = format!(
                "leads to ClusterQueue {:?}, whose namespaceSelector does not let the namespace {:?} in; {known}",
                local.queue, local.namespace
            );
            findings.note(NoteKind::NamespaceNotAdmitted, place.as_ref(), message);
        }
    }

    fn tell_about_pods(&self, findings: &Findings) {
        if self.nodes_without_pods > 0 {
            let (count, all) = (self.nodes_without_pods, self.nodes.len());
            let message = format!(
                "{count} of {all} nodes do not say how many pods they take (status.allocatable.pods); {PODS_DEFAULT} are assumed, as the kubelet does"
            );
            findings.note(NoteKind::PodsAssumed, None, message);
        }
    }

    fn check_default_class(&self, findings: &Findings) {
        let (Some(first), Some(second)) = (&self.default_class, &self.second_default) else {
            return;
        };
        findings.problem(ProblemKind::ConflictingFields, Some(second), "globalDefault", || {
            format!("is true, but there can be one default, and {first} is it")
        });
    }

    fn check_cohorts(&self, findings: &Findings) {
        let parents: BTreeMap<&CohortName, &CohortName> =
            self.cohorts.iter().filter_map(|c| Some((&c.name, c.parent.as_ref()?))).collect();
        let mut members: BTreeMap<&CohortName, usize> = BTreeMap::new();
        let named = self.queues.iter().filter_map(|queue| queue.cohort.as_ref());
        for name in named.chain(parents.values().copied()) {
            *members.entry(name).or_default() += 1;
        }
        let is_defined: BTreeSet<_> = self.cohorts.iter().map(|cohort| &cohort.name).collect();
        for (name, _) in
            members.iter().filter(|(n, count)| **count == 1 && !is_defined.contains(*n))
        {
            let message = format!(
                "cohort {name:?} has a single member and no quota of its own: there is nobody to borrow from; is the name misspelt?"
            );
            findings.note(NoteKind::LoneCohort, None, message);
        }
        check_parents(&parents, findings);
    }
}

/// Reports circles, each once, and chains that are too long.
fn check_parents(parents: &BTreeMap<&CohortName, &CohortName>, findings: &Findings) {
    // How many cohorts there are from each one upwards, itself counted.
    let mut heights: BTreeMap<&CohortName, usize> = BTreeMap::new();
    for start in parents.keys().copied() {
        let mut path = vec![start];
        let mut on_path = BTreeSet::from([start]);
        let mut height = loop {
            let last = path[path.len() - 1];
            if let Some(height) = heights.get(last) {
                path.pop();
                break *height;
            }
            let Some(parent) = parents.get(last).copied() else { break 0 };
            if !on_path.insert(parent) {
                report_cycle(&path, parent, findings);
                // A circle has no top to count from; what hangs on it is told once it is mended.
                heights.extend(path.drain(..).map(|name| (name, 0)));
                break 0;
            }
            path.push(parent);
        };
        for name in path.into_iter().rev() {
            height += 1;
            heights.insert(name, height);
            if height == COHORT_DEPTH_MAX + 1 {
                report_depth(name, findings);
            }
        }
    }
}

/// `path` ends with a cohort whose parent is `again`, which is on the path.
fn report_cycle(path: &[&CohortName], again: &CohortName, findings: &Findings) {
    let from = path.iter().position(|name| *name == again).unwrap_or(0);
    let circle = &path[from..];
    let first = circle.iter().enumerate().min_by_key(|(_, name)| **name).map_or(0, |(i, _)| i);
    let (end, beginning) = circle.split_at(first);
    let circle: Vec<&CohortName> = beginning.iter().chain(end).copied().collect();
    let place = findings.place_of(Kind::Cohort, circle[0].as_str());
    findings.problem(ProblemKind::CohortCycle, place.as_ref(), "spec.parentName", || {
        let mut names: Vec<String> = circle.iter().map(|name| format!("{name:?}")).collect();
        names.push(names[0].clone());
        if names.len() > CIRCLE_SHOWN_MAX {
            let more = names.len() - CIRCLE_SHOWN_MAX;
            let middle = CIRCLE_SHOWN_MAX / 2;
            names.splice(middle..middle + more, [format!("({more} more)")]);
        }
        let names = names.join(" -> ");
        format!("leads back to the cohort itself: {names}; take one parentName of them out")
    });
}

fn report_depth(name: &CohortName, findings: &Findings) {
    let place = findings.place_of(Kind::Cohort, name.as_str());
    findings.problem(ProblemKind::CohortTooDeep, place.as_ref(), "spec.parentName", || {
        format!(
            "makes it the {}th cohort of a chain; at most {COHORT_DEPTH_MAX} are possible",
            COHORT_DEPTH_MAX + 1
        )
    });
}
