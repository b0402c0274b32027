use super::*;
use crate::kueue::model::FlavorQuotas;

fn gpu() -> FlavorResource {
    FlavorResource::new(&"a3".into(), &"gpu".into())
}

fn groups(
    nominal: i64,
    borrowing_limit: Option<i64>,
    lending_limit: Option<i64>,
) -> Vec<ResourceGroup> {
    let quota = Quota { nominal, borrowing_limit, lending_limit };
    let quotas = [("gpu".into(), quota)].into();
    vec![ResourceGroup {
        resources: vec!["gpu".into()],
        flavors: vec![FlavorQuotas { flavor: "a3".into(), quotas }],
    }]
}

/// A root cohort with 2 of its own, a queue with 10 of which it lends 4, and a queue with 3 that may borrow 5.
fn small_tree() -> (QuotaTree, NodeId, NodeId, NodeId) {
    let mut tree = QuotaTree::default();
    let root = tree.add_cohort(None, &groups(2, None, None), FairWeight::ONE);
    let lender = tree.add_queue(Some(root), &groups(10, None, Some(4)), FairWeight::ONE);
    let borrower = tree.add_queue(Some(root), &groups(3, Some(5), None), FairWeight::ONE);
    tree.seal();
    (tree, root, lender, borrower)
}

#[test]
fn a_cohort_has_its_own_quota_and_what_its_children_lend() {
    let (tree, root, lender, borrower) = small_tree();
    assert_eq!(tree.subtree_quota(root, &gpu()), 2 + 4 + 3);
    assert_eq!(tree.potential_available(lender, &gpu()), 6 + 9);
    assert_eq!(tree.potential_available(borrower, &gpu()), 3 + 5);
    assert_eq!((tree.height(root), tree.height(lender)), (1, 0));
}

#[test]
fn only_what_a_queue_does_not_keep_counts_in_its_cohort() {
    let (tree, root, lender, borrower) = small_tree();
    let mut ledger = Ledger::new(&tree);
    ledger.add(lender, &gpu(), 6);
    assert_eq!((ledger.usage(lender, &gpu()), ledger.usage(root, &gpu())), (6, 0));
    ledger.add(lender, &gpu(), 5);
    assert_eq!((ledger.usage(lender, &gpu()), ledger.usage(root, &gpu())), (11, 5));
    assert_eq!(ledger.available(borrower, &gpu()), 4);
    ledger.remove(lender, &gpu(), 11);
    assert_eq!((ledger.usage(lender, &gpu()), ledger.usage(root, &gpu())), (0, 0));
}

#[test]
fn an_overused_queue_has_nothing_available() {
    let (tree, _, _, borrower) = small_tree();
    let mut ledger = Ledger::new(&tree);
    ledger.add(borrower, &gpu(), 20);
    assert_eq!(ledger.available(borrower, &gpu()), 0);
}

#[test]
fn the_lowest_subtree_that_fits_says_from_how_far_quota_comes() {
    let mut tree = QuotaTree::default();
    let root = tree.add_cohort(None, &groups(100, None, None), FairWeight::ONE);
    let team = tree.add_cohort(Some(root), &groups(10, None, None), FairWeight::ONE);
    let queue = tree.add_queue(Some(team), &groups(5, None, None), FairWeight::ONE);
    tree.seal();
    let ledger = Ledger::new(&tree);
    assert_eq!(ledger.lowest_fitting_subtree(queue, &gpu(), 5), (0, true));
    assert_eq!(ledger.lowest_fitting_subtree(queue, &gpu(), 15), (1, true));
    assert_eq!(ledger.lowest_fitting_subtree(queue, &gpu(), 16), (2, false));
    assert_eq!(ledger.lowest_fitting_subtree(queue, &gpu(), 1000), (2, false));
}

#[test]
fn amounts_at_the_limit_saturate() {
    let mut tree = QuotaTree::default();
    let root = tree.add_cohort(None, &groups(i64::MAX, None, None), FairWeight::ONE);
    let queue =
        tree.add_queue(Some(root), &groups(i64::MAX, Some(i64::MAX), Some(1)), FairWeight::ONE);
    tree.seal();
    let mut ledger = Ledger::new(&tree);
    ledger.add(queue, &gpu(), i64::MAX);
    ledger.add(queue, &gpu(), i64::MAX);
    assert_eq!(tree.potential_available(queue, &gpu()), i64::MAX);
    assert_eq!(ledger.usage(queue, &gpu()), i64::MAX);
    assert!(ledger.available(queue, &gpu()) >= 0);
}
