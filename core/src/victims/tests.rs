use super::*;

fn cost(cost_device_ms: u64, devices: u64) -> Cost {
    Cost { cost_device_ms, at_risk_device_ms: cost_device_ms, devices }
}

/// Chooses so that at least `needed` devices are freed.
fn check(candidates: &[Cost], needed: u64, expected: Option<&[usize]>) {
    let enough = |set: &[usize]| set.iter().map(|i| candidates[*i].devices).sum::<u64>() >= needed;
    assert_eq!(choose(candidates, enough).as_deref(), expected);
}

#[test]
fn the_cheapest_set_that_is_enough_is_chosen() {
    check(&[cost(20_000, 4), cost(6_000_000, 4)], 4, Some(&[0]));
    check(&[cost(6_000_000, 4), cost(20_000, 4)], 4, Some(&[1]));
    // One dear large gang or two cheap small ones.
    check(&[cost(100, 4), cost(40, 2), cost(50, 2)], 4, Some(&[1, 2]));
    check(&[cost(80, 4), cost(40, 2), cost(50, 2)], 4, Some(&[0]));
}

#[test]
fn equal_costs_are_decided_by_few_gangs_then_by_order() {
    check(&[cost(0, 2), cost(0, 2), cost(0, 4)], 4, Some(&[2]));
    check(&[cost(7, 2), cost(7, 2)], 2, Some(&[0]));
}

#[test]
fn nothing_is_chosen_when_everything_is_not_enough() {
    check(&[cost(1, 2), cost(1, 2)], 5, None);
    check(&[], 0, None);
}

#[test]
fn many_candidates_give_back_what_is_not_needed() {
    // The cheap small one comes first and turns out not to be needed once a large one is in.
    let mut candidates = vec![cost(1, 1)];
    candidates.extend((0..20).map(|i| cost(80 + i, 8)));
    check(&candidates, 8, Some(&[1]));
    let chosen =
        choose(&candidates, |set| set.iter().map(|i| candidates[*i].devices).sum::<u64>() >= 17);
    assert_eq!(chosen, Some(vec![0, 1, 2]));
}
