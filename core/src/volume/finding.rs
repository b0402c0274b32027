//! What there is to say of a volume or of a plan for one, as data: a stable code, typed values, a message (what and why)
//! and a hint (what to do). `docs/reasons.md` explains each code; a test keeps the two complete.

use std::collections::BTreeMap;
use std::fmt;

use super::Mib;
use super::tune::Spared;

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Note,
    /// It works, and somebody should look at it.
    Warning,
    /// It cannot be so.
    Error,
}

impl Severity {
    /// As it is printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

macro_rules! findings {
    ($($(#[$doc:meta])* $name:ident $({ $($field:ident: $type:ty),* $(,)? })? =
        $code:literal, $severity:ident, $message:literal, hint $hint:literal;)*) => {
        /// A finding. See the module.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Finding {
            $($(#[$doc])* #[allow(missing_docs, reason = "fields are named by the message")]
              $name $({ $($field: $type),* })?,)*
        }

        impl Finding {
            /// Every code, in the order of declaration.
            pub const CODES: &[&str] = &[$($code),*];

            /// Stable code: never renamed, only added to.
            #[must_use]
            pub fn code(&self) -> &'static str {
                match self { $(Self::$name $({ $($field: _),* })? => $code,)* }
            }

            /// How much it weighs.
            #[must_use]
            pub fn severity(&self) -> Severity {
                match self { $(Self::$name $({ $($field: _),* })? => Severity::$severity,)* }
            }

            /// The values by name, as text.
            #[must_use]
            pub fn values(&self) -> BTreeMap<&'static str, String> {
                match self { $(Self::$name $({ $($field),* })? => {
                    BTreeMap::from([$($((stringify!($field), $field.to_string())),*)?])
                })* }
            }

            /// What to do about it; empty if nothing need be done.
            #[must_use]
            pub fn hint(&self) -> String {
                match self { $(Self::$name $({ $($field),* })? => {
                    $($(let _ = $field;)*)?
                    format!($hint)
                })* }
            }
        }

        impl fmt::Display for Finding {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Self::$name $({ $($field),* })? => {
                    $($(let _ = $field;)*)?
                    write!(f, $message)
                })* }
            }
        }
    };
}

findings! {
    // Plans that cannot be.
    /// Not in the table.
    VolumeTypeUnknown { disk: String, known: String } = "volume-type-unknown", Error,
        "disk type \"{disk}\" is not in the table of limits", hint "use one of {known}, or add a row with --limits";
    /// Too small or too large.
    VolumeSizeIllegal { disk: String, size_gib: u64, min_gib: u64, max_gib: u64, nearest_gib: u64 } = "volume-size-illegal", Error,
        "{size_gib} GiB is no size of {disk}: it comes from {min_gib} to {max_gib} GiB", hint "nearest legal: {nearest_gib} GiB";
    /// More than the size allows.
    VolumeThroughputTooHigh { mib: Mib, max: Mib, size_gib: u64, needed_gib: u64 } = "volume-throughput-too-high", Error,
        "{mib} is more than {size_gib} GiB may have: at most {max}", hint "nearest legal: {max}; that much needs at least {needed_gib} GiB";
    /// Above what any volume may have.
    VolumeThroughputBeyondType { mib: Mib, type_max: Mib, nearest: Mib, disk: String } = "volume-throughput-beyond-type", Error,
        "{mib} is more than any {disk} may have: at most {type_max}", hint "nearest legal at this size: {nearest}";
    /// Less than the size asks for.
    VolumeThroughputTooLow { mib: Mib, min: Mib, size_gib: u64 } = "volume-throughput-too-low", Error,
        "{mib} is less than {size_gib} GiB must have: at least {min}", hint "nearest legal: {min}";
    /// The type fixes it.
    VolumeThroughputNotSettable { disk: String } = "volume-throughput-not-settable", Error,
        "throughput of {disk} follows from its IOPS and cannot be set", hint "leave it out";
    /// More machines than the size allows.
    VolumeReadersTooMany { readers: u64, max: u64, size_gib: u64, copies: u64, smaller: String } = "volume-readers-too-many", Error,
        "{readers} machines cannot attach one volume of {size_gib} GiB: at most {max}", hint "nearest legal: {max} machines a volume, so {copies} copies{smaller}";
    /// One machine only.
    VolumeNotShareable { disk: String, readers: u64 } = "volume-not-shareable", Error,
        "{disk} attaches to one machine, not to {readers}", hint "use hyperdisk-ml for many readers, or one volume for each machine";
    /// The machine cannot attach it.
    VolumeMachineUnsupported { disk: String, machine: String } = "volume-machine-unsupported", Error,
        "{machine} cannot attach {disk}", hint "see which machine series the table has for it: sluice volume limits";
    /// The rule for many readers.
    VolumeShareBelowFloor { readers: u64, mib: Mib, needed: Mib, each: Mib } = "volume-share-below-floor", Error,
        "{readers} machines need at least {each} each, and {mib} is less than that together", hint "nearest legal: {needed}";

    // Plans that can be better.
    /// A quantity without its unit.
    VolumeThroughputUnit { text: String, mib: Mib } = "volume-throughput-unit", Warning,
        "\"{text}\" is read as bytes a second and rounded up: {mib}", hint "write \"{text}Mi\" for MiB a second";
    /// Nothing was set.
    VolumeDefaultThroughput { default: Mib, wanted: Mib } = "volume-default-throughput", Warning,
        "without provisioned-throughput-on-create the volume gets {default}, all of which is taken from the regional quota and billed", hint "set {wanted}";
    /// Readers wait for each other.
    VolumeThroughputShort { mib: Mib, wanted: Mib, share: Mib } = "volume-throughput-short", Warning,
        "at {mib} readers that load at the same time get {share} each", hint "{wanted} would let each load as fast as its machine can; or stagger the loads";
    /// More than readers can take.
    VolumeThroughputWasted { mib: Mib, usable: Mib } = "volume-throughput-wasted", Warning,
        "{mib} is more than all readers together can take: {usable}", hint "set {usable}";
    /// Nothing is known of the machine.
    VolumeMachineAssumed { machine: String, mib: Mib, source: String } = "volume-machine-assumed", Warning,
        "the limit of {machine} is assumed to be {mib} ({source})", hint "give --node-limit, or add a row with --limits";
    /// The table knows no series.
    VolumeSeriesUnknown { disk: String, machine: String } = "volume-series-unknown", Warning,
        "the table does not say whether {machine} can attach {disk}", hint "look it up before buying; add the series with --limits";
    /// The kernel's read-ahead binds.
    VolumeReadAheadBinds { kib: u64, rate: Mib, wanted_kib: u64 } = "volume-read-ahead-binds", Warning,
        "with a read-ahead of {kib} KiB one reader gets about {rate} from any volume", hint "mount with read_ahead_kb={wanted_kib}";
    /// Throughput cannot follow demand.
    VolumeChangeSlow { throughput_hours: u32, size_hours: u32 } = "volume-change-slow", Note,
        "throughput can be changed once in {throughput_hours} h and size once in {size_hours} h: too slow to help one load", hint "";
    /// One way only.
    VolumeReadOnlyForGood { disk: String } = "volume-read-only-for-good", Note,
        "a {disk} that was made READ_ONLY_MANY never becomes writable again", hint "write it, detach it, then share it; for a new version make a new volume";
    /// Fourth generation.
    VolumeMadeTooEarly { machine: String, made_after: String } = "volume-made-too-early", Note,
        "{machine} attaches only volumes made on or after {made_after}", hint "make older ones anew from a snapshot";

    // Read-ahead that was asked for.
    /// No number.
    ReadAheadMalformed { text: String } = "read-ahead-malformed", Error,
        "read_ahead_kb is \"{text}\", which is no whole number of 0 or more: the driver refuses to mount", hint "write KiB, such as read_ahead_kb=4096";
    /// Switched off on purpose?
    ReadAheadAskedOff = "read-ahead-asked-off", Warning,
        "read_ahead_kb=0 switches read-ahead off: every read of a file becomes many of 4 KiB", hint "write read_ahead_kb=4096 if files are read from beginning to end";
    /// Below one page.
    ReadAheadRoundsToOff { kib: u64 } = "read-ahead-rounds-to-off", Warning,
        "read_ahead_kb={kib} is less than a page, which the kernel rounds down to 0: read-ahead is off", hint "write 4 or more";
    /// More than is useful.
    ReadAheadAskedHuge { kib: u64, max_kib: u64 } = "read-ahead-asked-huge", Warning,
        "read_ahead_kb={kib} is beyond {max_kib}, from where on loads get slower again", hint "write at most {max_kib}";

    // Read-ahead that is otherwise than asked for.
    /// The driver divides by the wrong sector.
    ReadAheadDriverUnit { expected_kib: u64, actual_kib: u64, sector_bytes: u64 } = "read-ahead-driver-unit", Warning,
        "{actual_kib} KiB are in force instead of {expected_kib}: the driver divides by the sector of {sector_bytes} bytes though the kernel counts in 512", hint "ask for {sector_bytes}/512 times as much until the driver is mended";
    /// The second attempt to mount.
    ReadAheadNoload { expected_kib: u64, actual_kib: u64 } = "read-ahead-noload", Warning,
        "{actual_kib} KiB are in force instead of {expected_kib}: the volume was mounted without its journal, and on that way the driver forgets read-ahead", hint "mount the source once writable so that its journal is clean, then snapshot it again";
    /// It was right before.
    ReadAheadReset { expected_kib: u64, actual_kib: u64 } = "read-ahead-reset", Warning,
        "{actual_kib} KiB are in force instead of {expected_kib}, which was in force before: somebody or the kernel has set it anew", hint "look for tuning scripts; older kernels forget it when the disk is resized or resumes";
    /// Nothing was done.
    ReadAheadNeverSet { expected_kib: u64, actual_kib: u64 } = "read-ahead-never-set", Warning,
        "{actual_kib} KiB are in force instead of {expected_kib}: mount options are applied only when a volume is staged on a node", hint "end all pods of this node that use the volume, so that it is staged anew";
    /// No file system.
    ReadAheadOfBlock { expected_kib: u64, actual_kib: u64 } = "read-ahead-of-block", Warning,
        "{actual_kib} KiB are in force instead of {expected_kib}: mount options mean nothing to a volume of mode Block", hint "use mode Filesystem, or read ahead in the program";
    /// Its own setting.
    ReadAheadOfBtrfs { expected_kib: u64, actual_kib: u64 } = "read-ahead-of-btrfs", Warning,
        "the disk has {actual_kib} KiB instead of {expected_kib}, and btrfs goes by its own setting anyway", hint "ask with btrfs-bdi-read_ahead_kb";
    /// Another device counts.
    ReadAheadOfLayer { expected_kib: u64, actual_kib: u64, holder: String } = "read-ahead-of-layer", Note,
        "the disk has {actual_kib} KiB instead of {expected_kib}, but {holder} lies on it and its read-ahead counts", hint "sluice describe volume {holder}";

    // Read-ahead that nobody asked for.
    /// Off.
    ReadAheadOff = "read-ahead-off", Warning,
        "read-ahead is off: every read of a file becomes many of 4 KiB", hint "set read_ahead_kb in the volume's mount options";
    /// Far too much.
    ReadAheadHuge { actual_kib: u64, max_kib: u64 } = "read-ahead-huge", Warning,
        "{actual_kib} KiB are in force, beyond {max_kib}: random reads of mapped files read a thousand times what they use", hint "set at most {max_kib}";
    /// The kernel's own.
    ReadAheadDefault { actual_kib: u64, advised_kib: u64 } = "read-ahead-default", Note,
        "{actual_kib} KiB, the kernel's default: one sequential reader gets about 100 MiB/s at a latency of 2 ms", hint "read_ahead_kb={advised_kib} in the mount options, if files are read from beginning to end";

    // Read-ahead that the agent sets, or leaves.
    /// Done.
    ReadAheadSet { kib: u64, original_kib: u64 } = "read-ahead-set", Note,
        "this agent has set {kib} KiB; {original_kib} were there before and come back when it ends", hint "files that are open already keep what they had";
    /// Not to be touched.
    ReadAheadLeftAlone { why: Spared } = "read-ahead-left-alone", Note,
        "read-ahead is left as it is: {why}", hint "set it by hand if you know better; where files are mapped, let the program prefetch whole files";
    /// The kernel made something else of it.
    ReadAheadNotTaken { kib: u64, actual_kib: u64 } = "read-ahead-not-taken", Warning,
        "{kib} KiB were written and {actual_kib} are in force; it is not tried again", hint "look who else sets it; the kernel keeps whole pages";
    /// It could not be written.
    ReadAheadNotWritten { kib: u64, why: String } = "read-ahead-not-written", Warning,
        "{kib} KiB could not be set: {why}; it is not tried again", hint "give the agent the host's /sys writable and CAP_SYS_ADMIN, or run it with --set-read-ahead observe";
    /// Two set it in turns.
    ReadAheadFought { times: u32 } = "read-ahead-fought", Warning,
        "read-ahead was set {times} times and somebody set it back; it is left to them", hint "look for tuning scripts and udev rules on the node";
    /// It helped.
    ReadAheadStepKept { from_kib: u64, kib: u64, from: Mib, to: Mib } = "read-ahead-step-kept", Note,
        "{kib} KiB instead of {from_kib} made loads faster, {to} instead of {from}, and stay", hint "";
    /// It did not.
    ReadAheadStepUndone { from_kib: u64, kib: u64, from: Mib, to: Mib, bytes_percent: u64 } = "read-ahead-step-undone", Note,
        "{kib} KiB instead of {from_kib} gave {to} instead of {from} and read {bytes_percent} % of the bytes, so {from_kib} are set again", hint "";

    // Who is the bottleneck.
    /// All disks of the machine together.
    VolumeAtNodeLimit { rate: Mib, limit: Mib, queue: u64, await_us: u64, base_us: u64 } = "volume-at-node-limit", Warning,
        "the disks of this machine move what it can ({limit}): {rate} through this one, {queue} requests queued, {await_us} us each instead of {base_us}", hint "use a larger machine, or spread the readers over more of them";
    /// Itself, or other readers.
    VolumeAtItsLimit { rate: Mib, queue: u64, await_us: u64, base_us: u64 } = "volume-at-its-limit", Warning,
        "a flat {rate} with {queue} requests queued, {await_us} us each instead of {base_us}: the volume gives no more, by its own limit or to its other readers", hint "provision more throughput, or stagger the loads: sluice volume plan";
    /// Somebody set a limit.
    VolumeThrottledByCgroup { rate_bytes: u64, limit_bytes: u64, cgroup: String } = "volume-throttled-by-cgroup", Warning,
        "{rate_bytes} bytes a second with a short queue: cgroup {cgroup} lets {limit_bytes} through", hint "raise io.max of that cgroup, or the pod's limit";
    /// The reader asks for too little.
    VolumeReaderWaits { rate: Mib, kib: u64, await_us: u64, limit: Mib } = "volume-reader-waits", Warning,
        "{rate} of {limit} in requests of {await_us} us: a read-ahead of {kib} KiB asks for too little at a time", hint "raise read_ahead_kb in the volume's mount options, or let the program prefetch whole files";
    /// Several nodes use it up.
    VolumeSharedOut { readers: u64, rate: Mib, node: String, percent: u64 } = "volume-shared-out", Warning,
        "{readers} nodes take {rate} of this volume together and it gives no more; {node} takes {percent} % of that", hint "stagger the loads, or provision more: sluice volume plan";
    /// Lost.
    VolumeHung { in_flight: u32, silent_ms: u64 } = "volume-hung", Warning,
        "{in_flight} requests in flight and none completed for {silent_ms} ms", hint "look at the VM's disks: a Google disk that is lost hangs for ever and gives no error";
    /// Whose mount it is, is not known.
    VolumeDataUnreadable { path: String } = "vol-data-unreadable", Note,
        "{path}/vol_data.json is missing, empty or torn, so the volume behind that mount is not known by name", hint "the path names the PersistentVolume; kubelet writes the file anew when the volume is mounted again";
}
