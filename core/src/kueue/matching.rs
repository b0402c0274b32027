//! Whether a pod may run on a node or flavor: taints and tolerations, node selectors, node affinity.
//!
//! Owns the matching rules of Kubernetes as far as placement needs them; it knows neither queues nor quota.

use std::collections::BTreeMap;

/// Labels of a node, a flavor or a namespace.
pub type Labels = BTreeMap<String, String>;

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintEffect {
    /// New pods are kept off the node.
    NoSchedule,
    /// New pods avoid the node where they can; it never rules a node out.
    PreferNoSchedule,
    /// New pods are kept off the node and running ones are evicted.
    NoExecute,
}

impl TaintEffect {
    /// Whether an untolerated taint with this effect rules a node out.
    #[must_use]
    pub fn is_hard(self) -> bool {
        match self {
            Self::NoSchedule | Self::NoExecute => true,
            Self::PreferNoSchedule => false,
        }
    }
}

/// A node taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// The taint's key.
    pub key: String,
    /// The taint's value; may be empty.
    pub value: String,
    /// What it does.
    pub effect: TaintEffect,
}

/// How a toleration compares the value of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TolerationOperator {
    /// The value must be the same.
    Equal,
    /// Any value will do.
    Exists,
}

/// A pod's toleration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// The key it tolerates; empty together with [`TolerationOperator::Exists`] means every key.
    pub key: String,
    /// How values compare.
    pub operator: TolerationOperator,
    /// The value it tolerates, for [`TolerationOperator::Equal`].
    pub value: String,
    /// The effect it tolerates; `None` means every effect.
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    /// Whether this toleration covers `taint`.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator {
            TolerationOperator::Exists => true,
            // An empty key is only meaningful with Exists; Kubernetes rejects it otherwise.
            TolerationOperator::Equal => !self.key.is_empty() && self.value == taint.value,
        }
    }
}

/// The first taint with a hard effect that no toleration of any of `tolerations` covers.
#[must_use]
pub fn find_untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[&[Toleration]],
) -> Option<&'a Taint> {
    taints.iter().find(|taint| {
        let mut all = tolerations.iter().copied().flatten();
        taint.effect.is_hard() && !all.any(|toleration| toleration.tolerates(taint))
    })
}

/// How a requirement compares a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelOperator {
    /// The label is present and its value is one of those listed.
    In,
    /// The label is absent or its value is none of those listed.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer above the one listed.
    Gt,
    /// The label is an integer below the one listed.
    Lt,
}

/// One expression of a label selector or of a node affinity term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: String,
    /// How it compares.
    pub operator: LabelOperator,
    /// The values it compares with; empty for `Exists` and `DoesNotExist`.
    pub values: Vec<String>,
}

impl LabelRequirement {
    /// Whether `labels` satisfy this expression.
    #[must_use]
    pub fn is_met_by(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            LabelOperator::In => value.is_some_and(|value| self.values.contains(value)),
            LabelOperator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
            LabelOperator::Gt => self.compare(value).is_some_and(|(label, bound)| label > bound),
            LabelOperator::Lt => self.compare(value).is_some_and(|(label, bound)| label < bound),
        }
    }

    fn compare(&self, value: Option<&String>) -> Option<(i64, i64)> {
        let [bound] = self.values.as_slice() else { return None };
        Some((value?.parse().ok()?, bound.parse().ok()?))
    }
}

/// Whether every pair of `selector` is among `labels`.
#[must_use]
pub fn selector_matches(selector: &Labels, labels: &Labels) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Whether at least one affinity term (all of its expressions) holds; no terms at all always match.
#[must_use]
pub fn affinity_matches(terms: &[Vec<LabelRequirement>], labels: &Labels) -> bool {
    terms.is_empty() || terms.iter().any(|term| is_term_met(term, labels))
}

/// An empty term matches nothing, as in Kubernetes.
fn is_term_met(term: &[LabelRequirement], labels: &Labels) -> bool {
    !term.is_empty() && term.iter().all(|requirement| requirement.is_met_by(labels))
}
