//! A process that is looked at in the middle of `exec`, where the kernel shows an empty environment.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::super::ProcessSensor;

/// Looks at a process that does nothing but start itself anew: without a second reading some dozen of them show
/// nobody's process.
const LOOKS: usize = 4_000;

#[test]
fn process_in_the_middle_of_exec_still_belongs_to_its_worker() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("again");
    fs::write(&script, "#!/bin/sh\nexec \"$0\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut child = Command::new("/bin/sh")
        .args(["-c", "exec \"$0\""])
        .arg(&script)
        .env("SLUICE_WORKER", "again/1/0")
        .spawn()
        .unwrap();
    let mut sensor = ProcessSensor::new(Path::new("/"), None);
    // It has left what was forked and begun what it does once the marker is seen.
    while sensor.inspect(child.id(), None).is_none_or(|seen| seen.marker.is_none()) {}
    let nobodys = (0..LOOKS)
        .filter_map(|_| sensor.inspect(child.id(), None))
        .filter(|seen| seen.marker.as_deref() != Some("again/1/0"))
        .count();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(nobodys, 0, "of {LOOKS} looks");
}
