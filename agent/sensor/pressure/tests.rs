use sluice_core::sample::{Pressure, PressureLine, PressureSample};

use super::{PressureSensor, parse};
use crate::sensor::tests::host;

fn check(text: &str, expected: (Option<Pressure>, u32)) {
    let mut malformed = 0;
    let pressure = parse(text.as_bytes(), &mut malformed);
    assert_eq!((pressure, malformed), expected, "{text:?}");
}

fn line(avg10: u32, avg60: u32, avg300: u32, total_us: u64) -> PressureLine {
    PressureLine {
        avg10_permyriad: avg10,
        avg60_permyriad: avg60,
        avg300_permyriad: avg300,
        total_us,
    }
}

#[test]
fn lines_are_read_to_the_hundredth_of_a_per_cent() {
    check(
        "some avg10=100.00 avg60=0.28 avg300=0.05 total=18446744073709551615\n",
        (Some(Pressure { some: line(10_000, 28, 5, u64::MAX), full: None }), 0),
    );
}

#[test]
fn odd_lines_are_counted_and_never_end_in_a_panic() {
    for text in [
        "some",
        "some ",
        "some ...",
        "some avg10=nan avg60=0.00 avg300=0.00 total=1",
        "some avg10=-1.00 avg60=0.00 avg300=0.00 total=1",
        "some avg10=100.01 avg60=0.00 avg300=0.00 total=1",
        "some avg10=42949673.00 avg60=0.00 avg300=0.00 total=1",
        "some avg10=1.5 avg60=0.00 avg300=0.00 total=1",
        "some avg10=1.50 avg60=0.00 avg300=0.00",
        "some avg10=1.50 avg60=0.00 avg300=0.00 total=18446744073709551616",
    ] {
        check(text, (None, 1));
    }
    check("", (None, 0));
    check("full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n", (None, 0));
    check("later avg10=0.00\n", (None, 0));
}

#[test]
fn tree_of_a_vm_has_pressure_of_all_three() {
    let full = Some(line(62, 19, 21, 2_908_151));
    let pressure = |avg10| Some(Pressure { some: line(avg10, 28, 25, 3_138_821), full });
    assert_eq!(
        PressureSensor::new(&host("host-gce-a3")).sample(),
        Ok(PressureSample {
            cpu: pressure(125),
            memory: pressure(0),
            io: pressure(1234),
            malformed_lines: 0
        })
    );
}

#[test]
fn kernel_without_pressure_is_absent_and_no_failure() {
    assert_eq!(PressureSensor::new(&host("host-gce-g2")).sample(), Ok(PressureSample::default()));
    let broken = PressureSample { malformed_lines: 2, ..PressureSample::default() };
    assert_eq!(PressureSensor::new(&host("host-broken")).sample(), Ok(broken));
}
