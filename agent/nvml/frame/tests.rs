use sluice_core::sample::{
    DriverState, GpuFabric, GpuProcess, GpuSample, MigInstance, MigSample, NvLinkSample, Refusal,
    RemappedRows,
};

use super::{Answer, FrameError, Request, encode, take};

fn answer() -> Answer {
    let mut gpu = GpuSample {
        index: 3,
        uuid: Some("GPU-3".to_owned()),
        pci: "PCI:0009:01:00".parse().ok(),
        lost: Some(15),
        mig: MigSample {
            is_enabled: Some(true),
            is_enabled_after_reset: Some(false),
            instances: vec![MigInstance { index: 1, ..MigInstance::default() }],
        },
        rows: Some(RemappedRows { uncorrected: 4, is_pending: true, ..RemappedRows::default() }),
        nvlinks: vec![NvLinkSample { link: 0, is_active: true }, NvLinkSample::default()],
        fabric: Some(GpuFabric { state: 3, status: 0, health_mask: Some(0x1aa) }),
        recovery_action: Some(0),
        processes: Some(vec![GpuProcess { pid: 7, used_memory_bytes: None }]),
        refusals: vec![Refusal { call: "field 230".to_owned(), code: 999 }],
        ..GpuSample::default()
    };
    gpu.temperature.margin_celsius = Some(-3);
    gpu.ecc.corrected_volatile = Some(u64::MAX);
    let driver = DriverState::Running {
        version: Some("570.133.20".to_owned()),
        nvml_version: None,
        cuda_version: Some(12_080),
    };
    Answer { driver, gpus: vec![gpu, GpuSample::default()] }
}

#[test]
fn answer_comes_back_the_same_however_it_is_cut() {
    let frame = encode(&answer());
    let mut bytes = Vec::new();
    for byte in &frame[..frame.len() - 1] {
        bytes.push(*byte);
        assert_eq!(take::<Answer>(&mut bytes), Ok(None));
    }
    bytes.push(frame[frame.len() - 1]);
    bytes.extend(encode(&Answer::default()));
    assert_eq!(take(&mut bytes), Ok(Some(answer())));
    assert_eq!(take(&mut bytes), Ok(Some(Answer::default())));
    assert_eq!(bytes, Vec::<u8>::new());
}

#[test]
fn every_state_that_a_child_can_tell_comes_back_the_same() {
    let states = [
        DriverState::NotLoaded,
        DriverState::Mismatch,
        DriverState::LibraryMissing { why: "no such file".to_owned() },
        DriverState::Failed { code: Some(4), text: "no permission".to_owned() },
    ];
    for driver in states {
        let told = Answer { driver, gpus: Vec::new() };
        assert_eq!(take(&mut encode(&told)), Ok(Some(told)));
    }
    for request in [Request::Look, Request::End] {
        assert_eq!(take(&mut encode(&request)), Ok(Some(request)));
    }
}

#[test]
fn what_is_no_message_is_refused() {
    let taken = |bytes: &[u8]| take::<Answer>(&mut bytes.to_vec());
    assert_eq!(taken(b""), Ok(None));
    assert_eq!(taken(b"NVRM: loading"), Err(FrameError::Version(b'N')));
    assert_eq!(taken(&[1, 0xff, 0xff, 0xff, 0xff]), Err(FrameError::TooLong(0xffff_ffff)));
    assert_eq!(taken(&[1, 1, 0, 0, 0, 99]), Err(FrameError::Malformed(1)));
    // An answer and one byte too many.
    let mut long = encode(&Answer::default());
    long.push(0);
    long[1] += 1;
    assert_eq!(taken(&long), Err(FrameError::Malformed(long.len() - 5)));
}

#[test]
fn no_change_of_a_byte_makes_reading_fail_otherwise_than_by_refusing() {
    let frame = encode(&answer());
    for at in 5..frame.len() {
        for byte in [0, 1, 2, 0x7f, 0xff] {
            let mut changed = frame.clone();
            changed[at] = byte;
            match take::<Answer>(&mut changed) {
                Ok(Some(_)) => {}
                Err(FrameError::Malformed(len)) => assert_eq!(len, frame.len() - 5),
                other => panic!("byte {at} changed to {byte}: {other:?}"),
            }
        }
    }
}
