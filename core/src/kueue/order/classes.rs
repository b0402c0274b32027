//! Waiting workloads by class: those about which the scheduler would decide the same wait, park and wake together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::name::WorkloadKey;
use super::super::workload::{Requests, Usage, Workload};
use super::Pending;

/// Higher priority first, then longer waiting, then UID, then name.
pub(super) type Turn = (Reverse<i64>, u64, String, WorkloadKey);

pub(super) fn turn_of(workload: &Workload) -> Turn {
    let priority = Reverse(workload.effective_priority());
    (priority, workload.queued_at_ms(), workload.uid.clone(), workload.key.clone())
}

/// What equivalent workloads have in common and others mostly do not: priority, pods and their requests, and a
/// fingerprint of the nodes that the pods insist on.
type Sketch = (i64, Vec<(u32, Requests)>, u64);

fn sketch_of(workload: &Workload) -> Sketch {
    let pod_sets = workload.pod_sets.iter();
    let sketch = pod_sets.map(|pod_set| (pod_set.count, pod_set.requests.clone()));
    (workload.effective_priority(), sketch.collect(), fingerprint_of(workload))
}

/// FNV-1a over the texts of selectors and affinity. Equal for equal workloads; for others seldom.
fn fingerprint_of(workload: &Workload) -> u64 {
    let selected = workload.pod_sets.iter().flat_map(|pods| &pods.node_selector);
    let selected = selected.flat_map(|(key, value)| [key, value]);
    let required = workload.pod_sets.iter().flat_map(|pods| pods.affinity_terms.iter().flatten());
    let required = required.flat_map(|requirement| requirement.values.iter());
    let texts = selected.chain(required);
    texts.fold(0xcbf2_9ce4_8422_2325, |hash, text| {
        let bytes = text.bytes().chain([0xff]);
        bytes.fold(hash, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    })
}

/// Whether the scheduler would decide the same about both: same priority, same shape.
fn is_equivalent(a: &Workload, b: &Workload) -> bool {
    a.effective_priority() == b.effective_priority()
        && a.pod_sets == b.pod_sets
        && a.reclaimable == b.reclaimable
        && a.allowed_flavors == b.allowed_flavors
}

/// Number of a class, in the order in which classes came up.
type ClassId = u64;

/// Whether a workload is to be looked at or has stepped aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Active,
    Parked,
}

#[derive(Clone, Debug)]
struct Class {
    /// Any of its workloads.
    sample: Arc<Workload>,
    active: BTreeMap<Turn, Pending>,
    parked: BTreeMap<Turn, Pending>,
    /// The quota each would use, once one was looked at.
    usage: Option<Usage>,
}

/// All classes of one queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    classes: BTreeMap<ClassId, Class>,
    next_id: ClassId,
    by_sketch: BTreeMap<Sketch, Vec<ClassId>>,
    /// The first active workload of each class that has one.
    heads: BTreeMap<Turn, ClassId>,
    /// Classes of which something is parked.
    parked: BTreeSet<ClassId>,
    by_key: BTreeMap<WorkloadKey, (ClassId, Turn)>,
}

impl Classes {
    /// Adds a workload, in place of what waits under its key. Returns its class.
    pub(super) fn insert(&mut self, pending: Pending, side: Side) -> ClassId {
        self.remove(&pending.workload.key);
        let id = self.class_of(&pending.workload);
        let turn = turn_of(&pending.workload);
        self.by_key.insert(pending.workload.key.clone(), (id, turn.clone()));
        self.change(id, |class| {
            let side = match side {
                Side::Active => &mut class.active,
                Side::Parked => &mut class.parked,
            };
            side.insert(turn, pending)
        });
        id
    }

    pub(super) fn remove(&mut self, key: &WorkloadKey) -> Option<Pending> {
        let (id, turn) = self.by_key.remove(key)?;
        self.change(id, |class| class.active.remove(&turn).or_else(|| class.parked.remove(&turn)))
    }

    /// Takes the workload that is next.
    pub(super) fn pop(&mut self) -> Option<Pending> {
        let ((.., key), _) = self.heads.first_key_value()?;
        let key = key.clone();
        self.remove(&key)
    }

    /// Parks all workloads of a class.
    pub(super) fn park(&mut self, id: ClassId) {
        self.change(id, |class| {
            let active = std::mem::take(&mut class.active);
            merge(&mut class.parked, active);
            None
        });
    }

    /// Notes the quota that each workload of a class would use.
    pub(super) fn note_usage(&mut self, id: ClassId, usage: &Usage) {
        if let Some(class) = self.classes.get_mut(&id) {
            class.usage = Some(usage.clone());
        }
    }

    /// Wakes the classes of which `may_differ` says, by a sample and the noted quota, that they may fare differently
    /// now.
    pub(super) fn wake_if(&mut self, may_differ: impl Fn(&Workload, Option<&Usage>) -> bool) {
        let may_differ = |id: &ClassId| {
            let class = self.classes.get(id);
            class.is_some_and(|class| may_differ(&class.sample, class.usage.as_ref()))
        };
        let woken: Vec<ClassId> = self.parked.iter().copied().filter(|id| may_differ(id)).collect();
        self.wake_classes(woken);
    }

    pub(super) fn wake(&mut self) {
        let woken = std::mem::take(&mut self.parked);
        self.wake_classes(woken);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(super) fn has_active(&self) -> bool {
        !self.heads.is_empty()
    }

    fn wake_classes(&mut self, woken: impl IntoIterator<Item = ClassId>) {
        for id in woken {
            self.change(id, |class| {
                let parked = std::mem::take(&mut class.parked);
                merge(&mut class.active, parked);
                None
            });
        }
    }

    /// In order. Takes time in proportion to the length of the queue.
    pub(super) fn active(&self) -> Vec<&Pending> {
        let mut active: Vec<_> = self.classes.values().flat_map(|class| &class.active).collect();
        active.sort_unstable_by_key(|(turn, _)| *turn);
        active.into_iter().map(|(_, pending)| pending).collect()
    }

    /// By key. Takes time in proportion to the length of the queue.
    pub(super) fn parked(&self) -> Vec<&Pending> {
        let classes = self.parked.iter().filter_map(|id| self.classes.get(id));
        let mut parked: Vec<_> = classes.flat_map(|class| class.parked.values()).collect();
        parked.sort_unstable_by_key(|pending| &pending.workload.key);
        parked
    }

    /// Those parked in the class of `key`, in order.
    pub(super) fn parked_with(&self, key: &WorkloadKey) -> impl Iterator<Item = &Pending> {
        let class = self.by_key.get(key).and_then(|(id, _)| self.classes.get(id));
        class.into_iter().flat_map(|class| class.parked.values())
    }

    /// The class of `workload`, a new one if need be.
    fn class_of(&mut self, workload: &Arc<Workload>) -> ClassId {
        let alike = self.by_sketch.entry(sketch_of(workload)).or_default();
        let known = alike.iter().copied().find(|id| {
            self.classes.get(id).is_some_and(|class| is_equivalent(&class.sample, workload))
        });
        if let Some(id) = known {
            return id;
        }
        let id = self.next_id;
        self.next_id += 1;
        alike.push(id);
        let (active, parked) = (BTreeMap::new(), BTreeMap::new());
        self.classes
            .insert(id, Class { sample: Arc::clone(workload), active, parked, usage: None });
        id
    }

    /// Changes a class and keeps what is known about classes up to date. A class without workloads is dropped.
    fn change(
        &mut self,
        id: ClassId,
        apply: impl FnOnce(&mut Class) -> Option<Pending>,
    ) -> Option<Pending> {
        let class = self.classes.get_mut(&id)?;
        let head = |class: &Class| class.active.first_key_value().map(|(turn, _)| turn.clone());
        let before = head(class);
        let result = apply(class);
        let after = head(class);
        if before != after {
            before.and_then(|turn| self.heads.remove(&turn));
            after.and_then(|turn| self.heads.insert(turn, id));
        }
        if class.parked.is_empty() {
            self.parked.remove(&id);
        } else {
            self.parked.insert(id);
        }
        if class.active.is_empty() && class.parked.is_empty() {
            self.drop_class(id);
        }
        result
    }

    fn drop_class(&mut self, id: ClassId) {
        let Some(class) = self.classes.remove(&id) else { return };
        let sketch = sketch_of(&class.sample);
        if let Some(alike) = self.by_sketch.get_mut(&sketch) {
            alike.retain(|other| *other != id);
            if alike.is_empty() {
                self.by_sketch.remove(&sketch);
            }
        }
    }
}

/// Moves all of `from` to `into`, the fewer to the more.
fn merge(into: &mut BTreeMap<Turn, Pending>, mut from: BTreeMap<Turn, Pending>) {
    if from.len() > into.len() {
        std::mem::swap(into, &mut from);
    }
    into.extend(from);
}
