//! How long it takes to place a slice, to name victims and to name moves, on 1, 2, 144 and 1,024 cubes.
//!
//! `cargo bench --bench slices -- --quick` takes a minute. The first case is a yardstick: compare with it, not with the
//! figures of another machine.

#![forbid(unsafe_code)]

mod yardstick;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use sluice_core::slice::{Budget, Cube, Fleet, Part, Request, Running, Tiling, defrag, solve};
use sluice_core::topology::Shape;
use sluice_core::unit::Time;
use yardstick::yardstick;

const LEVELS: [&str; 5] = ["2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4"];
/// Cubes of the pod of the largest generation: one block of them.
const POD: usize = 144;

fn tiling() -> Tiling {
    let shapes: Vec<Shape> = LEVELS.iter().map(|text| text.parse().expect("a shape")).collect();
    Tiling::new(shapes).expect("each is twice the one before")
}

/// Three of four pairs of most cubes are taken by gangs of one slice, spread as arrivals and departures leave them.
fn fleet(cubes: usize, pairs_of_eight: usize) -> Fleet {
    let tiling = tiling();
    let name = |n: usize| format!("cube-{n:04}");
    let all = (0..cubes).map(|n| Cube::healthy(&name(n), &format!("b{:02}", n / POD), &tiling));
    let taken = (0..cubes * 8).filter(|n| n * 5 % 8 < pairs_of_eight && n / 8 % 16 != 15);
    let gang = |n: usize| {
        let id = format!("{}/2x2x2/{}", name(n / 8), n % 8);
        let lost_device_ms = (n as u64).wrapping_mul(7_919) % 600_000;
        Running { lost_device_ms, ..Running::new(format!("gang-{n:05}"), 0, vec![vec![id]]) }
    };
    Fleet::new(tiling.clone(), all.collect(), taken.map(gang).collect())
}

fn want(level: u8, pieces: u32, count: u32) -> Request {
    let part = Part { level, pieces, count };
    Request { may_preempt: false, ..Request::new("it", 10, vec![part]) }
}

fn placing(criterion: &mut Criterion) {
    for cubes in [1, 2, 144, 1_024] {
        let fleet = fleet(cubes, 6);
        let requests = [
            ("a node", want(0, 1, 1)),
            ("a pair", want(1, 1, 1)),
            ("a half", want(3, 1, 1)),
            ("six pairs", want(1, 1, 6)),
            ("two cubes", want(4, 2, 1)),
        ];
        for (what, request) in requests {
            let requests = [request];
            criterion.bench_function(&format!("place {what}, {cubes} cubes"), |bencher| {
                bencher.iter(|| black_box(solve(&fleet, &requests, Time(0))));
            });
        }
    }
}

fn making_room(criterion: &mut Criterion) {
    let fleet = fleet(POD, 8);
    let half = fleet_of_halves();
    let budget = Budget { moves_max: 16, cost_device_ms_max: u64::MAX };
    for (what, request) in
        [("a half", want(3, 1, 1)), ("a cube", want(4, 1, 1)), ("88 pairs", want(1, 1, 88))]
    {
        let requests = [Request { may_preempt: true, ..request }];
        criterion.bench_function(&format!("victims for {what}, 144 cubes"), |bencher| {
            bencher.iter(|| black_box(solve(&fleet, &requests, Time(0))));
        });
    }
    let request = want(4, 1, 1);
    criterion.bench_function("moves for a cube, 144 cubes", |bencher| {
        bencher.iter(|| black_box(defrag(&half, &request, Time(0), budget)));
    });
}

/// Every cube has pairs and holes, so that none is free.
fn fleet_of_halves() -> Fleet {
    let tiling = tiling();
    let name = |n: usize| format!("cube-{n:04}");
    let all = (0..POD).map(|n| Cube::healthy(&name(n), "b00", &tiling));
    let gang = |n: usize| {
        let id = format!("{}/2x2x2/{}", name(n / 3), n % 3 * 3);
        let lost_device_ms = (n as u64).wrapping_mul(7_919) % 600_000;
        Running { lost_device_ms, ..Running::new(format!("gang-{n:05}"), 0, vec![vec![id]]) }
    };
    Fleet::new(tiling.clone(), all.collect(), (0..POD * 3).map(gang).collect())
}

criterion_group!(benches, yardstick, placing, making_room);
criterion_main!(benches);
