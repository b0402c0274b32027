//! Lists from the arbiter, page by page.

use sluice::wire::pb;

use crate::connect::{Arbiter, request};
use crate::failure::Failure;

/// Most pages of one list: far more than the arbiter's own limits allow. Without it an arbiter that
/// never says "the last page" would be asked for ever.
const PAGES_MAX: usize = 10_000;

/// One page and where the next begins; empty if there is none.
type Page<T> = (Vec<T>, String);

/// Collects the pages that `ask` gets, each from the name the one before ended with.
async fn pages<T>(
    mut ask: impl AsyncFnMut(String) -> Result<Page<T>, Failure>,
) -> Result<Vec<T>, Failure> {
    let (mut all, mut after) = (Vec::new(), String::new());
    for _ in 0..PAGES_MAX {
        let (page, next) = ask(after.clone()).await?;
        all.extend(page);
        if next <= after {
            return Ok(all);
        }
        after = next;
    }
    Err(Failure::runtime(format!("the arbiter sent {PAGES_MAX} pages and more of one list")))
}

/// Every node.
///
/// # Errors
/// The arbiter does not answer.
pub(crate) async fn nodes(arbiter: &Arbiter) -> Result<Vec<pb::NodeSummary>, Failure> {
    pages(async |after| {
        let mut admin = arbiter.admin();
        let call = admin.list_nodes(request(pb::ListNodesRequest { after }, arbiter.timeout()));
        let answer = arbiter.ask("could not list nodes", call).await?;
        Ok((answer.nodes, answer.next))
    })
    .await
}

/// Every workload; ended ones, too, if `include_finished`.
///
/// # Errors
/// The arbiter does not answer.
pub(crate) async fn workloads(
    arbiter: &Arbiter,
    include_finished: bool,
) -> Result<Vec<pb::Workload>, Failure> {
    pages(async |after| {
        let message = pb::ListWorkloadsRequest { queue: String::new(), include_finished, after };
        let mut admin = arbiter.admin();
        let call = admin.list_workloads(request(message, arbiter.timeout()));
        let answer = arbiter.ask("could not list workloads", call).await?;
        Ok((answer.workloads, answer.next))
    })
    .await
}

/// Every drain; closed ones, too, if `include_closed`.
///
/// # Errors
/// The arbiter does not answer.
pub(crate) async fn drains(
    arbiter: &Arbiter,
    include_closed: bool,
) -> Result<Vec<pb::Drain>, Failure> {
    pages(async |after| {
        let message = pb::ListAllDrainsRequest { include_closed, after };
        let mut admin = arbiter.admin();
        let call = admin.list_drains(request(message, arbiter.timeout()));
        let answer = arbiter.ask("could not list drains", call).await?;
        Ok((answer.drains, answer.next))
    })
    .await
}

/// Every queue.
///
/// # Errors
/// The arbiter does not answer.
pub(crate) async fn queues(arbiter: &Arbiter) -> Result<Vec<pb::Queue>, Failure> {
    let mut admin = arbiter.admin();
    let call = admin.list_queues(request(pb::ListQueuesRequest {}, arbiter.timeout()));
    Ok(arbiter.ask("could not list queues", call).await?.queues)
}

/// Slices and cubes.
///
/// # Errors
/// The arbiter does not answer.
pub(crate) async fn slices(arbiter: &Arbiter) -> Result<pb::ListSlicesResponse, Failure> {
    let mut admin = arbiter.admin();
    let call = admin.list_slices(request(pb::ListSlicesRequest {}, arbiter.timeout()));
    arbiter.ask("could not list slices", call).await
}
