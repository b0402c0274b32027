use super::*;

fn stage() -> Stage {
    let root = std::env::temp_dir().join(format!("sluice-demo-test-{:x}", fastrand::u64(..)));
    std::fs::create_dir(&root).unwrap();
    let nowhere = PathBuf::from("/nonexistent");
    let programs = Programs { sluice: nowhere.clone(), arbiter: nowhere.clone(), agent: nowhere };
    Stage { act: root.clone(), root, programs, actors: Vec::new() }
}

fn start(stage: &mut Stage, name: &str, role: Role, script: &str) {
    let flags = ["-c".to_owned(), script.to_owned()];
    stage.start(name, role, Path::new("/bin/sh"), &flags).unwrap();
}

async fn ended(stage: &mut Stage, name: &str) -> ExitStatus {
    for _ in 0..1_000 {
        if let Some(status) = stage.ended(name) {
            return status;
        }
        sleep(LOOK_PAUSE).await;
    }
    panic!("{name} goes on");
}

#[tokio::test]
async fn everything_is_ended_and_removed() {
    let mut stage = stage();
    start(&mut stage, "run", Role::Launcher, "exec sleep 60");
    start(&mut stage, "server", Role::Server, "exec sleep 60");
    assert_eq!(stage.ended("run"), None);
    assert_eq!(stage.end().await, Vec::<String>::new());
    assert!(!stage.ended("server").unwrap().success());
    assert_eq!(Lookout::new(&stage.mark()).look(), []);
    assert_eq!(stage.close(true).unwrap(), Some(stage.root.clone()));
    assert_eq!(stage.close(false).unwrap(), None);
    assert!(!stage.root.exists());
}

#[tokio::test]
async fn a_process_that_its_parent_left_behind_is_found_and_told() {
    let mut stage = stage();
    start(&mut stage, "run", Role::Launcher, "sleep 60 & exit 0");
    assert!(ended(&mut stage, "run").await.success());
    assert_eq!(stage.end().await, ["left-over processes: 1"]);
    assert_eq!(Lookout::new(&stage.mark()).look(), []);
    stage.close(false).unwrap();
}

#[tokio::test]
async fn a_server_that_ends_is_told_with_its_last_words() {
    let mut stage = stage();
    start(&mut stage, "server", Role::Server, "echo 'ready: 7'; printf 'half: '; exit 3");
    ended(&mut stage, "server").await;
    assert_eq!(stage.said("server", "ready: ").as_deref(), Some("7"));
    assert_eq!(stage.said("server", "half: "), None, "the line may not be whole");
    let failure = stage.check_servers().unwrap_err();
    let expected = "server ended by itself, exit status: 3\n        server.log: ready: 7\n        \
                    server.log: half: ";
    assert_eq!(failure.message, expected);
    stage.close(false).unwrap();
}

#[tokio::test]
async fn a_panic_ends_everything() {
    let mut stage = stage();
    start(&mut stage, "run", Role::Launcher, "exec sleep 60");
    start(&mut stage, "server", Role::Server, "sleep 60 & wait");
    end_on_panic(stage.mark());
    std::panic::catch_unwind(|| panic!("meant to be: this is a test")).unwrap_err();
    assert!(!ended(&mut stage, "run").await.success());
    assert!(!ended(&mut stage, "server").await.success());
    assert_eq!(Lookout::new(&stage.mark()).look(), []);
    stage.close(false).unwrap();
}
