//! From what was said to cubes and gangs.

use std::collections::{BTreeMap, BTreeSet};

use sluice_core::protocol::Health;
use sluice_core::slice::{Cube, Fleet, Host, Labelled, Partition, Running, Tiling, Window, trees};
use sluice_core::topology::{Fabric, Generation, Shape};

use super::Inventory;
use super::declared::{ASSUMED_LOST_MS, Ailment, CubeDeclared, Declared, NodeDeclared, Written};
use super::field::Reader;
use super::problem::Problems;
use super::table::table;

/// How long a maintenance lasts of which only the beginning is known: what the cloud grants at most.
const MAINTENANCE_MS: u64 = 3_600_000;

/// Builds the inventory.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn assemble(
    declared: Declared,
    reader: &Reader,
    generation: Option<&str>,
    now_ms: u64,
) -> Result<Inventory, Problems> {
    let mut assembly = Assembly { reader, notes: declared.notes.clone(), now_ms };
    let Some(generation) = assembly.generation(&declared, generation) else {
        return Err(assembly.problems());
    };
    let Some(tiling) = assembly.tiling(&declared, &generation) else {
        return Err(assembly.problems());
    };
    let mut cubes: Vec<Cube> =
        declared.cubes.iter().map(|cube| assembly.cube(cube, &tiling)).collect();
    cubes.extend(assembly.labelled(&declared.nodes, &generation, &tiling));
    if cubes.is_empty() {
        reader.problem("", "has no cubes: add cubes, or nodes with the labels of partitions");
    }
    assembly.check_names(&declared.cubes);
    let running = assembly.running(declared, &generation, &tiling, &cubes);
    reader.finish()?;
    let fleet = Fleet::new(tiling, cubes, running);
    let mut notes = assembly.notes;
    notes.extend(fleet.problems().iter().map(ToString::to_string));
    Ok(Inventory { generation, fleet, notes })
}

struct Assembly<'a> {
    reader: &'a Reader,
    notes: Vec<String>,
    now_ms: u64,
}

impl Assembly<'_> {
    fn problem(&self, at: &Written, message: impl Into<String>) {
        self.reader.begin(at.line);
        self.reader.problem(&at.path, message);
    }

    /// All problems that there are, of which there is at least one.
    fn problems(&self) -> Problems {
        self.reader.finish().expect_err("whoever gives up has said why")
    }

    fn generation(&self, declared: &Declared, asked: Option<&str>) -> Option<Generation> {
        let of_nodes: BTreeSet<&str> =
            declared.nodes.iter().map(|n| n.accelerator.as_str()).collect();
        let stated = declared.generation.clone();
        let first = || {
            let only = of_nodes.first().filter(|_| of_nodes.len() == 1);
            only.map(|name| ((*name).to_owned(), Written::default()))
        };
        let asked = asked.map(|name| (name.to_owned(), Written::default()));
        let Some((name, written)) = stated.or(asked).or_else(first) else {
            let several: Vec<&str> = of_nodes.into_iter().collect();
            let message = match several.as_slice() {
                [] => "is missing; name one, such as tpu7x".to_owned(),
                several => format!("is missing; the nodes are of several: {}", several.join(", ")),
            };
            self.reader.problem("generation", message);
            return None;
        };
        let table = table();
        let found = table.find(&name).cloned();
        if found.is_none() {
            let known: Vec<&str> = table.generations().iter().map(|g| g.name.as_str()).collect();
            let message =
                format!("is {name:?}, which is no TPU generation; known are {}", known.join(", "));
            self.problem(&Written { path: "generation".to_owned(), ..written }, message);
        }
        found
    }

    fn tiling(&self, declared: &Declared, generation: &Generation) -> Option<Tiling> {
        let labelled: BTreeSet<(u32, Shape)> = declared
            .nodes
            .iter()
            .flat_map(|n| &n.ids)
            .map(|(shape, _)| (shape.chips(), *shape))
            .collect();
        let smallest = labelled.first().map(|(_, shape)| *shape);
        let largest = labelled.last().map(|(_, shape)| *shape);
        let host = declared.host.as_ref().map(|(shape, _)| *shape);
        let host = host.or(smallest.filter(|shape| generation.hosts.contains(shape)));
        let host = host.or(generation.hosts.last().copied())?;
        let stated = declared.grid.as_ref().map(|(shape, _)| *shape);
        let whole = match generation.fabric {
            Fabric::Cubes { .. } => generation.whole()?,
            Fabric::Grid => stated.or(largest).or(generation.whole())?,
        };
        let at = |given: &Option<(Shape, Written)>| {
            given.as_ref().map(|(_, w)| w.clone()).unwrap_or_default()
        };
        if !generation.hosts.contains(&host) {
            let hosts: Vec<String> = generation.hosts.iter().map(ToString::to_string).collect();
            let message =
                format!("is {host}; hosts of {} have {}", generation.name, hosts.join(", "));
            self.problem(&at(&declared.host), message);
            return None;
        }
        if matches!(generation.fabric, Fabric::Cubes { .. }) && stated.is_some() {
            self.problem(
                &at(&declared.grid),
                format!("does not go with {}: it has cubes", generation.name),
            );
            return None;
        }
        let tiling = Tiling::of(generation, host, whole);
        tiling
            .map_err(|error| self.problem(&at(&declared.grid), format!("cannot be used: {error}")))
            .ok()
    }

    fn cube(&self, declared: &CubeDeclared, tiling: &Tiling) -> Cube {
        let mut cube = Cube::healthy(&declared.name, &declared.block, tiling);
        let hosts = tiling.hosts();
        let mut change = |number: u32, at: &Written, change: &dyn Fn(&mut Host)| match cube
            .hosts
            .get_mut(number as usize)
            .and_then(Option::as_mut)
        {
            Some(host) => change(host),
            None => {
                self.problem(
                    at,
                    format!("is {number}; hosts are numbered from 0 to {}", hosts - 1),
                );
            }
        };
        for (number, ailment, at) in &declared.ailments {
            change(*number, at, &|host| match ailment {
                Ailment::Unhealthy => host.health = Health::Unhealthy,
                Ailment::Degraded => host.health = host.health.max(Health::Degraded),
                Ailment::Unknown => host.health = host.health.max(Health::Unknown),
                Ailment::Closed => host.is_open = false,
            });
        }
        for (number, starts_in_ms, lasts_ms, at) in &declared.maintenance {
            let from_ms = self.now_ms.saturating_add(*starts_in_ms);
            let window = Window { from_ms, until_ms: from_ms.saturating_add(*lasts_ms) };
            change(*number, at, &|host| host.maintenance = Some(window));
        }
        for (part, state, at) in &declared.states {
            match partition(tiling, part) {
                Some(part) => {
                    cube.states.insert(part, *state);
                }
                None => self
                    .problem(at, "is no partition; write a shape and its number, such as 2x2x2/0"),
            }
        }
        cube
    }

    /// Ids of partitions are made of names of cubes.
    fn check_names(&self, cubes: &[CubeDeclared]) {
        let mut known = BTreeSet::new();
        for cube in cubes.iter().filter(|cube| !known.insert(cube.name.as_str())) {
            let path = format!("{}.name", cube.written.path);
            let at = Written { path, ..cube.written };
            self.problem(&at, format!("is {:?}, as another one is", cube.name));
        }
    }

    fn labelled(
        &mut self,
        nodes: &[NodeDeclared],
        generation: &Generation,
        tiling: &Tiling,
    ) -> Vec<Cube> {
        let (own, other): (Vec<&NodeDeclared>, Vec<&NodeDeclared>) =
            nodes.iter().partition(|node| generation.accelerators.contains(&node.accelerator));
        if !other.is_empty() {
            self.notes.push(format!("{} nodes of other generations were left out", other.len()));
        }
        let host_chips = tiling.shape(0).chips();
        let labelled = |node: &&NodeDeclared| {
            let level = |shape: &Shape| tiling.level_of(*shape);
            if node.block.is_empty() {
                self.problem(&node.written, "has no label cloud.google.com/gce-topology-block");
            }
            let health = match node.chips {
                Some(chips) if chips < host_chips => Health::Unhealthy,
                Some(_) | None if node.is_degraded => Health::Degraded,
                Some(_) | None => Health::Healthy,
            };
            let window =
                |from_ms: u64| Window { from_ms, until_ms: from_ms.saturating_add(MAINTENANCE_MS) };
            Labelled {
                host: Host {
                    health,
                    is_open: node.is_open,
                    maintenance: node.maintenance_at_ms.map(window),
                    ..Host::healthy(&node.name)
                },
                block: node.block.clone(),
                ids: node.ids.iter().filter_map(|(s, id)| Some((level(s)?, id.clone()))).collect(),
                states: node
                    .states
                    .iter()
                    .filter_map(|(s, state)| Some((level(s)?, *state)))
                    .collect(),
            }
        };
        let labelled: Vec<Labelled> = own.iter().map(labelled).collect();
        let (cubes, problems) = trees(tiling, &labelled);
        self.notes.extend(problems.iter().map(ToString::to_string));
        cubes
    }

    fn running(
        &mut self,
        declared: Declared,
        generation: &Generation,
        tiling: &Tiling,
        cubes: &[Cube],
    ) -> Vec<Running> {
        let known: BTreeSet<&String> = cubes.iter().flat_map(|cube| cube.ids.values()).collect();
        let mut running: BTreeMap<String, Running> = BTreeMap::new();
        let mut costs: BTreeMap<String, (Option<u64>, u64)> = BTreeMap::new();
        for workload in declared.workloads {
            for (id, at) in workload.slices.iter().flatten().filter(|(id, _)| !known.contains(id)) {
                self.problem(at, format!("is {id:?}, which is the id of no partition"));
            }
            let ids =
                |slice: &Vec<(String, Written)>| slice.iter().map(|(id, _)| id.clone()).collect();
            let gang = Running {
                group: workload.group,
                is_fixed: workload.is_fixed,
                is_leaving: workload.is_leaving,
                ..Running::new(
                    &workload.name,
                    workload.priority,
                    workload.slices.iter().map(ids).collect(),
                )
            };
            costs.insert(workload.name.clone(), (workload.lost_ms, workload.restart_ms));
            if running.insert(workload.name.clone(), gang).is_some() {
                let at =
                    Written { path: format!("{}.name", workload.written.path), ..workload.written };
                self.problem(&at, format!("is {:?}, as another one is", workload.name));
            }
        }
        for slice in declared.slices {
            if !generation.accelerators.contains(&slice.kind) {
                self.notes
                    .push(format!("slice {} is of {} and was left out", slice.name, slice.kind));
                continue;
            }
            let ids: Vec<String> = slice.partitions.iter().map(|(id, _)| id.clone()).collect();
            let owner = slice.owner.clone().filter(|owner| running.contains_key(owner));
            let name = owner.clone().unwrap_or_else(|| format!("slice/{}", slice.name));
            if owner.is_none() {
                let of = slice.owner.map_or_else(String::new, |owner| format!(" of {owner}"));
                let why = "is left alone: no workload of this file owns it";
                self.notes.push(format!("slice {}{of} {why}", slice.name));
            }
            let foreign = Running { is_fixed: true, ..Running::new(&name, 0, Vec::new()) };
            let gang = running.entry(name).or_insert(foreign);
            gang.slices.push(ids);
            gang.is_leaving |= slice.is_leaving;
        }
        self.price(&mut running, &costs, cubes, tiling);
        running.into_values().collect()
    }

    /// What is said per chip becomes what it is for all chips.
    fn price(
        &mut self,
        running: &mut BTreeMap<String, Running>,
        costs: &BTreeMap<String, (Option<u64>, u64)>,
        cubes: &[Cube],
        tiling: &Tiling,
    ) {
        let parts = cubes.iter().flat_map(|cube| &cube.ids);
        let hosts: BTreeMap<&String, u64> =
            parts.map(|(part, id)| (id, u64::from(part.hosts().count_ones()))).collect();
        let host_chips = u64::from(tiling.shape(0).chips());
        for gang in running.values_mut().filter(|gang| !gang.is_fixed) {
            let Some((lost_ms, restart_ms)) = costs.get(&gang.name) else { continue };
            let taken = gang.slices.iter().flatten().filter_map(|id| hosts.get(id)).sum::<u64>();
            let chips = taken.saturating_mul(host_chips);
            if lost_ms.is_none() {
                let minutes = ASSUMED_LOST_MS / 60_000;
                let why = format!("does not say what it would lose; {minutes} minutes are assumed");
                self.notes.push(format!("workload {} {why}", gang.name));
            }
            gang.lost_device_ms = lost_ms.unwrap_or(ASSUMED_LOST_MS).saturating_mul(chips);
            gang.restart_device_ms = restart_ms.saturating_mul(chips);
        }
    }
}

/// A partition as people write it: `2x2x2/3`, or `4x4x4` of the whole.
fn partition(tiling: &Tiling, text: &str) -> Option<Partition> {
    let (shape, index) = text.split_once('/').unwrap_or((text, "0"));
    let level = tiling.level_of(shape.parse().ok()?)?;
    if level != tiling.top() && !text.contains('/') {
        return None;
    }
    tiling.partition(level, index.parse().ok()?)
}
