//! The test bed itself: a real Kueue on a real API server does with a Job what it does in a cluster.

use serde_json::Value;

use super::control_plane::ControlPlane;
use super::kueue;

/// One queue with quota for four GPUs, and a Job that asks for `gpus`.
pub(crate) const QUEUES: &str = "
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: l4}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: Never}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: l4
      resources: [{name: nvidia.com/gpu, nominalQuota: 4}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: default}
spec: {clusterQueue: research}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: serving}
value: 100
";

/// A suspended Job of one pod, in that queue.
pub(crate) fn job(name: &str, gpus: u32, class: Option<&str>) -> String {
    let class =
        class.map_or_else(String::new, |class| format!(", kueue.x-k8s.io/priority-class: {class}"));
    format!(
        "apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, namespace: default, labels: {{kueue.x-k8s.io/queue-name: team{class}}}}}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: none
        resources: {{limits: {{nvidia.com/gpu: {gpus}}}, requests: {{nvidia.com/gpu: {gpus}}}}}
"
    )
}

/// Whether the condition `kind` of `object` is true.
pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == kind && c["status"] == "True")
}

/// The Workload that Kueue has made for the Job `name`.
pub(crate) fn workload_of(list: &Value, name: &str) -> Option<Value> {
    let mut items = list["items"].as_array()?.iter();
    items.find(|item| item["metadata"]["ownerReferences"][0]["name"] == name).cloned()
}

#[test]
fn real_kueue_admits_a_job_and_its_pod_is_made() {
    let Some(mut plane) = ControlPlane::start("a real Kueue") else { return };
    kueue::start(&mut plane);
    plane.start_jobs();
    plane.apply(QUEUES);
    plane.apply(&job("train", 4, None));
    plane.apply(&job("more", 1, None));
    plane.wait("the Job to be admitted", &["workloads", "-n", "default"], |list| {
        is_true(&workload_of(list, "train")?, "Admitted").then_some(())
    });
    plane.wait("the pod of the Job", &["pods", "-n", "default"], |list| {
        let pods = list["items"].as_array()?;
        (pods.len() == 1 && pods[0]["metadata"]["ownerReferences"][0]["name"] == "train")
            .then_some(())
    });
    let workloads = plane.get(&["workloads", "-n", "default"]).unwrap();
    assert!(!is_true(&workload_of(&workloads, "more").unwrap(), "QuotaReserved"));
    plane.wait("the queue to count it", &["clusterqueue", "research"], |queue| {
        let status = &queue["status"];
        (status["reservingWorkloads"] == 1 && status["pendingWorkloads"] == 1).then_some(())
    });
}
