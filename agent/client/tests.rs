//! Files of workers, good and bad.

use std::os::unix::fs::symlink;

use sluice_core::client::ClientPhase;

use super::*;

struct Bench {
    dir: tempfile::TempDir,
    files: ClientFiles,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let files = ClientFiles::new(dir.path().to_str().unwrap());
        Self { dir, files }
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let new = self.dir.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.dir.path().join(name)).unwrap();
    }

    fn hello(&self, rank: u32) {
        self.write(&format!("hello.{rank}.json"), format!("{{\"rank\":{rank},\"pid\":1}}"));
    }

    /// What is newly refused, and the problem that stands.
    fn problems(&mut self) -> (Vec<ClientProblem>, Option<ClientProblem>) {
        let look = self.files.look();
        (look.refused, look.seen.problem)
    }
}

fn ack(rank: u32, phase: &str) -> String {
    format!("{{\"rank\":{rank},\"drain_id\":\"drain-7\",\"phase\":\"{phase}\",\"step\":50}}")
}

#[test]
fn hellos_and_words_are_read_and_a_word_without_a_hello_is_not_listened_to() {
    let mut bench = Bench::new();
    bench.hello(8);
    bench.hello(9);
    bench.write("ack.9.json", ack(9, "saving"));
    bench.write("ack.10.json", ack(10, "saved"));
    let said = Ack {
        drain: "drain-7".parse().unwrap(),
        phase: ClientPhase::Saving,
        step: Some(50),
        detail: String::new(),
    };
    let expected = ClientSeen { ranks: [(8, None), (9, Some(said))].into(), problem: None };
    assert_eq!(bench.files.look().seen, expected);
    assert_eq!(bench.files.look().seen, expected, "files that did not change stay known");
    std::fs::remove_file(bench.dir.path().join("hello.9.json")).unwrap();
    assert_eq!(bench.files.look().seen.ranks, [(8, None)].into());
}

#[test]
fn a_directory_that_is_not_there_says_nothing() {
    let mut files = ClientFiles::new("/nonexistent/dir");
    assert_eq!(files.look().seen, ClientSeen::default());
    assert!(files.tell(&"drain-1".parse().unwrap(), ClientOrder::Save).is_err());
}

#[test]
fn every_bad_file_is_refused_once_with_its_reason() {
    let huge = format!("{{\"rank\":0,\"x\":\"{}\"}}", "x".repeat(70_000));
    for (text, expected) in [
        (huge.as_bytes(), ClientProblem::TooLarge),
        (b"".as_slice(), ClientProblem::Malformed),
        (b"{\"rank\":0".as_slice(), ClientProblem::Malformed),
        (b"\xff\xfe".as_slice(), ClientProblem::Malformed),
        (b"{\"rank\":-1}".as_slice(), ClientProblem::Malformed),
        (b"{\"rank\":3}".as_slice(), ClientProblem::WrongRank),
    ] {
        let mut bench = Bench::new();
        bench.write("hello.0.json", text);
        assert_eq!(bench.problems(), (vec![expected], Some(expected)));
        assert_eq!(bench.problems(), (vec![], Some(expected)), "it is not counted again");
        bench.hello(0);
        assert_eq!(bench.problems(), (vec![], None));
    }
}

#[test]
fn fields_that_are_not_known_are_passed_over_however_deep_they_are() {
    let mut bench = Bench::new();
    let deep = format!("{{\"rank\":0,\"x\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    bench.write("hello.0.json", deep);
    assert_eq!(bench.problems(), (vec![], None));
}

#[test]
fn words_that_mean_nothing_are_malformed() {
    let mut bench = Bench::new();
    bench.hello(0);
    for text in [
        ack(0, "done"),
        ack(0, "saved").replace("drain-7", "a drain"),
        ack(0, "saved").replace("50", "-1"),
    ] {
        bench.write("ack.0.json", text);
        assert_eq!(bench.problems().1, Some(ClientProblem::Malformed));
        assert!(bench.files.look().seen.is_there(), "its hello still counts");
    }
}

#[test]
fn links_pipes_and_directories_are_not_opened() {
    let mut bench = Bench::new();
    bench.hello(1);
    let path = |name: &str| bench.dir.path().join(name);
    symlink(path("hello.1.json"), path("hello.0.json")).unwrap();
    nix::unistd::mkfifo(&path("ack.1.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::fs::create_dir(path("hello.2.json")).unwrap();
    let look = bench.files.look();
    assert_eq!(look.refused, [ClientProblem::NotAFile; 3]);
    assert_eq!(look.seen.ranks, [(1, None)].into());
    assert_eq!(bench.files.look().refused, []);
}

#[test]
fn a_link_in_place_of_the_directory_is_not_followed() {
    let bench = Bench::new();
    bench.hello(0);
    let link = bench.dir.path().join("link");
    symlink(bench.dir.path(), &link).unwrap();
    let mut files = ClientFiles::new(link.to_str().unwrap());
    assert_eq!(files.look().seen, ClientSeen::default());
    assert!(files.tell(&"drain-1".parse().unwrap(), ClientOrder::Save).is_err());
}

#[test]
fn a_flood_of_files_is_looked_at_in_part_and_said() {
    let mut bench = Bench::new();
    for rank in 0..70 {
        bench.hello(rank);
    }
    let look = bench.files.look();
    assert_eq!(look.seen.ranks.len(), CLIENT_RANKS_MAX);
    assert_eq!(look.seen.problem, Some(ClientProblem::TooManyFiles));
    for number in 0..2_000 {
        std::fs::write(bench.dir.path().join(format!("rubbish-{number}")), "").unwrap();
    }
    assert_eq!(bench.files.look().seen.problem, Some(ClientProblem::TooManyFiles));
}

#[test]
fn an_order_is_written_in_one_piece_and_a_link_there_is_replaced() {
    let mut bench = Bench::new();
    let victim = bench.dir.path().join("victim");
    std::fs::write(&victim, "untouched").unwrap();
    symlink(&victim, bench.dir.path().join(DRAIN_FILE)).unwrap();
    symlink(&victim, bench.dir.path().join(DRAIN_FILE_NEW)).unwrap();
    bench.files.tell(&"drain-7".parse().unwrap(), ClientOrder::Save).unwrap();
    let text = std::fs::read_to_string(bench.dir.path().join(DRAIN_FILE)).unwrap();
    assert_eq!(text, "{\"drain_id\":\"drain-7\",\"state\":\"save\",\"version\":1}\n");
    bench.files.tell(&"drain-7".parse().unwrap(), ClientOrder::Continue).unwrap();
    assert_eq!(std::fs::read_to_string(victim).unwrap(), "untouched");
}

#[test]
fn a_word_that_it_may_go_on_is_written_at_a_later_look_if_it_could_not_be_at_once() {
    let mut bench = Bench::new();
    let (dir, away) = (bench.dir.path().join("w"), bench.dir.path().join("away"));
    std::fs::create_dir(&dir).unwrap();
    bench.files = ClientFiles::new(dir.to_str().unwrap());
    let drain = "drain-7".parse().unwrap();
    let text = || std::fs::read_to_string(dir.join(DRAIN_FILE)).unwrap();
    bench.files.tell(&drain, ClientOrder::Save).unwrap();
    std::fs::rename(&dir, &away).unwrap();
    bench.files.tell(&drain, ClientOrder::Continue).unwrap_err();
    bench.files.look();
    std::fs::rename(&away, &dir).unwrap();
    assert_eq!(text(), "{\"drain_id\":\"drain-7\",\"state\":\"save\",\"version\":1}\n");
    bench.files.look();
    assert_eq!(text(), "{\"drain_id\":\"drain-7\",\"state\":\"continue\",\"version\":1}\n");
}

#[test]
fn a_later_order_takes_the_place_of_one_that_could_not_be_written() {
    let mut bench = Bench::new();
    let (dir, away) = (bench.dir.path().join("w"), bench.dir.path().join("away"));
    bench.files = ClientFiles::new(dir.to_str().unwrap());
    bench.files.tell(&"drain-7".parse().unwrap(), ClientOrder::Continue).unwrap_err();
    std::fs::create_dir(&away).unwrap();
    std::fs::rename(&away, &dir).unwrap();
    bench.files.tell(&"drain-8".parse().unwrap(), ClientOrder::Save).unwrap();
    bench.files.look();
    let text = std::fs::read_to_string(dir.join(DRAIN_FILE)).unwrap();
    assert_eq!(text, "{\"drain_id\":\"drain-8\",\"state\":\"save\",\"version\":1}\n");
}
