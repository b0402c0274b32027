//! The names by which Kueue's objects refer to each other, each a type of its own.
//!
//! All of them order as their text does, because Kueue breaks its last ties on names. Cloning one is cheap.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The order of two texts. Copies of one name share its text, which then need not be read.
fn compare(a: &Arc<str>, b: &Arc<str>) -> Ordering {
    if Arc::ptr_eq(a, b) { Ordering::Equal } else { a.cmp(b) }
}

macro_rules! name_types {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub struct $name(Arc<str>);

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                compare(&self.0, &other.0)
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    )*};
}

name_types! {
    /// Name of a `ResourceFlavor`: one kind of hardware, for example `a3-mega`.
    FlavorName;
    /// Name of a resource that pods request, for example `nvidia.com/gpu` or `cpu`.
    ResourceName;
    /// Name of a `ClusterQueue`.
    QueueName;
    /// Name of a `Cohort`.
    CohortName;
    /// Name of a `LocalQueue`; unique only within its namespace.
    LocalQueueName;
    /// Name of a `Topology`.
    TopologyName;
    /// Name of a pod set; unique within its workload.
    PodSetName;
    /// Name of an `AdmissionCheck`.
    CheckName;
}

/// A workload's namespace and name: unique in the cluster, and ordered as the text `namespace/name`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WorkloadKey {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl Ord for WorkloadKey {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.namespace, &other.namespace).then_with(|| compare(&self.name, &other.name))
    }
}

impl PartialOrd for WorkloadKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl WorkloadKey {
    /// The key of the workload `name` in `namespace`; standalone workloads have an empty namespace.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: Arc::from(namespace), name: Arc::from(name) }
    }

    /// The namespace; empty for standalone workloads.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name within the namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

impl fmt::Debug for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// A resource of one flavor: what quota is counted in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlavorResource {
    /// Which hardware.
    pub flavor: FlavorName,
    /// Which of its resources.
    pub resource: ResourceName,
}

impl FlavorResource {
    /// The resource `resource` of flavor `flavor`.
    #[must_use]
    pub fn new(flavor: &FlavorName, resource: &ResourceName) -> Self {
        Self { flavor: flavor.clone(), resource: resource.clone() }
    }
}

impl fmt::Display for FlavorResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.resource, self.flavor)
    }
}
