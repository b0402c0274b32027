use super::{DeviceFile, SignalMasks};

#[test]
fn signal_numbers_outside_the_mask_are_never_caught() {
    let masks = SignalMasks { caught: 1 << 9 | 1 << 63 | 1, ignored: u64::MAX, blocked: u64::MAX };
    let caught: Vec<u32> = (0..200).filter(|signal| masks.catches(*signal)).collect();
    assert_eq!(caught, [1, 10, 64]);
    assert!(!masks.catches(u32::MAX));
}

#[test]
fn device_files_show_what_a_person_would_look_for() {
    let shown = |file: DeviceFile| file.to_string();
    assert_eq!(shown(DeviceFile::Nvidia(0)), "/dev/nvidia0");
    assert_eq!(shown(DeviceFile::NvidiaCap(30)), "/dev/nvidia-caps/nvidia-cap30");
    assert_eq!(shown(DeviceFile::Accel(3)), "/dev/accel3");
    assert_eq!(shown(DeviceFile::Vfio(12)), "/dev/vfio/12");
    assert_eq!(shown(DeviceFile::Simulated("sim-n1-0".to_owned())), "sim-n1-0");
}
