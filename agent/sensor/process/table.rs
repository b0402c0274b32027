//! Reading `/proc/<pid>`: stat, status and environ, as bytes, since names and environments are
//! chosen by anybody.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluice_core::pod::{self, PodCgroup};
use sluice_core::sample::{ProcessKey, ProcessState, SignalMasks};

use super::is_gone;
use crate::sensor::tree::{HostTree, decimal, lossy, words};

/// Most processes of one pass; Linux's own default limit is 32,768, large hosts raise it.
const PROCESSES_MAX: usize = 65_536;

/// Most bytes taken of an environment; a marker behind that is not found. Environments of pods with
/// thousands of service variables have some 100 KB.
const ENVIRON_BYTES_MAX: u64 = 1 << 20;

/// A status file has some 1,500 bytes, and ten more for each supplementary group.
const STATUS_BYTES_MAX: u64 = 64 << 10;

/// `<workload>/<attempt>/<rank>` with a name of 253 characters fits twice.
const MARKER_BYTES_MAX: usize = 512;

/// A cgroup has a name of at most 4,096 bytes, the first version some twelve of them.
const CGROUPS_BYTES_MAX: u64 = 64 << 10;

/// How often an environment is read that is not there yet, and the pause between: for as long as the kernel takes to
/// map a program, some hundred microseconds, and a time slice or two more.
const EXEC_READS_MAX: u32 = 40;
const EXEC_PAUSE: Duration = Duration::from_micros(200);

/// `PF_KTHREAD` in the flags of `/proc/<pid>/stat`.
const KERNEL_THREAD_FLAG: u64 = 0x0020_0000;

/// What is of interest in the environment a process was started with.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Environ {
    pub(super) marker: Option<String>,
    pub(super) has_local_rank: bool,
    pub(super) is_readable: bool,
    /// Its pod and container; only looked for if some worker is a pod.
    pub(super) pod: Option<PodCgroup>,
}

/// One process of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: ProcessKey,
    pub(super) parent_pid: u32,
    pub(super) state: ProcessState,
    pub(super) comm: String,
    pub(super) is_kernel_thread: bool,
    pub(super) environ: Arc<Environ>,
}

/// What `status` adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) uid: Option<u32>,
    pub(super) signals: Option<SignalMasks>,
}

/// What `stat` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) comm: String,
    pub(super) state: ProcessState,
    pub(super) parent_pid: u32,
    pub(super) flags: u64,
    pub(super) start_time_ticks: u64,
    /// Where the environment lies in the process's memory. Changes with `exec`; 0 without
    /// permission.
    pub(super) env_start: u64,
}

/// Lists processes and remembers their environments.
#[derive(Debug)]
pub(super) struct ProcessTable {
    tree: HostTree,
    /// Whose workers' markers count. `None`: everybody's.
    agent_uid: Option<String>,
    /// Some worker is a pod: cgroups are looked at.
    looks_for_pods: bool,
    environs: HashMap<u32, Remembered>,
}

/// An environment, and the program it belongs to: `exec` gives the same process another one.
/// Without that check a worker seen between `fork` and `exec` would keep its launcher's environment
/// for ever.
#[derive(Debug)]
struct Remembered {
    start_time_ticks: u64,
    env_start: u64,
    comm: String,
    environ: Arc<Environ>,
}

impl ProcessTable {
    pub(super) fn new(host_root: &Path) -> Self {
        ProcessTable {
            tree: HostTree::new(host_root),
            agent_uid: None,
            looks_for_pods: false,
            environs: HashMap::new(),
        }
    }

    /// From now on markers of processes that were started for another agent count as none.
    pub(super) fn only_of(&mut self, agent_uid: &str) {
        self.agent_uid = Some(agent_uid.to_owned());
    }

    /// From now on it is found out which pods processes belong to, or not any more.
    pub(super) fn look_for_pods(&mut self, looks: bool) {
        if self.looks_for_pods != looks {
            self.looks_for_pods = looks;
            self.environs.clear();
        }
    }

    /// All processes that could be looked at, in ascending order of their ids, and how many were
    /// left out for the bound.
    pub(super) fn list(&mut self) -> Result<(Vec<Entry>, u32), String> {
        let mut pids = self.pids()?;
        let dropped = super::count(pids.len().saturating_sub(PROCESSES_MAX));
        pids.truncate(PROCESSES_MAX);
        let entries: Vec<Entry> = pids.iter().filter_map(|pid| self.entry(*pid)).collect();
        self.environs.retain(|pid, _| pids.binary_search(pid).is_ok());
        Ok((entries, dropped))
    }

    fn pids(&self) -> Result<Vec<u32>, String> {
        let dir = self.tree.path("proc");
        let entries = std::fs::read_dir(&dir).map_err(|error| {
            format!(
                "could not list \"{}\": {error}; mount the host's /proc at --host-root",
                dir.display()
            )
        })?;
        let names = entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name()));
        let mut pids: Vec<u32> =
            names.filter_map(|name| decimal(name.as_encoded_bytes())).collect();
        pids.sort_unstable();
        Ok(pids)
    }

    /// One process. `None`: it is gone, or its stat makes no sense.
    pub(super) fn entry(&mut self, pid: u32) -> Option<Entry> {
        let stat = self.stat(pid)?;
        let is_kernel_thread = stat.flags & KERNEL_THREAD_FLAG != 0;
        let environ = if is_kernel_thread {
            Arc::new(Environ { is_readable: true, ..Environ::default() })
        } else {
            self.environ(pid, &stat)?
        };
        Some(Entry {
            key: ProcessKey { pid, start_time_ticks: stat.start_time_ticks },
            parent_pid: stat.parent_pid,
            state: stat.state,
            comm: stat.comm,
            is_kernel_thread,
            environ,
        })
    }

    /// Which process has this id now.
    pub(super) fn key(&mut self, pid: u32) -> Option<ProcessKey> {
        let start_time_ticks = self.stat(pid)?.start_time_ticks;
        Some(ProcessKey { pid, start_time_ticks })
    }

    pub(super) fn status(&mut self, pid: u32) -> Option<Status> {
        self.tree.read(&format!("proc/{pid}/status"), STATUS_BYTES_MAX).ok().map(parse_status)
    }

    fn stat(&mut self, pid: u32) -> Option<Stat> {
        parse_stat(self.tree.attribute(&format!("proc/{pid}/stat"))?)
    }

    /// `None`: the process ended meanwhile.
    fn environ(&mut self, pid: u32, stat: &Stat) -> Option<Arc<Environ>> {
        if let Some(known) = self.environs.get(&pid)
            && known.start_time_ticks == stat.start_time_ticks
            && known.env_start == stat.env_start
            && known.comm == stat.comm
        {
            return Some(Arc::clone(&known.environ));
        }
        let (bytes, stat) = match self.read_environ(pid, stat.clone()) {
            Ok(read) => read,
            Err(error) if is_gone(&error) => return None,
            Err(_) => return Some(Arc::new(self.with_pod(pid, Environ::default()))),
        };
        // It is still in the middle of exec: whose it is will be known with the next look.
        let Some(bytes) = bytes else {
            return Some(Arc::new(self.with_pod(pid, Environ::default())));
        };
        let mut environ = parse_environ(&bytes);
        let is_foreign = self.agent_uid.as_deref().is_some_and(|uid| is_of_another(&bytes, uid));
        environ.marker = environ.marker.filter(|_| !is_foreign);
        let environ = Arc::new(self.with_pod(pid, environ));
        let remembered = Remembered {
            start_time_ticks: stat.start_time_ticks,
            env_start: stat.env_start,
            comm: stat.comm,
            environ: Arc::clone(&environ),
        };
        self.environs.insert(pid, remembered);
        Some(environ)
    }

    /// The environment, and the stat that goes with it. `None`: there is none yet. The kernel shows an empty one from
    /// the moment in which `exec` takes the old memory away until the new program is mapped; a worker that is looked at
    /// just then would be nobody's, and its devices free.
    fn read_environ(
        &mut self,
        pid: u32,
        mut stat: Stat,
    ) -> std::io::Result<(Option<Vec<u8>>, Stat)> {
        for _ in 0..EXEC_READS_MAX {
            let bytes = self.tree.read(&format!("proc/{pid}/environ"), ENVIRON_BYTES_MAX)?.to_vec();
            let before = stat.env_start;
            if !bytes.is_empty() {
                return Ok((Some(bytes), stat));
            }
            let gone = std::io::ErrorKind::NotFound;
            stat = self.stat(pid).ok_or(gone)?;
            let is_over = matches!(stat.state, ProcessState::Zombie | ProcessState::Dead);
            if is_over || (stat.env_start != 0 && stat.env_start == before) {
                return Ok((Some(bytes), stat));
            }
            std::thread::sleep(EXEC_PAUSE);
        }
        Ok((None, stat))
    }

    fn with_pod(&mut self, pid: u32, environ: Environ) -> Environ {
        if !self.looks_for_pods {
            return environ;
        }
        let cgroups = self.tree.read(&format!("proc/{pid}/cgroup"), CGROUPS_BYTES_MAX);
        let pod = cgroups.ok().and_then(|text| pod::of_process(&String::from_utf8_lossy(text)));
        Environ { pod, ..environ }
    }
}

/// `1234 (name) S 1 …`: the name may hold spaces, brackets and line feeds, so the last bracket ends
/// it.
pub(super) fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let open = bytes.iter().position(|byte| *byte == b'(')?;
    let close = bytes.iter().rposition(|byte| *byte == b')').filter(|close| *close > open)?;
    // Fields are numbered from 1 in proc(5); the one behind the name is the third.
    let mut fields = words(&bytes[close + 1..]);
    let state = parse_state(fields.next()?);
    let parent_pid = decimal(fields.next()?)?;
    let flags = decimal(fields.nth(4)?)?;
    let start_time_ticks = decimal(fields.nth(12)?)?;
    let env_start = fields.nth(27).and_then(decimal).unwrap_or(0);
    Some(Stat {
        comm: lossy(&bytes[open + 1..close]),
        state,
        parent_pid,
        flags,
        start_time_ticks,
        env_start,
    })
}

fn parse_state(word: &[u8]) -> ProcessState {
    match word {
        b"R" => ProcessState::Running,
        b"S" => ProcessState::Sleeping,
        b"D" => ProcessState::Uninterruptible,
        b"T" => ProcessState::Stopped,
        b"t" => ProcessState::Traced,
        b"Z" => ProcessState::Zombie,
        b"X" | b"x" => ProcessState::Dead,
        b"I" => ProcessState::Idle,
        _ => ProcessState::Other,
    }
}

/// Lines `Name:<tab>values`; names that processes choose are escaped by the kernel.
pub(super) fn parse_status(bytes: &[u8]) -> Status {
    let value =
        |name: &[u8]| bytes.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name));
    let mask = |name: &[u8]| {
        let digits = std::str::from_utf8(value(name)?.trim_ascii()).ok()?;
        u64::from_str_radix(digits, 16).ok()
    };
    let masks = || {
        Some(SignalMasks {
            caught: mask(b"SigCgt:")?,
            ignored: mask(b"SigIgn:")?,
            blocked: mask(b"SigBlk:")?,
        })
    };
    // Real, effective, saved, filesystem.
    let uid = value(b"Uid:").and_then(|uids| words(uids).nth(1)).and_then(decimal);
    Status { uid, signals: masks() }
}

pub(super) fn parse_environ(bytes: &[u8]) -> Environ {
    let mut environ = Environ { is_readable: true, ..Environ::default() };
    for variable in bytes.split(|byte| *byte == 0) {
        if let Some(value) = variable.strip_prefix(b"SLUICE_WORKER=") {
            environ.marker = environ.marker.or_else(|| checked_marker(value));
        } else if variable.starts_with(b"LOCAL_RANK=") {
            environ.has_local_rank = true;
        }
    }
    environ
}

/// Whether an environment names another agent than `agent_uid`. Names of workloads are chosen by people, so two
/// installations on one machine may have workers of the same name; one that names no agent is taken for ours.
pub(super) fn is_of_another(environ: &[u8], agent_uid: &str) -> bool {
    let mut variables = environ.split(|byte| *byte == 0);
    let named = variables.find_map(|variable| variable.strip_prefix(b"SLUICE_NODE_UID="));
    named.is_some_and(|uid| uid != agent_uid.as_bytes())
}

/// Markers end up in messages and in file names: what no agent would have written is none.
fn checked_marker(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    let is_fit = !text.is_empty()
        && text.len() <= MARKER_BYTES_MAX
        && text.chars().all(|c| c.is_ascii_graphic());
    is_fit.then(|| text.to_owned())
}
