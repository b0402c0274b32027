//! Why a gang that could not be placed has to wait: the nearest thing that is in its way.

use super::fit::Look;
use super::reason::Reason;
use super::request::Request;

/// The reason, where `taken` are the hosts that cannot be had.
pub(super) fn why(look: &Look<'_>, request: &Request, taken: &[u64]) -> Reason {
    let fleet = look.fleet;
    let top = fleet.tiling.top();
    let each = u64::from(fleet.tiling.hosts());
    let wanted_hosts = request.hosts();
    let block_hosts = fleet.blocks.iter().map(|b| b.len() as u64 * each).max().unwrap_or(0);
    if wanted_hosts > block_hosts || request.parts.iter().any(|part| part.level > top) {
        return Reason::TooLarge { wanted_hosts, block_hosts };
    }
    let parts = request.parts.as_slice();
    let nothing = vec![0; taken.len()];
    if look.lenient(false, true).place(parts, &nothing).is_none() {
        let refused = fleet.boards.iter().map(|b| u64::from(b.refused(0).count_ones()));
        return Reason::UnusableHosts { hosts: refused.sum() };
    }
    let fits = |healthy, may_meet| look.lenient(healthy, may_meet).place(parts, taken).is_some();
    if request.is_healthy_only && fits(false, request.may_meet_maintenance) {
        return Reason::OnlyDegraded;
    }
    if !request.may_meet_maintenance && fits(request.is_healthy_only, true) {
        return Reason::OnlyDuringMaintenance;
    }
    if request.is_group_bound {
        let unbound = Request { group: None, is_group_bound: false, ..request.clone() };
        let unbound = Look::of(fleet, &unbound, 0, Vec::new());
        if unbound.lenient(request.is_healthy_only, true).place(parts, taken).is_some() {
            return Reason::GroupElsewhere;
        }
    }
    capacity(look, request, taken)
}

/// What is missing: hosts, whole cubes, or only their shape.
fn capacity(look: &Look<'_>, request: &Request, taken: &[u64]) -> Reason {
    let fleet = look.fleet;
    let top = fleet.tiling.top();
    let wanted_hosts = request.hosts();
    let hosts = |cube: usize| {
        let board = &fleet.boards[cube];
        let free = !(taken[cube] | look.closed(cube, 0)) & board.all();
        u64::from(free.count_ones())
    };
    let cubes =
        |cube: &usize| fleet.boards[*cube].free(taken[*cube] | look.closed(*cube, top), top) != 0;
    let of_block = |block: usize| fleet.blocks[block].clone();
    let free: Vec<u64> = look.blocks().map(|block| of_block(block).map(hosts).sum()).collect();
    let free_hosts = free.iter().copied().max().unwrap_or(0);
    if free_hosts >= wanted_hosts {
        return Reason::Fragmented { wanted_hosts, free_hosts };
    }
    if request.parts.iter().all(|part| part.level == top) {
        let free = look.blocks().map(|block| of_block(block).filter(&cubes).count() as u64).max();
        let wanted = wanted_hosts >> top;
        return Reason::NoFreeCubes { wanted, free: free.unwrap_or(0) };
    }
    if free.iter().sum::<u64>() >= wanted_hosts {
        return Reason::SpansBlocks { wanted_hosts, free_hosts };
    }
    Reason::NoCapacity { wanted_hosts, free_hosts }
}
