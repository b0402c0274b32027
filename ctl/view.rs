//! What is printed as JSON and YAML, and what tables are made from: the CLI's own values.
//!
//! They are made from what the servers say, tolerate what this version does not know, and are the
//! schema `sluice.dev/v1`: field names hold their units, fields are only added, absent values are
//! `null`, points in time are RFC 3339 in UTC.

pub(crate) mod drain;
pub(crate) mod explain;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod health;
pub(crate) mod node;
pub(crate) mod queue;
pub(crate) mod slice;
pub(crate) mod workload;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use sluice::wire::pb;
use sluice_core::checkpoint::Grade;

use crate::text::{ms_between, timestamp};

/// Why something is as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ReasonView {
    /// Stable code, such as `waiting-for-quota`.
    pub(crate) code: String,
    /// What, with values.
    pub(crate) message: String,
    /// How to change it; empty if nothing need be done.
    pub(crate) hint: String,
    /// The values by name.
    pub(crate) values: BTreeMap<String, String>,
}

impl ReasonView {
    /// As a server says it; all empty where it says nothing.
    pub(crate) fn of(reason: Option<&pb::Reason>) -> Self {
        reason.map_or_else(Self::default, |r| Self {
            code: r.code.clone(),
            message: r.message.clone(),
            hint: r.hint.clone(),
            values: r.values.clone(),
        })
    }
}

/// A point in time and how long ago that was when it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct When {
    /// The point.
    pub(crate) at: Timestamp,
    /// Its age, on this machine's clock.
    pub(crate) age_ms: u64,
}

impl When {
    /// As a server says it; `None` where it says nothing.
    pub(crate) fn of(wire: Option<&prost_types::Timestamp>, now: Timestamp) -> Option<Self> {
        timestamp(wire).map(|at| Self { at, age_ms: ms_between(at, now) })
    }
}

impl Serialize for When {
    /// Only the point: an age would make equal things differ.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.at)
    }
}

/// A complete checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CheckpointView {
    /// Training step.
    pub(crate) step: u64,
    /// Where it lies on its node.
    pub(crate) path: String,
    /// Its size.
    pub(crate) bytes: u64,
    /// Its number of files.
    pub(crate) files: u32,
    /// What showed that it is complete.
    pub(crate) marker: String,
    /// How far it was checked.
    pub(crate) grade: &'static str,
}

impl CheckpointView {
    /// As a server says it.
    pub(crate) fn of(checkpoint: &pb::Checkpoint) -> Self {
        Self {
            step: checkpoint.step,
            path: checkpoint.path.clone(),
            bytes: checkpoint.bytes,
            files: checkpoint.files,
            marker: checkpoint.marker.clone(),
            grade: Grade::from(checkpoint.grade()).as_str(),
        }
    }
}

/// The word for a drain mode.
pub(crate) fn mode_word(mode: pb::DrainMode) -> &'static str {
    match mode {
        pb::DrainMode::Unspecified => "UNKNOWN",
        pb::DrainMode::KillFresh => "KILL-FRESH",
        pb::DrainMode::Boundary => "BOUNDARY",
        pb::DrainMode::Client => "CLIENT",
        pb::DrainMode::Signal => "SIGNAL",
        pb::DrainMode::Kill => "KILL",
    }
}

/// The word for a checkpoint format.
pub(crate) fn format_word(format: pb::CheckpointFormat) -> &'static str {
    match format {
        pb::CheckpointFormat::Unspecified => "auto",
        pb::CheckpointFormat::HuggingFace => "hugging-face",
        pb::CheckpointFormat::Rename => "rename",
        pb::CheckpointFormat::TorchDistributed => "torch-distributed",
        pb::CheckpointFormat::Megatron => "megatron",
        pb::CheckpointFormat::DeepSpeed => "deep-speed",
        pb::CheckpointFormat::Orbax => "orbax",
        pb::CheckpointFormat::Lightning => "lightning",
        pb::CheckpointFormat::Generic => "generic",
    }
}
