//! The file that describes a simulation, and bare traces without one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_saphyr::Spanned;
use sluice_core::kueue::model::StopPolicy;
use sluice_core::kueue::name::QueueName;
use sluice_core::kueue::snapshot::Setup;

use crate::queues::{NoteKind, Problems, Queues};

use super::cluster::{self, NodeSet, QueueSet};
use super::error::{Error, read_text};
use super::generate::Generator;
use super::row::{Bad, QueueNames};
use super::scenario::{JOBS_MAX, Job, PolicyName, Scenario};
use super::{measure, trace};

/// Largest file that describes a simulation; traces lie in files of their own.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// What the command line says beside the file, or against it.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Instead of the file's own policy.
    pub policy: Option<PolicyName>,
    /// Instead of the file's own seed.
    pub seed: Option<u64>,
    /// For a bare trace: files with queues. Without any there is one queue for everything.
    pub queues: Vec<PathBuf>,
    /// For a bare trace: the nodes.
    pub nodes: Option<PlainNodes>,
}

/// Nodes that are all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainNodes {
    /// How many. Range: 1 to 1,000,000.
    pub count: u32,
    /// GPUs of each, as `nvidia.com/gpu`. Range: 1 or more.
    pub gpus_per_node: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    cluster: ClusterPart,
    trace: TracePart,
    policy: Option<PolicyName>,
    #[serde(default)]
    fair_sharing: bool,
    measure: Option<Spanned<String>>,
    #[serde(default)]
    kill_grace_ms: u64,
    end_ms: Option<u64>,
    #[serde(default)]
    seed: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterPart {
    queues: Vec<PathBuf>,
    #[serde(default)]
    queue_sets: Vec<Spanned<QueueSet>>,
    #[serde(default)]
    nodes: Vec<Spanned<NodeSet>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TracePart {
    csv: Option<PathBuf>,
    json: Option<PathBuf>,
    #[serde(default)]
    generate: Vec<Spanned<Generator>>,
}

/// Reads the simulation that `path` describes: a YAML file, or a bare trace (`.csv`, `.json`).
///
/// # Errors
/// [`Error::Read`] or [`Error::Input`] with the file, line and field that cannot be used.
pub fn load(path: &Path, overrides: &Overrides) -> Result<Scenario, Error> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension {
        Some("csv" | "json") => load_bare_trace(path, overrides),
        Some(_) | None => load_document(path, overrides),
    }
}

fn load_document(path: &Path, overrides: &Overrides) -> Result<Scenario, Error> {
    if overrides.nodes.is_some() || !overrides.queues.is_empty() {
        let problem = "says itself which queues and nodes there are: --queues and --nodes go with a bare trace only";
        return Err(Error::input(path, None, problem));
    }
    let text = read_text(path, FILE_BYTES_MAX)?;
    let document: Document =
        serde_saphyr::from_str(&text).map_err(|error| Error::yaml(path, &error))?;
    let beside = |file: &PathBuf| path.parent().unwrap_or(Path::new("")).join(file);
    let files: Vec<PathBuf> = document.cluster.queues.iter().map(beside).collect();
    let mut queues = load_queues(&files)?;
    if !document.cluster.queue_sets.is_empty() {
        // The copies bring the other members.
        queues.notes.retain(|note| note.kind != NoteKind::LoneCohort);
    }
    for (index, set) in document.cluster.queue_sets.iter().enumerate() {
        let made = set.value.make(&queues.setup.queues);
        let made = made.map_err(|bad| at(path, set, "cluster.queue_sets", index, &bad))?;
        queues.setup.queues.extend(made);
    }
    let templates: BTreeSet<&str> =
        document.cluster.queue_sets.iter().map(|set| set.value.like.as_str()).collect();
    queues.setup.queues.retain(|queue| !templates.contains(queue.name.as_str()));
    for (index, set) in document.cluster.nodes.iter().enumerate() {
        let nodes = set.value.make();
        let nodes = nodes.map_err(|bad| at(path, set, "cluster.nodes", index, &bad))?;
        queues.setup.nodes.extend(nodes);
    }
    let names = queue_names(&queues);
    let seed = overrides.seed.unwrap_or(document.seed);
    let jobs = match (&document.trace.csv, &document.trace.json, document.trace.generate.as_slice())
    {
        (Some(csv), None, []) => trace::read_csv(&beside(csv), &names)?,
        (None, Some(json), []) => trace::read_json(&beside(json), &names)?,
        (None, None, generators @ [_, ..]) => generate(path, generators, &queues.setup, seed)?,
        _ => {
            let problem = "trace must have one of csv, json and generate";
            return Err(Error::input(path, None, problem));
        }
    };
    let mut scenario = assemble(path, queues, jobs)?;
    if let Some(measured) = &document.measure {
        scenario.measured = measure::of(&scenario, measured.value.as_str().into())
            .map_err(|bad| at(path, measured, "measure", 0, &bad))?;
    }
    scenario.policy = overrides.policy.or(document.policy).unwrap_or_default();
    scenario.is_fair_sharing = document.fair_sharing;
    scenario.kill_grace_ms = document.kill_grace_ms;
    scenario.end_ms = document.end_ms;
    Ok(scenario)
}

fn load_bare_trace(path: &Path, overrides: &Overrides) -> Result<Scenario, Error> {
    let mut queues = load_queues(&overrides.queues)?;
    if overrides.queues.is_empty() {
        let Some(nodes) = overrides.nodes else {
            let problem = "is a bare trace: say on what it runs, with --nodes and --gpus-per-node or with --queues";
            return Err(Error::input(path, None, problem));
        };
        queues.setup = cluster::plain_setup(nodes);
    } else if let Some(nodes) = overrides.nodes {
        queues.setup.nodes = cluster::plain_nodes(nodes);
    }
    let names = queue_names(&queues);
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let jobs =
        if is_json { trace::read_json(path, &names)? } else { trace::read_csv(path, &names)? };
    let mut scenario = assemble(path, queues, jobs)?;
    scenario.policy = overrides.policy.unwrap_or_default();
    Ok(scenario)
}

fn at<T>(path: &Path, place: &Spanned<T>, field: &str, index: usize, bad: &Bad) -> Error {
    let line = Some(place.referenced.line()).filter(|line| *line > 0);
    let place = if field == bad.field {
        field.to_owned()
    } else {
        format!("{field}[{index}].{}", bad.field)
    };
    Error::input(path, line, format!("{place} {}", bad.problem))
}

fn generate(
    path: &Path,
    generators: &[Spanned<Generator>],
    setup: &Setup,
    seed: u64,
) -> Result<Vec<Job>, Error> {
    let queues: BTreeSet<QueueName> = setup.queues.iter().map(|queue| queue.name.clone()).collect();
    let queues: Vec<QueueName> = queues.into_iter().collect();
    let mut jobs = Vec::new();
    for (index, generator) in generators.iter().enumerate() {
        let made = generator.value.jobs(index, &queues, seed);
        jobs.extend(made.map_err(|bad| at(path, generator, "trace.generate", index, &bad))?);
        if jobs.len() > JOBS_MAX {
            let bad = Bad::new("count", format!("leads to more than {JOBS_MAX} workloads"));
            return Err(at(path, generator, "trace.generate", index, &bad));
        }
    }
    Ok(jobs)
}

/// Queues from files in Kueue's YAML; without any there are none.
fn load_queues(paths: &[PathBuf]) -> Result<Queues, Error> {
    if paths.is_empty() {
        return Ok(no_queues());
    }
    crate::queues::load(paths).map_err(|Problems { problems, left_out }| {
        let first = problems.first().map_or_else(String::new, ToString::to_string);
        let more = problems.len().saturating_sub(1).saturating_add(left_out);
        let rest = if more == 0 { String::new() } else { format!(" (and {more} more problems)") };
        Error::Queues { problem: format!("{first}{rest}") }
    })
}

fn no_queues() -> Queues {
    Queues {
        setup: Setup::default(),
        local_queues: Vec::new(),
        priority_classes: Vec::new(),
        namespaces: BTreeMap::new(),
        notes: Vec::new(),
        notes_left_out: 0,
    }
}

/// Every name by which workloads may name a queue: a cluster queue's own, `namespace/name` of a local queue, and its
/// name alone where no other has it.
fn queue_names(queues: &Queues) -> QueueNames {
    let setup = &queues.setup;
    let known: BTreeSet<&QueueName> = setup.queues.iter().map(|queue| &queue.name).collect();
    let mut names = QueueNames::default();
    let is_alone = |name: &str| {
        queues.local_queues.iter().filter(|local| local.name.as_str() == name).count() == 1
    };
    for local in queues.local_queues.iter().filter(|local| known.contains(&local.queue)) {
        let name = local.name.as_str();
        if is_alone(name) {
            names.0.insert(name.to_owned(), local.queue.clone());
        }
        names.0.insert(format!("{}/{name}", local.namespace), local.queue.clone());
    }
    for queue in &setup.queues {
        names.0.insert(queue.name.to_string(), queue.name.clone());
    }
    names
}

/// The scenario with defaults, its workloads by arrival.
fn assemble(path: &Path, queues: Queues, mut jobs: Vec<Job>) -> Result<Scenario, Error> {
    let mut warnings: Vec<String> = queues.notes.iter().map(ToString::to_string).collect();
    if queues.notes_left_out > 0 {
        warnings.push(format!("and {} more about the files of queues", queues.notes_left_out));
    }
    for local in queues.local_queues.iter().filter(|local| local.stop != StopPolicy::None) {
        let (namespace, name) = (&local.namespace, &local.name);
        warnings.push(format!(
            "local queue \"{namespace}/{name}\": it is stopped, but takes workloads here all the same"
        ));
    }
    let setup = queues.setup;
    if setup.queues.is_empty() {
        return Err(Error::input(
            path,
            None,
            "there is no ClusterQueue in the files of queues; add one",
        ));
    }
    if jobs.is_empty() {
        return Err(Error::input(path, None, "there is no workload in the trace; add one"));
    }
    let mut seen = BTreeSet::new();
    if let Some(job) = jobs.iter().find(|job| !seen.insert(job.name.as_str())) {
        let problem = format!("two workloads are called {:?}; names are unique", job.name);
        return Err(Error::input(path, None, problem));
    }
    jobs.sort_by_key(|job| job.arrival_ms);
    let mut scenario = Scenario {
        setup,
        jobs,
        policy: PolicyName::default(),
        is_fair_sharing: false,
        measured: measure::nothing(),
        kill_grace_ms: 0,
        end_ms: None,
        warnings,
    };
    let resource = measure::default_resource(&scenario);
    scenario.measured = measure::of(&scenario, resource)
        .map_err(|bad| Error::input(path, None, format!("{} {}", bad.field, bad.problem)))?;
    cluster::drop_checks(&mut scenario);
    Ok(scenario)
}

#[cfg(test)]
mod tests;
