use sluice_core::volume::read_ahead::{Asked, Intent};

use super::{ASKED_MAX, parse};

fn volume(name: &str, handle: &str, options: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: {name}}}\nspec:\n  mountOptions: {options}\n  \
         capacity: {{storage: 300Gi}}\n  csi: {{driver: pd.csi.storage.gke.io, volumeHandle: {handle}, readOnly: true}}\n"
    )
}

const HANDLE: &str = "projects/p/zones/us-central1-a/disks/model1";

#[test]
fn mount_options_of_persistent_volumes_are_read_as_the_driver_reads_them() {
    let other = "---\nkind: PersistentVolume\nspec:\n  mountOptions: [read_ahead_kb=1]\n  csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}\n";
    let quiet = volume("quiet", "projects/p/zones/z/disks/quiet", "[noatime]");
    let text = format!(
        "{}{}{other}{quiet}---\nkind: Pod\nspec: {{containers: []}}\n",
        volume("model", HANDLE, "[\"noatime,read_ahead_kb=4096\", read_ahead_kb=128]"),
        volume("all", "projects/p/zones/multi-zone/disks/all", "[read_ahead_kb=8192]"),
    );
    let expected: Asked = [
        (HANDLE.to_owned(), Intent { asked_kib: 4_096 }),
        ("projects/p/zones/multi-zone/disks/all".to_owned(), Intent { asked_kib: 8_192 }),
    ]
    .into();
    assert_eq!(parse(&text), Ok(expected));
}

#[test]
fn list_as_kubectl_prints_it_is_read() {
    let text = format!(
        r#"{{"kind":"List","items":[{{"kind":"PersistentVolume","metadata":{{"name":"model"}},"spec":{{"mountOptions":["read_ahead_kb=4096"],"csi":{{"driver":"pd.csi.storage.gke.io","volumeHandle":"{HANDLE}"}}}}}}]}}"#
    );
    assert_eq!(parse(&text), Ok([(HANDLE.to_owned(), Intent { asked_kib: 4_096 })].into()));
}

#[test]
fn what_cannot_be_asked_for_names_the_volume_and_says_why() {
    let why = |text: &str| parse(text).unwrap_err();
    let said = why(&volume("model", HANDLE, "[read_ahead_kb=-1]"));
    assert!(said.starts_with("PersistentVolume \"model\": read_ahead_kb is \"-1\""), "{said}");
    let said = why(&volume("model", "../../etc", "[read_ahead_kb=4096]"));
    assert!(said.contains("has the volumeHandle \"../../etc\", which is not"), "{said}");
    let twice =
        volume("a", HANDLE, "[read_ahead_kb=1024]") + &volume("b", HANDLE, "[read_ahead_kb=4096]");
    assert!(why(&twice).contains("of which another asks for 1024"), "{}", why(&twice));
    assert!(why("kind: [").starts_with("it is no YAML of PersistentVolumes"), "{}", why("kind: ["));
    let many: String = (0..=ASKED_MAX)
        .map(|i| volume("v", &format!("projects/p/zones/z/disks/d{i}"), "[read_ahead_kb=4096]"))
        .collect();
    assert_eq!(why(&many), "1025 volumes ask for a read-ahead; the limit is 1024");
}
