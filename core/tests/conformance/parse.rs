//! From the corpus's JSON to the model. Names and shapes are those of `tests/corpus/README.md`.

mod queues;
mod workloads;

use serde_json::Value;
use sluice_core::kueue::matching::{
    LabelOperator, LabelRequirement, Labels, Taint, TaintEffect, Toleration, TolerationOperator,
};
use sluice_core::kueue::weight::FairWeight;
use sluice_core::kueue::workload::Requests;

pub(crate) use queues::{setup, snapshot};
pub(crate) use workloads::{placement, pod_set, running, workload};

/// The cases' "now", far enough from 0 for all times before it.
pub(crate) const NOW_MS: u64 = 1_000_000_000_000;

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn strings(value: &Value) -> Vec<String> {
    list(value).iter().map(|value| text(value).to_owned()).collect()
}

pub(crate) fn count(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}

/// A decimal such as `0.5` or `2`, exactly, in billionths.
fn decimal(value: &Value) -> Option<FairWeight> {
    (!value.is_null()).then(|| FairWeight::parse(&value.to_string()).unwrap())
}

fn weight(value: &Value) -> FairWeight {
    decimal(value).unwrap_or(FairWeight::ONE)
}

#[allow(clippy::cast_possible_truncation, reason = "corpus times are small numbers of seconds")]
fn time_ms(value: &Value) -> Option<u64> {
    let seconds = value.as_f64()?;
    NOW_MS.checked_add_signed((seconds * 1000.0) as i64)
}

pub(crate) fn labels(value: &Value) -> Labels {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(key, value)| (key.clone(), text(value).to_owned())).collect()
}

/// An amount; above the type's range it is the largest one, which no quota can meet.
fn amount(value: &Value) -> Option<i64> {
    let beyond = value.as_u64().map(|_| i64::MAX);
    value.as_i64().or(beyond)
}

pub(crate) fn requests(value: &Value) -> Requests {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(name, value)| (name.as_str().into(), amount(value).unwrap())).collect()
}

fn effect(value: &Value) -> Option<TaintEffect> {
    Some(match text(value) {
        "" => return None,
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        other => panic!("unknown taint effect {other}"),
    })
}

pub(crate) fn taint(value: &Value) -> Taint {
    Taint {
        key: text(&value["key"]).to_owned(),
        value: text(&value["value"]).to_owned(),
        effect: effect(&value["effect"]).unwrap(),
    }
}

pub(crate) fn toleration(value: &Value) -> Toleration {
    Toleration {
        key: text(&value["key"]).to_owned(),
        operator: match text(&value["op"]) {
            "" | "Equal" => TolerationOperator::Equal,
            "Exists" => TolerationOperator::Exists,
            other => panic!("unknown toleration operator {other}"),
        },
        value: text(&value["value"]).to_owned(),
        effect: effect(&value["effect"]),
    }
}

pub(crate) fn requirement(value: &Value) -> LabelRequirement {
    LabelRequirement {
        key: text(&value["key"]).to_owned(),
        operator: match text(&value["op"]) {
            "In" => LabelOperator::In,
            "NotIn" => LabelOperator::NotIn,
            "Exists" => LabelOperator::Exists,
            "DoesNotExist" => LabelOperator::DoesNotExist,
            "Gt" => LabelOperator::Gt,
            "Lt" => LabelOperator::Lt,
            other => panic!("unknown label operator {other}"),
        },
        values: strings(&value["values"]),
    }
}
