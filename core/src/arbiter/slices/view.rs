//! Slices and cubes as they are told, and what would become of a request that nobody has made yet.

use std::collections::BTreeMap;

use super::fleet::{Sites, health_of};
use super::{Arbiter, CHIPS};
use crate::id::{NodeName, WorkloadName};
use crate::protocol::Health;
use crate::reason::Reason;
use crate::slice::{
    Answer, Budget, Defrag, Fleet, Outcome, Piece, Request, defrag, slice_name, solve,
};
use crate::topology::{Generation, Notation};
use crate::workload::{Phase, SliceSpec, Workload};

/// Where a slice is in its life. Without Kubernetes there is no object: the agents of its hosts say what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SliceState {
    /// Its hosts are held until others have left them.
    Held,
    /// The gang was admitted; no agent of a host has seen its worker yet.
    Created,
    /// Some have.
    Activating,
    /// All have.
    Active,
    /// The same on a host that is degraded.
    ActiveDegraded,
    /// A host of it failed.
    Failed,
    /// Its workers are being ended; until they are gone its hosts are taken.
    Deactivating,
}

impl SliceState {
    /// As people read it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "HELD",
            Self::Created => "CREATED",
            Self::Activating => "ACTIVATING",
            Self::Active => "ACTIVE",
            Self::ActiveDegraded => "ACTIVE_DEGRADED",
            Self::Failed => "FAILED",
            Self::Deactivating => "DEACTIVATING",
        }
    }
}

/// A slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceView {
    /// Its name, as a Slice object would have it.
    pub name: String,
    /// Whose it is.
    pub workload: WorkloadName,
    /// Which of the gang's slices, from 0.
    pub index: u32,
    /// Such as `tpu7x`.
    pub generation: String,
    /// Such as `4x4x8`.
    pub shape: String,
    /// The ids of its partitions.
    pub partitions: Vec<String>,
    /// The node of each rank.
    pub nodes: BTreeMap<u32, NodeName>,
    /// Where it is in its life.
    pub state: SliceState,
    /// Whether its gang is being drained.
    pub is_draining: bool,
    /// Priority of its gang.
    pub priority: i32,
}

/// A host of a cube.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostView {
    /// Its node; empty if none has reported.
    pub node: String,
    /// The worst of its chips.
    pub health: Health,
    /// Whether anything can be placed there.
    pub is_open: bool,
    /// Names of slices on it: that of the present owner first, then of those for whom it is held.
    pub slices: Vec<String>,
}

/// A cube.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CubeView {
    /// The id of the whole.
    pub id: String,
    /// Its block.
    pub block: String,
    /// Such as `tpu7x`.
    pub generation: String,
    /// By number.
    pub hosts: Vec<HostView>,
}

/// What would become of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceAnswer {
    /// Whether it would get a place, perhaps once others have left.
    pub is_placed: bool,
    /// Code of the reason.
    pub code: String,
    /// The reason.
    pub why: String,
    /// What can be done; empty if nothing need be.
    pub hint: String,
    /// Partition ids and nodes of each slice.
    pub slices: Vec<(Vec<String>, Vec<String>)>,
    /// Who would give way, with what that costs in device-milliseconds.
    pub victims: Vec<(String, u64)>,
    /// Who is leaving anyway and is waited for.
    pub awaits: Vec<String>,
    /// Moves that would make room, if it fits by capacity and not by shape: who, from where, to where, and the cost.
    pub moves: Vec<(String, String, String, u64)>,
}

impl Arbiter {
    /// All slices that hold hosts, by workload and index.
    #[must_use]
    pub fn slices(&self) -> Vec<SliceView> {
        let holding = self.sliced().filter(|w| !w.slices_held().is_empty());
        holding.flat_map(|w| self.slices_of(w)).collect()
    }

    fn slices_of(&self, workload: &Workload) -> Vec<SliceView> {
        let Some(spec) = &workload.spec.slice else { return Vec::new() };
        let name = &workload.spec.name;
        let (namespace, plain) =
            name.as_str().split_once('/').unwrap_or(("default", name.as_str()));
        let is_draining = self.open_drain_of(name).is_some_and(|drain| !drain.is_rehearsal);
        let view = |(index, slice): (u32, &crate::workload::SlicePlace)| SliceView {
            name: slice_name(namespace, plain, "rank", index),
            workload: name.clone(),
            index,
            generation: spec.generation.clone(),
            shape: spec.shape.clone(),
            partitions: slice.partitions.clone(),
            nodes: slice.nodes.clone(),
            state: self.slice_state(workload, slice),
            is_draining,
            priority: workload.spec.priority,
        };
        (0..).zip(workload.slices_held()).map(view).collect()
    }

    fn slice_state(&self, workload: &Workload, slice: &crate::workload::SlicePlace) -> SliceState {
        if workload.phase == Phase::Pending {
            return SliceState::Held;
        }
        let past_return =
            self.open_drain_of(&workload.spec.name).is_some_and(|d| self.is_past_return(d));
        if workload.phase.is_finished() || past_return {
            return SliceState::Deactivating;
        }
        let table = &self.config.generations;
        let generation = workload.spec.slice.as_ref().and_then(|s| table.find(&s.generation));
        let chips =
            generation.and_then(|g| g.hosts.first()).map_or(0, crate::topology::Shape::chips);
        let nodes = slice.nodes.values().filter_map(|name| self.nodes.get(name));
        let worst = nodes.filter(|n| n.connected).map(|node| health_of(node, chips)).max();
        let started = |rank: &&u32| workload.members.get(rank).is_some_and(|m| m.started);
        let started = slice.nodes.keys().filter(started).count();
        match worst {
            Some(Health::Unhealthy) => SliceState::Failed,
            _ if started == 0 => SliceState::Created,
            _ if started < slice.nodes.len() => SliceState::Activating,
            Some(Health::Degraded) => SliceState::ActiveDegraded,
            Some(Health::Healthy | Health::Unknown) | None => SliceState::Active,
        }
    }

    /// All cubes whose nodes have reported, with who is on them.
    #[must_use]
    pub fn cubes(&self) -> Vec<CubeView> {
        let mut by_node: BTreeMap<&NodeName, Vec<String>> = BTreeMap::new();
        let slices = self.slices();
        let (held, own): (Vec<_>, Vec<_>) =
            slices.iter().partition(|slice| slice.state == SliceState::Held);
        for slice in own.into_iter().chain(held) {
            for node in slice.nodes.values() {
                let on_node = by_node.entry(node).or_default();
                if !on_node.contains(&slice.name) {
                    on_node.push(slice.name.clone());
                }
            }
        }
        let generations = self.config.generations.generations().iter();
        generations.flat_map(|generation| self.cubes_of(generation, &by_node)).collect()
    }

    fn cubes_of(
        &self,
        generation: &Generation,
        by_node: &BTreeMap<&NodeName, Vec<String>>,
    ) -> Vec<CubeView> {
        let Some(fleet) = self.fleet(generation, None, None, &Sites::default()) else {
            return Vec::new();
        };
        let host = |host: &Option<crate::slice::Host>| {
            let name = host.as_ref().and_then(|h| h.node.parse::<NodeName>().ok());
            let slices = name.as_ref().and_then(|name| by_node.get(name)).cloned();
            HostView {
                node: host.as_ref().map(|h| h.node.clone()).unwrap_or_default(),
                health: host.as_ref().map_or(Health::Unknown, |h| h.health),
                is_open: host.as_ref().is_some_and(|h| h.is_open),
                slices: slices.unwrap_or_default(),
            }
        };
        let cube = |cube: &crate::slice::Cube| CubeView {
            id: cube.id.clone(),
            block: cube.block.clone(),
            generation: generation.name.clone(),
            hosts: cube.hosts.iter().map(host).collect(),
        };
        fleet.cubes().iter().map(cube).collect()
    }

    /// What would become of a request for slices; nothing is changed.
    ///
    /// # Errors
    /// Why there are no such slices.
    pub fn plan_slice(
        &self,
        spec: &SliceSpec,
        priority: i32,
        budget: Budget,
    ) -> Result<SliceAnswer, Reason> {
        let mut spec = spec.clone();
        if spec.generation.is_empty() {
            spec.generation = self.only_generation()?;
        }
        let table = &self.config.generations;
        let wanted = table
            .request(&spec.generation, &spec.shape, Notation::SliceAnnotation)
            .map_err(|error| Reason::SliceIllegal { why: error.to_string() })?;
        let none =
            || Reason::SliceIllegal { why: format!("there are no cubes of {}", spec.generation) };
        let generation = table.find(&wanted.generation).ok_or_else(none)?;
        let fleet = self.fleet(generation, None, None, &Sites::default()).ok_or_else(none)?;
        let part = self.part_of(&spec, &fleet, generation)?;
        let request = Request {
            is_healthy_only: spec.is_healthy_only,
            group: spec.group.clone(),
            ..Request::new("what-if", priority, vec![part])
        };
        let answers = solve(&fleet, std::slice::from_ref(&request), self.now);
        let answer = answers.into_iter().next().ok_or_else(none)?;
        let mut told = told(&fleet, &answer);
        if !told.is_placed
            && let Defrag::Moves { moves, is_within_budget: true, .. } =
                defrag(&fleet, &request, self.now, budget)
        {
            let ids = |slices: &Vec<Vec<Piece>>| {
                let ids = slices.iter().flatten().map(|piece| fleet.id(*piece));
                ids.collect::<Vec<_>>().join(", ")
            };
            let told_move = |m: &crate::slice::Move| {
                (m.workload.clone(), ids(&m.from), ids(&m.to), m.cost_device_ms)
            };
            told.moves = moves.iter().map(told_move).collect();
        }
        Ok(told)
    }

    /// Chips of all hosts that have reported.
    #[must_use]
    pub fn chips(&self) -> u64 {
        let devices = self.nodes.values().flat_map(|node| node.devices.values());
        devices.filter(|device| device.resource.as_str() == CHIPS).count() as u64
    }
}

fn told(fleet: &Fleet, answer: &Answer) -> SliceAnswer {
    let mut told = SliceAnswer {
        is_placed: false,
        code: answer.reason.code().to_owned(),
        why: answer.reason.to_string(),
        hint: answer.reason.hint().to_owned(),
        slices: Vec::new(),
        victims: Vec::new(),
        awaits: Vec::new(),
        moves: Vec::new(),
    };
    if let Outcome::Placed { slices, victims, awaits, .. } = &answer.outcome {
        let slice = |pieces: &Vec<Piece>| {
            let ids = pieces.iter().map(|piece| fleet.id(*piece).to_owned()).collect();
            let nodes = pieces.iter().flat_map(|piece| fleet.nodes(*piece)).map(str::to_owned);
            (ids, nodes.collect())
        };
        let cost = |name: &String| {
            let found = fleet.running().iter().find(|running| running.name == *name);
            (name.clone(), found.map_or(0, crate::slice::Running::cost_device_ms))
        };
        told.is_placed = true;
        told.slices = slices.iter().map(slice).collect();
        told.victims = victims.iter().map(cost).collect();
        told.awaits.clone_from(awaits);
    }
    told
}
