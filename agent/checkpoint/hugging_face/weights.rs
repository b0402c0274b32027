//! Model weights and optimizer state under the names the Trainer and its backends give them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::io::{BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use sluice_core::checkpoint::IncompleteReason;

use super::super::deep_speed;
use super::super::walk::{Manifest, open_file};
use super::JSON_BYTES_MAX;

/// Weights in one file: whole models, adapters (PEFT) and full state of FSDP.
const WEIGHTS: [&str; 5] = [
    "model.safetensors",
    "pytorch_model.bin",
    "adapter_model.safetensors",
    "adapter_model.bin",
    "pytorch_model_fsdp.bin",
];

/// Optimizer state in one file.
const OPTIMIZERS: [&str; 2] = ["optimizer.pt", "optimizer.bin"];

/// Lists the files of weights that were split; written after them.
const INDEXES: [&str; 2] = ["model.safetensors.index.json", "pytorch_model.bin.index.json"];

/// Most files of one index that are looked up. The largest models have some 200; the bound keeps
/// a made-up index from filling memory.
const SHARDS_MAX: usize = 16_384;

/// Longest tag in the `latest` file of DeepSpeed that is read. Tags are `global_stepN`.
const TAG_BYTES_MAX: u64 = 256;

/// Checks that weights and optimizer state are there, whole as far as names show.
pub(super) fn check(
    checkpoint: &OwnedFd,
    manifest: &Manifest,
    world_size: u32,
) -> Result<(), IncompleteReason> {
    let is_filled = |path: &&str| manifest.regular(path).is_some_and(|file| file.stamp.bytes > 0);
    let sharded = check_indexes(checkpoint, manifest)?;
    let deep_speed = check_deep_speed(checkpoint, manifest, world_size)?;
    let has_weights = sharded
        || deep_speed
        || WEIGHTS.iter().any(&is_filled)
        || has_distributed(manifest, "pytorch_model_fsdp_");
    if !has_weights {
        return Err(IncompleteReason::WeightsMissing);
    }
    let has_optimizer =
        deep_speed || OPTIMIZERS.iter().any(is_filled) || has_distributed(manifest, "optimizer_");
    has_optimizer.then_some(()).ok_or(IncompleteReason::OptimizerMissing)
}

/// A directory `<prefix><number>/` with the `.metadata` that a distributed save writes last.
fn has_distributed(manifest: &Manifest, prefix: &str) -> bool {
    manifest.filled().any(|(path, _)| {
        let number = path.to_str().and_then(|path| path.strip_prefix(prefix));
        let number = number.and_then(|rest| rest.strip_suffix("/.metadata"));
        number.is_some_and(|number| !number.is_empty() && !number.contains('/'))
    })
}

/// Whether there is an index, and all it lists.
fn check_indexes(checkpoint: &OwnedFd, manifest: &Manifest) -> Result<bool, IncompleteReason> {
    let mut is_sharded = false;
    for index in INDEXES {
        let Some(entry) = manifest.regular(index) else { continue };
        is_sharded = true;
        let marker = index.to_owned();
        if entry.stamp.bytes > JSON_BYTES_MAX {
            let (bytes, limit_bytes) = (entry.stamp.bytes, JSON_BYTES_MAX);
            return Err(IncompleteReason::MarkerTooLarge { marker, bytes, limit_bytes });
        }
        let file = open_file(checkpoint, OsStr::new(index))?;
        let parsed = serde_json::from_reader(BufReader::new(file.take(JSON_BYTES_MAX)));
        let Index { weight_map: Shards(shards) } = parsed.map_err(|error| {
            IncompleteReason::MarkerInvalid { marker: marker.clone(), detail: error.to_string() }
        })?;
        if shards.is_empty() {
            let detail = "it lists no files".to_owned();
            return Err(IncompleteReason::MarkerInvalid { marker, detail });
        }
        // Only looked up among the files found: a listed path is never opened.
        let is_missing =
            |shard: &&String| manifest.regular(shard).is_none_or(|file| file.stamp.bytes == 0);
        if let Some(file) = shards.iter().find(is_missing) {
            return Err(IncompleteReason::ShardMissing { index: marker, file: file.clone() });
        }
    }
    Ok(is_sharded)
}

/// Whether DeepSpeed saved here, and all ranks did. `latest` names the directory and is written
/// last; each rank has its own file of optimizer state unless ZeRO is off.
fn check_deep_speed(
    checkpoint: &OwnedFd,
    manifest: &Manifest,
    world_size: u32,
) -> Result<bool, IncompleteReason> {
    let is_there = manifest.files.keys().any(|path| path.as_bytes().starts_with(b"global_step"));
    if !is_there {
        return Ok(false);
    }
    if manifest.regular("latest").is_none() {
        return Err(IncompleteReason::MarkerMissing { marker: "latest".to_owned() });
    }
    let mut tag = String::new();
    let mut file = open_file(checkpoint, OsStr::new("latest"))?.take(TAG_BYTES_MAX);
    file.read_to_string(&mut tag).map_err(|error| IncompleteReason::MarkerInvalid {
        marker: "latest".to_owned(),
        detail: error.to_string(),
    })?;
    deep_speed::check_states(manifest, &format!("{}/", tag.trim()), world_size)?;
    Ok(true)
}

/// `*.index.json`, of which only the names of the files are kept.
#[derive(Debug, Deserialize)]
struct Index {
    weight_map: Shards,
}

/// The values of `weight_map` without the many names of tensors.
#[derive(Debug)]
struct Shards(BTreeSet<String>);

impl<'de> Deserialize<'de> for Shards {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ShardVisitor)
    }
}

struct ShardVisitor;

impl<'de> Visitor<'de> for ShardVisitor {
    type Value = Shards;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map from tensor to file name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shards, A::Error> {
        let mut shards = BTreeSet::new();
        while let Some((_, shard)) = map.next_entry::<serde::de::IgnoredAny, String>()? {
            if shards.len() < SHARDS_MAX {
                shards.insert(shard);
            }
        }
        Ok(Shards(shards))
    }
}
