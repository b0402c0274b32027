//! What goes wrong: crashes and restarts of arbiter and agents at any point, partitions, bad weather.

use sluice_core::id::NodeName;

use crate::rng::Rng;
use crate::world::{TICK_MS, Weather, World};

/// How often each fault strikes, per million ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rates {
    arbiter_crash: u64,
    agent_crash: u64,
    partition: u64,
    rank_death: u64,
}

/// Brings faults about until `quiet_at_ms`, then heals everything.
#[derive(Debug)]
pub(crate) struct Faults {
    rng: Rng,
    rates: Rates,
    quiet_at_ms: u64,
    arbiter_back_at: Option<u64>,
    agents_back_at: Vec<(u64, NodeName)>,
    partitions_end_at: Vec<(u64, NodeName)>,
}

impl Faults {
    pub(crate) fn new(seed: &Rng, quiet_at_ms: u64) -> Self {
        let mut rng = seed.child("faults");
        // Each run draws its own mix: many runs with one kind of fault find more than all kinds at once.
        let rates = Rates {
            arbiter_crash: rng.range(0, 3) * 800,
            agent_crash: rng.range(0, 3) * 600,
            partition: rng.range(0, 3) * 600,
            rank_death: rng.range(0, 4) / 3 * 30,
        };
        Self {
            rng,
            rates,
            quiet_at_ms,
            arbiter_back_at: None,
            agents_back_at: Vec::new(),
            partitions_end_at: Vec::new(),
        }
    }

    pub(crate) fn weather(&mut self) -> Weather {
        Weather {
            loss: 0,
            duplicates: self.rng.range(0, 3) * 50_000,
            delay_ms_max: self.rng.range(1, 200),
        }
    }

    pub(crate) fn strike(&mut self, world: &mut World) {
        self.heal(world);
        if world.now >= self.quiet_at_ms {
            return;
        }
        self.strike_arbiter(world);
        self.strike_nodes(world);
    }

    fn strike_arbiter(&mut self, world: &mut World) {
        if world.arbiter.is_none() {
            return;
        }
        if self.rng.chance(self.rates.arbiter_crash) {
            // Now, or between storing and sending of one of its next steps.
            match self.rng.range(0, 4) {
                0 => world.crash_arbiter(),
                steps => world.arbiter_dies_in = Some(steps - 1),
            }
        }
    }

    fn strike_nodes(&mut self, world: &mut World) {
        let names: Vec<NodeName> = world.nodes.keys().cloned().collect();
        for name in names {
            if self.rng.chance(self.rates.agent_crash) {
                let after = self.rng.range(0, 6);
                if after == 0 {
                    world.crash_agent(&name);
                } else if let Some(node) = world.nodes.get_mut(&name) {
                    node.crash_after_outputs = Some(after - 1);
                }
            }
            if self.rng.chance(self.rates.partition) && world.partitioned.insert(name.clone()) {
                world.log(&format!("{name} is cut off"));
                let ends = world.now + self.rng.range(100, 8_000);
                self.partitions_end_at.push((ends, name.clone()));
            }
            if self.rng.chance(self.rates.rank_death) {
                world.kill_some_rank_on(&name);
            }
        }
    }

    /// Brings back what is down, after a while; at once when faults are over.
    fn heal(&mut self, world: &mut World) {
        let quiet = world.now >= self.quiet_at_ms;
        if world.arbiter.is_none() {
            let pause = self.rng.range(TICK_MS, 5_000);
            let back = *self.arbiter_back_at.get_or_insert(world.now + pause);
            if world.now >= back || quiet {
                self.arbiter_back_at = None;
                world.start_arbiter();
            }
        }
        let down = world.nodes.values().filter(|n| n.agent.is_none()).map(|n| n.name.clone());
        for name in down.collect::<Vec<_>>() {
            if !self.agents_back_at.iter().any(|(_, n)| *n == name) {
                self.agents_back_at.push((world.now + self.rng.range(TICK_MS, 5_000), name));
            }
        }
        let now = world.now;
        let (back, still): (Vec<_>, Vec<_>) = std::mem::take(&mut self.agents_back_at)
            .into_iter()
            .partition(|(at, _)| now >= *at || quiet);
        self.agents_back_at = still;
        for (_, name) in back {
            world.start_agent(&name);
        }
        let (over, still): (Vec<_>, Vec<_>) = std::mem::take(&mut self.partitions_end_at)
            .into_iter()
            .partition(|(at, _)| now >= *at || quiet);
        self.partitions_end_at = still;
        for (_, name) in over {
            world.log(&format!("{name} is connected again"));
            world.partitioned.remove(&name);
        }
    }
}
