//! A save that goes on when its worker is to end.

use super::*;

#[test]
fn a_save_that_is_under_way_at_the_release_may_end() {
    let mut bench = Bench::new();
    bench.order(boundary());
    bench.order(Verb::Commit);
    bench.scan(&[40, 50], None);
    bench.scan(&[40, 50], Some(60));
    bench.log();
    bench.order(RELEASE);
    assert_eq!(bench.log(), ["journal releasing"]);
    bench.order(RELEASE);
    bench.log();
    bench.wait(2_000);
    assert_eq!(bench.log(), [""; 0]);
    bench.scan(&[40, 50, 60], None);
    assert_eq!(
        bench.log(),
        ["journal releasing", "durable 60", "journal releasing", "signal 15 Main"]
    );
    bench.scan(&[40, 50, 60], Some(70));
    assert_eq!(bench.log(), [""; 0]);
}

#[test]
fn a_save_that_does_not_end_holds_the_release_for_half_of_the_grace() {
    let mut bench = Bench::new();
    bench.order(boundary());
    bench.scan(&[40], Some(50));
    bench.order(RELEASE);
    bench.log();
    bench.wait(2_499);
    assert_eq!(bench.log(), [""; 0]);
    bench.wait(1);
    assert_eq!(bench.log(), ["journal releasing", "signal 15 Main"]);
    bench.wait(2_500);
    assert_eq!(bench.log(), ["journal releasing", "signal 9 All"]);
}
