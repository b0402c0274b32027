//! Each framework, imitated one operation at a time, with a look after every one.
//!
//! [`table`] says in which order each writes; what is asserted of all of them is here. A file that is written in place is
//! seen empty, half and whole.

mod hostile;
mod table;

use std::collections::BTreeMap;

use super::*;

/// One operation on the checkpoint directory. Paths are relative to it.
#[derive(Clone)]
pub(super) enum Op {
    Dir(String),
    /// In place: the file is there, empty, before its content is.
    Write(String, Vec<u8>),
    Rename(String, String),
    Remove(String),
}

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dir(path) => write!(f, "mkdir {path}"),
            Self::Write(path, content) => write!(f, "write {path} ({} bytes)", content.len()),
            Self::Rename(from, to) => write!(f, "rename {from} to {to}"),
            Self::Remove(path) => write!(f, "remove {path}"),
        }
    }
}

/// Contents of files by path, and directories with a slash at the end.
type Tree = BTreeMap<String, Vec<u8>>;

/// An entry to resume from, or none, or why the framework does not start.
type Resumed = Result<Option<String>, String>;

/// A framework: what it writes, and what it does at its next start.
pub(super) struct Framework {
    name: &'static str,
    format: CheckpointFormat,
    world_size: u32,
    /// All operations of the save of a step, in order. From the last one on the framework resumes from it.
    save: fn(u64) -> Vec<Op>,
    /// Its own rule for where to resume: an entry of the directory; `None`: from nothing. `Err`: it ends with an error.
    resume: fn(&Tree) -> Resumed,
    /// Nothing but sizes tells a cut file: it is found only where there was one before.
    is_sized_only: bool,
}

impl Framework {
    /// The operations of a save with every file written in place taken apart.
    fn steps(&self, step: u64) -> Vec<Op> {
        let apart = |op: Op| match op {
            Op::Write(path, content) if content.len() > 1 => {
                let half = content[..content.len() / 2].to_vec();
                let parts = [Vec::new(), half, content];
                parts.into_iter().map(|part| Op::Write(path.clone(), part)).collect()
            }
            other => vec![other],
        };
        (self.save)(step).into_iter().flat_map(apart).collect()
    }

    fn scene(&self, format: CheckpointFormat) -> Scene {
        let mut scene = Scene::new(format, self.world_size);
        if format == CheckpointFormat::Generic {
            scene.watcher.rules = CheckpointRules {
                glob: "model-*.npz".to_owned(),
                marker: if self.is_sized_only { String::new() } else { ".done".to_owned() },
                remote_dir: String::new(),
            };
        }
        scene
    }

    /// Declared, and found out where it can be.
    fn formats(&self) -> Vec<CheckpointFormat> {
        let mut formats = vec![self.format];
        if self.format != CheckpointFormat::Generic {
            formats.push(CheckpointFormat::Auto);
        }
        formats
    }

    /// Where it would resume now, as a step.
    fn resumed(&self, scene: &Scene) -> Result<Option<u64>, String> {
        let entry = (self.resume)(&tree(scene.directory.path()))?;
        let last = |entry: String| {
            let digits = entry.rsplit(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty());
            digits.unwrap().parse().unwrap()
        };
        Ok(entry.map(last))
    }
}

/// All that lies in a directory.
fn tree(directory: &Path) -> Tree {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                found.insert(format!("{name}/"), Vec::new());
                open.push(path);
            } else {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn apply(scene: &Scene, op: &Op) {
    match op {
        Op::Dir(path) => fs::create_dir_all(scene.path(path)).unwrap(),
        Op::Write(path, content) => scene.write(path, content),
        Op::Rename(from, to) => fs::rename(scene.path(from), scene.path(to)).unwrap(),
        Op::Remove(path) => fs::remove_file(scene.path(path)).unwrap(),
    }
}

fn save(scene: &Scene, framework: &Framework, step: u64) {
    (framework.save)(step).iter().for_each(|op| apply(scene, op));
}

/// What the agent does when the last worker has gone and `--quarantine-torn` is given.
fn put_aside(scene: &mut Scene) {
    scene.scan_at_rest();
    scene.watcher.mend_tracker().unwrap();
    let scan = scene.scan_at_rest();
    let newest = scan.newest().map(|checkpoint| checkpoint.step);
    for torn in scan.incomplete.iter().filter(|torn| torn.step.is_some() && torn.step > newest) {
        let _left = scene.watcher.quarantine(torn, &scene.written);
    }
}

#[test]
fn a_checkpoint_counts_after_the_last_operation_of_its_save_and_not_before() {
    for framework in table::all() {
        for format in framework.formats() {
            for is_first in [true, false] {
                if is_first && framework.is_sized_only {
                    continue;
                }
                let mut scene = framework.scene(format);
                let mut before = vec![];
                if !is_first {
                    save(&scene, &framework, 10);
                    before = vec![10];
                }
                assert_eq!(steps(&scene.scan_at_rest()), before, "{} {format}", framework.name);
                let ops = framework.steps(20);
                for (done, op) in ops.iter().enumerate() {
                    let scan = scene.scan_at_rest();
                    assert_eq!(steps(&scan), before, "{} {format} {done}: {op:?}", framework.name);
                    apply(&scene, op);
                }
                let scan = scene.scan_at_rest();
                let expected = [vec![20], before].concat();
                assert_eq!(steps(&scan), expected, "{} {format} {scan:?}", framework.name);
                assert!(!scan.saving, "{} {format} {scan:?}", framework.name);
                assert_eq!(framework.resumed(&scene), Ok(Some(20)), "{}", framework.name);
            }
        }
    }
}

#[test]
fn a_save_killed_anywhere_never_counts_and_what_is_torn_is_not_resumed_from() {
    for framework in table::all() {
        if let Some(format) = framework.formats().pop() {
            let ops = framework.steps(20);
            for done in 0..ops.len() {
                let mut scene = framework.scene(format);
                save(&scene, &framework, 10);
                ops[..done].iter().for_each(|op| apply(&scene, op));
                let told = format!("{} {format} {done}: {:?}", framework.name, ops.get(done));
                let scan = scene.scan_at_rest();
                assert!(!steps(&scan).contains(&20), "{told} {scan:?}");
                put_aside(&mut scene);
                let resumed = framework.resumed(&scene);
                let newest = scene.scan_at_rest().newest().map(|checkpoint| checkpoint.step);
                // A tracker torn after all shards were there is written anew; then the save has succeeded after all.
                assert!(newest == Some(10) || newest == Some(20), "{told}");
                assert_eq!(resumed, Ok(newest), "{told} {:?}", tree(scene.directory.path()).keys());
                assert_eq!(
                    newest == Some(20),
                    table::is_mended(&framework, &ops[..done]),
                    "{told}"
                );
            }
        }
    }
}

#[test]
fn a_save_over_an_old_one_takes_it_away_until_it_is_whole_again() {
    for framework in table::all().into_iter().filter(|f| f.format != CheckpointFormat::Orbax) {
        let mut scene = framework.scene(framework.format);
        save(&scene, &framework, 20);
        assert_eq!(steps(&scene.scan_at_rest()), [20], "{}", framework.name);
        // The shortest way to a torn one that looks old: the first file of the save is cut.
        let first = (framework.save)(20).into_iter().find_map(|op| match op {
            Op::Write(path, content) if content.len() > 1_000 => Some((path, content)),
            _ => None,
        });
        let (path, content) = first.unwrap();
        let final_path = tree(scene.directory.path()).into_keys().find(|found| *found == path);
        let Some(path) = final_path else { continue };
        scene.write(&path, &content[..content.len() / 2]);
        let scan = scene.scan_at_rest();
        assert_eq!(steps(&scan), Vec::<u64>::new(), "{} {path} {scan:?}", framework.name);
        scene.write(&path, &content);
        assert_eq!(steps(&scene.scan_at_rest()), [20], "{}", framework.name);
    }
}

#[test]
fn what_two_frameworks_wrote_is_said_and_nothing_of_it_counts() {
    let mut scene = Scene::new(CheckpointFormat::Auto, 1);
    for framework in table::all() {
        if ["Megatron", "Orbax"].contains(&framework.name) {
            save(&scene, &framework, 10);
        }
    }
    let scan = scene.scan_at_rest();
    let path = scene.directory.path().to_str().unwrap().to_owned();
    let formats = vec!["megatron", "orbax"];
    let problem = sluice_core::checkpoint::ScanProblem::Ambiguous { path, formats };
    assert_eq!(scan, CheckpointScan { problem: Some(problem), ..CheckpointScan::default() });
}
