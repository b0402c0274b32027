//! A full cluster of 65,536 nodes with 50,000 workloads in 1,000 queues, for the benches of decisions.

use sluice_core::kueue::model::{BorrowWithinCohort, ClusterQueue, Preemption, PreemptionPolicy};

use crate::world::{Size, queue};

pub(crate) const SIZE: Size = Size { nodes: 65_536, nodes_per_rack: 64, racks_per_block: 16 };
pub(crate) const QUEUES: usize = 1_000;
pub(crate) const COHORTS: usize = 10;
pub(crate) const RUNNING: usize = 48_000;
pub(crate) const WAITING: usize = 2_000;
/// Pods and GPUs per pod; on 100 workloads come 32, 50 and 18.
pub(crate) const SHAPES: [(u32, i64); 3] = [(2, 8), (1, 8), (1, 4)];

pub(crate) fn shape_of(index: usize) -> usize {
    match index * 37 % 100 {
        ..32 => 0,
        32..82 => 1,
        _ => 2,
    }
}

/// Hands out nodes: pairs of neighbours from all over the cluster, then their halves.
#[derive(Default)]
pub(crate) struct Nodes {
    pairs: usize,
    single: Option<usize>,
    half: Option<usize>,
}

impl Nodes {
    fn pair(&mut self) -> usize {
        self.pairs += 1;
        self.pairs * 20_011 % (SIZE.nodes / 2) * 2
    }

    fn single(&mut self) -> usize {
        self.single.take().unwrap_or_else(|| {
            let pair = self.pair();
            self.single = Some(pair + 1);
            pair
        })
    }

    /// Indices of the nodes of one workload of `shape`.
    pub(crate) fn take(&mut self, shape: usize) -> Vec<usize> {
        match shape {
            0 => {
                let pair = self.pair();
                vec![pair, pair + 1]
            }
            1 => vec![self.single()],
            _ => vec![self.half.take().unwrap_or_else(|| {
                let node = self.single();
                self.half = Some(node);
                node
            })],
        }
    }
}

/// Each queue has a little more or less than its share in use; together they have 3 GPUs left per cohort.
pub(crate) fn queues() -> Vec<ClusterQueue> {
    let preemption = Preemption {
        within_queue: PreemptionPolicy::LowerPriority,
        reclaim_within_cohort: PreemptionPolicy::LowerPriority,
        borrow_within_cohort: BorrowWithinCohort::LowerPriority { max_priority: None },
    };
    let cohort_of = |queue: usize| queue % COHORTS;
    let mut used = [0_i64; COHORTS];
    for index in 0..RUNNING {
        let (pods, gpus) = SHAPES[shape_of(index)];
        used[cohort_of(index % QUEUES)] += i64::from(pods) * gpus;
    }
    let members = i64::try_from(QUEUES / COHORTS).expect("some hundred");
    let queue_of = |index: usize| {
        let cohort = cohort_of(index);
        let share = used[cohort] / members;
        let rest = if index < COHORTS { used[cohort] % members + 3 } else { 0 };
        queue(&format!("queue-{index:03}"), &format!("cohort-{cohort}"), share + rest, preemption)
    };
    (0..QUEUES).map(queue_of).collect()
}
