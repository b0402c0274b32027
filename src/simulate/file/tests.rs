use tempfile::TempDir;

use super::*;
use crate::simulate::Measured;

const QUEUES: &str = "\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: a3}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  resourceGroups:
    - coveredResources: [cpu, nvidia.com/gpu]
      flavors:
        - name: a3
          resources:
            - {name: cpu, nominalQuota: 64}
            - {name: nvidia.com/gpu, nominalQuota: 8}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: local, namespace: research}
spec: {clusterQueue: team}
";

const TRACE: &str =
    "name,queue,arrival_ms,duration_ms,nvidia.com/gpu\nb,research/local,20,1,1\na,team,10,1,1\n";

fn directory() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("queues.yaml"), QUEUES).unwrap();
    std::fs::write(dir.path().join("jobs.csv"), TRACE).unwrap();
    dir
}

fn read(text: &str) -> Result<Scenario, String> {
    let dir = directory();
    std::fs::write(dir.path().join("s.yaml"), text).unwrap();
    let prefix = format!("{}/", dir.path().display());
    load(&dir.path().join("s.yaml"), &Overrides::default())
        .map_err(|error| error.to_string().replace(&prefix, ""))
}

#[test]
fn files_are_relative_to_the_file_that_names_them() {
    let text = "\
cluster: {queues: [queues.yaml]}
trace: {csv: jobs.csv}
policy: compat
fair_sharing: true
measure: nvidia.com/gpu
kill_grace_ms: 5
end_ms: 100
";
    let scenario = read(text).unwrap();
    let jobs: Vec<(&str, &str)> =
        scenario.jobs.iter().map(|job| (job.name.as_str(), job.queue.as_str())).collect();
    assert_eq!(jobs, [("a", "team"), ("b", "team")], "by arrival");
    assert_eq!(scenario.measured, Measured { resource: "nvidia.com/gpu".into(), capacity: 8 });
    assert_eq!(scenario.policy, PolicyName::Compat);
    assert!(scenario.is_fair_sharing);
    assert_eq!((scenario.kill_grace_ms, scenario.end_ms), (5, Some(100)));
}

#[test]
fn what_cannot_be_used_is_named_with_its_place() {
    let error = |text: &str| read(text).unwrap_err();
    let cluster = "cluster: {queues: [queues.yaml]}\n";
    assert_eq!(
        error(&format!("{cluster}trace: {{}}\n")),
        "s.yaml: trace must have one of csv, json and generate"
    );
    let generate =
        "trace:\n  generate:\n    - {class: x, count: 1, duration_ms: 1, resources: {cpu: huge}}\n";
    assert_eq!(
        error(&format!("{cluster}{generate}")),
        "s.yaml:4: trace.generate[0].cpu is \"huge\" but must be a quantity such as 8, 500m or 16Gi"
    );
    let misspelt = error(&format!("{cluster}trace: {{csv: jobs.csv}}\npolicies: compat\n"));
    assert!(misspelt.starts_with("s.yaml:3: ") && misspelt.contains("policies"), "{misspelt}");
    let policy = error(&format!("{cluster}trace: {{csv: jobs.csv}}\npolicy: kubernetes\n"));
    assert!(policy.starts_with("s.yaml:3: ") && policy.contains("kubernetes"), "{policy}");
    let measure = error(&format!("{cluster}trace: {{csv: jobs.csv}}\nmeasure: cpu\n"));
    assert_eq!(measure, "s.yaml:3: measure is \"cpu\", which no workload requests");
    let nodes = "cluster:\n  queues: [queues.yaml]\n  nodes:\n    - {name: n, count: 2, allocatable: {cpu: 1}}\n";
    assert_eq!(
        error(&format!("{nodes}trace: {{csv: jobs.csv}}\n")),
        "s.yaml:4: cluster.nodes[0].name must contain {} where there are several: names are unique"
    );
    let missing = error("cluster: {queues: [none.yaml]}\ntrace: {csv: jobs.csv}\n");
    assert!(missing.starts_with("none.yaml: cannot be read: "), "{missing}");
    assert!(error("cluster: [").starts_with("s.yaml:"));
    let nobody = error("cluster: {queues: []}\ntrace: {csv: jobs.csv}\n");
    assert!(nobody.starts_with("jobs.csv:2: column queue of workload \"b\" is "), "{nobody}");
}

#[test]
fn names_are_unique() {
    let dir = directory();
    let twice = format!("{TRACE}a,team,30,1,1\n");
    std::fs::write(dir.path().join("jobs.csv"), twice).unwrap();
    let overrides =
        Overrides { queues: vec![dir.path().join("queues.yaml")], ..Overrides::default() };
    let error = load(&dir.path().join("jobs.csv"), &overrides).unwrap_err().to_string();
    assert!(
        error.ends_with("jobs.csv: two workloads are called \"a\"; names are unique"),
        "{error}"
    );
}

#[test]
fn a_bare_trace_needs_nodes_or_queues() {
    let dir = directory();
    let path = dir.path().join("plain.csv");
    std::fs::write(&path, "name,arrival_ms,duration_ms,nvidia.com/gpu\na,0,1,16\n").unwrap();
    let error = load(&path, &Overrides::default()).unwrap_err().to_string();
    assert!(error.contains("--nodes and --gpus-per-node or with --queues"), "{error}");
    let nodes = PlainNodes { count: 4, gpus_per_node: 8 };
    let overrides = Overrides { nodes: Some(nodes), ..Overrides::default() };
    let scenario = load(&path, &overrides).unwrap();
    assert_eq!(scenario.measured, Measured { resource: "nvidia.com/gpu".into(), capacity: 32 });
    assert_eq!((scenario.setup.queues.len(), scenario.setup.nodes.len()), (1, 4));
    let document = load(&dir.path().join("queues.yaml"), &overrides).unwrap_err().to_string();
    assert!(document.contains("--queues and --nodes go with a bare trace only"), "{document}");
}

#[test]
fn kueues_own_shapes_have_kueues_own_numbers() {
    for (name, queues, nodes, jobs, classes) in [
        ("baseline", 30, 0, 15_000, 3),
        ("large-scale", 1_000, 0, 50_000, 3),
        ("tas", 30, 640, 15_000, 9),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/simulate");
        let path = path.join(name).with_extension("yaml");
        let scenario = load(&path, &Overrides::default()).unwrap();
        assert_eq!(scenario.warnings, Vec::<String>::new(), "{name}");
        let found: BTreeSet<&str> = scenario.jobs.iter().map(|job| job.class.as_str()).collect();
        let setup = &scenario.setup;
        let counts = (setup.queues.len(), setup.nodes.len(), scenario.jobs.len(), found.len());
        assert_eq!(counts, (queues, nodes, jobs, classes), "{name}");
        let quota = i64::try_from(queues).unwrap() * 20_000;
        assert_eq!(scenario.measured, Measured { resource: "cpu".into(), capacity: quota });
    }
}
