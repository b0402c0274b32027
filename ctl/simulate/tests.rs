use std::path::Path;

use clap::Parser as _;
use expect_test::{Expect, expect};

use super::*;
use crate::args::{Cli, Command};

fn arguments(flags: &[&str]) -> SimulateArgs {
    let all = ["sluice", "simulate"].into_iter().chain(flags.iter().copied());
    match Cli::try_parse_from(all).unwrap().command {
        Command::Simulate(args) => args,
        other => panic!("{other:?} is no simulation"),
    }
}

/// A training that serving needs the devices of, twice, on one node with 8 GPUs.
const TRACE: &str = "\
name,class,arrival_ms,priority,duration_ms,start_cost_ms,step_ms,save_interval_ms,save_duration_ms,nvidia.com/gpu
train,training,0,0,36000000,600000,10000,7200000,60000,8
serve-1,<serving>,6000000,10,1800000,30000,,,,4
serve-2,<serving>,20000000,10,1800000,30000,,,,8
";

fn runs(flags: &[&str]) -> (Scenario, Vec<Run>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.csv");
    std::fs::write(&path, TRACE).unwrap();
    let path = path.to_str().unwrap();
    let args = arguments(&[&[path, "--nodes", "1"], flags].concat());
    let scenario = load(Path::new(path), &overrides(&args)).unwrap();
    let runs = args.mode.modes().iter().map(|mode| run(&scenario, *mode).unwrap()).collect();
    (scenario, runs)
}

fn check(by: Option<By>, is_wide: bool, flags: &[&str], expected: &Expect) {
    let (scenario, runs) = runs(flags);
    let text = render::table(&scenario, &runs, by, is_wide);
    expected.assert_eq(&crate::paint::resolve(&text, false));
}

#[test]
fn both_modes_stand_side_by_side() {
    check(
        Some(By::Class),
        false,
        &[],
        &expect![[r#"
        3 workloads in 1 queue on 8 GPUs, policy sluice

                                                KILL          DRAIN
        finished                                3 of 3        3 of 3
        until the last ended                    14 h 16 min   11 h 36 min
        utilisation                             98.2 %        97.8 %
        useful work, of all capacity            75.2 %        92.6 %
        waiting, mean                           0 ms          40.0 s
        waiting, 95 of 100 below                0 ms          1 min 0 s
        waiting, longest                        0 ms          1 min 0 s
        arrival to end, mean                    5 h 5 min     4 h 13 min
        preemptions                             2             2
        lost (GPU-hours)                        24.24         2.67
          work done again (GPU-hours)           21.58         0.00
          starts after preemption (GPU-hours)   2.67          2.67
        saving and leaving (GPU-hours)          0.53          0.67
        saved by draining (GPU-hours)           -             21.44
        fairness (Jain, 1 is even)              1             1

        CLASS       MODE    FINISHED   WAIT MEAN   WAIT P95    PREEMPTED   USED %   LOST GPU-H   SAVED GPU-H
        <serving>   kill    2/2        0 ms        0 ms        0           5.3 %    0.00         0.00
        <serving>   drain   2/2        1 min 0 s   1 min 0 s   0           6.5 %    0.00         0.00
        training    kill    1/1        0 ms        0 ms        2           92.8 %   24.24        0.00
        training    drain   1/1        0 ms        0 ms        2           91.2 %   2.67         21.44
    "#]],
    );
}

#[test]
fn one_mode_and_a_wide_table_of_queues() {
    check(
        Some(By::Queue),
        true,
        &["--mode", "drain"],
        &expect![[r#"
        3 workloads in 1 queue on 8 GPUs, policy sluice

                                                DRAIN
        finished                                3 of 3
        until the last ended                    11 h 36 min
        utilisation                             97.8 %
        useful work, of all capacity            92.6 %
        waiting, mean                           40.0 s
        waiting, 95 of 100 below                1 min 0 s
        waiting, longest                        1 min 0 s
        arrival to end, mean                    4 h 13 min
        preemptions                             2
        lost (GPU-hours)                        2.67
          work done again (GPU-hours)           0.00
          starts after preemption (GPU-hours)   2.67
        saving and leaving (GPU-hours)          0.67
        saved by draining (GPU-hours)           21.44
        fairness (Jain, 1 is even)              1

        QUEUE     MODE    FINISHED   WAIT MEAN   WAIT P95    PREEMPTED   USED %   LOST GPU-H   SAVED GPU-H   WAIT P50    WAIT MAX    ARRIVAL TO END   ADMITTED   USEFUL GPU-H   SAVING GPU-H
        default   drain   3/3        40.0 s      1 min 0 s   2           97.8 %   2.67         21.44         1 min 0 s   1 min 0 s   4 h 13 min       5          86.00          0.67
    "#]],
    );
}

#[test]
fn the_plot_has_all_runs_and_escapes_foreign_text() {
    let (scenario, runs) = runs(&[]);
    let svg = plot::draw(&scenario, &runs).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    for text in [
        "Utilisation of nvidia.com/gpu",
        "kill",
        "drain",
        "training",
        "&lt;serving&gt;",
        "GPU-hours",
    ] {
        assert!(svg.contains(text), "{text} is missing");
    }
    assert!(!svg.contains("<serving>"));
    assert_eq!(plot::draw(&scenario, &runs).unwrap(), svg, "the same input gives the same bytes");
}

#[test]
fn the_speed_counts_decisions_per_second_of_cpu() {
    let (_, mut runs) = runs(&["--mode", "kill"]);
    runs[0].cpu = Duration::from_millis(2_500);
    assert_eq!(
        render::speed(&runs[0]),
        "kill: 5 admissions and 2 preemptions in 2.500 CPU-seconds, 2 decisions per CPU-second"
    );
}

#[test]
fn flags_of_a_bare_trace_have_bounds() {
    for flags in
        [["x.csv", "--nodes", "0"], ["x.csv", "--gpus-per-node", "2000"], ["x.csv", "--mode", "x"]]
    {
        let all = ["sluice", "simulate"].into_iter().chain(flags);
        assert!(Cli::try_parse_from(all).is_err(), "{flags:?}");
    }
    let args = arguments(&["x.csv", "--nodes", "3", "--gpus-per-node", "4", "--seed", "9"]);
    let overrides = overrides(&args);
    assert_eq!(overrides.nodes, Some(PlainNodes { count: 3, gpus_per_node: 4 }));
    assert_eq!((overrides.seed, overrides.policy), (Some(9), None));
}

#[test]
fn a_plot_is_written_only_to_a_picture() {
    let message = |file: &str| check_plot(Path::new(file)).err().map(|e| e.to_string());
    assert_eq!(message("result.svg"), None);
    assert_eq!(message("dir/Result.SVG"), None);
    for file in ["jobs.csv", "svg", "cluster.yaml"] {
        let message = message(file).expect(file);
        assert!(message.contains("must end in .svg"), "{message}");
    }
}

#[test]
fn those_never_admitted_are_named_and_have_not_waited_no_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.csv");
    let trace = "name,arrival_ms,duration_ms,nvidia.com/gpu\nhuge,0,1000,64\nvast,0,1000,32\n";
    std::fs::write(&path, trace).unwrap();
    let args = arguments(&[path.to_str().unwrap(), "--nodes", "1", "--mode", "drain"]);
    let scenario = load(&path, &overrides(&args)).unwrap();
    let runs = [run(&scenario, Mode::Drain).unwrap()];
    let text = crate::paint::resolve(&render::table(&scenario, &runs, None, false), false);
    assert!(text.contains("never admitted: 2 (huge, vast)"), "{text}");
    let waiting = text.lines().find(|line| line.starts_with("waiting, mean")).unwrap();
    assert_eq!(waiting.split_whitespace().last(), Some("-"), "{waiting}");
}
