//! Demand that comes and goes does not eat up the work of those who give way.

use super::*;

/// What happens to one training of 8 GPUs below a demand that needs all of them, second by second.
struct World {
    scheduler: Scheduler,
    restart_ms: u64,
    running_since_ms: Option<u64>,
    drained_at_ms: Vec<u64>,
    held_ms: u64,
    productive_ms: u64,
}

impl World {
    fn new(restart_ms: u64, policy: Policy) -> Self {
        let mut scheduler = scheduler(vec![preempting("q", 8)], policy);
        scheduler.submit(Arc::new(pending("training", "q", 0, 8)));
        let drained_at_ms = Vec::new();
        let (held_ms, productive_ms) = (0, 0);
        Self {
            scheduler,
            restart_ms,
            running_since_ms: None,
            drained_at_ms,
            held_ms,
            productive_ms,
        }
    }

    fn decide(&mut self, now_ms: u64) {
        let history = History {
            running_since_ms: self.running_since_ms,
            was_drained: !self.drained_at_ms.is_empty(),
            drained_at_ms: &self.drained_at_ms,
            restart_ms: self.restart_ms,
        };
        let limits = Limits::default();
        let standing = |_: &Workload, workload: &Workload| match workload.key.name() {
            "training" => Standing {
                protected: history.protection(&limits, now_ms),
                hold_off_ms: history.hold_off_ms(&limits, now_ms),
                ..Standing::default()
            },
            _ => Standing::default(),
        };
        for verdict in self.scheduler.decide(now_ms, &standing) {
            match verdict {
                Verdict::Admit { workload, .. } if workload == key("training") => {
                    self.running_since_ms = Some(now_ms);
                }
                Verdict::Preempt { .. } => self.drain(now_ms),
                Verdict::Admit { .. } | Verdict::Evict { .. } | Verdict::Wait { .. } => {}
            }
        }
    }

    /// The training saves, leaves at once, and waits to come back.
    fn drain(&mut self, now_ms: u64) {
        self.drained_at_ms.push(now_ms);
        if let Some(since_ms) = self.running_since_ms.take() {
            let held_ms = now_ms - since_ms;
            self.held_ms += held_ms;
            self.productive_ms += held_ms.saturating_sub(self.restart_ms);
        }
        self.scheduler.left(&key("training"));
        self.scheduler.submit(Arc::new(pending("training", "q", 0, 8)));
        self.decide(now_ms);
    }

    /// Demand is there for `on_ms` and gone for `off_ms`, again and again, for six hours.
    fn flap(&mut self, on_ms: u64, off_ms: u64) {
        let mut demand_ends_ms = None;
        for now_ms in (0..6 * 3_600_000).step_by(1_000) {
            let phase_ms = now_ms % (on_ms + off_ms);
            match demand_ends_ms {
                None if phase_ms < on_ms => {
                    self.scheduler.submit(Arc::new(pending("demand", "q", 5, 8)));
                    demand_ends_ms = Some(now_ms - phase_ms + on_ms);
                }
                Some(end_ms) if now_ms >= end_ms => {
                    self.scheduler.forget(&key("demand"));
                    demand_ends_ms = None;
                }
                Some(_) | None => {}
            }
            self.decide(now_ms);
        }
    }
}

#[test]
fn s12_demand_that_flaps_every_minute_drains_once_per_window() {
    let mut world = World::new(120_000, Policy::sluice());
    world.flap(60_000, 60_000);
    let gaps = world.drained_at_ms.windows(2).map(|pair| pair[1] - pair[0]);
    let least = gaps.min();
    assert!(least.is_none_or(|gap| gap >= 240_000), "{:?}", world.drained_at_ms);
    assert!(
        world.productive_ms * 2 >= world.held_ms,
        "{} of {}",
        world.productive_ms,
        world.held_ms
    );
}

#[test]
fn without_the_rules_flapping_demand_eats_all_work() {
    let mut world = World::new(120_000, Policy::compat());
    world.flap(60_000, 60_000);
    assert_eq!((world.drained_at_ms.len(), world.productive_ms), (179, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the rhythm: at least half of the time for which a drained training held its devices was productive,
    /// and it is not drained more often than its budget allows.
    #[test]
    fn half_of_the_time_is_productive_at_any_flap_period(
        on_s in 1..5_000_u64, off_s in 1..5_000_u64, restart_s in 0..900_u64,
    ) {
        let mut world = World::new(restart_s * 1_000, Policy::sluice());
        world.flap(on_s * 1_000, off_s * 1_000);
        // The first start is not protected: nobody was disturbed before.
        let (first, drains) = (restart_s * 1_000, &world.drained_at_ms);
        prop_assert!(
            world.productive_ms * 2 + first * 2 >= world.held_ms,
            "{} of {}", world.productive_ms, world.held_ms
        );
        for window in drains.windows(Limits::default().drains_per_hour as usize + 1) {
            prop_assert!(window[window.len() - 1] - window[0] >= 3_600_000, "{window:?}");
        }
    }
}

#[test]
fn a_budget_of_drains_lasts_an_hour() {
    let minutes = |minutes: u64| minutes * 60_000;
    let drained_at_ms: Vec<u64> = (0..6).map(|n| minutes(5 * n)).collect();
    let history = History {
        running_since_ms: Some(minutes(26)),
        was_drained: true,
        drained_at_ms: &drained_at_ms,
        restart_ms: 0,
    };
    let rule_at =
        |now_ms| history.protection(&Limits::default(), now_ms).map(|p| (p.rule, p.until_ms));
    assert_eq!(rule_at(minutes(30)), Some((Rule::DrainBudget, minutes(60))));
    assert_eq!(rule_at(minutes(60)), None);
    let by_rule: BTreeMap<Rule, u64> = rule_at(minutes(26)).into_iter().collect();
    assert_eq!(by_rule, [(Rule::DrainBudget, minutes(60))].into());
}
