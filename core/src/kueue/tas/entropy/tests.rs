use super::{ENTROPY_BITS, entropy};

const BIT: u64 = 1 << ENTROPY_BITS;

#[test]
fn even_spreads_over_powers_of_two_are_exact() {
    assert_eq!(entropy([].into_iter()), 0);
    assert_eq!(entropy([7].into_iter()), 0);
    assert_eq!(entropy([5, 5].into_iter()), BIT);
    assert_eq!(entropy([3, 3, 3, 3].into_iter()), 2 * BIT);
    assert_eq!(entropy([2, 1, 1].into_iter()), BIT + BIT / 2);
}

#[test]
fn order_scale_and_empty_domains_do_not_matter() {
    let spread = entropy([1, 2, 4].into_iter());
    assert_eq!(entropy([4, 0, 1, -3, 2].into_iter()), spread);
    assert_eq!(entropy([300, 600, 1200].into_iter()), spread);
}

#[test]
fn three_even_shares_are_the_logarithm_of_three() {
    // log2(3) = 1.584962500721156; times 2^30 and rounded.
    assert_eq!(entropy([9, 9, 9].into_iter()), 1_701_840_526);
}

#[test]
fn a_more_even_spread_has_more_entropy() {
    assert!(entropy([3, 3].into_iter()) > entropy([4, 2].into_iter()));
    assert!(entropy([4, 2].into_iter()) > entropy([5, 1].into_iter()));
}
