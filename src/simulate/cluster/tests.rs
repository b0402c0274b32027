use super::*;

fn nodes(text: &str) -> Result<Vec<Node>, String> {
    let set: NodeSet = serde_saphyr::from_str(text).unwrap();
    set.make().map_err(|bad| format!("{} {}", bad.field, bad.problem))
}

#[test]
fn nodes_are_numbered_in_names_and_labels() {
    let made = nodes(
        "{count: 4, name: 'n-{}', labels: {rack: 'r-{/2}', slot: 's{%2}'}, allocatable: {cpu: 96, memory: 1Ki}}",
    )
    .unwrap();
    let labels: Vec<Vec<&str>> =
        made.iter().map(|node| node.labels.values().map(String::as_str).collect()).collect();
    assert_eq!(
        labels,
        [["n-0", "r-0", "s0"], ["n-1", "r-0", "s1"], ["n-2", "r-1", "s0"], ["n-3", "r-1", "s1"]]
    );
    let has = [("cpu".into(), 96_000), ("memory".into(), 1_024), ("pods".into(), 110)].into();
    assert_eq!(made[3].allocatable, has);
}

#[test]
fn nodes_that_cannot_be_made_are_refused() {
    let error = |text| nodes(text).unwrap_err();
    assert_eq!(
        error("{count: 2, name: n, allocatable: {cpu: 1}}"),
        "name must contain {} where there are several: names are unique"
    );
    assert_eq!(
        error("{count: 0, name: n, allocatable: {cpu: 1}}"),
        "count is 0 but must be from 1 to 1000000"
    );
    assert_eq!(
        error("{name: n, labels: {rack: 'r{/0}'}, allocatable: {cpu: 1}}"),
        "labels.rack is \"r{/0}\"; in braces stand nothing, /N or %N, N from 1 on"
    );
    assert_eq!(
        error("{name: 'n{', allocatable: {cpu: 1}}"),
        "name is \"n{\"; in braces stand nothing, /N or %N, N from 1 on"
    );
    assert_eq!(
        error("{name: n, allocatable: {cpu: lots}}"),
        "allocatable.cpu is \"lots\" but must be a quantity such as 8, 500m or 16Gi"
    );
}

#[test]
fn queues_are_copied_into_cohorts() {
    let like = plain_setup(PlainNodes { count: 1, gpus_per_node: 8 }).queues;
    let set = |text: &str| {
        let set: QueueSet = serde_saphyr::from_str(text).unwrap();
        let made = set.make(&like).map_err(|bad| format!("{} {}", bad.field, bad.problem))?;
        let pair = |queue: ClusterQueue| format!("{} in {}", queue.name, queue.cohort.unwrap());
        Ok::<_, String>(made.into_iter().map(pair).collect::<Vec<_>>())
    };
    assert_eq!(
        set(
            "{like: default, cohorts: 2, queues_per_cohort: 2, cohort: 'c{cohort}', name: 'q{queue}-{cohort}'}"
        ),
        Ok(["q0-0 in c0", "q1-0 in c0", "q0-1 in c1", "q1-1 in c1"].map(str::to_owned).into())
    );
    assert_eq!(
        set("{like: none, queues_per_cohort: 1, cohort: c, name: q}"),
        Err("like is \"none\", which no ClusterQueue is called".to_owned())
    );
    assert_eq!(
        set("{like: default, queues_per_cohort: 2, cohort: c, name: q}"),
        Err("name must contain {queue} and {cohort} where there are several: names are unique"
            .to_owned())
    );
    assert_eq!(
        set("{like: default, queues_per_cohort: 0, cohort: c, name: q}"),
        Err("queues_per_cohort times cohorts must be from 1 to 100000".to_owned())
    );
}
