//! What could be different, as people write it: `priority=30`, `quota:research/a3/nvidia.com/gpu=+4`.

use std::fmt;
use std::str::FromStr;

use crate::arbiter::engine::{amount_of, key_of};
use crate::id::{QueueName, ResourceName, WorkloadName};
use crate::kueue::name::FlavorResource;
use crate::kueue::workload::TopologyMode;
use crate::queue::Queues;
use crate::reason::Reason;
use crate::scheduler::{self, Rule};
use crate::workload::{RANKS_MAX, WorkloadSpec};

/// The forms of a what-if text, for messages.
pub const WHAT_IF_FORMS: &str = "priority=N, nnodes=N, resource:RESOURCE=N, queue=NAME, topology=MODE, \
                                 quota:QUEUE/FLAVOR/RESOURCE=+N, without=WORKLOAD, rule-off=RULE, rule-on=RULE";
/// The modes of a topology in a what-if text, for messages.
pub const TOPOLOGY_FORMS: &str = "required=LEVEL, preferred=LEVEL, unconstrained, none";

/// Something that could be different about a workload or its cluster. Whole units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Its priority.
    Priority(i32),
    /// Its number of ranks. Range: 1 and more.
    Ranks(u32),
    /// What each rank asks for of a resource; 0: none.
    Resource(ResourceName, u64),
    /// Its queue.
    Queue(QueueName),
    /// How its ranks must lie to each other; `None`: anyhow.
    Topology(Option<TopologyMode>),
    /// Quota of a queue.
    Quota {
        /// The queue's own name.
        queue: QueueName,
        /// The flavor.
        flavor: String,
        /// The resource.
        resource: ResourceName,
        /// How much more; below 0: less.
        more: i64,
    },
    /// Another workload, as if it had ended.
    Without(WorkloadName),
    /// One of Sluice's rules, as if it were off.
    RuleOff(Rule),
    /// One of Sluice's rules, as if it were on.
    RuleOn(Rule),
}

impl Change {
    /// The same for the scheduler.
    ///
    /// # Errors
    /// [`Reason::BadWhatIf`] if it is a queue that there is not.
    pub(super) fn for_scheduler(&self, queues: &Queues) -> Result<scheduler::Change, Reason> {
        use scheduler::Change as Engine;
        Ok(match self {
            Self::Priority(priority) => Engine::Priority(*priority),
            Self::Ranks(ranks) => Engine::Ranks(*ranks),
            Self::Resource(resource, quantity) => {
                Engine::Resource(resource.as_str().into(), amount_of(resource, *quantity))
            }
            Self::Queue(queue) => {
                let known = || queues.setup.queues.iter().map(|queue| queue.name.to_string());
                let found = queues.find(queue).ok_or_else(|| {
                    let known = known().collect::<Vec<_>>().join(", ");
                    let why = format!("there is no queue {queue}; there are: {known}");
                    Reason::BadWhatIf { change: self.to_string(), why }
                })?;
                Engine::Queue(found.name.clone())
            }
            Self::Topology(mode) => Engine::Topology(mode.clone()),
            Self::Quota { queue, flavor, resource, more } => {
                let amount = amount_of(resource, more.unsigned_abs());
                Engine::Quota {
                    queue: queue.as_str().into(),
                    fr: FlavorResource::new(&flavor.as_str().into(), &resource.as_str().into()),
                    more: if *more < 0 { -amount } else { amount },
                }
            }
            Self::Without(workload) => Engine::Without(key_of(workload)),
            Self::RuleOff(rule) => Engine::RuleOff(*rule),
            Self::RuleOn(rule) => Engine::RuleOn(*rule),
        })
    }

    /// Makes it so in `spec`, as far as it concerns that.
    pub(super) fn apply_to(&self, spec: &mut WorkloadSpec) {
        match self {
            Self::Priority(priority) => spec.priority = *priority,
            Self::Ranks(ranks) => spec.nnodes = *ranks,
            Self::Resource(resource, 0) => {
                spec.resources.remove(resource);
            }
            Self::Resource(resource, quantity) => {
                spec.resources.insert(resource.clone(), *quantity);
            }
            Self::Queue(queue) => spec.queue = queue.clone(),
            Self::Topology(mode) => spec.topology.clone_from(mode),
            Self::Quota { .. } | Self::Without(_) | Self::RuleOff(_) | Self::RuleOn(_) => {}
        }
    }
}

/// A topology as it is written in a what-if text.
pub(in crate::arbiter) fn topology_text(mode: Option<&TopologyMode>) -> String {
    match mode {
        Some(TopologyMode::Required(level)) => format!("required={level}"),
        Some(TopologyMode::Preferred(level)) => format!("preferred={level}"),
        Some(TopologyMode::Unconstrained) => "unconstrained".to_owned(),
        None => "none".to_owned(),
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Priority(priority) => write!(f, "priority={priority}"),
            Self::Ranks(ranks) => write!(f, "nnodes={ranks}"),
            Self::Resource(resource, quantity) => write!(f, "resource:{resource}={quantity}"),
            Self::Queue(queue) => write!(f, "queue={queue}"),
            Self::Topology(mode) => write!(f, "topology={}", topology_text(mode.as_ref())),
            Self::Quota { queue, flavor, resource, more } => {
                write!(f, "quota:{queue}/{flavor}/{resource}={more:+}")
            }
            Self::Without(workload) => write!(f, "without={workload}"),
            Self::RuleOff(rule) => write!(f, "rule-off={rule}"),
            Self::RuleOn(rule) => write!(f, "rule-on={rule}"),
        }
    }
}

impl FromStr for Change {
    type Err = Reason;

    /// Reads what [`Change`] prints.
    ///
    /// # Errors
    /// [`Reason::BadWhatIf`] with the part that is wrong and what it may be.
    fn from_str(text: &str) -> Result<Self, Reason> {
        parse(text)
            .map_err(|why| Reason::BadWhatIf { change: text.chars().take(128).collect(), why })
    }
}

fn parse(text: &str) -> Result<Change, String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("there is no \"=\"; use one of {WHAT_IF_FORMS}"))?;
    let (kind, about) = key.split_once(':').unwrap_or((key, ""));
    match (kind, about) {
        ("priority", "") => {
            whole(value, "a priority", "-2147483648 to 2147483647").map(Change::Priority)
        }
        ("nnodes", "") => {
            let range = format!("1 to {RANKS_MAX}");
            let ranks: u32 = whole(value, "a number of ranks", &range)?;
            let is_in_range = (1..=RANKS_MAX).contains(&ranks);
            is_in_range
                .then_some(Change::Ranks(ranks))
                .ok_or_else(|| format!("{ranks} ranks; use {range}"))
        }
        ("resource", about) if !about.is_empty() => {
            let quantity =
                whole(value, "an amount per rank", "0 and more, in whole units (CPUs for cpu)")?;
            Ok(Change::Resource(name(about)?, quantity))
        }
        ("queue", "") => name(value).map(Change::Queue),
        ("topology", "") => topology(value).map(Change::Topology),
        ("quota", about) => quota(about, value),
        ("without", "") => name(value).map(Change::Without),
        ("rule-off", "") => value.parse().map(Change::RuleOff),
        ("rule-on", "") => value.parse().map(Change::RuleOn),
        _ => Err(format!("{key:?} cannot be changed; use one of {WHAT_IF_FORMS}")),
    }
}

fn name<T: FromStr>(text: &str) -> Result<T, String>
where
    T::Err: fmt::Display,
{
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn whole<T: FromStr>(text: &str, what: &str, range: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not {what}; use {range}"))
}

fn topology(text: &str) -> Result<Option<TopologyMode>, String> {
    // As sluice run has it, and with a colon as it was once.
    match text.split_once(['=', ':']).unwrap_or((text, "")) {
        ("required", level) if !level.is_empty() => {
            Ok(Some(TopologyMode::Required(level.to_owned())))
        }
        ("preferred", level) if !level.is_empty() => {
            Ok(Some(TopologyMode::Preferred(level.to_owned())))
        }
        ("unconstrained", "") => Ok(Some(TopologyMode::Unconstrained)),
        ("none", "") => Ok(None),
        _ => Err(format!(
            "{text:?} is no topology; use one of {TOPOLOGY_FORMS} (a level is a node label key)"
        )),
    }
}

fn quota(about: &str, value: &str) -> Result<Change, String> {
    let form = "use quota:QUEUE/FLAVOR/RESOURCE=+N";
    let mut parts = about.splitn(3, '/').filter(|part| !part.is_empty());
    let (Some(queue), Some(flavor), Some(resource)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(format!("{about:?} names no queue, flavor and resource; {form}"));
    };
    if !value.starts_with(['+', '-']) {
        return Err(format!(
            "{value:?} has no sign, so it is not clear whether it is more or less; {form}"
        ));
    }
    let more: i64 = whole(value, "an amount", "+N or -N, in whole units (CPUs for cpu)")?;
    Ok(Change::Quota {
        queue: name(queue)?,
        flavor: flavor.to_owned(),
        resource: name(resource)?,
        more,
    })
}
