//! Who is looked at again when nodes come, change and go, and when somebody leaves.

use crate::kueue::name::{QueueName, WorkloadKey};
use crate::kueue::order::PendingQueue;
use crate::kueue::preempt::may_preempt_anybody;
use crate::kueue::snapshot::{QueueState, Snapshot};
use crate::kueue::tas;
use crate::kueue::whatif::WhatIf;
use crate::kueue::workload::{Usage, Workload};

use super::Scheduler;

impl Scheduler {
    /// A node is new or has changed.
    pub fn set_node(&mut self, node: tas::Node) {
        self.snapshot.set_node(node);
        self.changes.note_nodes();
    }

    /// A node is gone.
    pub fn remove_node(&mut self, name: &str) {
        self.snapshot.remove_node(name);
        self.changes.note_nodes();
    }

    /// `key`, which could not be taken from where it runs, can be now.
    pub fn may_leave(&mut self, key: &WorkloadKey) {
        self.wake(key);
    }

    /// Everybody is looked at again.
    pub fn wake_all(&mut self) {
        for (name, queue) in &mut self.queues {
            queue.wake();
            self.news.insert(name.clone());
        }
    }

    /// Who waits in the next `count` queues after `after` is looked at again; queues are in order of their names, and
    /// after the last comes the first. Returns the last of these queues.
    pub fn wake_next(&mut self, after: Option<&QueueName>, count: usize) -> Option<QueueName> {
        let waiting = self.queues.iter().filter(|(_, queue)| !queue.is_empty());
        let waiting = waiting.map(|(name, _)| name);
        let is_later = |name: &&QueueName| after.is_none_or(|after| *name > after);
        let (later, earlier): (Vec<_>, Vec<_>) = waiting.partition(is_later);
        let names: Vec<QueueName> = later.into_iter().chain(earlier).take(count).cloned().collect();
        for name in &names {
            self.queues.get_mut(name).into_iter().for_each(PendingQueue::wake);
        }
        let last = names.last().cloned();
        self.news.extend(names);
        last
    }

    /// Queues in which somebody waits.
    #[must_use]
    pub fn waiting_queues(&self) -> usize {
        self.queues.values().filter(|queue| !queue.is_empty()).count()
    }

    /// Something of `queue` became free, or may be taken: whoever shares its quota is looked at again, and who shares
    /// its nodes as after a change of nodes.
    pub(super) fn wake_group_of(&mut self, queue: &QueueName) {
        if let Some(membership) = self.groups.of(queue) {
            self.changes.note(membership);
        }
    }

    /// Wakes whom the changes since the last time may help. Who waits for quota alone is not woken for places: no place
    /// gives it any. Who holds is looked at too.
    pub(super) fn wake_the_concerned(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        let changes = std::mem::take(&mut self.changes);
        let whatif = WhatIf::new(&self.snapshot);
        for (name, queue) in &mut self.queues {
            let Some(membership) = self.groups.of(name) else { continue };
            let is_woken = if changes.concern_quota_of(membership) {
                queue.wake();
                true
            } else if changes.concern_places_of(membership) {
                let state = self.snapshot.queue(name);
                let may_differ = |workload: &Workload, usage: Option<&Usage>| {
                    let (Some(state), Some(usage)) = (state, usage) else { return true };
                    !waits_for_quota_alone(&self.snapshot, &whatif, state, workload, usage)
                };
                queue.wake_if(may_differ)
            } else {
                false
            };
            if is_woken {
                self.news.insert(name.clone());
            }
        }
        let holding = self.holds.keys().filter_map(|key| self.snapshot.running(key));
        let holding = holding.map(|running| &running.queue);
        let is_concerned = |name: &&QueueName| {
            let membership = self.groups.of(name);
            membership.is_some_and(|m| changes.concern_places_of(m))
        };
        self.news.extend(holding.filter(is_concerned).cloned());
    }
}

/// Whether `workload`, which would use `usage`, waits whatever nodes there are: it has only one flavor to choose, lacks
/// quota of it, and there is nobody whom it could preempt.
fn waits_for_quota_alone(
    snapshot: &Snapshot,
    whatif: &WhatIf<'_>,
    queue: &QueueState,
    workload: &Workload,
    usage: &Usage,
) -> bool {
    queue.spec.groups.iter().all(|group| group.flavors.len() == 1)
        && !workload.can_be_partial()
        && !whatif.has_room(queue.node, usage)
        && !may_preempt_anybody(snapshot, queue, workload)
}
