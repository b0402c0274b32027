//! Processes of a node, as far as they concern workers and accelerators.

use std::collections::BTreeSet;
use std::fmt;

#[cfg(test)]
mod tests;

/// One process for good: a process id alone is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessKey {
    /// Process id in the host's namespace.
    pub pid: u32,
    /// When it started. Unit: clock ticks since boot. Source: field 22 of `/proc/<pid>/stat`.
    pub start_time_ticks: u64,
}

/// What the scheduler says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// `R`
    Running,
    /// `S`
    Sleeping,
    /// `D`: in the kernel, deaf to signals; a lost disk leaves processes here for ever.
    Uninterruptible,
    /// `T`: stopped by a signal.
    Stopped,
    /// `t`: stopped by a debugger.
    Traced,
    /// `Z`: over, not yet waited for; holds no files and no devices.
    Zombie,
    /// `X`
    Dead,
    /// `I`: an idle kernel thread.
    Idle,
    /// Any other letter.
    Other,
}

/// An accelerator's file that a process has open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceFile {
    /// `/dev/nvidia<minor>`
    Nvidia(u32),
    /// `/dev/nvidia-caps/nvidia-cap<minor>`: a part (MIG) of a GPU.
    NvidiaCap(u32),
    /// `/dev/accel<n>`: TPUs of v4 and before.
    Accel(u32),
    /// `/dev/vfio/<group>`: TPUs of v5e and later.
    Vfio(u32),
    /// The file behind a simulated device: the device's id.
    Simulated(String),
}

impl fmt::Display for DeviceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceFile::Nvidia(n) => write!(f, "/dev/nvidia{n}"),
            DeviceFile::NvidiaCap(n) => write!(f, "/dev/nvidia-caps/nvidia-cap{n}"),
            DeviceFile::Accel(n) => write!(f, "/dev/accel{n}"),
            DeviceFile::Vfio(n) => write!(f, "/dev/vfio/{n}"),
            DeviceFile::Simulated(id) => f.write_str(id),
        }
    }
}

/// What a process does with signals: bit `n - 1` stands for signal `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalMasks {
    /// Has a handler. Source: `SigCgt`.
    pub caught: u64,
    /// Ignored. Source: `SigIgn`.
    pub ignored: u64,
    /// Held back by the main thread; another thread may take them. Source: `SigBlk`.
    pub blocked: u64,
}

impl SignalMasks {
    /// Whether `signal` has a handler. `false` for numbers outside 1..=64.
    #[must_use]
    pub fn catches(&self, signal: u32) -> bool {
        let bit = signal.checked_sub(1).and_then(|shift| 1_u64.checked_shl(shift));
        bit.is_some_and(|bit| self.caught & bit != 0)
    }
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSample {
    /// Which process.
    pub key: ProcessKey,
    /// Its parent now: 1 or a subreaper once the real parent ended.
    pub parent_pid: u32,
    /// What the scheduler says.
    pub state: ProcessState,
    /// Short name, at most 15 bytes; for display, as it need not be UTF-8.
    pub comm: String,
    /// Effective user. `None` where the status could not be read.
    pub uid: Option<u32>,
    /// `SLUICE_WORKER` in the environment it was started with. `None` where absent; see
    /// `is_environ_readable`.
    pub marker: Option<String>,
    /// `LOCAL_RANK` is in the environment it was started with.
    pub has_local_rank: bool,
    /// `false`: marker and rank are unknown rather than absent.
    pub is_environ_readable: bool,
    /// Accelerator files it has open. `None` where its files could not be listed.
    pub devices: Option<BTreeSet<DeviceFile>>,
    /// Files below the worker's checkpoint directory it has open for writing, as it sees their
    /// paths; at most 256.
    pub open_checkpoint_files: Vec<Vec<u8>>,
    /// What it does with signals. `None` where the status could not be read.
    pub signals: Option<SignalMasks>,
}

/// One worker and all processes that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerProcesses {
    /// `<workload>/<attempt>/<rank>`: the value of `SLUICE_WORKER`.
    pub marker: String,
    /// The agent was told of this worker. `false`: a leftover of somebody else's.
    pub is_watched: bool,
    /// The registered process while it lives, else the oldest carrier of the marker whose parent
    /// carries it not.
    pub main: Option<ProcessKey>,
    /// Processes with `LOCAL_RANK` whose parent lacks it: the ones that train.
    pub ranks: Vec<ProcessKey>,
    /// Carriers of the marker and descendants of carriers or of the registered process, ordered by
    /// key.
    pub processes: Vec<ProcessSample>,
    /// Accelerator files that any of them has open.
    pub devices: BTreeSet<DeviceFile>,
    /// Every process's files could be listed: only then does an empty `devices` mean that none is
    /// held.
    pub are_devices_certain: bool,
}

/// What one pass over the process table found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTableSample {
    /// Ordered by marker. A watched worker without any process is listed with none.
    pub workers: Vec<WorkerProcesses>,
    /// Processes of no worker that have an accelerator's file open, ordered by key.
    pub strangers: Vec<ProcessSample>,
    /// Processes seen.
    pub process_count: u32,
    /// Processes whose environment could not be read: a worker's may be among them.
    pub unreadable_count: u32,
    /// Processes left out because the table was longer than the bound.
    pub dropped: u32,
}
