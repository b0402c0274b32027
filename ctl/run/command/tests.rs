use std::os::unix::fs::PermissionsExt as _;

use super::*;

#[test]
fn programs_are_found_as_a_shell_finds_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = dir.path().join("first");
    let second = dir.path().join("second");
    for (parent, name, mode) in
        [(&first, "tool", 0o644), (&second, "tool", 0o755), (&first, "plain", 0o644)]
    {
        std::fs::create_dir_all(parent).expect("created");
        std::fs::write(parent.join(name), "#!/bin/sh\n").expect("written");
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(parent.join(name), permissions).expect("set");
    }
    let path = std::env::join_paths([&first, &second]).expect("joins");
    let find = |name: &str| find_in(OsStr::new(name), &path);

    assert_eq!(find("tool"), Ok(second.join("tool")), "a file that is not executable is passed by");
    assert_eq!(find("plain").expect_err("is refused").exit, 126);
    assert_eq!(find("missing").expect_err("is refused").exit, 127);
    let full = second.join("tool");
    assert_eq!(find(full.to_str().expect("UTF-8")), Ok(full));
    assert_eq!(find(dir.path().to_str().expect("UTF-8")).expect_err("is refused").exit, 126);
    assert_eq!(find("/nowhere/tool").expect_err("is refused").exit, 127);
}

#[test]
fn names_come_from_the_command() {
    let mut rng = fastrand::Rng::with_seed(1);
    let name = workload_name(Path::new("/usr/bin/py thon3.12"), &mut rng);
    assert!(name.starts_with("python3.12-"), "{name}");
    assert!(name.parse::<sluice_core::id::WorkloadName>().is_ok(), "{name}");
    assert!(workload_name(Path::new("ÄÖ"), &mut rng).starts_with("run-"));
}
