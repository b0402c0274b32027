use proptest::prelude::*;

use super::{
    CHANGE_INTERVAL_MS, Costly, Driver, Kind, Mode, Mounts, REPAIRS_MAX, Rules, Spared, Subject,
    Tuner, Write, spare,
};
use crate::sample::VolumeRates;
use crate::volume::bottleneck::Bottleneck;
use crate::volume::{MIB_BYTES, Mib};

const REPAIR: Rules = Rules { mode: Mode::Repair, takes_loops: false };
const TUNE: Rules = Rules { mode: Mode::Tune, takes_loops: false };
const FREE: Costly = Costly { is_mapped: Some(false), available_kib: Some(64 << 20) };

/// A volume that may be touched.
fn subject(expected_kib: Option<u64>, actual_kib: u64) -> Subject {
    Subject {
        kind: Kind::Persistent,
        mounts: Mounts { count: 2, driver: Driver::Google, ..Mounts::default() },
        expected_kib,
        actual_kib: Some(actual_kib),
        is_opted_in: true,
        node_limit: Some(Mib(2_400)),
        ..Subject::default()
    }
}

fn look(tuner: &mut Tuner, now_ms: u64, rules: Rules, subject: &Subject) -> Option<Write> {
    tuner.look(now_ms, rules, subject, || FREE)
}

fn codes(tuner: &Tuner) -> Vec<&'static str> {
    tuner.findings().map(crate::volume::Finding::code).collect()
}

#[test]
fn drift_is_repaired_to_what_was_asked_for_and_given_back() {
    let mut tuner = Tuner::default();
    let set = Write::Set { before_kib: 512, kib: 4_096 };
    assert_eq!(look(&mut tuner, 0, REPAIR, &subject(Some(4_096), 512)), Some(set));
    tuner.was_set(0, 512, 4_096, Ok(4_096));
    assert_eq!(look(&mut tuner, 1_000, REPAIR, &subject(Some(4_096), 4_096)), None);
    assert_eq!(codes(&tuner), ["read-ahead-set"]);
    assert_eq!(tuner.give_back(4_096), Some(Write::Restore { kib: 512 }));
    // Somebody else's value is not overwritten at the end.
    assert_eq!(tuner.give_back(1_024), None);
}

#[test]
fn observing_writes_nothing_whatever_is_asked_for() {
    let mut tuner = Tuner::default();
    assert_eq!(look(&mut tuner, 0, Rules::default(), &subject(Some(4_096), 128)), None);
    assert_eq!(codes(&tuner), Vec::<&str>::new());
}

#[test]
fn value_that_the_kernel_forgets_is_set_again_once_in_ten_minutes_and_left_after_three_times() {
    let mut tuner = Tuner::default();
    let mut now_ms = 0;
    for _ in 0..REPAIRS_MAX {
        let set = Write::Set { before_kib: 128, kib: 4_096 };
        let drifted = subject(Some(4_096), 128);
        assert_eq!(look(&mut tuner, now_ms, REPAIR, &drifted), Some(set));
        tuner.was_set(now_ms, 128, 4_096, Ok(4_096));
        assert_eq!(look(&mut tuner, now_ms + CHANGE_INTERVAL_MS - 1, REPAIR, &drifted), None);
        now_ms += CHANGE_INTERVAL_MS;
    }
    assert_eq!(look(&mut tuner, now_ms, REPAIR, &subject(Some(4_096), 128)), None);
    assert_eq!(codes(&tuner), ["read-ahead-fought"]);
}

#[test]
fn values_that_switch_off_or_lower_or_never_helped_are_not_written() {
    let left = |expected_kib, actual_kib| {
        let mut tuner = Tuner::default();
        let write = look(&mut tuner, 0, REPAIR, &subject(Some(expected_kib), actual_kib));
        (write, tuner.findings().next().map(ToString::to_string))
    };
    let why = |spared: Spared| Some(format!("read-ahead is left as it is: {spared}"));
    // 1 to 3 KiB are 0 in whole pages.
    assert_eq!(left(0, 128), (None, why(Spared::AskedOff)));
    assert_eq!(left(4_096, 8_192), (None, why(Spared::Higher)));
    assert_eq!(left(32_768, 128), (None, why(Spared::AskedHuge)));
}

#[test]
fn what_the_kernel_does_not_take_or_nobody_may_write_is_tried_once() {
    for (read_back, code) in [
        (Ok(1_024), "read-ahead-not-taken"),
        (Err("Permission denied".to_owned()), "read-ahead-not-written"),
    ] {
        let mut tuner = Tuner::default();
        assert!(look(&mut tuner, 0, REPAIR, &subject(Some(4_096), 128)).is_some());
        tuner.was_set(0, 128, 4_096, read_back.clone());
        let actual_kib = read_back.clone().unwrap_or(128);
        let later = look(&mut tuner, CHANGE_INTERVAL_MS, REPAIR, &subject(Some(4_096), actual_kib));
        // What came of it is taken back.
        assert_eq!(later, read_back.ok().map(|_| Write::Restore { kib: 128 }));
        assert_eq!(codes(&tuner), [code]);
    }
}

#[test]
fn volume_that_is_unmounted_or_no_longer_asked_for_gets_back_what_it_had() {
    let restore = Some(Write::Restore { kib: 128 });
    let unmounted = Subject { mounts: Mounts::default(), ..subject(Some(4_096), 4_096) };
    for after in [unmounted, Subject { is_opted_in: false, ..subject(None, 4_096) }] {
        let mut tuner = Tuner::default();
        assert!(look(&mut tuner, 0, REPAIR, &subject(Some(4_096), 128)).is_some());
        tuner.was_set(0, 128, 4_096, Ok(4_096));
        assert_eq!(look(&mut tuner, 1, REPAIR, &after), restore);
        tuner.was_restored(1, 128, Ok(128));
        let after = Subject { actual_kib: Some(128), ..after };
        assert_eq!(look(&mut tuner, 2, REPAIR, &after), None);
    }
}

#[test]
fn everything_on_the_never_list_is_spared() {
    let fit = subject(None, 128);
    assert_eq!(spare(TUNE, &fit), None);
    let of_kind = |kind| Subject { kind, ..fit.clone() };
    let mounted = |mounts| Subject { mounts, ..fit.clone() };
    let m = fit.mounts;
    let cases = [
        (of_kind(Kind::Other), Spared::NotGoogles),
        (of_kind(Kind::LocalSsd), Spared::LocalSsd),
        (of_kind(Kind::Loop), Spared::Loop),
        (of_kind(Kind::Layer), Spared::Layer),
        (of_kind(Kind::Partition), Spared::Partition),
        (Subject { is_partitioned: true, ..fit.clone() }, Spared::Partitioned),
        (Subject { is_held: true, ..fit.clone() }, Spared::Held),
        (mounted(Mounts { is_root: true, ..m }), Spared::Root),
        (mounted(Mounts { is_block: true, ..m }), Spared::Block),
        (mounted(Mounts { count: 0, ..m }), Spared::NotMounted),
        (mounted(Mounts { is_writable: true, ..m }), Spared::Writable),
        (mounted(Mounts { is_odd_file_system: true, ..m }), Spared::FileSystem),
        (mounted(Mounts { driver: Driver::Other, ..m }), Spared::Driver),
        (mounted(Mounts { driver: Driver::Unknown, ..m }), Spared::Driver),
        (Subject { bottleneck: Bottleneck::Hung, ..fit.clone() }, Spared::Hung),
    ];
    for (subject, why) in cases {
        assert_eq!(spare(TUNE, &subject), Some(why), "{subject:?}");
    }
    // What was asked for by name may be set before kubelet has said who mounted it; loops only for trials.
    let asked =
        Subject { expected_kib: Some(4_096), ..mounted(Mounts { driver: Driver::Unknown, ..m }) };
    assert_eq!(spare(REPAIR, &asked), None);
    assert_eq!(spare(Rules { takes_loops: true, ..TUNE }, &of_kind(Kind::Loop)), None);
}

/// A volume with a reader of one stream: throughput as `rate_of` says for a read-ahead, in loads of `load_bytes_of`.
struct World<'a> {
    tuner: Tuner,
    now_ms: u64,
    kib: u64,
    writes: Vec<Write>,
    rate_of: &'a dyn Fn(u64) -> u64,
    load_bytes_of: &'a dyn Fn(u64) -> u64,
    costly: Costly,
}

impl World<'_> {
    fn sample(&mut self, bytes: u64, interval_ms: u64) {
        self.now_ms += interval_ms;
        let rates = VolumeRates {
            interval_ms,
            read_bytes_per_second: bytes * 1_000 / interval_ms,
            read_ios_per_second: if bytes > 0 { 1_000 } else { 0 },
            read_await_us: (bytes > 0).then_some(2_000),
            ..VolumeRates::default()
        };
        let bottleneck = if bytes > 0 { Bottleneck::ReadAhead } else { Bottleneck::Idle };
        let subject = Subject { rates: Some(rates), bottleneck, ..subject(None, self.kib) };
        let costly = self.costly;
        let Some(write) = self.tuner.look(self.now_ms, TUNE, &subject, || costly) else { return };
        self.writes.push(write);
        let before_kib = self.kib;
        match write {
            Write::Set { kib, .. } => {
                self.kib = kib;
                self.tuner.was_set(self.now_ms, before_kib, kib, Ok(kib));
            }
            Write::Restore { kib } => {
                self.kib = kib;
                self.tuner.was_restored(self.now_ms, kib, Ok(kib));
            }
        }
    }

    /// One load from its beginning to its end, then silence until the next change may come.
    fn load(&mut self) {
        let kib = self.kib;
        let (rate, mut left) = ((self.rate_of)(kib), (self.load_bytes_of)(kib));
        while left > 0 {
            let bytes = rate.min(left);
            self.sample(bytes, 1_000);
            left -= bytes;
        }
        for _ in 0..5 {
            self.sample(0, 1_000);
        }
        self.now_ms += CHANGE_INTERVAL_MS;
    }
}

fn world<'a>(
    rate_of: &'a dyn Fn(u64) -> u64,
    load_bytes_of: &'a dyn Fn(u64) -> u64,
    costly: Costly,
) -> World<'a> {
    let (tuner, writes) = (Tuner::default(), Vec::new());
    World { tuner, now_ms: 0, kib: 128, writes, rate_of, load_bytes_of, costly }
}

/// Measured at 2 ms: proportional to read-ahead until the volume's own limit.
fn capped(kib: u64) -> u64 {
    (kib * MIB_BYTES * 105 / 128).min(1_200 * MIB_BYTES)
}

#[test]
fn tuner_ends_within_five_per_cent_of_the_best_step_by_step() {
    let mut world = world(&capped, &|_| 16 << 30, FREE);
    for _ in 0..40 {
        world.load();
    }
    let best = (7..=14).map(|power| capped(1 << power)).max().unwrap();
    assert!(capped(world.kib) * 100 >= best * 95, "{} KiB: {:?}", world.kib, world.writes);
    for write in &world.writes {
        let Write::Set { before_kib, kib } = *write else { panic!("{write:?}") };
        assert!(kib == before_kib * 2 || kib * 2 == before_kib, "{write:?}");
    }
    assert_eq!(world.tuner.give_back(world.kib), Some(Write::Restore { kib: 128 }));
}

#[test]
fn step_that_gains_nothing_or_reads_more_is_taken_back_for_good() {
    let flat = |_| 100 * MIB_BYTES;
    let mut nothing = world(&flat, &|_| 4 << 30, FREE);
    // Twice as fast and twice as much: what was read ahead was not used.
    let wasteful = |kib: u64| kib * MIB_BYTES;
    let mut waste = world(&wasteful, &|kib| (kib << 30) / 32, FREE);
    for _ in 0..12 {
        nothing.load();
        waste.load();
    }
    let there_and_back =
        [Write::Set { before_kib: 128, kib: 256 }, Write::Set { before_kib: 256, kib: 128 }];
    for world in [&nothing, &waste] {
        assert_eq!(world.writes, there_and_back);
        assert_eq!(codes(&world.tuner), ["read-ahead-step-undone"]);
        assert_eq!(world.tuner.give_back(128), None);
    }
}

#[test]
fn mapped_files_unknown_mappings_and_little_memory_are_never_touched() {
    let cases = [
        (Costly { is_mapped: Some(true), ..FREE }, Spared::Mapped),
        (Costly { is_mapped: None, ..FREE }, Spared::MappedUnknown),
        (Costly { available_kib: Some(64 * 256), ..FREE }, Spared::LittleMemory),
        (Costly { available_kib: None, ..FREE }, Spared::LittleMemory),
    ];
    for (costly, why) in cases {
        let mut world = world(&capped, &|_| 16 << 30, costly);
        for _ in 0..8 {
            world.load();
        }
        assert_eq!((world.writes.as_slice(), world.kib), (&[][..], 128));
        let said = world.tuner.findings().next().unwrap().to_string();
        assert!(said.contains(&why.to_string()), "{said}");
    }
}

#[test]
fn value_of_another_hand_ends_all_steps_and_stays() {
    let mut world = world(&capped, &|_| 16 << 30, FREE);
    for _ in 0..5 {
        world.load();
    }
    assert_eq!(world.kib, 512);
    world.kib = 3_000;
    for _ in 0..6 {
        world.load();
    }
    assert_eq!((world.kib, codes(&world.tuner)), (3_000, vec!["read-ahead-left-alone"]));
    assert_eq!(world.tuner.give_back(3_000), None);
}

/// Times that pass, values that somebody sets meanwhile, values that are asked for; all in whole pages.
type Turn = (u64, Option<u64>, Option<u64>);

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let pages = || (0_u64..5_000).prop_map(|pages| pages * 4);
    let meanwhile = prop_oneof![3 => Just(None), 1 => pages().prop_map(Some)];
    let turn = (0..2 * CHANGE_INTERVAL_MS, meanwhile, proptest::option::of(pages()));
    proptest::collection::vec(turn, 1..30)
}

proptest! {
    #[test]
    fn no_turn_lowers_what_is_not_ours_or_writes_less_than_a_page(first in 0_u64..5_000, turns in turns()) {
        let (mut tuner, mut now_ms, mut actual_kib) = (Tuner::default(), 0, first * 4);
        // What the agent has set, as long as nobody else has set anything.
        let mut ours = None;
        for (passed_ms, meanwhile, expected_kib) in turns {
            now_ms += passed_ms;
            actual_kib = meanwhile.unwrap_or(actual_kib);
            match look(&mut tuner, now_ms, REPAIR, &subject(expected_kib, actual_kib)) {
                Some(Write::Set { before_kib, kib }) => {
                    prop_assert_eq!((before_kib, Some(kib)), (actual_kib, expected_kib));
                    prop_assert!(kib >= 4 && (kib > actual_kib || ours == Some(actual_kib)));
                    tuner.was_set(now_ms, before_kib, kib, Ok(kib));
                    (actual_kib, ours) = (kib, Some(kib));
                }
                Some(Write::Restore { kib }) => {
                    prop_assert_eq!(ours, Some(actual_kib));
                    tuner.was_restored(now_ms, kib, Ok(kib));
                    (actual_kib, ours) = (kib, None);
                }
                None => {}
            }
        }
    }
}
