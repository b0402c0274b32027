//! Lists that may be long: cut by size, in the order of names.

use std::ops::Bound;

use prost::Message;
use sluice::wire::{WireError, field, pb};
use sluice_core::id::{DrainId, NodeName, QueueName, WorkloadName};

use crate::agents::Agents;
use crate::run::View;
use crate::view;

/// Largest list in one answer, encoded. Clients of gRPC take messages of 4 MiB unless told otherwise.
const LIST_BYTES_MAX: usize = 3 << 20;

/// A list as far as it goes, and the name to go on after.
struct Page<T> {
    items: Vec<T>,
    next: String,
    bytes: usize,
}

impl<T: Message> Page<T> {
    fn new() -> Self {
        Self { items: Vec::new(), next: String::new(), bytes: 0 }
    }

    /// Adds `item`; false if it does not fit: then the list ends after `last`.
    fn add(&mut self, item: T, last: Option<&str>) -> bool {
        self.bytes += item.encoded_len();
        if self.bytes > LIST_BYTES_MAX
            && let Some(last) = last
        {
            last.clone_into(&mut self.next);
            return false;
        }
        self.items.push(item);
        true
    }
}

/// Where to begin: after the name that the last page ended with, or at the start.
fn from<T: std::str::FromStr>(after: &str) -> Bound<T> {
    // What is no name stands nowhere: the list is told from its start.
    after.parse().map_or(Bound::Unbounded, Bound::Excluded)
}

/// Workloads, by name.
pub(super) fn workloads(
    view: &View<'_>,
    request: &pb::ListWorkloadsRequest,
) -> Result<pb::ListWorkloadsResponse, WireError> {
    let queue: Option<QueueName> = field::optional_name("queue", &request.queue)?;
    let queues = view.arbiter.queues();
    let in_queue = |asked: &QueueName, of: &QueueName| {
        asked == of || queues.find(asked).is_some_and(|queue| queue.name.as_str() == of.as_str())
    };
    let mut page = Page::new();
    let mut last: Option<&WorkloadName> = None;
    let range = (from::<WorkloadName>(&request.after), Bound::Unbounded);
    for (name, workload) in view.arbiter.workloads().range(range) {
        let wanted = request.include_finished || !workload.phase.is_finished();
        if !wanted || !queue.as_ref().is_none_or(|asked| in_queue(asked, &workload.spec.queue)) {
            continue;
        }
        if !page.add(view::workload(view, workload), last.map(WorkloadName::as_str)) {
            break;
        }
        last = Some(name);
    }
    Ok(pb::ListWorkloadsResponse { workloads: page.items, next: page.next })
}

/// Nodes, by name.
pub(super) fn nodes(
    view: &View<'_>,
    agents: &Agents,
    request: &pb::ListNodesRequest,
) -> pb::ListNodesResponse {
    let mut page = Page::new();
    let mut last: Option<&NodeName> = None;
    let range = (from::<NodeName>(&request.after), Bound::Unbounded);
    for (name, node) in view.arbiter.nodes().range(range) {
        if !page.add(view::node(view, agents, name, node), last.map(NodeName::as_str)) {
            break;
        }
        last = Some(name);
    }
    pb::ListNodesResponse { nodes: page.items, next: page.next }
}

/// Drains, by id.
pub(super) fn drains(
    view: &View<'_>,
    request: &pb::ListAllDrainsRequest,
) -> pb::ListAllDrainsResponse {
    let mut page = Page::new();
    let mut last: Option<&DrainId> = None;
    let range = (from::<DrainId>(&request.after), Bound::Unbounded);
    for (id, drain) in view.arbiter.drains().range(range) {
        if drain.state.is_closed() && !request.include_closed {
            continue;
        }
        if !page.add(pb::Drain::from(drain), last.map(DrainId::as_str)) {
            break;
        }
        last = Some(id);
    }
    pb::ListAllDrainsResponse { drains: page.items, next: page.next }
}
