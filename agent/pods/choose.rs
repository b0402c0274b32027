//! Which container of a pod trains, and which of its processes.

use std::collections::BTreeMap;

use sluice_core::pod::{PodUid, PodWorker};
use sluice_core::sample::{ProcessState, WorkerProcesses};

use super::tree::Container;
use super::{FoundPod, PodError};
use crate::sensor::process::{ProcessSensor, WatchedWorker};

/// Containers of one pod that are looked at; pods have a handful.
const CONTAINERS_MAX: usize = 64;

/// The program that holds a pod's namespaces, by its name in the process table.
const SANDBOX: &str = "pause";

/// The container of `pod` that is `wanted`, or the only one that may be the worker: the one with ranks, else the one
/// beside the sandbox.
pub(super) fn container(
    pod: &PodUid,
    wanted: Option<&str>,
    containers: &BTreeMap<String, Container>,
    sensor: &mut ProcessSensor,
) -> Result<FoundPod, PodError> {
    let uid = || pod.clone();
    let populated: Vec<(&String, &Container)> =
        containers.iter().filter(|(_, c)| c.process_count() > 0).take(CONTAINERS_MAX).collect();
    if populated.is_empty() {
        return Err(PodError::Empty { uid: uid() });
    }
    let watched: Vec<WatchedWorker> = populated.iter().map(|(id, _)| watched(pod, id)).collect();
    let table = sensor.sample(&watched).unwrap_or_default();
    let is_ours = |w: &&WorkerProcesses| w.main.is_some() && containers.contains_key(&w.marker);
    let seen: Vec<&WorkerProcesses> = table.workers.iter().filter(is_ours).collect();
    if seen.is_empty() {
        return Err(PodError::Hidden { uid: uid() });
    }
    let known = |of: &[&WorkerProcesses]| {
        of.iter().map(|w| w.marker.as_str()).collect::<Vec<_>>().join(", ")
    };
    if let Some(wanted) = wanted {
        let found = seen.iter().find(|worker| worker.marker == wanted);
        return found.and_then(|worker| found_pod(worker, containers)).ok_or_else(|| {
            PodError::NoSuchContainer { uid: uid(), wanted: wanted.to_owned(), known: known(&seen) }
        });
    }
    let with_ranks: Vec<&WorkerProcesses> =
        seen.iter().copied().filter(|worker| !worker.ranks.is_empty()).collect();
    let others: Vec<&WorkerProcesses> =
        seen.iter().copied().filter(|worker| !is_sandbox(worker)).collect();
    let candidates = if with_ranks.is_empty() { others } else { with_ranks };
    match candidates.as_slice() {
        [only] => found_pod(only, containers).ok_or_else(|| PodError::Empty { uid: uid() }),
        [] => Err(PodError::Empty { uid: uid() }),
        several => {
            let (count, known) = (several.len(), known(several));
            Err(PodError::SeveralContainers { uid: uid(), count, known })
        }
    }
}

/// Each container as a worker of its own, by its id.
fn watched(pod: &PodUid, container: &str) -> WatchedWorker {
    WatchedWorker {
        marker: container.to_owned(),
        process: None,
        checkpoint_dir: None,
        pod: Some(PodWorker {
            uid: pod.clone(),
            container: container.to_owned(),
            name: String::new(),
            is_ended_by_kubelet: false,
        }),
    }
}

fn is_sandbox(worker: &WorkerProcesses) -> bool {
    let lives = |state: ProcessState| !matches!(state, ProcessState::Zombie | ProcessState::Dead);
    let mut living = worker.processes.iter().filter(|process| lives(process.state));
    living.all(|process| process.comm == SANDBOX)
}

fn found_pod(
    worker: &WorkerProcesses,
    containers: &BTreeMap<String, Container>,
) -> Option<FoundPod> {
    let container = containers.get(&worker.marker)?;
    // Where nothing tells them apart the container's first process is its only rank.
    let main = worker.main?;
    let ranks = if worker.ranks.is_empty() { vec![main] } else { worker.ranks.clone() };
    Some(FoundPod { container: worker.marker.clone(), cgroup: container.path.clone(), main, ranks })
}
