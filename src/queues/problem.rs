//! What is wrong with a configuration, and what people should know about it.

use std::fmt;
use std::sync::Arc;

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file's name, as it was given; `-` for standard input.
    pub source: Arc<str>,
    /// Number of the document in the file, from 1; documents without content do not count. 0 for the file as a whole.
    pub document: usize,
    /// Line at which the document begins, from 1. 0 for the file as a whole.
    pub line: u64,
    /// Its kind, as far as it says so; the beginning of a long one.
    pub kind: Option<String>,
    /// Its name, as far as it says so; the beginning of a long one.
    pub name: Option<String>,
}

impl Place {
    /// A file as a whole.
    #[must_use]
    pub fn file(source: &Arc<str>) -> Self {
        Self { source: source.clone(), document: 0, line: 0, kind: None, name: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if self.document == 0 {
            return Ok(());
        }
        write!(f, ": document {}, line {}", self.document, self.line)?;
        match (&self.kind, &self.name) {
            (Some(kind), Some(name)) => write!(f, " ({} {name:?})", plain(kind)),
            (Some(kind), None) => write!(f, " ({} without a name)", plain(kind)),
            (None, _) => Ok(()),
        }
    }
}

/// Longest part of a bad value that is repeated. Unit: characters.
const SHOWN_CHARS_MAX: usize = 80;

/// `text`, or its beginning if it is long: nobody is helped by megabytes.
pub(super) fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// A word as it is, and anything else quoted so that it cannot disturb a terminal.
fn plain(word: &str) -> String {
    let is_plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_plain { word.to_owned() } else { format!("{word:?}") }
}

/// What kind of thing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemKind {
    /// The file cannot be read, is too large or no text.
    UnreadableFile,
    /// It is not YAML, or goes beyond the limits of what is read.
    BadYaml,
    /// Kueue has no such kind.
    UnknownKind,
    /// This kind is not read in that version.
    UnknownVersion,
    /// There is no such field.
    UnknownField,
    /// A field is absent that has to be there.
    MissingField,
    /// A list where a text should be, and the like.
    WrongType,
    /// Not one of the values that are possible.
    BadValue,
    /// A name, key or label that Kubernetes would not take.
    BadName,
    /// Not a quantity.
    BadQuantity,
    /// A quota or weight below zero.
    NegativeQuantity,
    /// A quantity that 63 bits do not hold.
    QuantityTooLarge,
    /// Two objects of one kind have one name.
    DuplicateName,
    /// The same thing twice in one object.
    DuplicateEntry,
    /// A flavor's resources are not those its group covers.
    ResourcesDiffer,
    /// A borrowing or lending limit where there is no cohort.
    LimitWithoutCohort,
    /// A queue would lend more than it has.
    LendingAboveNominal,
    /// More entries than Kueue or Sluice takes.
    TooMany,
    /// Fields that exclude each other.
    ConflictingFields,
    /// A feature of Kueue that is not done here and would change decisions.
    NotFollowed,
    /// Something is named that does not exist.
    NoSuchObject,
    /// Cohorts whose parents form a circle.
    CohortCycle,
    /// Cohorts nested too deep.
    CohortTooDeep,
    /// `kubernetes.io/hostname` is not the lowest level of a topology.
    HostnameNotLast,
    /// There is no ClusterQueue at all.
    NoClusterQueue,
}

impl ProblemKind {
    /// A stable code, for programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::UnreadableFile => "unreadable-file",
            Self::BadYaml => "bad-yaml",
            Self::UnknownKind => "unknown-kind",
            Self::UnknownVersion => "unknown-version",
            Self::UnknownField => "unknown-field",
            Self::MissingField => "missing-field",
            Self::WrongType => "wrong-type",
            Self::BadValue => "bad-value",
            Self::BadName => "bad-name",
            Self::BadQuantity => "bad-quantity",
            Self::NegativeQuantity => "negative-quantity",
            Self::QuantityTooLarge => "quantity-too-large",
            Self::DuplicateName => "duplicate-name",
            Self::DuplicateEntry => "duplicate-entry",
            Self::ResourcesDiffer => "resources-differ",
            Self::LimitWithoutCohort => "limit-without-cohort",
            Self::LendingAboveNominal => "lending-above-nominal",
            Self::TooMany => "too-many",
            Self::ConflictingFields => "conflicting-fields",
            Self::NotFollowed => "not-followed",
            Self::NoSuchObject => "no-such-object",
            Self::CohortCycle => "cohort-cycle",
            Self::CohortTooDeep => "cohort-too-deep",
            Self::HostnameNotLast => "hostname-not-last",
            Self::NoClusterQueue => "no-cluster-queue",
        }
    }
}

/// What kind of thing people should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteKind {
    /// A document of a kind that defines no queues.
    SkippedKind,
    /// A part of a device counts as a whole one.
    RoundedUp,
    /// A queue without a namespace selector: nobody may use it.
    AdmitsNobody,
    /// A LocalQueue in a namespace that its ClusterQueue does not let in.
    NamespaceNotAdmitted,
    /// A queue without quota: it admits nothing that asks for anything.
    NoQuota,
    /// A queue that is stopped.
    StoppedQueue,
    /// An admission check whose controller says that it is not ready.
    InactiveCheck,
    /// A rule of an admission check for a flavor that the queue does not offer.
    FlavorNotOffered,
    /// Kueue wants the resources of a flavor in the order in which the group covers them.
    ResourceOrder,
    /// A cohort with a single member, which has nobody to borrow from.
    LoneCohort,
    /// Kueue does not look at the preemption policy of a PriorityClass.
    PreemptionPolicyIgnored,
    /// Nodes that do not say how many pods they take.
    PodsAssumed,
    /// An arbiter without Kubernetes does not serve it.
    NotServed,
}

impl NoteKind {
    /// A stable code, for programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::SkippedKind => "skipped-kind",
            Self::RoundedUp => "rounded-up",
            Self::AdmitsNobody => "admits-nobody",
            Self::NamespaceNotAdmitted => "namespace-not-admitted",
            Self::NoQuota => "no-quota",
            Self::StoppedQueue => "stopped-queue",
            Self::InactiveCheck => "inactive-check",
            Self::FlavorNotOffered => "flavor-not-offered",
            Self::ResourceOrder => "resource-order",
            Self::LoneCohort => "lone-cohort",
            Self::PreemptionPolicyIgnored => "preemption-policy-ignored",
            Self::PodsAssumed => "pods-assumed",
            Self::NotServed => "not-served",
        }
    }
}

/// Something that is wrong: without mending it the configuration is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What kind of thing is wrong.
    pub kind: ProblemKind,
    /// Where; `None` if it is about all files together.
    pub place: Option<Arc<Place>>,
    /// The field, such as `spec.resourceGroups[0].flavors[1].name`; empty for the document as a whole.
    pub path: String,
    /// What is wrong with it and how to mend it. Follows the path in a sentence.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{} ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Something that people should know; it keeps nobody from using the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What kind of thing it is.
    pub kind: NoteKind,
    /// Where; `None` if it is about all files together.
    pub place: Option<Arc<Place>>,
    /// What it is and what follows from it.
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Everything that is wrong with a configuration, at most [`super::PROBLEMS_MAX`] of it in full.
pub type Problems = crate::problems::Problems<Problem>;
