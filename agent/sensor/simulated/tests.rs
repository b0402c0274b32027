use std::fs;

use sluice_core::sample::{DeviceFile, DeviceSample};

use super::{Accelerator, Simulated, SimulatedSensor, accelerators};

fn parse(text: &str) -> Simulated {
    text.parse().unwrap()
}

#[test]
fn flag_names_a_known_kind_and_a_count() {
    assert_eq!(
        parse("nvidia-l4=2"),
        Simulated {
            accelerator: Accelerator {
                kind: "nvidia-l4".to_owned(),
                resource_name: "nvidia.com/gpu".to_owned(),
                memory_bytes: 24 << 30,
                product_words: vec!["L4".to_owned()],
            },
            count: 2,
        }
    );
    for kind in accelerators() {
        assert!(kind.memory_bytes >= 1 << 34, "{kind:?}");
        assert_eq!(parse(&format!("{}=1", kind.kind)).accelerator, kind);
    }
}

#[test]
fn wrong_flags_say_how_to_put_it_right() {
    for text in
        ["nvidia-l4", "nvidia-l4=", "nvidia-l4=0", "nvidia-l4=65", "nvidia-l4=-1", "nvidia-l4=2=3"]
    {
        assert_eq!(
            text.parse::<Simulated>(),
            Err(format!("--simulate is \"{text}\" but must be KIND=COUNT with a count of 1 to 64"))
        );
    }
    let error = "nvidia-l5=1".parse::<Simulated>().unwrap_err();
    assert!(error.contains("\"nvidia-l5\"") && error.contains("nvidia-l4, nvidia-a100"), "{error}");
}

#[test]
fn devices_of_all_kinds_are_numbered_through_and_backed_by_files() {
    let state = tempfile::tempdir().unwrap();
    let simulated = [parse("nvidia-l4=1"), parse("tpu-v6e=1")];
    let sensor = SimulatedSensor::create(state.path(), "n-1", &simulated).unwrap();
    let device = |index: u32, kind: &str, resource_name: &str, gib: u64| DeviceSample {
        id: format!("sim-n-1-{index}"),
        kind: kind.to_owned(),
        resource_name: resource_name.to_owned(),
        index,
        is_simulated: true,
        is_present: true,
        parent: None,
        pci: Some(format!("ffff00:{index:02x}:00.0").parse().unwrap()),
        file: Some(DeviceFile::Simulated(format!("sim-n-1-{index}"))),
        memory_bytes: Some(gib << 30),
        memory_used_bytes: None,
        computing: None,
    };
    let gpu = device(0, "nvidia-l4", "nvidia.com/gpu", 24);
    let tpu = device(1, "tpu-v6e", "google.com/tpu", 32);
    assert_eq!(sensor.sample(), vec![gpu.clone(), tpu.clone()]);

    fs::remove_file(state.path().join("devices/sim-n-1-1")).unwrap();
    assert_eq!(sensor.sample(), vec![gpu, DeviceSample { is_present: false, ..tpu }]);
}

#[test]
fn restarted_agent_keeps_the_files_that_processes_hold_open() {
    let state = tempfile::tempdir().unwrap();
    let simulated = [parse("nvidia-l4=1")];
    SimulatedSensor::create(state.path(), "n1", &simulated).unwrap();
    fs::write(state.path().join("devices/sim-n1-0"), "kept").unwrap();
    SimulatedSensor::create(state.path(), "n1", &simulated).unwrap();
    assert_eq!(fs::read_to_string(state.path().join("devices/sim-n1-0")).unwrap(), "kept");
}

#[test]
fn impossible_devices_are_refused_with_a_reason() {
    let state = tempfile::tempdir().unwrap();
    let refused = |node: &str, text: &str| {
        let simulated = [parse(text), parse(text)];
        SimulatedSensor::create(state.path(), node, &simulated).unwrap_err()
    };
    assert_eq!(
        refused("../n1", "nvidia-l4=1"),
        "node name \"../n1\" cannot name simulated devices; use letters, digits, \"-\", \".\" and \"_\" only"
    );
    assert_eq!(
        refused("n1", "nvidia-l4=33"),
        "--simulate asks for 66 devices but one node has at most 64"
    );
    fs::write(state.path().join("devices"), "").unwrap();
    let error = refused("n1", "nvidia-l4=1");
    assert!(error.ends_with("; give the agent a state directory it may write to"), "{error}");
}
