//! The arbiter in a Kubernetes cluster. Nothing outside of this module names a type of Kubernetes.
//!
//! Of several replicas the one that holds a Lease decides (`lease`); the others wait and do not listen. What it must not
//! forget lies in ConfigMaps (`state`), which every replica can take up; taking them up raises the epoch there, and with
//! that no write of an earlier leader is taken any more. See docs/decisions/0010-state-in-kubernetes.md.

mod client;
mod lease;
mod log;
mod objects;
mod remote;
mod state;

use std::path::PathBuf;

use client::connect;
use lease::{Election, Lease};
pub(crate) use log::{Change, DECISIONS_MAX, decision_key};
pub(crate) use remote::{Lost, Remote, TakenUp};
pub(crate) use state::StateError;

/// Where in which cluster this arbiter belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// A kubeconfig; `None`: the pod's service account, or what `kubectl` would take.
    pub kubeconfig: Option<PathBuf>,
    /// Where lease and state lie; `None`: the namespace of the pod or of the kubeconfig.
    pub namespace: Option<String>,
    /// Name of the Lease, and the first part of the names of all objects with state.
    pub name: String,
    /// Who this replica is: no other process has or had this name.
    pub identity: String,
    /// How long the Lease is good for. Unit: ms.
    pub lease_ms: u64,
}
