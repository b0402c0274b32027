//! Step 3: from the chosen domains down to the leaves, and the placement that results.

use std::ops::Range;

use crate::kueue::workload::{PlacedDomain, Placement};

use super::failure::Failure;
use super::fit::Chosen;
use super::order::{Portion, Search};
use super::tree::{DomainId, Tree};

/// Where the pods of a pod set go, and its leader.
pub(super) struct Placed {
    pub(super) workers: Placement,
    /// Empty if there is no leader.
    pub(super) leader: Placement,
}

/// Something to hand out over several domains.
struct Load {
    pods: i64,
    leaders: i64,
    /// Pods that stay together; 1 for single pods.
    slice_size: i64,
    portion: Portion,
}

impl Search<'_> {
    /// Hands the pods down from the chosen domains to leaves.
    ///
    /// Above the level of the slices it may choose anew among all children together, which uses fewer domains;
    /// below it, and after balanced placement, each domain keeps what it was given.
    pub(super) fn descend(mut self, chosen: Chosen, is_balanced: bool) -> Result<Placed, Failure> {
        let plan = self.plan;
        let lowest = self.tree.levels.len() - 1;
        let whole = |plan: &super::plan::Plan| Load {
            pods: plan.count,
            leaders: plan.leaders,
            slice_size: plan.slice_size,
            portion: Portion::Slices,
        };
        let Chosen { mut level, domains } = chosen;
        let mut domains = self.hand_out(domains, &whole(plan))?;
        while level < plan.slice_level.min(lowest) && !is_balanced {
            let children = domains.iter().flat_map(|domain| self.tree.children(*domain));
            let children = self.sorted(children);
            domains = self.hand_out(children, &whole(plan))?;
            level += 1;
        }
        for level in level..lowest {
            domains = self.hand_down(&domains, self.slice_size_below(level))?;
        }
        self.placed(domains)
    }

    /// Pods that stay together among the children of the domains of `level`.
    fn slice_size_below(&self, level: usize) -> i64 {
        if level < self.plan.slice_level {
            self.plan.slice_size
        } else {
            self.plan.inner_sizes[level + 1].max(1)
        }
    }

    /// Hands each domain's share to its own children.
    fn hand_down(
        &mut self,
        domains: &[DomainId],
        slice_size: i64,
    ) -> Result<Vec<DomainId>, Failure> {
        let mut below = Vec::with_capacity(domains.len());
        for domain in domains {
            let children = self.sorted(self.tree.children(*domain));
            let portion = if slice_size > 1 { Portion::Slices } else { Portion::Pods };
            if slice_size > 1 {
                // The counts are of the outermost slices; here smaller ones are handed out.
                self.recut(self.tree.children(*domain), slice_size);
            }
            let share = self.fit(*domain);
            let (pods, leaders) = (share.pods, share.leaders);
            let load = Load { pods, leaders, slice_size, portion };
            below.append(&mut self.hand_out(children, &load)?);
        }
        Ok(below)
    }

    fn recut(&mut self, domains: Range<DomainId>, slice_size: i64) {
        for domain in domains {
            let fit = self.fit_mut(domain);
            fit.slices = fit.pods / slice_size;
            fit.slices_beside_leader = fit.pods_beside_leader / slice_size;
        }
    }

    /// Hands `load` out to `domains` in their order, the leader first, the last portion to the tightest domain that
    /// holds it. Sets what each is assigned and returns those that were used.
    fn hand_out(&mut self, domains: Vec<DomainId>, load: &Load) -> Result<Vec<DomainId>, Failure> {
        let mut left = load.pods / load.slice_size;
        let mut leaders = load.leaders;
        let domains = self.leader_first(domains, left, leaders, load.portion);
        let mut used = Vec::new();
        for (position, domain) in domains.iter().enumerate() {
            let fit = self.fit(*domain);
            let room =
                if leaders > 0 { load.portion.beside_leader(fit) } else { load.portion.of(fit) };
            let domain = if self.is_last(room, left) && fit.leaders >= leaders {
                self.tightest(&domains[position..], left, leaders, load.portion)
            } else {
                *domain
            };
            let (taken, led) = self.assign(domain, left, leaders, load);
            used.push(domain);
            left -= taken;
            leaders -= led;
            if left == 0 && leaders == 0 {
                return Ok(used);
            }
        }
        Err(Failure::CountsDoNotDescend)
    }

    /// Assigns to `domain` as much as fits of what is left. Returns the portions and the leaders it took.
    fn assign(&mut self, domain: DomainId, left: i64, leaders: i64, load: &Load) -> (i64, i64) {
        let portion = load.portion;
        let fit = self.fit_mut(domain);
        let room = if leaders > 0 { portion.beside_leader(*fit) } else { portion.of(*fit) };
        let taken = room.min(left);
        fit.leaders = fit.leaders.min(leaders);
        fit.pods = taken * load.slice_size;
        if portion == Portion::Slices {
            fit.slices = taken;
        }
        (taken, fit.leaders)
    }

    fn placed(&self, mut leaves: Vec<DomainId>) -> Result<Placed, Failure> {
        leaves.sort_unstable();
        let workers = placement(self.tree, leaves.iter().map(|leaf| (*leaf, self.fit(*leaf).pods)));
        let leader =
            placement(self.tree, leaves.iter().map(|leaf| (*leaf, self.fit(*leaf).leaders)));
        let placed: i64 = workers.domains.iter().map(|domain| i64::from(domain.pods)).sum();
        if placed == self.plan.count {
            Ok(Placed { workers, leader })
        } else {
            Err(Failure::CountsDoNotDescend)
        }
    }
}

/// The placement with these pods on these leaves, which are in order; leaves without pods are left out.
pub(super) fn placement(tree: &Tree, pods: impl Iterator<Item = (DomainId, i64)>) -> Placement {
    let domain = |(leaf, pods): (DomainId, i64)| PlacedDomain {
        values: tree.placed_values(leaf),
        pods: u32::try_from(pods).expect("a leaf is assigned between 1 and 2^31 pods"),
    };
    Placement {
        levels: tree.placed_levels().to_vec(),
        domains: pods.filter(|(_, pods)| *pods > 0).map(domain).collect(),
    }
}
