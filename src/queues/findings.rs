//! What reading has brought up so far: problems, notes, which objects there are and which are referred to.
//!
//! Readers go on after a problem, so that people see everything that is wrong at once. All of them share one
//! [`Findings`]; it bounds how much is kept.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::problem::{Note, NoteKind, Place, Problem, ProblemKind, Problems};
use super::spelling::did_you_mean;

/// Most problems that are kept: more than anybody mends at once.
pub const PROBLEMS_MAX: usize = 50;
/// Most notes that are kept.
pub const NOTES_MAX: usize = 500;

/// Objects that others refer to, or that may exist only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    Namespace,
    Node,
    PriorityClass,
    ResourceFlavor,
    Topology,
    WorkloadPriorityClass,
}

impl Kind {
    /// As documents write it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::AdmissionCheck => "AdmissionCheck",
            Self::ClusterQueue => "ClusterQueue",
            Self::Cohort => "Cohort",
            Self::LocalQueue => "LocalQueue",
            Self::Namespace => "Namespace",
            Self::Node => "Node",
            Self::PriorityClass => "PriorityClass",
            Self::ResourceFlavor => "ResourceFlavor",
            Self::Topology => "Topology",
            Self::WorkloadPriorityClass => "WorkloadPriorityClass",
        }
    }
}

/// A field that names another object.
#[derive(Debug)]
struct Reference {
    place: Arc<Place>,
    path: String,
    kind: Kind,
    name: String,
}

/// What reading has brought up so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    inner: RefCell<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    problems: Vec<Problem>,
    left_out: usize,
    notes: Vec<Note>,
    notes_left_out: usize,
    declared: BTreeMap<(Kind, String), Arc<Place>>,
    references: Vec<Reference>,
}

impl Findings {
    /// Keeps a problem; `message` is only asked for if there is room.
    pub(super) fn problem(
        &self,
        kind: ProblemKind,
        place: Option<&Arc<Place>>,
        path: &str,
        message: impl FnOnce() -> String,
    ) {
        let mut inner = self.inner.borrow_mut();
        if inner.problems.len() == PROBLEMS_MAX {
            inner.left_out = inner.left_out.saturating_add(1);
            return;
        }
        let (place, path) = (place.cloned(), path.to_owned());
        inner.problems.push(Problem { kind, place, path, message: message() });
    }

    /// Keeps a note.
    pub(super) fn note(&self, kind: NoteKind, place: Option<&Arc<Place>>, message: String) {
        let mut inner = self.inner.borrow_mut();
        if inner.notes.len() == NOTES_MAX {
            inner.notes_left_out = inner.notes_left_out.saturating_add(1);
            return;
        }
        inner.notes.push(Note { kind, place: place.cloned(), message });
    }

    /// Takes down that there is an object; also where it has other problems, so that these are not told twice.
    ///
    /// Returns whether it is the first of that name. A second one is a problem.
    pub(super) fn declare(&self, kind: Kind, name: &str, place: &Arc<Place>) -> bool {
        let before = match self.inner.borrow_mut().declared.entry((kind, name.to_owned())) {
            Entry::Vacant(entry) => {
                entry.insert(place.clone());
                return true;
            }
            Entry::Occupied(entry) => entry.get().clone(),
        };
        self.problem(ProblemKind::DuplicateName, Some(place), "metadata.name", || {
            format!(
                "is the name of another {}: {}, document {}, line {}; rename one or take it out",
                kind.word(),
                before.source,
                before.document,
                before.line
            )
        });
        false
    }

    /// Where an object was declared.
    pub(super) fn place_of(&self, kind: Kind, name: &str) -> Option<Arc<Place>> {
        self.inner.borrow().declared.get(&(kind, name.to_owned())).cloned()
    }

    /// Takes down that a field names another object, which must exist once everything is read.
    pub(super) fn refer(&self, place: &Arc<Place>, path: &str, kind: Kind, name: &str) {
        let (place, path, name) = (place.clone(), path.to_owned(), name.to_owned());
        self.inner.borrow_mut().references.push(Reference { place, path, kind, name });
    }

    /// Whether a file could not be read, so that what seems to be missing may be in it.
    fn lacks_a_file(&self) -> bool {
        let is_file = |kind| matches!(kind, ProblemKind::UnreadableFile | ProblemKind::BadYaml);
        self.inner.borrow().problems.iter().any(|problem| is_file(problem.kind))
    }

    /// Reports references that lead nowhere.
    pub(super) fn check_references(&self) {
        let references = std::mem::take(&mut self.inner.borrow_mut().references);
        if self.lacks_a_file() {
            return;
        }
        for reference in references {
            let Reference { place, path, kind, name } = &reference;
            if self.place_of(*kind, name).is_some() {
                continue;
            }
            let names = self.names_of(*kind);
            self.problem(ProblemKind::NoSuchObject, Some(place), path, || {
                let meant = did_you_mean(name, names.iter().map(String::as_str));
                let word = kind.word();
                let mend = if meant.is_empty() {
                    format!("; add a {word} {name:?} or take this out")
                } else {
                    meant
                };
                format!("is {name:?}, but there is no {word} of that name{mend}")
            });
        }
    }

    /// Names of one kind, as long as somebody will read them.
    fn names_of(&self, kind: Kind) -> Vec<String> {
        let inner = self.inner.borrow();
        if inner.problems.len() == PROBLEMS_MAX {
            return Vec::new();
        }
        let declared = inner.declared.keys().filter(|(of, _)| *of == kind);
        declared.map(|(_, name)| name.clone()).collect()
    }

    /// Whether there is any problem.
    pub(super) fn has_problems(&self) -> bool {
        !self.inner.borrow().problems.is_empty()
    }

    /// The notes, and how many more there are.
    ///
    /// # Errors
    /// The problems, if there are any.
    pub(super) fn finish(self) -> Result<(Vec<Note>, usize), Problems> {
        let Inner { problems, left_out, notes, notes_left_out, .. } = self.inner.into_inner();
        if problems.is_empty() {
            return Ok((notes, notes_left_out));
        }
        Err(Problems { problems, left_out })
    }
}
