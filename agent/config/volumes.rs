//! Flags about volumes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sluice_core::volume::read_ahead;
use sluice_core::volume::tune::{Mode, Rules};

use crate::sensor::disk::VolumePolicy;
use crate::sensor::mounts::KUBELET_ROOT;

/// Most disks for which a read-ahead can be given: as many as a machine attaches.
const DISKS_MAX: usize = 128;

/// The disk type by which a machine's limit is looked up: one table row covers all disks of a machine.
const DISK_TYPE: &str = "hyperdisk-ml";

/// Flags about volumes.
#[derive(Debug, clap::Args)]
pub(crate) struct VolumeFlags {
    /// Read-ahead that a disk is meant to have, in KiB, by the name of the cloud disk or of the device; may be repeated.
    /// Goes before what the arbiter knows of the disk. Whether it is set, see --set-read-ahead
    #[arg(long, value_name = "DISK=KIB")]
    read_ahead_kb: Vec<String>,
    /// What is done about read-ahead: observe (nothing), repair (set what was asked for where it is not), tune (also raise
    /// it on disks of --tune-read-ahead, as long as loads get faster)
    #[arg(long, value_name = "MODE", default_value = "observe")]
    set_read_ahead: String,
    /// A disk whose read-ahead may be raised, by the name of the cloud disk or of the device; may be repeated
    #[arg(long, value_name = "DISK")]
    tune_read_ahead: Vec<String>,
    /// Count loop devices as disks whose read-ahead may be set: for trials
    #[arg(long)]
    read_ahead_on_loops: bool,
    /// Type of this machine, such as a3-highgpu-8g, by which the limit of its disks is looked up
    #[arg(long, value_name = "MACHINE")]
    machine_type: Option<String>,
    /// Rows that go before the built-in limits of disks and machines
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    /// Where kubelet keeps its files, as the host sees it
    #[arg(long, value_name = "DIR", default_value = KUBELET_ROOT)]
    kubelet_root: PathBuf,
}

impl VolumeFlags {
    /// Checks the flags.
    ///
    /// # Errors
    /// The first flag that cannot be used.
    pub(crate) fn policy(self) -> Result<VolumePolicy, String> {
        if self.read_ahead_kb.len() > DISKS_MAX {
            let given = self.read_ahead_kb.len();
            return Err(format!(
                "--read-ahead-kb is given {given} times; the limit is {DISKS_MAX}"
            ));
        }
        if !self.kubelet_root.is_absolute() {
            let root = &self.kubelet_root;
            return Err(format!("--kubelet-root is {root:?} but must be an absolute path"));
        }
        let rules = self.rules()?;
        let mut intents = BTreeMap::new();
        for text in &self.read_ahead_kb {
            let parts = text.rsplit_once('=').filter(|(disk, _)| !disk.is_empty());
            let intent = parts.and_then(|(disk, kib)| {
                let option = format!("read_ahead_kb={kib}");
                Some((disk, read_ahead::intent([option.as_str()]).ok()??))
            });
            let Some((disk, intent)) = intent else {
                return Err(format!(
                    "--read-ahead-kb is {text:?} but must be DISK=KIB, such as model1=4096"
                ));
            };
            if intents.insert(disk.to_owned(), intent).is_some() {
                return Err(format!("--read-ahead-kb names {disk:?} twice; a disk has one value"));
            }
        }
        let limits = match &self.limits {
            Some(file) => {
                sluice::volumes::with_overrides(file).map_err(|e| format!("--limits: {e}"))?
            }
            None => sluice::volumes::built_in(),
        };
        let row = self.machine_type.as_deref().and_then(|name| limits.machine(name, DISK_TYPE));
        Ok(VolumePolicy {
            read_ahead: intents,
            // A limit that nobody has published or measured would make verdicts of guesses.
            node_limit: row.filter(|row| !row.is_assumed).map(|row| row.throughput),
            kubelet_root: self.kubelet_root,
            rules,
            tuned: self.tune_read_ahead.into_iter().collect(),
        })
    }

    fn rules(&self) -> Result<Rules, String> {
        let mode = match self.set_read_ahead.as_str() {
            "observe" => Mode::Observe,
            "repair" => Mode::Repair,
            "tune" => Mode::Tune,
            other => {
                return Err(format!(
                    "--set-read-ahead is {other:?} but must be observe, repair or tune"
                ));
            }
        };
        let named = self.tune_read_ahead.len();
        if named > DISKS_MAX {
            return Err(format!(
                "--tune-read-ahead is given {named} times; the limit is {DISKS_MAX}"
            ));
        }
        if named > 0 && mode != Mode::Tune {
            return Err("--tune-read-ahead needs --set-read-ahead tune".to_owned());
        }
        Ok(Rules { mode, takes_loops: self.read_ahead_on_loops })
    }
}
