use super::*;

fn generator() -> Generator {
    let text = "{class: small, queues: 'team-*', count: 3, first_arrival_ms: 100, interval_ms: 50, duration_ms: 1000, resources: {cpu: 1}}";
    serde_saphyr::from_str(text).unwrap()
}

fn queues() -> Vec<QueueName> {
    ["other", "team-a", "team-b"].map(QueueName::from).into()
}

fn made(generator: &Generator, seed: u64) -> Vec<(String, u64, u64)> {
    let jobs = generator.jobs(0, &queues(), seed).unwrap();
    jobs.into_iter().map(|job| (job.name, job.arrival_ms, job.work.duration_ms)).collect()
}

#[test]
fn each_queue_that_matches_gets_its_own() {
    let expected = ["team-a", "team-b"].map(|queue| {
        [100, 150, 200].map(|at| (format!("small-{queue}-0-{}", (at - 100) / 50), at, 1_000))
    });
    assert_eq!(made(&generator(), 0), expected.concat());
}

#[test]
fn bursts_arrive_together() {
    let bursts = Generator { burst: 2, ..generator() };
    let arrivals: Vec<u64> = made(&bursts, 0).into_iter().map(|(_, at_ms, _)| at_ms).collect();
    assert_eq!(arrivals, [100, 100, 150, 100, 100, 150]);
}

#[test]
fn random_numbers_depend_on_the_seed_alone_and_stay_in_range() {
    let random = Generator {
        arrivals: Arrivals::Random,
        duration_spread_percent: 20,
        count: 200,
        ..generator()
    };
    let jobs = made(&random, 7);
    assert_eq!(jobs, made(&random, 7));
    assert_ne!(jobs, made(&random, 8));
    assert!(jobs.iter().all(|(_, _, duration_ms)| (800..=1_200).contains(duration_ms)));
    let gaps = jobs[..200].windows(2).map(|pair| pair[1].1 - pair[0].1);
    assert!(gaps.clone().all(|gap_ms| gap_ms <= 100) && gaps.min() < Some(10));
    // The queues get different numbers.
    assert_ne!(jobs[1].1, jobs[201].1);
}

#[test]
fn what_cannot_be_made_is_named() {
    let problem = |generator: Generator| {
        let bad = generator.jobs(0, &queues(), 0).unwrap_err();
        format!("{} {}", bad.field, bad.problem)
    };
    let nobody = Generator { queues: "x*".to_owned(), ..generator() };
    assert_eq!(problem(nobody), "queues is \"x*\", which no cluster queue matches");
    let many = Generator { count: 600_000, ..generator() };
    assert_eq!(problem(many), "count is 600000 for each of 2 queues, more than 1000000 workloads");
    let burst = Generator { burst: 0, ..generator() };
    assert_eq!(problem(burst), "burst is 0 but must be 1 or more");
    let spread = Generator { duration_spread_percent: 101, ..generator() };
    assert_eq!(problem(spread), "duration_spread_percent is 101 but must be from 0 to 100");
    let short = Generator { duration_ms: 0, ..generator() };
    assert_eq!(problem(short), "duration_ms is 0 but must be from 1 to 315360000000");
}

#[test]
fn a_star_stands_for_any_text() {
    for (pattern, name) in [
        ("*", ""),
        ("a*", "abc"),
        ("*c", "abc"),
        ("a*c", "abc"),
        ("a*b*c", "axbxc"),
        ("abc", "abc"),
    ] {
        assert!(matches(pattern, name), "{pattern} {name}");
    }
    for (pattern, name) in [("a", "ab"), ("a*c", "ab"), ("b*", "abc"), ("a*b*c", "acb"), ("", "a")]
    {
        assert!(!matches(pattern, name), "{pattern} {name}");
    }
}
