//! Tests of reading the kernel's log: forms, counting, bounds, and anything at all.

use proptest::prelude::*;

use super::{KernelEvent, KernelLog, Line, LogCounters, Occurrence, Record, parse_line};

/// A log and the number of its next record.
struct Bench {
    log: KernelLog,
    sequence: u64,
    uptime_us: u64,
}

impl Bench {
    fn new() -> Self {
        let log = KernelLog::new(None, LogCounters::default(), false);
        Self { log, sequence: 0, uptime_us: 0 }
    }

    fn write(&mut self, priority: u32, message: &[u8]) -> Option<KernelEvent> {
        self.sequence += 1;
        self.uptime_us += 10;
        let header = format!("{priority},{},{},-;", self.sequence, self.uptime_us);
        self.log.take(&[header.as_bytes(), message].concat())
    }

    fn say(&mut self, message: &str) -> Option<KernelEvent> {
        self.write(6, message.as_bytes())
    }
}

/// Address, code and process of an event about a GPU.
fn short(event: Option<KernelEvent>) -> Option<(String, u32, Option<u32>)> {
    match event?.what {
        Occurrence::Xid { line, .. } => Some((line.pci.to_string(), line.code, line.pid)),
        other => panic!("{other:?}"),
    }
}

fn check(message: &str, expected: Option<(&str, u32, Option<u32>)>) {
    let found = short(Bench::new().say(message));
    let expected = expected.map(|(pci, code, pid)| (pci.to_owned(), code, pid));
    assert_eq!(found, expected, "{message}");
}

#[test]
fn record_is_taken_apart_and_its_continuation_left_out() {
    let record = Record::parse(b"30,4711,99,c,more;NVRM: x;y\n SUBSYSTEM=pci\n").unwrap();
    assert_eq!((record.priority, record.sequence, record.uptime_us), (30, 4_711, 99));
    assert_eq!((record.facility(), record.message), (3, &b"NVRM: x;y"[..]));
    for broken in ["", ";", "6,1,2;x", "6,1,-;x", "a,1,2,-;x", "6,+1,2,-;x", "6,1,2,-x"] {
        assert_eq!(Record::parse(broken.as_bytes()), None, "{broken}");
    }
}

#[test]
fn every_spelling_of_an_xid_is_read() {
    check(
        "NVRM: Xid (PCI:0000:d8:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        Some(("0000:d8:00.0", 79, None)),
    );
    check(
        "NVRM: Xid (PCI:0000:b3:00.0): 79, pid=1234, name=python3, x",
        Some(("0000:b3:00.0", 79, Some(1_234))),
    );
    check("NVRM: Xid (0000:03:00): 14, Channel 00000001", Some(("0000:03:00.0", 14, None)));
    check("NVRM: Xid (PCI:0000:65:00): 46", Some(("0000:65:00.0", 46, None)));
    check(
        "NVRM: Xid (PCI:0009:01:00): 43, pid=2181, name=ray::WorkerDict, Ch 8",
        Some(("0009:01:00.0", 43, Some(2_181))),
    );
    check("NVRM: Xid (PCI:10000:01:00): 43", Some(("10000:01:00.0", 43, None)));
    check("NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.", Some(("0000:29:00.0", 79, None)));
    check(
        "NVRM: The NVIDIA GPU 0000:cb:00.0 (PCI ID: 10de:2330) installed in this system has fallen off the bus and is not responding to commands.",
        Some(("0000:cb:00.0", 79, None)),
    );
}

#[test]
fn what_is_named_like_a_message_is_none() {
    check("python3[7]: NVRM: Xid (PCI:0000:02:00): 79, x", None);
    check(" NVRM: Xid (PCI:0000:02:00): 79, x", None);
    check(
        "NVRM: Xid (PCI:0000:01:00): 43, pid=7, name=NVRM: Xid (PCI:0000:02:00): 79, x, Ch 8",
        Some(("0000:01:00.0", 43, Some(7))),
    );
}

#[test]
fn broken_messages_are_counted_and_no_event() {
    let mut bench = Bench::new();
    let long = format!("NVRM: Xid ({}", "9".repeat(8_192));
    for message in [
        "NVRM: Xid (PCI:0000:01:00): abc, x",
        "NVRM: Xid : 79, x",
        "NVRM: Xid (PCI:0000:01:00): ",
        "NVRM: Xid (PCI:0000:zz:00): 79, x",
        "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): x",
        &long,
    ] {
        assert_eq!(bench.say(message), None, "{message}");
    }
    assert_eq!(bench.write(6, b"NVRM: Xid \xff\xfe (PCI:"), None);
    assert_eq!(bench.log.take(b"no record at all"), None);
    let counters = bench.log.counters();
    assert_eq!((counters.unparsed, counters.malformed, counters.events), (7, 1, 0));
    // A name that is no UTF-8 keeps the message from nothing.
    assert!(
        bench.write(6, b"NVRM: Xid (PCI:0000:01:00): 43, pid=7, name=\xff\xfe, Ch 8").is_some()
    );
}

#[test]
fn three_messages_that_belong_together_are_one_event_with_others_between() {
    let mut bench = Bench::new();
    assert_eq!(bench.say("NVRM: The NVIDIA GPU 0000:cb:00.0"), None);
    assert_eq!(bench.say("NVRM: (PCI ID: 10de:2330) installed in this system has"), None);
    assert_eq!(bench.say("usb 1-1: new device"), None);
    let event = bench.say("NVRM: fallen off the bus and is not responding to commands.");
    assert_eq!(short(event), Some(("0000:cb:00.0".to_owned(), 79, None)));
    assert_eq!(bench.say("NVRM: fallen off the bus and is not responding to commands."), None);
}

#[test]
fn recovery_action_is_read_and_a_cut_one_is_not_guessed() {
    let action = |text: &str| {
        let message = format!("NVRM: Xid (PCI:0000:d8:00): 154, {text}");
        match parse_line(message.as_bytes()) {
            Line::Xid(line) => line.action,
            other => panic!("{other:?}"),
        }
    };
    let changed = "GPU recovery action changed from 0x0 (None) to";
    assert_eq!(action(&format!("{changed} 0x2 (Node Reboot Required)")), Some(Some(2)));
    assert_eq!(action(&format!("pid=7, name=x, {changed} 0x9 (Whatever)")), Some(Some(9)));
    assert_eq!(action("GPU recovery action changed from 0x0 ("), Some(None));
    assert_eq!(action(&format!("{changed} 0x1")), Some(None));
    assert_eq!(action("Something else"), Some(None));
}

#[test]
fn nvlink_message_is_read_in_all_its_shapes() {
    let nvlink = |text: &str| {
        let message = format!("NVRM: Xid (PCI:0008:01:00): {text}");
        match parse_line(message.as_bytes()) {
            Line::Xid(line) => line.nvlink.map(|n| (n.unit, n.is_fatal, n.registers)),
            other => panic!("{other:?}"),
        }
    };
    let whole = "145, pid=2181, name=ray::WorkerDict, RLW_SRC_TRACK Nonfatal XC0 i0 Link 09 (0x00000007 0x00000004 0x0 0x0)";
    let cut = "149, NETIR_LINK_EVT  Fatal   XC0 i0 Link -1 (0x025001c6 0x00000000 0x00000000";
    assert_eq!(nvlink(whole), Some(("RLW_SRC_TRACK".to_owned(), Some(false), Some((7, 4)))));
    assert_eq!(
        nvlink(cut),
        Some(("NETIR_LINK_EVT".to_owned(), Some(true), Some((0x0250_01c6, 0))))
    );
    assert_eq!(nvlink("145, RLW_REMAP"), Some(("RLW_REMAP".to_owned(), None, None)));
}

#[test]
fn switch_message_with_its_details_is_one_event() {
    let mut bench = Bench::new();
    let switch = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028,";
    let event =
        bench.say(&format!("{switch} Non-fatal, Link 32 egress non-posted PRIV error (First)"));
    match event.unwrap().what {
        Occurrence::Switch(line) => {
            assert_eq!((line.code, line.is_fatal), (12_028, Some(false)));
            assert_eq!(line.text, "Link 32 egress non-posted PRIV error (First)");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        bench.say(&format!("{switch} Severity 0 Engine instance 32 Sub-engine instance 00")),
        None
    );
    assert_eq!(bench.say(&format!("{switch} Data {{0x00000001, 0x00000002}}")), None);
    assert_eq!((bench.log.counters().events, bench.log.counters().unparsed), (1, 0));
}

#[test]
fn only_the_kernel_is_believed_unless_told_otherwise() {
    let message = b"NVRM: Xid (PCI:0000:d8:00): 79, x";
    let mut bench = Bench::new();
    assert_eq!(bench.write(14, message), None);
    assert_eq!(bench.log.counters().foreign, 1);
    bench.log = KernelLog::new(None, LogCounters::default(), true);
    assert!(bench.write(14, message).is_some());
}

#[test]
fn alike_messages_are_one_event_with_a_count_until_a_minute_of_silence() {
    let mut bench = Bench::new();
    let message = "NVRM: Xid (PCI:0000:d8:00): 95, pid=7, name=x, Uncontained";
    assert!(bench.say(message).is_some());
    for _ in 1..800_000 {
        assert_eq!(bench.say(message), None);
    }
    let repeats = bench.log.repeats();
    assert_eq!(repeats.len(), 1);
    assert_eq!(
        (repeats[0].count, repeats[0].is_repeat, repeats[0].sequence),
        (799_999, true, 800_000)
    );
    assert_eq!(bench.log.repeats(), []);
    let counters = bench.log.counters();
    assert_eq!((counters.records, counters.events, counters.alike), (800_000, 1, 799_999));
    bench.uptime_us += 60_000_001;
    assert!(bench.say(message).is_some());
}

#[test]
fn memory_is_bounded_whatever_is_printed() {
    let mut bench = Bench::new();
    for number in 0..100_000_u32 {
        let bus = number % 256;
        bench.say(&format!(
            "NVRM: Xid ({:x}:{bus:02x}:00): {}, text {number}",
            number / 256,
            number % 400
        ));
        bench.say(&format!("NVRM: GPU at PCI:0000:{bus:02x}:00: GPU-{number}"));
    }
    assert!(bench.log.repeats().len() <= 256);
    assert!(format!("{:?}", bench.log).len() < 512 << 10, "{}", format!("{:?}", bench.log).len());
}

#[test]
fn what_was_read_before_is_not_read_again_and_gaps_are_counted() {
    let counters = LogCounters { records: 40, events: 3, ..LogCounters::default() };
    let mut log = KernelLog::new(Some(100), counters, false);
    let record =
        |sequence: u64| format!("6,{sequence},1,-;NVRM: Xid (PCI:0000:d8:00): 62, {sequence}");
    assert_eq!(log.take(record(99).as_bytes()), None);
    assert_eq!(log.take(record(100).as_bytes()), None);
    assert!(log.take(record(101).as_bytes()).is_some());
    log.overrun();
    assert!(log.take(record(151).as_bytes()).is_some());
    assert_eq!(log.last(), Some(151));
    let counters = log.counters();
    assert_eq!((counters.missed, counters.overruns, counters.events), (49, 1, 5));
}

#[test]
fn cleanup_belongs_to_the_fault_before_it() {
    let mut bench = Bench::new();
    let follows = |event: Option<KernelEvent>| match event.unwrap().what {
        Occurrence::Xid { follows, .. } => follows,
        other => panic!("{other:?}"),
    };
    assert_eq!(follows(bench.say("NVRM: Xid (PCI:0000:01:00): 45, pid=7, Ch 00000001")), None);
    bench.say("NVRM: Xid (PCI:0000:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x1 0x0)");
    assert_eq!(follows(bench.say("NVRM: Xid (PCI:0000:01:00): 45, pid=7, Ch 00000002")), Some(149));
    for channel in 3..200 {
        assert_eq!(
            bench.say(&format!("NVRM: Xid (PCI:0000:01:00): 45, pid=7, Ch {channel:08}")),
            None
        );
    }
    assert_eq!(follows(bench.say("NVRM: Xid (PCI:0000:02:00): 45, pid=7, Ch 00000002")), None);
    bench.uptime_us += 300_000_001;
    assert_eq!(follows(bench.say("NVRM: Xid (PCI:0000:01:00): 45, pid=7, Ch 00000002")), None);
}

#[test]
fn changes_of_the_recovery_action_are_all_told_and_repetitions_are_not() {
    let mut bench = Bench::new();
    let to = |to: u32| {
        format!(
            "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to {to:#x} (X)"
        )
    };
    assert!(bench.say(&to(1)).is_some());
    assert!(bench.say(&to(1)).is_none());
    assert!(bench.say(&to(0)).is_some());
    assert!(bench.say(&to(1)).is_some());
}

/// Pieces of real messages and of noise, put together at random.
fn messages() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"NVRM: ",
        b"Xid ",
        b"(PCI:0000:d8:00): ",
        b"(",
        b"): ",
        b"79",
        b"154",
        b"145",
        b", ",
        b"pid=",
        b"name=",
        b"7",
        b"'<unknown>'",
        b"GPU recovery action changed from 0x0 (None) to 0x",
        b"1 (",
        b"nvidia-nvswitch",
        b"0: SXid",
        b"Fatal",
        b"Severity 0",
        b"0x00000007 ",
        b"The NVIDIA GPU ",
        b"0000:cb:00.0",
        b"fallen off the bus and is not responding",
        b"GPU at ",
        b": GPU-",
        b"GPU reset executed: ",
        b"INFO: task ",
        b"a:1",
        b" blocked for more than ",
        b"120 seconds",
        b"\xff\xfe",
        b"\n",
        b";",
        b"\0",
        b"99999999999999999999",
    ];
    let piece = prop_oneof![
        8 => prop::sample::select(pieces).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_is_printed_makes_it_fail(messages in prop::collection::vec(messages(), 1..6), priority in 0..16_u32) {
        let mut bench = Bench::new();
        let mut events = 0_u64;
        for message in &messages {
            events += u64::from(bench.write(priority, message).is_some());
        }
        let counters = bench.log.counters();
        prop_assert_eq!(counters.records, messages.len() as u64);
        prop_assert_eq!(counters.events, events);
        prop_assert!(priority < 8 || events == 0);
    }

    #[test]
    fn no_bytes_make_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut log = KernelLog::new(None, LogCounters::default(), true);
        log.take(&bytes);
        let _ = parse_line(&bytes);
        prop_assert_eq!(log.counters().records, 1);
    }
}
