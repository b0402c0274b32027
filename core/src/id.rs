//! Names of things: newtypes that order, print and parse; cheap to copy about.
//!
//! A name is 1 to 253 characters of letters, digits, `-`, `_`, `.`, `/` and `:`, so that it can stand
//! in a file name (after encoding), a metric label and a table without quoting.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Longest name, in bytes. The limit of Kubernetes object names.
pub const NAME_BYTES_MAX: usize = 253;

/// A name that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameError {
    kind: &'static str,
    value: String,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.value.chars().take(64).collect();
        write!(
            f,
            "{} {shown:?} is not a name; use 1 to {NAME_BYTES_MAX} letters, digits, '-', '_', '.', '/' or ':'",
            self.kind
        )
    }
}

impl std::error::Error for NameError {}

fn is_name(value: &str) -> bool {
    let allowed =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/' | b':');
    (1..=NAME_BYTES_MAX).contains(&value.len()) && value.bytes().all(allowed)
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $kind:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(value: &str) -> Result<Self, NameError> {
                if is_name(value) {
                    Ok(Self(value.into()))
                } else {
                    Err(NameError { kind: $kind, value: value.to_owned() })
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    )*};
}

names! {
    /// A node, as its agent calls itself.
    NodeName = "node";
    /// A workload: one gang of workers.
    WorkloadName = "workload";
    /// A queue (a ClusterQueue or a LocalQueue in Kueue's words).
    QueueName = "queue";
    /// A device on its node, such as a GPU's UUID.
    DeviceId = "device";
    /// A kind of thing that can be asked for, such as `nvidia.com/gpu`.
    ResourceName = "resource";
    /// One drain of one gang.
    DrainId = "drain";
    /// One `sluice run` process.
    LauncherId = "launcher";
}

/// One worker process: a rank of one attempt of a workload.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId {
    /// The workload.
    pub workload: WorkloadName,
    /// Which start of the workload, from 1.
    pub attempt: u32,
    /// Which member of the gang, from 0.
    pub rank: u32,
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.workload, self.attempt, self.rank)
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl FromStr for WorkerId {
    type Err = NameError;

    fn from_str(value: &str) -> Result<Self, NameError> {
        let error = || NameError { kind: "worker", value: value.to_owned() };
        let mut parts = value.rsplitn(3, '/');
        let rank = parts.next().and_then(|p| p.parse().ok()).ok_or_else(error)?;
        let attempt = parts.next().and_then(|p| p.parse().ok()).ok_or_else(error)?;
        let workload = parts.next().ok_or_else(error)?.parse()?;
        Ok(Self { workload, attempt, rank })
    }
}
