//! Labels, taints, tolerations and namespace selectors.

use std::collections::BTreeMap;

use sluice_core::kueue::matching::{
    LabelOperator, LabelRequirement, Labels, Taint, TaintEffect, Toleration, TolerationOperator,
};
use sluice_core::kueue::model::NamespaceSelector;

use super::field::Field;
use super::name::{is_label_key, label_value, qualified_name};
use super::problem::ProblemKind;

const EFFECTS: [(&str, TaintEffect); 3] = [
    ("NoSchedule", TaintEffect::NoSchedule),
    ("PreferNoSchedule", TaintEffect::PreferNoSchedule),
    ("NoExecute", TaintEffect::NoExecute),
];

/// Labels, at most `most` of them.
pub(super) fn labels(field: &Field<'_>, most: usize) -> Labels {
    let entries = field.entries();
    if entries.len() > most {
        let count = entries.len();
        field.problem(ProblemKind::TooMany, || {
            format!("has {count} labels; at most {most} are possible")
        });
    }
    let mut labels = BTreeMap::new();
    for (key, value_field) in entries.into_iter().take(most) {
        if !is_label_key(field, key) {
            continue;
        }
        if let Some(value) = label_value(&value_field) {
            labels.insert(key.to_owned(), value.to_owned());
        }
    }
    labels
}

/// Taints, at most `most` of them.
pub(super) fn taints(field: &Field<'_>, most: usize) -> Vec<Taint> {
    field.list(most).iter().filter_map(taint).collect()
}

fn taint(field: &Field<'_>) -> Option<Taint> {
    let mut object = field.object();
    let key = qualified_name(&object.take("key"));
    let value = label_value(&object.take("value"));
    let effect_field = object.take("effect");
    let effect = effect_field.word(&EFFECTS);
    if effect_field.is_absent() {
        let expected = "one of NoSchedule, PreferNoSchedule, NoExecute";
        effect_field.must_be(ProblemKind::MissingField, expected);
    }
    // When it was added; it ends no pod that is not running yet.
    object.pass_over(&["timeAdded"]);
    object.finish();
    Some(Taint { key: key?.to_owned(), value: value?.to_owned(), effect: effect? })
}

/// Tolerations, at most `most` of them.
pub(super) fn tolerations(field: &Field<'_>, most: usize) -> Vec<Toleration> {
    field.list(most).iter().filter_map(toleration).collect()
}

fn toleration(field: &Field<'_>) -> Option<Toleration> {
    let mut object = field.object();
    let key_field = object.take("key");
    let has_key = key_field.text() != Some("") && !key_field.is_absent();
    let key = if has_key { qualified_name(&key_field) } else { Some("") };
    let operators = [("Equal", TolerationOperator::Equal), ("Exists", TolerationOperator::Exists)];
    let operator_field = object.take("operator");
    let operator = operator_field.word(&operators).unwrap_or(TolerationOperator::Equal);
    let value_field = object.take("value");
    let value = label_value(&value_field);
    let effect = object.take("effect").word(&EFFECTS);
    let seconds = object.take("tolerationSeconds");
    let has_seconds = seconds.whole_number(&(i64::MIN..=i64::MAX)).is_some();
    object.finish();
    if !has_key && operator == TolerationOperator::Equal {
        operator_field.must_be(
            ProblemKind::ConflictingFields,
            "Exists where there is no key: that tolerates every taint",
        );
    }
    if operator == TolerationOperator::Exists && value.is_some_and(|value| !value.is_empty()) {
        value_field.problem(ProblemKind::ConflictingFields, || {
            "is set, but operator Exists looks at no value; take it out or use Equal".to_owned()
        });
    }
    if has_seconds && effect != Some(TaintEffect::NoExecute) {
        seconds.problem(ProblemKind::ConflictingFields, || {
            "is set, but only effect NoExecute ends running pods; take it out or set that effect"
                .to_owned()
        });
    }
    Some(Toleration { key: key?.to_owned(), operator, value: value?.to_owned(), effect })
}

/// Which namespaces may use a queue.
pub(super) fn namespace_selector(field: &Field<'_>) -> NamespaceSelector {
    if field.is_absent() {
        return NamespaceSelector::Nobody;
    }
    let mut selector = field.object();
    let equal = labels(&selector.take("matchLabels"), usize::MAX);
    let expressions = selector.take("matchExpressions").list(usize::MAX);
    selector.finish();
    let is_equal =
        |(key, value)| LabelRequirement { key, operator: LabelOperator::In, values: vec![value] };
    let mut requirements: Vec<_> = equal.into_iter().map(is_equal).collect();
    requirements.extend(expressions.iter().filter_map(requirement));
    NamespaceSelector::Matching(requirements)
}

fn requirement(field: &Field<'_>) -> Option<LabelRequirement> {
    let operators = [
        ("In", LabelOperator::In),
        ("NotIn", LabelOperator::NotIn),
        ("Exists", LabelOperator::Exists),
        ("DoesNotExist", LabelOperator::DoesNotExist),
    ];
    let mut object = field.object();
    let key = qualified_name(&object.take("key"));
    let operator_field = object.take("operator");
    let operator = operator_field.word(&operators);
    if operator_field.is_absent() {
        let expected = "one of In, NotIn, Exists, DoesNotExist";
        operator_field.must_be(ProblemKind::MissingField, expected);
    }
    let values_field = object.take("values");
    let values: Vec<String> =
        values_field.list(usize::MAX).iter().filter_map(label_value).map(str::to_owned).collect();
    object.finish();
    let operator = operator?;
    let wants_values = matches!(operator, LabelOperator::In | LabelOperator::NotIn);
    if wants_values && values_field.is_empty() {
        values_field.must_be(ProblemKind::MissingField, "a list of at least one value");
    }
    if !wants_values && !values.is_empty() {
        values_field.problem(ProblemKind::ConflictingFields, || {
            "is set, but the operator looks at no value; take it out".to_owned()
        });
    }
    Some(LabelRequirement { key: key?.to_owned(), operator, values })
}
