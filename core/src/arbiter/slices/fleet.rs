//! Nodes and workloads as the allocator sees them: cubes out of labels, and who is on them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Arbiter, CHIPS};
use crate::arbiter::Node;
use crate::id::{NodeName, WorkloadName};
use crate::protocol::Health;
use crate::slice::label::NodeLabels;
use crate::slice::life::Policy;
use crate::slice::{Fleet, Host, Labelled, Running, Tiling, Window, trees};
use crate::topology::Generation;
use crate::workload::{Phase, Workload};

/// How long a maintenance lasts of which only the beginning is known: what the cloud grants at most.
const MAINTENANCE_MS: u64 = 3_600_000;

/// What was placed so far in one decision.
#[derive(Debug, Default)]
pub(in super::super) struct Sites {
    /// Names of those who ask, in the order in which they are decided about: the allocator orders by name.
    order: BTreeMap<WorkloadName, usize>,
    /// Those that have a place.
    pub(super) placed: Vec<Running>,
    /// Who gives way for them.
    pub(super) evicted: BTreeSet<String>,
}

impl Sites {
    pub(super) fn new(asking: &[WorkloadName]) -> Self {
        let order = asking.iter().cloned().zip(0..).collect();
        Self { order, ..Self::default() }
    }

    /// What the request of `name` is called.
    pub(super) fn request_name(&self, name: &WorkloadName) -> String {
        let place = self.order.get(name).copied().unwrap_or(usize::MAX);
        format!("{place:020}/{name}")
    }
}

/// A node of a generation.
pub(super) struct Site<'a> {
    pub(super) name: &'a NodeName,
    pub(super) node: &'a Node,
    pub(super) labels: NodeLabels,
}

impl Arbiter {
    /// Nodes whose labels say that they are of `generation`.
    pub(super) fn sites_of<'a>(
        &'a self,
        generation: &'a Generation,
    ) -> impl Iterator<Item = Site<'a>> {
        self.nodes.iter().filter_map(|(name, node)| {
            let labels = node.labels.iter().map(|(k, v)| (k.as_str(), v.as_str()));
            let labels = NodeLabels::read(labels);
            let is_it =
                labels.accelerator.as_ref().is_some_and(|a| generation.accelerators.contains(a));
            is_it.then_some(Site { name, node, labels })
        })
    }

    /// All cubes of a generation with those who hold hosts of them, as those see it who reach the nodes `reach`; what
    /// draining somebody costs is reckoned for `preemptor`.
    pub(super) fn fleet(
        &self,
        generation: &Generation,
        reach: Option<&BTreeSet<&NodeName>>,
        preemptor: Option<&WorkloadName>,
        sites: &Sites,
    ) -> Option<Fleet> {
        let host = *generation.hosts.first()?;
        let tiling = Tiling::of(generation, host, generation.whole()?).ok()?;
        let others = self.others();
        let mut running = self.running(preemptor, sites);
        let mut nodes = Vec::new();
        for site in self.sites_of(generation) {
            let mut labelled = self.labelled(&site, &tiling, host.chips());
            labelled.host.is_open &= reach.is_none_or(|reach| reach.contains(site.name));
            if let Some(owner) = others.get(site.name) {
                // Somebody has chips of the host without a slice: the host alone is theirs.
                match labelled.ids.get(&0) {
                    Some(id) => hold(&mut running, owner, id, |w| self.gang(w, preemptor, sites)),
                    None => labelled.host.is_open = false,
                }
            }
            nodes.push(labelled);
        }
        let (cubes, _) = trees(&tiling, &nodes);
        running.extend(sites.placed.iter().cloned());
        Some(Fleet::new(tiling, cubes, running))
    }

    fn labelled(&self, site: &Site<'_>, tiling: &Tiling, host_chips: u32) -> Labelled {
        let Site { name, node, labels } = site;
        let maintenance = labels
            .maintenance_at_ms
            .map(|from_ms| Window { from_ms, until_ms: from_ms.saturating_add(MAINTENANCE_MS) });
        let level = |shape| tiling.level_of(shape);
        let ids = labels.ids.iter().filter_map(|(s, id)| Some((level(*s)?, id.clone())));
        let states = labels.states.iter().filter_map(|(s, state)| Some((level(*s)?, *state)));
        Labelled {
            host: Host {
                node: name.to_string(),
                health: health_of(node, host_chips),
                is_open: node.connected
                    && !labels.is_in_maintenance
                    && !self.is_about_to_go(maintenance),
                maintenance,
            },
            block: labels.block.clone(),
            ids: ids.collect(),
            states: states.collect(),
        }
    }

    /// Whether a maintenance begins so soon that whoever started now would have to save at once.
    pub(super) fn is_about_to_go(&self, maintenance: Option<Window>) -> bool {
        let lead_ms = notice_ms(&Policy::default());
        maintenance.is_some_and(|w| {
            w.from_ms <= self.now.0.saturating_add(lead_ms) && self.now.0 < w.until_ms
        })
    }

    /// Who has slices, whatever becomes of them.
    fn running(&self, preemptor: Option<&WorkloadName>, sites: &Sites) -> Vec<Running> {
        let holding = self.sliced().filter(|w| !w.slices_held().is_empty());
        holding.map(|w| self.gang(w, preemptor, sites)).collect()
    }

    fn gang(
        &self,
        workload: &Workload,
        preemptor: Option<&WorkloadName>,
        sites: &Sites,
    ) -> Running {
        let name = &workload.spec.name;
        let standing = self.standing_of(preemptor.unwrap_or(name), name);
        let drain = self.open_drain_of(name).filter(|drain| !drain.is_rehearsal);
        let beneficiary = drain.and_then(|d| self.workloads.get(d.beneficiary.as_ref()?));
        // What is held for the beneficiary is its own already; the rest of the victim's hosts are anybody's.
        let beneficiary = beneficiary.filter(|w| w.reservation.is_none() && !w.phase.is_finished());
        let is_leaving = drain.is_some()
            || workload.phase.is_finished()
            || sites.evicted.contains(name.as_str());
        let slices = workload.slices_held().iter().map(|slice| slice.partitions.clone()).collect();
        Running {
            group: workload.spec.slice.as_ref().and_then(|slice| slice.group.clone()),
            lost_device_ms: standing.cost_device_ms,
            is_fixed: !is_leaving && (standing.cannot_leave || self.is_protected(&standing)),
            is_leaving,
            beneficiary: beneficiary.map(|w| (sites.request_name(&w.spec.name), w.spec.priority)),
            ..Running::new(name.as_str(), workload.spec.priority, slices)
        }
    }

    /// Who has chips and no slices, by node.
    fn others(&self) -> BTreeMap<&NodeName, &Workload> {
        let has_none = |w: &&Workload| w.spec.slice.is_none();
        let mut others = BTreeMap::new();
        for workload in self.workloads.values().filter(has_none) {
            if !workload.spec.resources.keys().any(|r| r.as_str() == CHIPS) {
                continue;
            }
            let held = workload.members.values().filter_map(|m| m.assignment.as_ref());
            let reserved = workload.reservation.iter().flat_map(|r| r.placement.values());
            others.extend(held.chain(reserved).map(|assignment| (&assignment.node, workload)));
        }
        others
    }
}

/// Adds the host with `id` to what `owner` holds.
fn hold(
    running: &mut Vec<Running>,
    owner: &Workload,
    id: &str,
    gang: impl Fn(&Workload) -> Running,
) {
    let name = owner.spec.name.as_str();
    let slice = vec![id.to_owned()];
    match running.iter_mut().find(|r| r.name == name) {
        Some(known) => known.slices.push(slice),
        None => {
            let is_fixed = owner.phase == Phase::Pending;
            let gang = gang(owner);
            let is_fixed = is_fixed || gang.is_fixed;
            running.push(Running { slices: vec![slice], is_fixed, ..gang });
        }
    }
}

/// How long before a maintenance its hosts are to be left: a checkpoint, the end of the workers, some to spare.
pub(super) fn notice_ms(policy: &Policy) -> u64 {
    policy.save_ms + policy.end_ms + policy.margin_ms
}

/// The worst of its chips; a host that lacks one is of no use to any slice.
pub(super) fn health_of(node: &Node, host_chips: u32) -> Health {
    let chips = node.devices.values().filter(|device| device.resource.as_str() == CHIPS);
    let chips: Vec<Health> = chips.map(|device| device.health).collect();
    if (chips.len() as u64) < u64::from(host_chips) {
        return Health::Unhealthy;
    }
    Host::health_of_chips(&chips)
}
