//! Slices of TPUs in the arbiter's decisions.
//!
//! Before every decision the allocator of [`crate::slice`] finds a place for all who wait for slices, the most important
//! first, beside those who run and with whoever may give way. The engine is then told that the workload insists on
//! exactly the nodes of that place: so quota, preemption rules, protection and holding work as for everybody, and the
//! victims are those whose hosts form the slice. A workload without a place insists on nodes that there are not, and
//! keeps its turn in its queue.
//!
//! Wanted properties: a gang gets all its slices or none; no two slices have a host in common until the workers of one
//! are gone; nobody keeps off a place that somebody else cannot have for lack of quota; places follow from the state
//! alone, so that a replay finds the same.

mod check;
mod fleet;
mod moves;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use super::engine::{Pinned, name_of};
use super::schedule::{not_ready, turn_of};
use super::{Arbiter, DecisionKind};
use crate::id::{NodeName, WorkloadName};
use crate::kueue::reason::PendingReason;
use crate::reason::Reason;
use crate::scheduler::Verdict;
use crate::slice::{Answer, Fleet, Outcome, Part, Piece, Request, Running, solve};
use crate::topology::{Generation, Notation};
use crate::workload::{Phase, SlicePlace, SliceSpec, Workload};

pub(super) use fleet::Sites;
pub use view::{CubeView, HostView, SliceAnswer, SliceState, SliceView};

/// Workloads for whose slices a place is looked for in one decision, the most important first. The others wait for
/// their turn: on a full fleet each costs up to some ten milliseconds.
const ASKING_MAX: usize = 512;
/// What chips are requested as.
pub(super) const CHIPS: &str = "google.com/tpu";

/// Where a workload that waits is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pin {
    /// There, once that is free.
    Place {
        /// Its slices.
        slices: Vec<SlicePlace>,
        /// Why there.
        reason: Reason,
    },
    /// Nowhere, for that reason.
    None(Reason),
}

impl Arbiter {
    /// After a restart: who asks for slices.
    pub(super) fn find_sliced(&mut self) {
        let asks = self.workloads.values().filter(|w| w.spec.slice.is_some());
        self.sliced = asks.map(|w| w.spec.name.clone()).collect();
    }

    /// `name` is new, or has been forgotten.
    pub(super) fn note_sliced(&mut self, name: &WorkloadName) {
        if self.workloads.get(name).is_some_and(|w| w.spec.slice.is_some()) {
            self.sliced.insert(name.clone());
        } else {
            self.sliced.remove(name);
        }
    }

    /// Workloads that ask for slices, by name.
    fn sliced(&self) -> impl Iterator<Item = &Workload> {
        self.sliced.iter().filter_map(|name| self.workloads.get(name))
    }

    /// Finds places for all who wait for slices, except for those `refused`, who keep their turn and their reason.
    pub(super) fn place_slices(&mut self, refused: &BTreeSet<WorkloadName>) {
        let asking = self.asking();
        if asking.is_empty() && self.pins.is_empty() {
            return;
        }
        let (kept, asking): (Vec<_>, Vec<_>) =
            asking.into_iter().partition(|name| refused.contains(name));
        let mut pins = self.find_places(&asking);
        for name in kept {
            let told = self.workloads.get(&name).map(|w| Pin::None(w.reason.clone()));
            pins.extend(told.map(|pin| (name, pin)));
        }
        let before = std::mem::replace(&mut self.pins, pins);
        let names = before.keys().chain(self.pins.keys());
        let changed = names.filter(|name| before.get(*name) != self.pins.get(*name)).cloned();
        self.touched.extend(changed.collect::<Vec<_>>());
        self.sync();
    }

    /// Who waits for slices and could start: in the order in which they are decided about.
    fn asking(&self) -> Vec<WorkloadName> {
        let asks = |w: &&Workload| {
            w.phase == Phase::Pending && w.reservation.is_none() && not_ready(w, self.now).is_none()
        };
        let mut asking: Vec<&Workload> = self.sliced().filter(asks).collect();
        asking.sort_by_key(|workload| turn_of(workload));
        asking.into_iter().map(|w| w.spec.name.clone()).collect()
    }

    fn find_places(&self, asking: &[WorkloadName]) -> BTreeMap<WorkloadName, Pin> {
        let mut pins = BTreeMap::new();
        let mut sites = Sites::new(asking);
        let (now, later) = asking.split_at(asking.len().min(ASKING_MAX));
        let mut rest = now;
        while let Some(first) = rest.first() {
            let alike = |name: &&WorkloadName| self.site_of(name) == self.site_of(first);
            let (batch, others) = rest.split_at(rest.iter().take_while(alike).count());
            rest = others;
            self.place_batch(batch, &mut sites, &mut pins);
        }
        for name in later {
            let Some(workload) = self.workloads.get(name) else { continue };
            let queue = workload.spec.queue.clone();
            let code = "slices-before".to_owned();
            pins.insert(name.clone(), Pin::None(Reason::WaitingForTurn { queue, code }));
        }
        pins
    }

    /// Of which generation its slices are, and which nodes its ranks reach.
    fn site_of(&self, name: &WorkloadName) -> Option<(&str, BTreeSet<&NodeName>)> {
        let workload = self.workloads.get(name)?;
        let slice = workload.spec.slice.as_ref()?;
        let first = workload.members.values().next()?;
        let mut nodes: BTreeSet<&NodeName> = first.nodes.iter().collect();
        for member in workload.members.values() {
            if !std::sync::Arc::ptr_eq(&member.nodes, &first.nodes) {
                nodes.extend(member.nodes.iter());
            }
        }
        Some((&slice.generation, nodes))
    }

    /// Finds places for workloads of one generation that reach the same nodes.
    fn place_batch(
        &self,
        batch: &[WorkloadName],
        sites: &mut Sites,
        pins: &mut BTreeMap<WorkloadName, Pin>,
    ) {
        let Some((generation, reach)) = batch.first().and_then(|name| self.site_of(name)) else {
            return;
        };
        let Some(generation) = self.config.generations.find(generation) else { return };
        let Some(fleet) = self.fleet(generation, Some(&reach), batch.first(), sites) else {
            return;
        };
        let mut requests = Vec::new();
        for name in batch {
            let Some(workload) = self.workloads.get(name) else { continue };
            match self.request_of(workload, &fleet, generation) {
                Ok(request) => {
                    requests.push(Request { name: sites.request_name(name), ..request });
                }
                Err(reason) => drop(pins.insert(name.clone(), Pin::None(reason))),
            }
        }
        let answers = solve(&fleet, &requests, self.now);
        let mut by_name: BTreeMap<String, Answer> =
            answers.into_iter().map(|answer| (answer.request.clone(), answer)).collect();
        for name in batch {
            let answer = by_name.remove(&sites.request_name(name));
            let Some((answer, workload)) = answer.zip(self.workloads.get(name)) else { continue };
            let pin = self.pin_of(workload, &fleet, generation, &answer, sites);
            pins.insert(name.clone(), pin);
        }
    }

    fn request_of(
        &self,
        workload: &Workload,
        fleet: &Fleet,
        generation: &Generation,
    ) -> Result<Request, Reason> {
        let spec = &workload.spec;
        let Some(slice) = &spec.slice else { return Err(Reason::Submitted) };
        let part = self.part_of(slice, fleet, generation)?;
        Ok(Request {
            is_healthy_only: slice.is_healthy_only,
            group: slice.group.clone(),
            ..Request::new(spec.name.to_string(), spec.priority, vec![part])
        })
    }

    fn part_of(
        &self,
        slice: &SliceSpec,
        fleet: &Fleet,
        generation: &Generation,
    ) -> Result<Part, Reason> {
        let illegal = |why: String| Reason::SliceIllegal { why };
        let table = &self.config.generations;
        let wanted = table
            .request(&slice.generation, &slice.shape, Notation::SliceAnnotation)
            .map_err(|error| illegal(error.to_string()))?;
        Part::of(fleet.tiling(), generation, &wanted, slice.count)
            .ok_or_else(|| illegal(format!("{} is smaller than a host", wanted.shape)))
    }

    /// The answer as a pin; what it places is taken for those who come after.
    fn pin_of(
        &self,
        workload: &Workload,
        fleet: &Fleet,
        generation: &Generation,
        answer: &Answer,
        sites: &mut Sites,
    ) -> Pin {
        let name = &workload.spec.name;
        let Some(slice) = &workload.spec.slice else { return Pin::None(Reason::Submitted) };
        let (code, why) = (answer.reason.code().to_owned(), answer.reason.to_string());
        let Outcome::Placed { slices, victims, .. } = &answer.outcome else {
            let (shape, count) = (slice.shape.clone(), slice.count);
            return Pin::None(Reason::SliceWaits { shape, count, code, why });
        };
        let ids = |pieces: &Vec<Piece>| pieces.iter().map(|p| fleet.id(*p).to_owned()).collect();
        let ids: Vec<Vec<String>> = slices.iter().map(ids).collect();
        let running = Running {
            is_fixed: true,
            group: slice.group.clone(),
            ..Running::new(format!("placed/{name}"), workload.spec.priority, ids.clone())
        };
        let chips = workload.spec.resources.iter().find(|(r, _)| r.as_str() == CHIPS);
        let host_chips = generation.hosts.first().map_or(1, |host| u64::from(host.chips()));
        let per_host = host_chips / chips.map_or(host_chips, |(_, n)| (*n).max(1));
        let slices = match seats(workload, fleet, slices, per_host) {
            Ok(slices) => slices,
            Err(rank) => {
                let (shape, count) = (slice.shape.clone(), slice.count);
                let code = "slice-unreachable".to_owned();
                let why = format!("rank {rank} can start on none of the hosts that were found");
                return Pin::None(Reason::SliceWaits { shape, count, code, why });
            }
        };
        sites.placed.push(running);
        sites.evicted.extend(victims.iter().cloned());
        let shape = slice.shape.clone();
        let partitions: Vec<String> = ids.into_iter().map(|ids| ids.join("+")).collect();
        let partitions = partitions.join(", ");
        Pin::Place { slices, reason: Reason::SlicePlaced { shape, partitions, code, why } }
    }

    /// Who has a place and cannot have it, so that others need not keep off it; whether that may help anybody.
    pub(super) fn note_refused(
        &self,
        verdicts: &[Verdict],
        refused: &mut BTreeSet<WorkloadName>,
    ) -> bool {
        let before = refused.len();
        for verdict in verdicts {
            // Whoever waits for time to pass keeps its place, and the engine the time.
            let Verdict::Wait { workload, reason, protected: None, .. } = verdict else { continue };
            let name = name_of(workload);
            let is_placed = matches!(self.pins.get(&name), Some(Pin::Place { .. }));
            if is_placed && *reason != PendingReason::WaitingForPreemptedWorkloads {
                refused.insert(name);
            }
        }
        let waits = |(name, pin): (&WorkloadName, &Pin)| {
            matches!(pin, Pin::None(_)) && !refused.contains(name)
        };
        refused.len() > before && self.pins.iter().any(waits)
    }

    /// Why there is no place for its slices; `None` if there is one, or it asks for none.
    pub(super) fn why_no_slice(&self, name: &WorkloadName) -> Option<Reason> {
        match self.pins.get(name)? {
            Pin::Place { .. } => None,
            Pin::None(reason) => Some(reason.clone()),
        }
    }

    /// The nodes on which a workload insists; `None` if it asks for no slices.
    pub(super) fn pinned(&self, workload: &Workload) -> Option<Pinned> {
        workload.spec.slice.as_ref()?;
        let held = workload.slices_held();
        let slices = match self.pins.get(&workload.spec.name) {
            _ if !held.is_empty() => held,
            Some(Pin::Place { slices, .. }) => slices,
            Some(Pin::None(_)) | None => &[],
        };
        Some(slices.iter().flat_map(|slice| slice.nodes.clone()).collect())
    }

    /// The place that was found for `name` becomes its own.
    pub(super) fn take_slices(&mut self, name: &WorkloadName) {
        let Some(Pin::Place { slices, reason }) = self.pins.remove(name) else { return };
        if let Some(workload) = self.workloads.get_mut(name) {
            workload.slices = slices;
        }
        self.decided(DecisionKind::Slice, Some(name), reason);
    }
}

/// Which rank runs on which host: the first ranks on the first slice, as far as they reach. Otherwise the rank that
/// finds none.
fn seats(
    workload: &Workload,
    fleet: &Fleet,
    slices: &[Vec<Piece>],
    per_host: u64,
) -> Result<Vec<SlicePlace>, u32> {
    let mut seats: Vec<(usize, NodeName, u64)> = Vec::new();
    let mut places = Vec::new();
    for (index, pieces) in slices.iter().enumerate() {
        for node in pieces.iter().flat_map(|piece| fleet.nodes(*piece)) {
            seats.extend(node.parse().ok().map(|node| (index, node, per_host)));
        }
        let partitions = pieces.iter().map(|piece| fleet.id(*piece).to_owned()).collect();
        places.push(SlicePlace { partitions, nodes: BTreeMap::new() });
    }
    let mut full = 0;
    for (rank, member) in &workload.members {
        while seats.get(full).is_some_and(|seat| seat.2 == 0) {
            full += 1;
        }
        let suits =
            |seat: &&mut (usize, NodeName, u64)| seat.2 > 0 && member.nodes.contains(&seat.1);
        let Some(seat) = seats.iter_mut().skip(full).find(suits) else { return Err(*rank) };
        seat.2 -= 1;
        places[seat.0].nodes.insert(*rank, seat.1.clone());
    }
    Ok(places)
}
