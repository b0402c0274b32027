//! Who is looked at again when nodes come, change and go, and when somebody leaves.

use crate::kueue::name::QueueName;
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
        self.wake_for_nodes();
    }

    /// A node is gone.
    pub fn remove_node(&mut self, name: &str) {
        self.snapshot.remove_node(name);
        self.wake_for_nodes();
    }

    fn wake_for_nodes(&mut self) {
        let names: Vec<QueueName> = self.queues.keys().cloned().collect();
        self.wake_for_places(&names);
    }

    /// Something of `queue` became free, or may be taken: whoever shares its quota is looked at again, and who shares
    /// its nodes as after a change of nodes.
    pub(super) fn wake_group_of(&mut self, queue: &QueueName) {
        let root_of = |name: &QueueName| {
            self.snapshot.queue(name).map(|state| self.snapshot.tree().root(state.node))
        };
        let root = root_of(queue);
        let group = self.groups.of(queue).iter().cloned();
        let (near, far): (Vec<QueueName>, Vec<QueueName>) =
            group.partition(|name| root_of(name) == root);
        for name in near {
            if let Some(queue) = self.queues.get_mut(&name) {
                queue.wake();
                self.news.insert(name);
            }
        }
        self.wake_for_places(&far);
    }

    /// Wakes who waits in `queues`, but not for quota alone: no place gives it any. Who holds is looked at too.
    fn wake_for_places(&mut self, queues: &[QueueName]) {
        let whatif = WhatIf::new(&self.snapshot);
        for name in queues {
            let Some(queue) = self.queues.get_mut(name) else { continue };
            let state = self.snapshot.queue(name);
            let may_differ = |workload: &Workload, usage: Option<&Usage>| {
                let (Some(state), Some(usage)) = (state, usage) else { return true };
                !waits_for_quota_alone(&self.snapshot, &whatif, state, workload, usage)
            };
            if queue.wake_if(may_differ) {
                self.news.insert(name.clone());
            }
        }
        let holding = self.holds.keys().filter_map(|key| self.snapshot.running(key));
        let holding = holding.map(|running| &running.queue);
        // Names are in order here and there.
        let concerned = holding.filter(|name| queues.binary_search(name).is_ok());
        self.news.extend(concerned.cloned());
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
