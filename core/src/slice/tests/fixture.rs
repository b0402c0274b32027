use crate::slice::{Answer, Cube, Fleet, Outcome, Part, Piece, Request, Running, Tiling, solve};
use crate::topology::fixture::{generation, shape};
use crate::unit::Time;

pub(super) const LOW: i32 = 1_000;
pub(super) const MEDIUM: i32 = 2_000;
pub(super) const HIGH: i32 = 3_000;

pub(super) fn tiling() -> Tiling {
    let v7x = generation("tpu7x");
    Tiling::of(&v7x, shape("2x2x1"), shape("4x4x4")).expect("a cube is halved")
}

/// Healthy cubes `A`, `B`, … of one block.
pub(super) fn cubes(names: &str) -> Vec<Cube> {
    names.chars().map(|name| Cube::healthy(&name.to_string(), "b1", &tiling())).collect()
}

pub(super) fn fleet(names: &str, running: Vec<Running>) -> Fleet {
    Fleet::new(tiling(), cubes(names), running)
}

/// `count` slices of the shape.
pub(super) fn part(topology: &str, count: u32) -> Part {
    let v7x = generation("tpu7x");
    let notation = crate::topology::Notation::SliceAnnotation;
    let wanted = crate::topology::fixture::table().request("tpu7x", topology, notation);
    Part::of(&tiling(), &v7x, &wanted.expect("a legal shape"), count).expect("within the tiling")
}

pub(super) fn want(name: &str, priority: i32, topology: &str, count: u32) -> Request {
    Request::new(name, priority, vec![part(topology, count)])
}

/// A gang with one slice on each of these partitions.
pub(super) fn running(name: &str, priority: i32, ids: &[&str]) -> Running {
    Running::new(name, priority, ids.iter().map(|id| vec![(*id).to_owned()]).collect())
}

/// A gang with one slice of whole cubes.
pub(super) fn large(name: &str, priority: i32, cubes: &[&str]) -> Running {
    Running::new(name, priority, vec![cubes.iter().map(|id| (*id).to_owned()).collect()])
}

/// A gang on each of the hosts whose bit is set in `word`.
pub(super) fn busy(cube: &str, word: u64) -> Vec<Running> {
    let hosts = (0..16).filter(|host| word >> host & 1 == 1);
    let gang = |host| {
        let id = format!("{cube}/2x2x1/{host}");
        running(&format!("{cube}{host:02}"), LOW, &[&id])
    };
    hosts.map(gang).collect()
}

pub(super) fn one(fleet: &Fleet, request: &Request) -> Answer {
    let mut answers = solve(fleet, std::slice::from_ref(request), Time(0));
    answers.pop().expect("one answer to one request")
}

/// Ids of all partitions of a placed request; the code of the reason otherwise.
pub(super) fn places(fleet: &Fleet, answer: &Answer) -> Result<Vec<String>, &'static str> {
    match &answer.outcome {
        Outcome::Placed { slices, .. } => Ok(ids(fleet, slices)),
        Outcome::Waits => Err(answer.reason.code()),
    }
}

pub(super) fn ids(fleet: &Fleet, slices: &[Vec<Piece>]) -> Vec<String> {
    slices.iter().flatten().map(|piece| fleet.id(*piece).to_owned()).collect()
}

pub(super) fn victims(answer: &Answer) -> Vec<&str> {
    match &answer.outcome {
        Outcome::Placed { victims, .. } => victims.iter().map(String::as_str).collect(),
        Outcome::Waits => Vec::new(),
    }
}

pub(super) fn awaited(answer: &Answer) -> Vec<&str> {
    match &answer.outcome {
        Outcome::Placed { awaits, .. } => awaits.iter().map(String::as_str).collect(),
        Outcome::Waits => Vec::new(),
    }
}

/// Where one request would go among gangs that all stay.
pub(super) fn place(
    fleet: &Fleet,
    topology: &str,
    count: u32,
) -> Result<Vec<String>, &'static str> {
    let request = Request { may_preempt: false, ..want("it", HIGH, topology, count) };
    places(fleet, &one(fleet, &request))
}

/// What runs once the answers have been carried out: victims are gone, and those who were placed run.
pub(super) fn carried_out(fleet: &Fleet, requests: &[Request], answers: &[Answer]) -> Vec<Running> {
    let gone: Vec<&str> = answers.iter().flat_map(|a| [victims(a), awaited(a)].concat()).collect();
    let stay = fleet.running().iter().filter(|running| !gone.contains(&running.name.as_str()));
    let mut left: Vec<Running> = stay.cloned().collect();
    for answer in answers {
        let Outcome::Placed { slices, .. } = &answer.outcome else { continue };
        let request = requests.iter().find(|r| r.name == answer.request).expect("it was asked for");
        let names = |slice: &Vec<Piece>| slice.iter().map(|p| fleet.id(*p).to_owned()).collect();
        let slices = slices.iter().map(names).collect();
        let group = request.group.clone();
        left.push(Running { group, ..Running::new(&request.name, request.priority, slices) });
    }
    left
}
