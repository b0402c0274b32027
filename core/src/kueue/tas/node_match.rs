//! Which nodes a pod set may use: taints, node selector, node affinity; and which it prefers.
//!
//! Labels are numbered once per snapshot, and each request is turned into numbers once, so that asking 65,536
//! nodes compares integers only. Equal lists of taints are judged once.

use std::collections::BTreeMap;

use crate::kueue::matching::{
    LabelOperator, LabelRequirement, Labels, Taint, TaintEffect, Toleration, find_untolerated,
};

use super::model::{Node, PodSetRequest};

/// Labels and taints of the nodes, leaf by leaf. Empty where leaves are not nodes: nothing is ruled out there.
#[derive(Debug, Default)]
pub(super) struct NodeIndex {
    keys: BTreeMap<String, u32>,
    values: BTreeMap<String, u32>,
    /// Per leaf, where its labels start in `labels`; one more entry than leaves.
    starts: Vec<usize>,
    /// Pairs of key and value, ordered by key within a leaf.
    labels: Vec<(u32, u32)>,
    taint_lists: Vec<Vec<Taint>>,
    /// Per leaf, its list of taints.
    taint_list_of_leaf: Vec<usize>,
}

/// Why a node is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// The first untolerated taint of this list of taints.
    Taint(usize),
    NodeSelector,
    Affinity,
}

/// What a pod set asks of nodes, in the numbers of one [`NodeIndex`].
pub(super) struct NodeMatch {
    /// Per list of taints, the first one that is not tolerated.
    pub(super) untolerated: Vec<Option<String>>,
    selector: Vec<Check>,
    /// Any of these; empty if there is no required affinity.
    affinity: Vec<Vec<Check>>,
    preferred: Vec<(i64, Vec<Check>)>,
}

struct Check {
    /// `None` if no node has the label.
    key: Option<u32>,
    accepts: Accepts,
}

enum Accepts {
    /// Label present with one of these values (ordered).
    OneOf(Vec<u32>),
    /// Label absent, or present with none of these values (ordered).
    NoneOf(Vec<u32>),
    Present,
    Absent,
}

impl NodeIndex {
    /// Indexes the node that stands for each leaf.
    pub(super) fn new<'a>(node_of_leaf: impl Iterator<Item = &'a Node>) -> Self {
        let mut index = Self { starts: vec![0], ..Self::default() };
        let mut known_taints: BTreeMap<&[Taint], usize> = BTreeMap::new();
        // Neighbours share most labels: remembering the last key at each position, and the last value of each key,
        // saves most look-ups.
        let mut last_keys: Vec<(&str, u32)> = Vec::new();
        let mut last_value: Vec<(&str, u32)> = Vec::new();
        for node in node_of_leaf {
            let start = index.labels.len();
            for (position, (key, value)) in node.labels.iter().enumerate() {
                if last_keys.get(position).is_none_or(|(last, _)| last != key) {
                    last_keys.truncate(position);
                    last_keys.push((key, number(&mut index.keys, key)));
                }
                let key = last_keys[position].1;
                if key as usize == last_value.len() {
                    last_value.push((value, number(&mut index.values, value)));
                }
                let last = &mut last_value[key as usize];
                if last.0 != value {
                    *last = (value, number(&mut index.values, value));
                }
                index.labels.push((key, last.1));
            }
            index.labels[start..].sort_unstable();
            index.starts.push(index.labels.len());
            let list = *known_taints.entry(&node.taints).or_insert_with(|| {
                index.taint_lists.push(node.taints.clone());
                index.taint_lists.len() - 1
            });
            index.taint_list_of_leaf.push(list);
        }
        index
    }

    fn value(&self, leaf: usize, key: u32) -> Option<u32> {
        let labels = &self.labels[self.starts[leaf]..self.starts[leaf + 1]];
        let found = labels.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(labels[found].1)
    }

    fn compile(&self, requirement: &LabelRequirement) -> Check {
        let listed = || {
            let mut values: Vec<u32> =
                requirement.values.iter().filter_map(|v| self.values.get(v).copied()).collect();
            values.sort_unstable();
            values
        };
        let accepts = match requirement.operator {
            LabelOperator::In => Accepts::OneOf(listed()),
            LabelOperator::NotIn => Accepts::NoneOf(listed()),
            LabelOperator::Exists => Accepts::Present,
            LabelOperator::DoesNotExist => Accepts::Absent,
            LabelOperator::Gt | LabelOperator::Lt => {
                Accepts::OneOf(self.values_that_meet(requirement))
            }
        };
        Check { key: self.keys.get(&requirement.key).copied(), accepts }
    }

    /// All known values that meet a requirement when they are the value of its key.
    fn values_that_meet(&self, requirement: &LabelRequirement) -> Vec<u32> {
        let meets = |value: &String| {
            let labels = Labels::from([(requirement.key.clone(), value.clone())]);
            requirement.is_met_by(&labels)
        };
        let mut values: Vec<u32> =
            self.values.iter().filter(|(value, _)| meets(value)).map(|(_, id)| *id).collect();
        values.sort_unstable();
        values
    }
}

impl NodeMatch {
    /// What `request` asks, given the tolerations that its flavor adds.
    pub(super) fn new(
        index: &NodeIndex,
        request: &PodSetRequest<'_>,
        flavor_tolerations: &[Toleration],
        respects_preferred: bool,
    ) -> Self {
        let pod_set = request.pod_set;
        let tolerations = [pod_set.tolerations.as_slice(), flavor_tolerations];
        let untolerated = index
            .taint_lists
            .iter()
            .map(|taints| find_untolerated(taints, &tolerations).map(taint_text))
            .collect();
        let selector = pod_set
            .node_selector
            .iter()
            .map(|(key, value)| Check {
                key: index.keys.get(key).copied(),
                accepts: Accepts::OneOf(index.values.get(value).copied().into_iter().collect()),
            })
            .collect();
        let compile_all =
            |term: &Vec<LabelRequirement>| term.iter().map(|r| index.compile(r)).collect();
        let affinity = pod_set.affinity_terms.iter().map(compile_all).collect();
        let preferred = if respects_preferred { request.preferred } else { &[] };
        let preferred =
            preferred.iter().map(|term| (term.weight, compile_all(&term.requirements))).collect();
        Self { untolerated, selector, affinity, preferred }
    }

    /// The leaf's score by preferred affinity, or why it is left out.
    pub(super) fn judge(&self, index: &NodeIndex, leaf: usize) -> Result<i64, Misfit> {
        if index.taint_list_of_leaf.is_empty() {
            return Ok(0);
        }
        let taint_list = index.taint_list_of_leaf[leaf];
        if self.untolerated[taint_list].is_some() {
            return Err(Misfit::Taint(taint_list));
        }
        if !self.selector.iter().all(|check| check.holds(index, leaf)) {
            return Err(Misfit::NodeSelector);
        }
        if !self.affinity.is_empty() && !self.affinity.iter().any(|term| holds(term, index, leaf)) {
            return Err(Misfit::Affinity);
        }
        let scores = self.preferred.iter().filter(|(_, term)| holds(term, index, leaf));
        Ok(scores.fold(0i64, |sum, (weight, _)| sum.saturating_add(*weight)))
    }
}

/// An empty term holds nowhere, as in Kubernetes.
fn holds(term: &[Check], index: &NodeIndex, leaf: usize) -> bool {
    !term.is_empty() && term.iter().all(|check| check.holds(index, leaf))
}

impl Check {
    fn holds(&self, index: &NodeIndex, leaf: usize) -> bool {
        let value = self.key.and_then(|key| index.value(leaf, key));
        match &self.accepts {
            Accepts::OneOf(values) => value.is_some_and(|v| values.binary_search(&v).is_ok()),
            Accepts::NoneOf(values) => value.is_none_or(|v| values.binary_search(&v).is_err()),
            Accepts::Present => value.is_some(),
            Accepts::Absent => value.is_none(),
        }
    }
}

fn number(numbers: &mut BTreeMap<String, u32>, text: &str) -> u32 {
    if let Some(known) = numbers.get(text) {
        return *known;
    }
    let next = u32::try_from(numbers.len()).expect("a cluster has fewer than 2^32 labels");
    numbers.insert(text.to_owned(), next);
    next
}

/// The taint as kubectl writes it.
fn taint_text(taint: &Taint) -> String {
    let effect = match taint.effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    };
    let Taint { key, value, .. } = taint;
    if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") }
}
