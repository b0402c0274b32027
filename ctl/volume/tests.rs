use clap::Parser as _;
use expect_test::expect;
use sluice_core::volume::plan::plan;

use super::plan::{PlanArgs, ask, render};
use super::{manifest, parse_bytes, table};
use crate::paint;

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    args: PlanArgs,
}

fn shown(line: &str) -> String {
    let words = std::iter::once("plan").chain(line.split_whitespace());
    let args = Line::try_parse_from(words).unwrap().args;
    let (ask, mut findings) = ask(&args).unwrap();
    let limits = table(None).unwrap();
    match plan(&limits, &ask) {
        Ok(plan) => paint::resolve(&render(&ask, &plan), false),
        Err(refused) => {
            findings.extend(refused);
            findings.iter().map(|f| format!("{}: {f}; {}\n", f.code(), f.hint())).collect()
        }
    }
}

#[test]
fn plan_of_sixteen_readers_is_shown_with_what_to_set() {
    let expected = expect![[r#"
        Volume:       hyperdisk-ml, 300 GiB
        Load:         16 readers x 130 GiB
        Throughput:   400 MiB/s to 480,000 MiB/s; 7,200 MiB/s if nothing is set
        Machines:     at most 600
        One machine:  2,400 MiB/s: c3-standard-44
        Known from:   Google's guide; measured there with fio: 2,407, 2026-11-30

        All readers at the same time
                                             PROVISIONED    READ-AHEAD   EACH READER   LOAD          LIMITED BY      STAGGERED
          nothing set, kernel's read-ahead   7,200 MiB/s    128 KiB      105 MiB/s     21 min 11 s   read-ahead      16 at once, 21 min 11 s
          nothing set                        7,200 MiB/s    4096 KiB     450 MiB/s     4 min 56 s    other readers   4 at once, 3 min 5 s
          advised                            28,800 MiB/s   4096 KiB     1.7 GiB/s     1 min 14 s    other readers   16 at once, 1 min 14 s
          STAGGERED: readers served at full speed at once, and the mean time until one is done

        To know
          warning: without provisioned-throughput-on-create the volume gets 7,200 MiB/s, all of which is taken from the regional quota and billed; set 28,800 MiB/s (volume-default-throughput)
          note: a hyperdisk-ml that was made READ_ONLY_MANY never becomes writable again; write it, detach it, then share it; for a new version make a new volume (volume-read-only-for-good)
          note: throughput can be changed once in 6 h and size once in 4 h: too slow to help one load (volume-change-slow)

        To set
          apiVersion: storage.k8s.io/v1
          kind: StorageClass
          metadata:
            name: hyperdisk-ml-28800
          provisioner: pd.csi.storage.gke.io
          parameters:
            type: hyperdisk-ml
            provisioned-throughput-on-create: "28800Mi"
          volumeBindingMode: WaitForFirstConsumer
          allowVolumeExpansion: false
          reclaimPolicy: Retain
          mountOptions:
            - read_ahead_kb=4096
    "#]];
    expected.assert_eq(&shown("--size 300Gi --readers 16 --bytes 140G --machine c3-standard-44"));
}

#[test]
fn throughput_without_a_unit_is_one_mib_and_says_so() {
    assert_eq!(
        shown("--size 300Gi --throughput 2400"),
        "volume-throughput-unit: \"2400\" is read as bytes a second and rounded up: 1 MiB/s; write \"2400Mi\" for MiB a \
         second\nvolume-throughput-too-low: 1 MiB/s is less than 300 GiB must have: at least 400 MiB/s; nearest legal: \
         400 MiB/s\n"
    );
}

#[test]
fn limit_of_a_node_is_above_zero() {
    let words = ["plan", "--size", "300Gi", "--node-limit", "0"];
    let refused = ask(&Line::try_parse_from(words).unwrap().args).unwrap_err();
    assert_eq!(refused.to_string(), "--node-limit is \"0\" but must be above 0");
}

#[test]
fn storage_class_sets_throughput_and_read_ahead() {
    let words = ["plan", "--size", "300Gi", "--readers", "16", "--bytes", "140G"];
    let (ask, _) = ask(&Line::try_parse_from(words).unwrap().args).unwrap();
    let plan = plan(&table(None).unwrap(), &ask).unwrap();
    let text = manifest::manifest(&ask, &plan);
    let class: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(
        class,
        serde_json::json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": { "name": "hyperdisk-ml-28800" },
            "provisioner": "pd.csi.storage.gke.io",
            "parameters": { "type": "hyperdisk-ml", "provisioned-throughput-on-create": "28800Mi" },
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": false,
            "reclaimPolicy": "Retain",
            "mountOptions": ["read_ahead_kb=4096"],
        })
    );
}

#[test]
fn sizes_are_quantities_above_zero() {
    assert_eq!(parse_bytes("140Gi"), Ok(140 << 30));
    assert_eq!(parse_bytes("1500m"), Ok(2));
    for text in ["0", "-1Gi", "x", "", "1e30"] {
        assert!(parse_bytes(text).is_err(), "{text}");
    }
}
