use super::*;
use crate::queue::Queues;

fn parsed(text: &str) -> Result<Change, String> {
    text.parse::<Change>().map_err(|reason| reason.to_string())
}

#[test]
fn every_form_of_a_what_if_text_is_read_and_printed_alike() {
    for text in [
        "priority=30",
        "priority=-5",
        "nnodes=2",
        "resource:nvidia.com/gpu=4",
        "resource:cpu=0",
        "queue=team/local",
        "topology=required=topology.example.com/rack",
        "topology=preferred=rack",
        "topology=unconstrained",
        "topology=none",
        "quota:research/a3/nvidia.com/gpu=+4",
        "quota:research/a3/cpu=-4",
        "without=train",
        "rule-off=lost-work",
        "rule-on=hysteresis",
    ] {
        assert_eq!(parsed(text).map(|change| change.to_string()), Ok(text.to_owned()));
    }
}

#[test]
fn a_bad_what_if_text_is_told_what_is_wrong_and_what_would_be_right() {
    let check = |text: &str, part: &str| {
        let message = parsed(text).expect_err(text);
        assert!(message.contains(part), "{text}: {message}");
        assert!(message.contains(&format!("{text:?}")), "{text}: {message}");
    };
    check("priority", "there is no \"=\"; use one of priority=N, nnodes=N");
    check("colour=red", "\"colour\" cannot be changed; use one of priority=N");
    check("priority=high", "\"high\" is not a priority; use -2147483648 to 2147483647");
    check("nnodes=0", "0 ranks; use 1 to ");
    check("resource:cpu=-1", "\"-1\" is not an amount per rank; use 0 and more");
    check("resource=4", "\"resource\" cannot be changed");
    check("queue=a b", "is not a name");
    check("topology=rack", "use one of required=LEVEL, preferred=LEVEL, unconstrained, none");
    check("topology=required:", "\"required:\" is no topology");
    let old: Change = "topology=preferred:rack".parse().unwrap();
    assert_eq!(old.to_string(), "topology=preferred=rack");
    check("quota:a/b=+1", "\"a/b\" names no queue, flavor and resource");
    check("quota:a/b/c=1", "\"1\" has no sign");
    check("quota:a/b/c=+x", "\"+x\" is not an amount");
    check("rule-off=luck", "\"luck\" is no rule; rules are lost-work, held-capacity");
}

#[test]
fn amounts_of_cpu_are_whole_cpus_outside_and_thousandths_inside() {
    let queues = Queues::without_file();
    let inside = |text: &str| text.parse::<Change>().unwrap().for_scheduler(&queues).unwrap();
    let fr = FlavorResource::new(&"default".into(), &"cpu".into());
    let quota = |more| scheduler::Change::Quota { queue: "default".into(), fr: fr.clone(), more };
    assert_eq!(inside("quota:default/default/cpu=+3"), quota(3_000));
    assert_eq!(inside("quota:default/default/cpu=-3"), quota(-3_000));
    let cpus = scheduler::Change::Resource("cpu".into(), 2_000);
    assert_eq!(inside("resource:cpu=2"), cpus);
}

#[test]
fn a_queue_of_what_if_that_there_is_not_is_named_with_those_that_there_are() {
    let change = "queue=elsewhere".parse::<Change>().unwrap();
    let refused = change.for_scheduler(&Queues::without_file()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "what-if \"queue=elsewhere\": there is no queue elsewhere; there are: default"
    );
}
