//! Flags of an arbiter in a Kubernetes cluster.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::bail;
use clap::{Args, value_parser};

use crate::k8s::Settings;

/// Longest name of the Lease: the names of all objects with state begin with it.
const NAME_BYTES_MAX: usize = 63;

#[derive(Debug, Args)]
pub(super) struct ClusterFlags {
    /// Keep state in this Kubernetes cluster instead of a file, and decide only while this replica holds a Lease there.
    #[arg(long)]
    kubernetes: bool,
    /// How to reach the cluster; without it the pod's service account, or what kubectl would take.
    #[arg(long, value_name = "FILE", requires = "kubernetes")]
    kubeconfig: Option<PathBuf>,
    /// Namespace of Lease and state; by default that of the pod or of the kubeconfig.
    #[arg(long, value_name = "NAMESPACE", requires = "kubernetes")]
    namespace: Option<String>,
    /// Name of the Lease; the names of the ConfigMaps with state begin with it.
    #[arg(long, value_name = "NAME", default_value = "sluice-arbiter", requires = "kubernetes")]
    lease: String,
    /// How long the Lease is good for: a leader that is gone is missed for so long, and one that cannot renew it stops after two thirds.
    #[arg(long, value_name = "MS", default_value_t = 15_000, requires = "kubernetes", value_parser = value_parser!(u64).range(1_000..=600_000))]
    lease_ms: u64,
}

impl ClusterFlags {
    /// Where in which cluster; `None` outside of one.
    pub(super) fn settings(&self) -> anyhow::Result<Option<Settings>> {
        if !self.kubernetes {
            return Ok(None);
        }
        for (flag, name) in
            [("--lease", Some(&self.lease)), ("--namespace", self.namespace.as_ref())]
        {
            if let Some(name) = name.filter(|name| !is_label(name)) {
                bail!(
                    "{flag} is {name:?}; use 1 to {NAME_BYTES_MAX} small letters, digits and '-', with a letter or digit at both ends"
                );
            }
        }
        Ok(Some(Settings {
            kubeconfig: self.kubeconfig.clone(),
            namespace: self.namespace.clone(),
            name: self.lease.clone(),
            identity: identity(),
            lease_ms: self.lease_ms,
        }))
    }
}

/// Whether Kubernetes takes it as the name of anything.
fn is_label(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = [name.bytes().next(), name.bytes().last()];
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|b| is_plain(b) || b == b'-')
        && ends.iter().flatten().all(|b| is_plain(*b))
}

/// The host's name, which in a pod is the pod's, with what tells two processes of it apart.
fn identity() -> String {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let host = host.unwrap_or_else(|| "arbiter".to_owned());
    format!("{host}_{}_{}", std::process::id(), since.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_kubernetes_would_refuse_are_refused_before() {
        for good in ["sluice-arbiter", "a", "1b"] {
            assert!(is_label(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a/b", &"a".repeat(64)] {
            assert!(!is_label(bad), "{bad}");
        }
    }
}
