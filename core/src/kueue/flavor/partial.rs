//! Admission with fewer pods than asked for: how far must a workload shrink?

use super::super::workload::PodSet;

/// Finds the largest counts, between each pod set's minimum and its full count, for which `attempt` succeeds.
///
/// All pod sets shrink together, each in proportion to what it can give. `attempt` must succeed for fewer pods if it
/// does for more; the search asks it about log2 of the pods that can be given up.
pub fn find_largest_fit<T>(
    pod_sets: &[PodSet],
    mut attempt: impl FnMut(&[u32]) -> Option<T>,
) -> Option<T> {
    let spare: Vec<u32> = pod_sets
        .iter()
        .map(|pod_set| {
            pod_set.count - pod_set.min_count.unwrap_or(pod_set.count).min(pod_set.count)
        })
        .collect();
    let total: u64 = spare.iter().map(|&spare| u64::from(spare)).sum();
    let counts_after = |given_up: u64| -> Vec<u32> {
        let shrunk = |(pod_set, &spare): (&PodSet, &u32)| {
            // At most 2^32 × 18 × 2^32 over total, so at most `spare`.
            let part = u128::from(spare) * u128::from(given_up) / u128::from(total.max(1));
            pod_set.count - u32::try_from(part).unwrap_or(spare)
        };
        pod_sets.iter().zip(&spare).map(shrunk).collect()
    };
    if total == 0 {
        return None;
    }
    let (mut low, mut high) = (0, total + 1);
    let mut best = None;
    while low < high {
        let middle = low + (high - low) / 2;
        if let Some(found) = attempt(&counts_after(middle)) {
            best = Some(found);
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    best
}
