//! Priority classes: Kueue's own and those of pods.

use super::field::Object;
use super::findings::Kind;
use super::problem::{NoteKind, ProblemKind};
use super::{PriorityClass, PrioritySource};

/// Highest priority that is not kept for the system: Kubernetes' limit.
const USER_PRIORITY_MAX: i32 = 1_000_000_000;

/// Classes that every cluster has.
pub(super) const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Reads a class; its fields stand at the top of the document. `None` where it has no value.
pub(super) fn priority_class(
    name: &str,
    kind: Kind,
    object: &mut Object<'_>,
) -> Option<PriorityClass> {
    object.pass_over(&["description"]);
    let value_field = object.take("value");
    let value = value_field.priority();
    if value_field.is_absent() {
        value_field.must_be(ProblemKind::MissingField, "a whole number");
    }
    if kind == Kind::WorkloadPriorityClass {
        let source = PrioritySource::Workload;
        return Some(PriorityClass {
            name: name.to_owned(),
            value: value?,
            source,
            is_default: false,
        });
    }
    let is_default = object.take("globalDefault").flag();
    let policy_field = object.take("preemptionPolicy");
    let policies = [("PreemptLowerPriority", true), ("Never", false)];
    if policy_field.word(&policies) == Some(false) {
        let message = "is Never, at which Kueue does not look: whom a workload preempts is said by its ClusterQueue";
        policy_field.note(NoteKind::PreemptionPolicyIgnored, message);
    }
    if value? > USER_PRIORITY_MAX && !BUILT_IN.contains(&(name, value?)) {
        let expected = format!("at most {USER_PRIORITY_MAX}: what is above is kept for the system");
        value_field.must_be(ProblemKind::BadValue, &expected);
    }
    let source = PrioritySource::Pod;
    Some(PriorityClass { name: name.to_owned(), value: value?, source, is_default })
}
