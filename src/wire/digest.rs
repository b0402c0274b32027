//! A digest of what one agent has told the arbiter, computed alike on both sides, so that drift is found.
//!
//! Each entity of a node has a key (`n` for its health, `d/<device id>`, `v/<volume name>`, `w/<workload>/<attempt>/<rank>`) and the
//! FNV-1a hash of its encoded message *without volatile facts* (ages, rates, counters, holders, running time, the
//! values inside reasons). The digest is the FNV-1a hash over all keys in order, each followed by its entity's hash.
//! Pressure is all volatile and not in it. Both sides hold nothing but the 8 bytes per entity of [`EntityHashes`] and
//! feed it the same [`pb::Report`]s.
//!
//! The hash finds differences that happened, not ones that an attacker made: whoever may send reports may send any.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use prost::Message;

use super::pb;

/// FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Entities of one node by key, each with the hash of its stable facts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntityHashes(BTreeMap<String, u64>);

impl EntityHashes {
    /// Takes over a report: what it names is new or changed, what it lists as removed is gone, and if it is full
    /// everything else is gone too.
    pub fn apply(&mut self, report: &pb::Report) {
        if report.full {
            self.0.clear();
        }
        let removed = report.removed_devices.iter().map(|id| device_key(id));
        let removed = removed.chain(report.removed_volumes.iter().map(|name| volume_key(name)));
        for key in removed.chain(report.removed_workers.iter().map(|id| worker_key(id))) {
            self.0.remove(&key);
        }
        let devices = report.devices.iter().map(|d| (device_key(&d.id), device_hash(d)));
        let volumes = report.volumes.iter().map(|v| (volume_key(&v.device), volume_hash(v)));
        let workers = report.workers.iter().map(|w| (worker_key(&worker_id(w)), worker_hash(w)));
        let health = report.health.iter().map(|h| (NODE_KEY.to_owned(), node_hash(h)));
        self.0.extend(devices.chain(volumes).chain(workers).chain(health));
    }

    /// The digest. 0 stands for "none" on the wire and is what a node without any entity has.
    #[must_use]
    pub fn digest(&self) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        let mut hash = FNV_OFFSET;
        for (key, entity) in &self.0 {
            hash = fnv(hash, key.as_bytes());
            // A zero byte cannot stand in a key, so keys and hashes cannot be shifted against each other.
            hash = fnv(hash, &[0]);
            hash = fnv(hash, &entity.to_le_bytes());
        }
        hash
    }

    /// The hash that the entity with this key had when it was last reported.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<u64> {
        self.0.get(key).copied()
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Number of entities.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if nothing is known of the node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Key of the node's own health.
pub const NODE_KEY: &str = "n";

/// Key of a device.
#[must_use]
pub fn device_key(id: &str) -> String {
    format!("d/{id}")
}

/// Key of a volume.
#[must_use]
pub fn volume_key(name: &str) -> String {
    format!("v/{name}")
}

/// Key of a worker, named as `workload/attempt/rank`.
#[must_use]
pub fn worker_key(id: &str) -> String {
    format!("w/{id}")
}

/// A worker's name as `workload/attempt/rank`.
#[must_use]
pub fn worker_id(worker: &pb::Worker) -> String {
    format!("{}/{}/{}", worker.workload, worker.attempt, worker.rank)
}

/// Hash of a device's stable facts.
#[must_use]
pub fn device_hash(device: &pb::Device) -> u64 {
    hash(&pb::Device {
        holder_pids: Vec::new(),
        age_ms: None,
        health_reason: device.health_reason.as_ref().map(code_only),
        faults: device.faults.iter().map(timeless).collect(),
        ..device.clone()
    })
}

/// Hash of the stable facts of the node's health.
#[must_use]
pub fn node_hash(health: &pb::NodeHealth) -> u64 {
    hash(&pb::NodeHealth {
        faults: health.faults.iter().map(timeless).collect(),
        kernel_log: None,
        ..health.clone()
    })
}

/// A fault without what may differ from second to second.
fn timeless(fault: &pb::Fault) -> pb::Fault {
    let reason = fault.reason.as_ref().map(code_only);
    pb::Fault { reason, since_age_ms: 0, seen_age_ms: 0, count: 0, ..fault.clone() }
}

/// Hash of a volume's stable facts.
#[must_use]
pub fn volume_hash(volume: &pb::Volume) -> u64 {
    let code_alone = |finding: &pb::VolumeFinding| pb::VolumeFinding {
        reason: finding.reason.as_ref().map(code_only),
        severity: String::new(),
    };
    hash(&pb::Volume {
        rates: None,
        counters: None,
        age_ms: None,
        findings: volume.findings.iter().map(code_alone).collect(),
        ..volume.clone()
    })
}

/// Hash of a worker's stable facts.
#[must_use]
pub fn worker_hash(worker: &pb::Worker) -> u64 {
    hash(&pb::Worker {
        checkpoint_age_ms: None,
        running_ms: 0,
        processes: 0,
        checkpoint_problem: worker.checkpoint_problem.as_ref().map(code_only),
        client_problem: worker.client_problem.as_ref().map(code_only),
        ..worker.clone()
    })
}

/// A reason without what may differ from second to second.
fn code_only(reason: &pb::Reason) -> pb::Reason {
    pb::Reason { code: reason.code.clone(), ..pb::Reason::default() }
}

/// Maps are ordered in the generated types, so equal messages have equal bytes.
fn hash(message: &impl Message) -> u64 {
    fnv(FNV_OFFSET, &message.encode_to_vec())
}

fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}
