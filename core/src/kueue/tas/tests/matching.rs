//! The numbered labels and taints of a snapshot against the plain matching rules.

use proptest::prelude::*;

use super::{flavor, node, on, place, pod_set, preferred, unconstrained};
use crate::kueue::matching::{
    LabelOperator, LabelRequirement, Taint, TaintEffect, Toleration, TolerationOperator,
    affinity_matches, find_untolerated, selector_matches,
};
use crate::kueue::tas::model::HOSTNAME;
use crate::kueue::tas::{
    Assumed, Capacity, Node, PodSetRequest, PreferredTerm, Switches, TasSnapshot,
};
use crate::kueue::workload::PodSet;

fn words() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "b", "7", "12", "x7"]).prop_map(str::to_owned)
}

fn requirement() -> impl Strategy<Value = LabelRequirement> {
    let operators = vec![
        LabelOperator::In,
        LabelOperator::NotIn,
        LabelOperator::Exists,
        LabelOperator::DoesNotExist,
        LabelOperator::Gt,
        LabelOperator::Lt,
    ];
    let key = prop::sample::select(vec!["k", "l", "m"]).prop_map(str::to_owned);
    let values = prop::collection::vec(words(), 0..3);
    (key, prop::sample::select(operators), values)
        .prop_map(|(key, operator, values)| LabelRequirement { key, operator, values })
}

fn taint() -> impl Strategy<Value = Taint> {
    let effects =
        vec![TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::NoExecute];
    (words(), words(), prop::sample::select(effects)).prop_map(|(key, value, effect)| Taint {
        key,
        value,
        effect,
    })
}

fn toleration() -> impl Strategy<Value = Toleration> {
    let operator =
        prop::sample::select(vec![TolerationOperator::Equal, TolerationOperator::Exists]);
    (words(), words(), operator).prop_map(|(key, value, operator)| Toleration {
        key,
        operator,
        value,
        effect: None,
    })
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let labels = prop::collection::btree_map("[kl]", words(), 0..3);
    let one = (labels, prop::collection::vec(taint(), 0..2));
    prop::collection::vec(one, 1..6).prop_map(|shape| {
        let nodes = shape.into_iter().enumerate();
        nodes
            .map(|(index, (labels, taints))| {
                let mut node = node("a", "1", &format!("h{index}"), 4);
                node.labels.extend(labels);
                node.taints = taints;
                node
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn numbered_labels_and_taints_match_as_plain_ones(
        nodes in nodes(),
        selector in prop::collection::btree_map("[kl]", words(), 0..2),
        terms in prop::collection::vec(prop::collection::vec(requirement(), 0..3), 0..3),
        tolerations in prop::collection::vec(toleration(), 0..3),
    ) {
        let wish = PodSet {
            node_selector: selector.clone(),
            affinity_terms: terms.clone(),
            tolerations: tolerations.clone(),
            ..pod_set(4, unconstrained())
        };
        let matches = |node: &&Node| {
            find_untolerated(&node.taints, &[&tolerations]).is_none()
                && selector_matches(&selector, &node.labels)
                && affinity_matches(&terms, &node.labels)
        };
        let snapshot = TasSnapshot::new(flavor(&[HOSTNAME]), Switches::default(), &nodes, &[]);
        let first = nodes.iter().find(matches).map(|node| on(&[(node.name.as_str(), 4)]));
        prop_assert_eq!(place(&snapshot, &wish).ok(), first);
    }
}

#[test]
fn preferred_affinity_outranks_tightness_where_it_is_switched_on() {
    let mut nodes = [node("a", "1", "h1", 2), node("a", "1", "h2", 4), node("a", "1", "h3", 4)];
    nodes[2].labels.insert("disk".into(), "ssd".into());
    let term = PreferredTerm {
        weight: 10,
        requirements: vec![LabelRequirement {
            key: "disk".into(),
            operator: LabelOperator::Exists,
            values: Vec::new(),
        }],
    };
    let wish = pod_set(2, preferred(HOSTNAME));
    let request =
        PodSetRequest { preferred: std::slice::from_ref(&term), ..PodSetRequest::new(&wish) };
    let placement = |respects_preferred_affinity| {
        let switches = Switches { respects_preferred_affinity, ..Switches::default() };
        let snapshot = TasSnapshot::new(flavor(&[HOSTNAME]), switches, &nodes, &[]);
        let outcome = snapshot.place(&[request], Capacity::Free, &mut Assumed::default());
        outcome.placement(0).cloned()
    };
    assert_eq!(placement(false), Some(on(&[("h1", 2)])));
    assert_eq!(placement(true), Some(on(&[("h3", 2)])));
}
