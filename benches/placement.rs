//! How long placement takes among 65,536 nodes of which 70 % are in use.
//!
//! `cargo bench --bench placement -- --quick` takes a minute. The first case is a yardstick: compare with it, not with
//! the figures of another machine.

#![forbid(unsafe_code)]

mod yardstick;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use sluice_core::kueue::model::{
    ClusterQueue, FlavorQuotas, Fungibility, NamespaceSelector, Preemption, QueueingStrategy,
    Quota, ResourceFlavor, ResourceGroup, StopPolicy, Topology,
};
use sluice_core::kueue::name::{FlavorName, WorkloadKey};
use sluice_core::kueue::snapshot::{Running, Setup, Snapshot};
use sluice_core::kueue::tas::{Assumed, Capacity, Node, Outcome, PodSetRequest};
use sluice_core::kueue::weight::FairWeight;
use sluice_core::kueue::whatif::WhatIf;
use sluice_core::kueue::workload::{
    Admission, PlacedDomain, Placement, PodSet, PodSetAdmission, Reservation, TopologyMode,
    TopologyRequest, Workload,
};
use yardstick::yardstick;

const NODES: usize = 65_536;
const NODES_PER_RACK: usize = 64;
const NODES_PER_BLOCK: usize = 1_024;
const LEVELS: [&str; 3] = ["cloud/block", "cloud/rack", "kubernetes.io/hostname"];

fn node(index: usize) -> Node {
    let name = format!("node-{index:05}");
    let labels = [
        (LEVELS[0], format!("block-{:02}", index / NODES_PER_BLOCK)),
        (LEVELS[1], format!("rack-{:04}", index / NODES_PER_RACK)),
        (LEVELS[2], name.clone()),
    ];
    Node {
        name,
        labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
        allocatable: [
            ("cpu".into(), 208_000),
            ("memory".into(), 1_800 << 30),
            ("nvidia.com/gpu".into(), 8),
            ("pods".into(), 110),
        ]
        .into(),
        taints: Vec::new(),
        is_ready: true,
        is_unschedulable: false,
        degraded: BTreeMap::new(),
    }
}

fn setup() -> Setup {
    let flavor = |name: &str| ResourceFlavor {
        name: name.into(),
        node_labels: BTreeMap::new(),
        taints: Vec::new(),
        tolerations: Vec::new(),
        topology: Some("cloud".into()),
    };
    let quotas = |flavor: &str| FlavorQuotas {
        flavor: flavor.into(),
        quotas: [("nvidia.com/gpu".into(), Quota { nominal: 1 << 20, ..Quota::default() })].into(),
    };
    let queue = ClusterQueue {
        name: "research".into(),
        cohort: None,
        strategy: QueueingStrategy::BestEffortFifo,
        groups: vec![ResourceGroup {
            resources: vec!["nvidia.com/gpu".into()],
            flavors: vec![quotas("reserved"), quotas("spot")],
        }],
        preemption: Preemption::NEVER,
        fungibility: Fungibility::DEFAULT,
        fair_weight: FairWeight::ONE,
        namespaces: NamespaceSelector::Matching(Vec::new()),
        checks: Vec::new(),
        stop: StopPolicy::None,
    };
    Setup {
        flavors: vec![flavor("reserved"), flavor("spot")],
        queues: vec![queue],
        topologies: vec![Topology {
            name: "cloud".into(),
            levels: LEVELS.map(str::to_owned).into(),
        }],
        nodes: (0..NODES).map(node).collect(),
        ..Setup::default()
    }
}

fn pod_set(count: u32, mode: TopologyMode) -> PodSet {
    PodSet {
        name: "main".into(),
        count,
        min_count: None,
        requests: [("cpu".into(), 96_000), ("nvidia.com/gpu".into(), 8)].into(),
        topology: Some(TopologyRequest { mode: Some(mode), ..TopologyRequest::default() }),
        tolerations: Vec::new(),
        node_selector: BTreeMap::new(),
        affinity_terms: Vec::new(),
    }
}

/// A workload with one pod of 8 GPUs on each of `nodes`.
fn running(index: usize, nodes: &[usize]) -> Running {
    let name = format!("job-{index:05}");
    let count = u32::try_from(nodes.len()).expect("a handful of nodes");
    let domain = |node: &usize| PlacedDomain { values: vec![format!("node-{node:05}")], pods: 1 };
    let admission = Admission {
        queue: "research".into(),
        pod_sets: vec![PodSetAdmission {
            name: "main".into(),
            count,
            flavors: [("nvidia.com/gpu".into(), "reserved".into())].into(),
            usage: [("nvidia.com/gpu".into(), 8 * i64::from(count))].into(),
            placement: Some(Placement {
                levels: vec![LEVELS[2].to_owned()],
                domains: nodes.iter().map(domain).collect(),
            }),
            delayed_placement: None,
        }],
    };
    Running::new(Arc::new(Workload {
        key: WorkloadKey::new("research", &name),
        uid: name,
        queue: "research".into(),
        local_queue: "research".into(),
        priority: 0,
        priority_boost: 0,
        created_at_ms: 0,
        pod_sets: vec![pod_set(count, TopologyMode::Unconstrained)],
        reclaimable: BTreeMap::new(),
        allowed_flavors: Vec::new(),
        reservation: Some(Reservation { at_ms: 0, is_admitted: true, admission }),
        eviction: None,
        unhealthy_nodes: Vec::new(),
        checks: BTreeMap::new(),
    }))
}

/// Seven of ten nodes, picked all over the cluster, are taken by gangs of eight.
fn cluster() -> (Snapshot, Vec<Running>) {
    let mut snapshot = Snapshot::new(setup());
    let taken: Vec<usize> = (0..NODES * 7 / 10).map(|index| index * 40_503 % NODES).collect();
    let gangs: Vec<Running> =
        taken.chunks(8).enumerate().map(|(index, nodes)| running(index, nodes)).collect();
    for gang in &gangs {
        snapshot.insert(gang.clone());
    }
    (snapshot, gangs)
}

fn place(snapshot: &Snapshot, pod_set: &PodSet, capacity: Capacity) -> Outcome {
    let topology = snapshot.topology(&"reserved".into()).expect("the flavor has a topology");
    topology.place(&[PodSetRequest::new(pod_set)], capacity, &mut Assumed::default())
}

fn placements(criterion: &mut Criterion) {
    let (mut snapshot, gangs) = cluster();
    let rack = || TopologyMode::Required(LEVELS[1].into());
    let block = TopologyMode::Preferred(LEVELS[0].into());
    let cases = [
        ("8 pods, required rack", pod_set(8, rack())),
        ("8 pods, preferred block", pod_set(8, block)),
        ("8 pods, unconstrained", pod_set(8, TopologyMode::Unconstrained)),
        ("1 pod", pod_set(1, TopologyMode::Unconstrained)),
        ("65 pods in a rack, which never fit", pod_set(65, rack())),
    ];
    for (capacity, of) in [(Capacity::Free, "free"), (Capacity::Empty, "empty")] {
        for (name, pod_set) in &cases {
            criterion.bench_function(&format!("place {name}, {of} capacity"), |bencher| {
                bencher.iter(|| black_box(place(&snapshot, pod_set, capacity)));
            });
        }
    }
    for (name, pod_set) in &cases {
        let mut next = gangs.iter().cycle();
        criterion.bench_function(&format!("place {name}, after a gang left"), |bencher| {
            bencher.iter(|| {
                let gang = next.next().expect("there are gangs");
                snapshot.remove(&gang.workload.key);
                let outcome = place(&snapshot, pod_set, Capacity::Free);
                snapshot.insert(gang.clone());
                black_box(outcome)
            });
        });
    }
    criterion.bench_function("place 8 pods of a shape not seen before", |bencher| {
        let mut cpu = 0;
        bencher.iter(|| {
            cpu += 1;
            let mut pod_set = pod_set(8, rack());
            pod_set.requests.insert("cpu".into(), cpu);
            black_box(place(&snapshot, &pod_set, Capacity::Free))
        });
    });
}

fn changes(criterion: &mut Criterion) {
    let (mut snapshot, gangs) = cluster();
    let flavor = FlavorName::from("reserved");
    let pod_set = pod_set(8, TopologyMode::Required(LEVELS[1].into()));
    black_box(place(&snapshot, &pod_set, Capacity::Free));
    let mut next = gangs.iter().cycle();
    criterion.bench_function("what if a gang were gone", |bencher| {
        bencher.iter(|| {
            let mut whatif = WhatIf::new(&snapshot);
            whatif.take_away(next.next().expect("there are gangs"));
            black_box(whatif.topology(&flavor).is_some())
        });
    });
    criterion.bench_function("what if a gang were gone, and a placement then", |bencher| {
        bencher.iter(|| {
            let mut whatif = WhatIf::new(&snapshot);
            whatif.take_away(next.next().expect("there are gangs"));
            let topology = whatif.topology(&flavor).expect("the flavor has a topology");
            let requests = [PodSetRequest::new(&pod_set)];
            black_box(topology.place(&requests, Capacity::Free, &mut Assumed::default()))
        });
    });
    criterion.bench_function("remove a gang and insert it again", |bencher| {
        bencher.iter(|| {
            let gang = next.next().expect("there are gangs");
            snapshot.remove(&gang.workload.key);
            snapshot.insert(gang.clone())
        });
    });
    criterion.bench_function("a node becomes unready and ready again", |bencher| {
        bencher.iter(|| {
            snapshot.set_node(Node { is_ready: false, ..node(12_345) });
            snapshot.set_node(node(12_345));
            black_box(snapshot.topology(&flavor).is_some())
        });
    });
    let mut is_late = false;
    criterion.bench_function(
        "a node joins, two trees of 65,536 nodes are planted anew",
        |bencher| {
            bencher.iter(|| {
                is_late = !is_late;
                let mut joining = node(12_345);
                joining.labels.insert("joined".to_owned(), is_late.to_string());
                snapshot.set_node(joining);
                black_box(snapshot.topology(&flavor).is_some())
            });
        },
    );
}

criterion_group!(benches, yardstick, placements, changes);
criterion_main!(benches);
