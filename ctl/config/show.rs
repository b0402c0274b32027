//! What a configuration defines, for people.

use std::collections::{BTreeMap, BTreeSet};

use sluice::queues::{Queues, Unit};
use sluice_core::kueue::matching::selector_matches;
use sluice_core::kueue::model::{ClusterQueue, Cohort, ResourceFlavor, ResourceGroup};
use sluice_core::kueue::name::CohortName;
use sluice_core::kueue::weight::FairWeight;

use super::view::{borrow_words, policy_word, source_word, stop_word, strategy_word};
use crate::paint::good;
use crate::table::Sheet;
use crate::text::{NOTHING, count, safe};

/// Most pairs of flavor and node that are compared; beyond it nodes are not counted.
const MATCHES_MAX: usize = 20_000_000;

/// The whole configuration.
pub(super) fn text(queues: &Queues) -> String {
    let setup = &queues.setup;
    let mut sheet = Sheet::new();
    let titles = ["NAME", "FLAVOR", "RESOURCE", "NOMINAL", "BORROWS AT MOST", "LENDS AT MOST"];
    sheet.section("Cohorts and quota").table(&titles, &Tree::new(queues).rows());
    let titles = [
        "NAME",
        "STRATEGY",
        "PREEMPTS WITHIN",
        "RECLAIMS",
        "WHILE BORROWING",
        "WEIGHT",
        "CHECKS",
        "STOPPED",
    ];
    let rows: Vec<_> = setup.queues.iter().map(queue_row).collect();
    sheet.section("Cluster queues").table(&titles, &rows);
    let titles = ["NAMESPACE", "NAME", "CLUSTER QUEUE", "STOPPED"];
    let local = queues.local_queues.iter().map(|queue| {
        vec![
            safe(&queue.namespace),
            safe(queue.name.as_str()),
            safe(queue.queue.as_str()),
            stop_word(queue.stop).to_owned(),
        ]
    });
    sheet.section("Local queues").table(&titles, &local.collect::<Vec<_>>());
    let titles = ["NAME", "NODE LABELS", "TAINTS", "TOPOLOGY", "NODES"];
    let rows: Vec<_> = setup.flavors.iter().map(|flavor| flavor_row(flavor, queues)).collect();
    sheet.section("Flavors").table(&titles, &rows);
    let classes = queues.priority_classes.iter().map(|class| {
        let default = if class.is_default { "yes" } else { "no" };
        let kind = source_word(class.source).to_owned();
        vec![safe(&class.name), class.value.to_string(), kind, default.to_owned()]
    });
    let titles = ["NAME", "VALUE", "KIND", "DEFAULT"];
    sheet.section("Priority classes").table(&titles, &classes.collect::<Vec<_>>());
    notes(&mut sheet, queues);
    format!("{}\n{}\n", sheet.finish(), good(&summary(queues)))
}

fn summary(queues: &Queues) -> String {
    format!(
        "the configuration can be used: {}, {}, {}, {}",
        count(queues.setup.queues.len(), "cluster queue"),
        count(queues.local_queues.len(), "local queue"),
        count(queues.setup.flavors.len(), "flavor"),
        count(queues.setup.nodes.len(), "node"),
    )
}

fn notes(sheet: &mut Sheet, queues: &Queues) {
    if queues.notes.is_empty() {
        return;
    }
    let notes = queues.notes.iter();
    let mut lines: Vec<String> =
        notes.map(|note| format!("{} [{}]", safe(&note.to_string()), note.kind.code())).collect();
    if queues.notes_left_out > 0 {
        lines.push(format!("and {} more", queues.notes_left_out));
    }
    sheet.section("Notes").lines(&lines.join("\n"));
}

fn queue_row(queue: &ClusterQueue) -> Vec<String> {
    let checks: Vec<String> = queue.checks.iter().map(|rule| safe(rule.check.as_str())).collect();
    let borrowing = match borrow_words(queue.preemption.borrow_within_cohort) {
        (word, Some(threshold)) => format!("{word} up to {threshold}"),
        (word, None) => word.to_owned(),
    };
    vec![
        safe(queue.name.as_str()),
        strategy_word(queue.strategy).to_owned(),
        policy_word(queue.preemption.within_queue).to_owned(),
        policy_word(queue.preemption.reclaim_within_cohort).to_owned(),
        borrowing,
        weight(queue.fair_weight),
        if checks.is_empty() { NOTHING.to_owned() } else { checks.join(",") },
        stop_word(queue.stop).to_owned(),
    ]
}

/// Without zeros that say nothing.
fn weight(weight: FairWeight) -> String {
    let text = format!("{weight:?}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn flavor_row(flavor: &ResourceFlavor, queues: &Queues) -> Vec<String> {
    let labels: Vec<String> =
        flavor.node_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let taints: Vec<String> =
        flavor.taints.iter().map(|taint| format!("{}={}", taint.key, taint.value)).collect();
    let or_none = |list: Vec<String>| {
        if list.is_empty() { NOTHING.to_owned() } else { safe(&list.join(",")) }
    };
    let nodes = &queues.setup.nodes;
    let is_counted = !nodes.is_empty() && nodes.len() * queues.setup.flavors.len() <= MATCHES_MAX;
    let own = nodes.iter().filter(|node| selector_matches(&flavor.node_labels, &node.labels));
    vec![
        safe(flavor.name.as_str()),
        or_none(labels),
        or_none(taints),
        flavor.topology.as_ref().map_or(NOTHING.to_owned(), |name| safe(name.as_str())),
        if is_counted { own.count().to_string() } else { NOTHING.to_owned() },
    ]
}

/// Cohorts with those below them.
struct Tree<'a> {
    defined: BTreeMap<&'a CohortName, &'a Cohort>,
    /// By the cohort above; those without one are at `None`.
    cohorts: BTreeMap<Option<&'a CohortName>, BTreeSet<&'a CohortName>>,
    queues: BTreeMap<Option<&'a CohortName>, Vec<&'a ClusterQueue>>,
}

impl<'a> Tree<'a> {
    fn new(queues: &'a Queues) -> Self {
        let setup = &queues.setup;
        let defined: BTreeMap<_, _> = setup.cohorts.iter().map(|c| (&c.name, c)).collect();
        let mut tree = Self { defined, cohorts: BTreeMap::new(), queues: BTreeMap::new() };
        let above = setup.cohorts.iter().filter_map(|cohort| cohort.parent.as_ref());
        let named = setup.queues.iter().filter_map(|queue| queue.cohort.as_ref());
        for name in setup.cohorts.iter().map(|cohort| &cohort.name).chain(above).chain(named) {
            let parent = tree.defined.get(name).and_then(|cohort| cohort.parent.as_ref());
            tree.cohorts.entry(parent).or_default().insert(name);
        }
        for queue in &setup.queues {
            tree.queues.entry(queue.cohort.as_ref()).or_default().push(queue);
        }
        tree
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        self.add(&mut rows, None, 0);
        rows
    }

    /// Parents form no circle, so this ends; how deep they nest is limited.
    fn add(&self, rows: &mut Vec<Vec<String>>, above: Option<&CohortName>, depth: usize) {
        let indent = "  ".repeat(depth);
        for name in self.cohorts.get(&above).into_iter().flatten() {
            let groups = self.defined.get(name).map_or(&[][..], |cohort| &cohort.groups);
            let shown = format!("{indent}cohort {}", safe(name.as_str()));
            quota_rows(rows, &shown, groups, above.is_some());
            self.add(rows, Some(name), depth + 1);
        }
        for queue in self.queues.get(&above).into_iter().flatten() {
            let shown = format!("{indent}{}", safe(queue.name.as_str()));
            quota_rows(rows, &shown, &queue.groups, above.is_some());
        }
    }
}

/// A row for each quota; the first one has the name.
fn quota_rows(rows: &mut Vec<Vec<String>>, name: &str, groups: &[ResourceGroup], shares: bool) {
    let first = rows.len();
    let without = |limit: &'static str| if shares { limit } else { NOTHING };
    for (group, flavor) in groups.iter().flat_map(|g| g.flavors.iter().map(move |f| (g, f))) {
        for resource in &group.resources {
            let Some(quota) = flavor.quotas.get(resource) else { continue };
            let show = |amount| Unit::of(resource).show(amount);
            rows.push(vec![
                String::new(),
                safe(flavor.flavor.as_str()),
                safe(resource.as_str()),
                show(quota.nominal),
                quota.borrowing_limit.map_or(without("no limit").to_owned(), show),
                quota.lending_limit.map_or(without("all").to_owned(), show),
            ]);
        }
    }
    match rows.get_mut(first) {
        Some(row) => name.clone_into(&mut row[0]),
        None => rows.push(vec![name.to_owned()]),
    }
}
