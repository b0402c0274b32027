//! Queues as an arbiter without Kubernetes serves them.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_core::id::QueueName;
use sluice_core::kueue::model::{ClusterQueue, NamespaceSelector, StopPolicy};
use sluice_core::kueue::snapshot::Setup;
use sluice_core::queue;

use super::{LocalQueue, Note, NoteKind, PrioritySource, Problems, Queues, Source, parse_all};

/// Why an arbiter cannot serve a configuration.
#[derive(Debug, thiserror::Error)]
pub enum Unserved {
    /// The text is not a configuration.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// It counts on something that only a cluster has.
    #[error("{0}")]
    Feature(String),
}

/// Reads a queues file for an arbiter that has no cluster: there are no namespaces and nobody answers admission checks,
/// so queues that count on them are refused. Problems are told of the file `name`. Nodes in it are left out: agents tell which there are.
///
/// # Errors
/// What is wrong with the text, or what in it cannot be done here.
pub fn served(name: &str, source: String) -> Result<queue::Queues, Unserved> {
    let file = Source { name: Arc::from(name), text: source.clone() };
    let Queues { mut setup, local_queues, .. } = parse_all(&[file])?;
    if let Some(why) = obstacles(&setup, &local_queues).into_iter().next() {
        return Err(Unserved::Feature(why));
    }
    setup.nodes.clear();
    let local = names(&local_queues)?;
    Ok(queue::Queues { source, setup, local })
}

/// The priorities that the classes of a queues file stand for, by name; of two classes of one name Kueue's own goes first.
///
/// # Errors
/// What is wrong with the text.
pub fn priorities(name: &str, source: String) -> Result<BTreeMap<String, i32>, Problems> {
    let file = Source { name: Arc::from(name), text: source };
    let mut values = BTreeMap::new();
    for class in parse_all(&[file])?.priority_classes {
        match class.source {
            PrioritySource::Workload => drop(values.insert(class.name, class.value)),
            PrioritySource::Pod => drop(values.entry(class.name).or_insert(class.value)),
        }
    }
    Ok(values)
}

/// Why an arbiter that has no cluster would not serve these queues, each as a note.
#[must_use]
pub fn unserved(queues: &Queues) -> Vec<Note> {
    let note = |why: String| {
        let message = format!("sluice-arbiter without Kubernetes refuses this: {why}");
        Note { kind: NoteKind::NotServed, place: None, message }
    };
    obstacles(&queues.setup, &queues.local_queues).into_iter().map(note).collect()
}

/// What counts on something that only a cluster has.
fn obstacles(setup: &Setup, local_queues: &[LocalQueue]) -> Vec<String> {
    let mut why = Vec::new();
    if setup.queues.is_empty() {
        why.push("there is no ClusterQueue in it; add one, or leave --queues out".to_owned());
    }
    why.extend(setup.queues.iter().flat_map(obstacles_of));
    let stopped = local_queues.iter().filter(|local| local.stop != StopPolicy::None);
    why.extend(stopped.map(|local| {
        format!(
            "LocalQueue \"{}/{}\": spec.stopPolicy is set, but LocalQueues are not stopped one by one here; \
             stop its ClusterQueue, or remove the LocalQueue",
            local.namespace, local.name
        )
    }));
    why
}

fn obstacles_of(queue: &ClusterQueue) -> Vec<String> {
    let name = &queue.name;
    let mut why = Vec::new();
    match &queue.namespaces {
        NamespaceSelector::Matching(requirements) if requirements.is_empty() => {}
        NamespaceSelector::Matching(_) => why.push(format!(
            "ClusterQueue \"{name}\": spec.namespaceSelector is set, but there are no namespaces here; write {{}}, which means all"
        )),
        NamespaceSelector::Nobody => why.push(format!(
            "ClusterQueue \"{name}\": spec.namespaceSelector is absent, which means nobody; write {{}}, which means all"
        )),
    }
    if !queue.checks.is_empty() {
        why.push(format!(
            "ClusterQueue \"{name}\" has admission checks, but nobody answers them here; remove them"
        ));
    }
    why
}

/// The names by which workloads ask for a local queue: with its namespace, and without it where that is clear.
fn names(local_queues: &[LocalQueue]) -> Result<BTreeMap<QueueName, QueueName>, Unserved> {
    let mut by_name: BTreeMap<&str, u32> = BTreeMap::new();
    for local in local_queues {
        *by_name.entry(local.name.as_str()).or_insert(0) += 1;
    }
    let mut names = BTreeMap::new();
    for local in local_queues {
        let full = format!("{}/{}", local.namespace, local.name);
        let name = |text: &str| {
            text.parse::<QueueName>().map_err(|error| Unserved::Feature(error.to_string()))
        };
        let target = name(local.queue.as_str())?;
        names.insert(name(&full)?, target.clone());
        if by_name.get(local.name.as_str()) == Some(&1) {
            names.insert(name(local.name.as_str())?, target);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::{Source, parse_all, served, unserved};

    const QUEUE: &str = "
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: a3}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: a3
      resources: [{name: nvidia.com/gpu, nominalQuota: 8}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: team}
spec: {clusterQueue: research}
";

    fn refused(from: &str, to: &str) -> String {
        assert!(QUEUE.contains(from));
        served("f", QUEUE.replace(from, to)).expect_err("it must be refused").to_string()
    }

    #[test]
    fn workloads_name_a_queue_or_a_local_queue_with_or_without_its_namespace() {
        let queues = served("f", QUEUE.to_owned()).unwrap();
        for name in ["research", "team/lq", "lq"] {
            let found = queues.find(&name.parse().unwrap()).map(|queue| queue.name.to_string());
            assert_eq!(found.as_deref(), Some("research"), "{name}");
        }
        assert_eq!(queues.find(&"other/lq".parse().unwrap()), None);
        assert_eq!(queues.source, QUEUE);
    }

    #[test]
    fn a_name_that_two_namespaces_use_needs_its_namespace() {
        let second = "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\n\
                      metadata: {name: lq, namespace: other}\nspec: {clusterQueue: research}\n";
        let queues = served("f", format!("{QUEUE}{second}")).unwrap();
        assert_eq!(queues.find(&"lq".parse().unwrap()), None);
        assert!(queues.find(&"other/lq".parse().unwrap()).is_some());
    }

    #[test]
    fn what_only_a_cluster_has_is_refused() {
        assert_eq!(
            refused("namespaceSelector: {}", "namespaceSelector: {matchLabels: {team: a}}"),
            r#"ClusterQueue "research": spec.namespaceSelector is set, but there are no namespaces here; write {}, which means all"#
        );
        assert_eq!(
            refused(
                "spec: {clusterQueue: research}",
                "spec: {clusterQueue: research, stopPolicy: Hold}"
            ),
            r#"LocalQueue "team/lq": spec.stopPolicy is set, but LocalQueues are not stopped one by one here; stop its ClusterQueue, or remove the LocalQueue"#
        );
    }

    #[test]
    fn everything_that_would_be_refused_is_noted_before() {
        let text = QUEUE.replace("  namespaceSelector: {}\n", "").replace(
            "spec: {clusterQueue: research}",
            "spec: {clusterQueue: research, stopPolicy: Hold}",
        );
        let file = Source { name: "f".into(), text };
        let notes = unserved(&parse_all(&[file]).unwrap());
        let messages: Vec<&str> = notes.iter().map(|note| note.message.as_str()).collect();
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert!(messages[0].contains("spec.namespaceSelector is absent"), "{messages:?}");
        assert!(messages[1].contains("LocalQueue \"team/lq\""), "{messages:?}");
        let file = Source { name: "f".into(), text: QUEUE.to_owned() };
        assert_eq!(unserved(&parse_all(&[file]).unwrap()), []);
    }
}
