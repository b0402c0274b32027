use std::fs;

use sluice_core::volume::Mib;
use sluice_core::volume::limits::Sharing;

use super::{built_in, with_overrides};

fn over(text: &str) -> Result<sluice_core::volume::limits::Limits, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("limits.json");
    fs::write(&file, text).unwrap();
    let result = with_overrides(&file);
    result.map_err(|error| error.replace(&dir.path().display().to_string(), ""))
}

#[test]
fn every_built_in_row_has_source_and_date() {
    let limits = built_in();
    let origins = limits.disks.iter().map(|disk| &disk.origin);
    for origin in origins.chain(limits.machines.iter().map(|machine| &machine.origin)) {
        assert!(!origin.source.is_empty(), "{origin:?}");
        assert!(origin.as_of.parse::<jiff::civil::Date>().is_ok(), "{origin:?}");
    }
}

#[test]
fn built_in_limits_are_those_of_the_documents() {
    let limits = built_in();
    let ml = limits.disk("hyperdisk-ml").unwrap();
    assert_eq!(ml.throughput_default(300), Some(Mib(7_200)));
    assert_eq!((ml.throughput_min(300), ml.throughput_max(300)), (Mib(400), Mib(480_000)));
    assert_eq!(ml.machines_max(300), Some(600));
    let max = |name| limits.disk(name).unwrap().throughput.max;
    assert_eq!(max("hyperdisk-balanced"), Mib(2_400));
    assert_eq!(max("hyperdisk-balanced-high-availability"), Mib(2_400));
    assert_eq!(max("hyperdisk-extreme"), Mib(5_000));
    assert_eq!(limits.disk("hyperdisk-throughput").unwrap().sharing, Sharing::One);
    assert_eq!(limits.disk("hyperdisk-extreme").unwrap().sharing, Sharing::ReadWrite(None));
    let node = |machine, disk| limits.machine(machine, disk).unwrap().throughput.0;
    assert_eq!(node("tpu7x-standard-4t", "hyperdisk-balanced"), 1_200);
    assert_eq!(node("a3-ultragpu-8g", "hyperdisk-ml"), 4_000);
    assert_eq!(node("a3-highgpu", "hyperdisk-ml"), 2_400);
    assert_eq!(node("c3-highcpu-192-metal", "hyperdisk-ml"), 10_000);
}

#[test]
fn rows_of_the_operator_go_before_the_built_in_ones() {
    let row = r#"{"machines": [{"pattern": "a4-*", "mib": 3600, "source": "measured", "as_of": "2026-12-01"}]}"#;
    let limits = over(row).unwrap();
    let rule = limits.machine("a4-highgpu-8g", "hyperdisk-ml").unwrap();
    assert_eq!((rule.throughput, rule.is_assumed), (Mib(3_600), false));
    assert_eq!(limits.disks, built_in().disks);
    let disk = r#"{"disks": [{"name": "hyperdisk-ml", "size_gib": {"min": 4, "max": 10},
        "throughput_mib": {"min": 1, "max": 2}, "iops": {"max": 3}, "source": "x", "as_of": "2026-12-01"}]}"#;
    let limits = over(disk).unwrap();
    assert_eq!(limits.disks.len(), built_in().disks.len());
    assert_eq!(limits.disk("hyperdisk-ml").unwrap().size_max_gib, 10);
}

#[test]
fn file_that_is_no_table_says_where_and_why() {
    let typo = over(r#"{"machines": [{"patern": "x"}]}"#).unwrap_err();
    assert!(typo.contains("unknown field `patern`") && typo.contains("line 1"), "{typo}");
    let zero = over(r#"{"machines": [{"pattern": "x", "mib": 0, "source": "", "as_of": ""}]}"#);
    assert_eq!(
        zero.unwrap_err(),
        "the limits in \"/limits.json\" cannot be used: machine \"x\": mib must be above 0"
    );
    let missing = with_overrides(std::path::Path::new("/nowhere/limits.json")).unwrap_err();
    assert!(
        missing.starts_with("could not read the limits in \"/nowhere/limits.json\": "),
        "{missing}"
    );
}
