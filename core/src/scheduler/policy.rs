//! How the scheduler decides: Kueue's rules, and Sluice's own on top, each of which can be switched off.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use crate::kueue::cycle::{self, Options};
use crate::kueue::matching::Labels;
use crate::kueue::preempt::{FairSharing, VictimPolicy, VictimRule, Weighing};

/// A rule of Sluice's own. None of them allows what Kueue's rules forbid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Of the victims allowed, the set that loses least work.
    LostWork,
    /// What is freed for a workload is held for it.
    HeldCapacity,
    /// A workload that was drained makes progress before it is drained again.
    ProductiveFloor,
    /// A workload that was drained more than once comes back only when demand has been low for a while.
    Hysteresis,
    /// A workload is drained at most so often in an hour.
    DrainBudget,
    /// Victims are chosen so that what they free lies together.
    TopologyVictims,
    /// Several workloads of one queue are looked at together, so that priority counts across queues.
    SeveralHeads,
    /// Several broken nodes under one workload are replaced together.
    MultiNodeReplacement,
    /// Degraded devices are given last.
    AvoidDegraded,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::LostWork,
        Self::HeldCapacity,
        Self::ProductiveFloor,
        Self::Hysteresis,
        Self::DrainBudget,
        Self::TopologyVictims,
        Self::SeveralHeads,
        Self::MultiNodeReplacement,
        Self::AvoidDegraded,
    ];

    /// Its stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LostWork => "lost-work",
            Self::HeldCapacity => "held-capacity",
            Self::ProductiveFloor => "productive-floor",
            Self::Hysteresis => "hysteresis",
            Self::DrainBudget => "drain-budget",
            Self::TopologyVictims => "topology-victims",
            Self::SeveralHeads => "several-heads",
            Self::MultiNodeReplacement => "multi-node-replacement",
            Self::AvoidDegraded => "avoid-degraded",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::as_str).join(", ");
        Self::ALL
            .into_iter()
            .find(|rule| rule.as_str() == text)
            .ok_or_else(|| format!("{text:?} is no rule; rules are {}", known()))
    }
}

/// Which of Sluice's own rules are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules(BTreeSet<Rule>);

impl Rules {
    /// All.
    #[must_use]
    pub fn all() -> Self {
        Self(Rule::ALL.into_iter().collect())
    }

    /// None: Kueue's rules alone.
    #[must_use]
    pub fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// The same without `rule`.
    #[must_use]
    pub fn without(mut self, rule: Rule) -> Self {
        self.0.remove(&rule);
        self
    }

    /// Whether `rule` is on.
    #[must_use]
    pub fn is_on(&self, rule: Rule) -> bool {
        self.0.contains(&rule)
    }

    /// Those that are on.
    pub fn iter(&self) -> impl Iterator<Item = Rule> {
        self.0.iter().copied()
    }
}

impl FromIterator<Rule> for Rules {
    fn from_iter<T: IntoIterator<Item = Rule>>(rules: T) -> Self {
        Self(rules.into_iter().collect())
    }
}

/// How the scheduler decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Who may be preempted, and with it who goes first.
    pub victims: VictimRule,
    /// Kueue's own rules that are switched off.
    pub off: BTreeSet<cycle::Rule>,
    /// Labels of the namespaces; one that is missing has none.
    pub namespaces: BTreeMap<String, Labels>,
    /// Sluice's rules.
    pub rules: Rules,
}

impl Policy {
    /// As Kueue decides, without fair sharing.
    #[must_use]
    pub fn compat() -> Self {
        Self {
            victims: VictimRule::Classical,
            off: BTreeSet::new(),
            namespaces: BTreeMap::new(),
            rules: Rules::none(),
        }
    }

    /// With all of Sluice's rules, without fair sharing.
    #[must_use]
    pub fn sluice() -> Self {
        Self { rules: Rules::all(), ..Self::compat() }
    }

    /// The same with fair sharing.
    #[must_use]
    pub fn with_fair_sharing(self) -> Self {
        Self { victims: VictimRule::FairSharing(FairSharing::default()), ..self }
    }

    /// The engine's options, with `weighing` if there is any.
    pub(super) fn options<'s>(&self, weighing: Option<Weighing<'s>>) -> Options<'s> {
        let victims = VictimPolicy { rule: self.victims.clone(), weighing };
        Options { victims, off: self.off.clone(), namespaces: self.namespaces.clone() }
    }
}
