use super::*;

fn fraction(numerator: u128, denominator: u128) -> Fraction {
    Fraction { numerator, denominator }
}

#[test]
fn fractions_compare_exactly_at_any_size() {
    assert_eq!(fraction(1, 3).compare(fraction(2, 6)), Ordering::Equal);
    assert_eq!(fraction(1, 3).compare(fraction(1, 2)), Ordering::Less);
    assert_eq!(fraction(7, 2).compare(fraction(10, 3)), Ordering::Greater);
    assert_eq!(fraction(0, 5).compare(fraction(0, 1)), Ordering::Equal);
    let huge = u128::MAX - 1;
    assert_eq!(fraction(huge, u128::MAX).compare(fraction(huge - 1, huge)), Ordering::Greater);
    assert_eq!(fraction(huge, u128::MAX).compare(fraction(huge, u128::MAX)), Ordering::Equal);
}

fn share(weight: FairWeight, numerator: u128, denominator: u128, borrows: bool) -> Share {
    let borrowed = borrows.then(|| FlavorResource::new(&"a3".into(), &"gpu".into()));
    Share {
        weight,
        unweighted: fraction(numerator, denominator),
        borrowed: borrowed.into_iter().collect(),
    }
}

#[test]
fn a_heavier_node_has_a_smaller_share() {
    let heavy = share(FairWeight::parse("2").unwrap(), 1, 2, true);
    let light = share(FairWeight::ONE, 1, 3, true);
    assert_eq!(heavy.compare(&light), Ordering::Less);
}

#[test]
fn a_node_of_weight_zero_that_borrows_is_above_all_others() {
    let first = share(FairWeight::ZERO, 1, 1000, true);
    let second = share(FairWeight::ZERO, 1, 2, true);
    let other = share(FairWeight::from_nano_units(1), 1000, 1, true);
    assert_eq!(first.compare(&other), Ordering::Greater);
    assert_eq!(other.compare(&first), Ordering::Less);
    assert_eq!(first.compare(&second), Ordering::Less);
    let idle = share(FairWeight::ZERO, 0, 1, false);
    assert_eq!(idle.compare(&other), Ordering::Less);
}

#[test]
fn the_largest_terms_do_not_overflow() {
    let most = i64::MAX.unsigned_abs().into();
    let share = share(FairWeight::from_nano_units(u64::MAX), most, most, true);
    assert_eq!(share.compare(&share.clone()), Ordering::Equal);
}
