//! The order of operations of each framework. Sources: facts read in their code; see docs/checkpoints.md.

use super::*;

pub(super) fn all() -> Vec<Framework> {
    let of = |name, format, world_size, save, resume| Framework {
        name,
        format,
        world_size,
        save,
        resume,
        is_sized_only: false,
    };
    use CheckpointFormat as F;
    vec![
        of("trainer", F::HuggingFace, 2, trainer, highest_trainer),
        of("trainer, on SIGTERM", F::HuggingFace, 1, trainer_on_sigterm, highest_trainer),
        of("trainer, FSDP", F::HuggingFace, 2, trainer_fsdp, highest_trainer),
        of("trainer, DeepSpeed", F::HuggingFace, 2, trainer_deep_speed, highest_trainer),
        of("trainer, 4 ranks in one", F::HuggingFace, 1, trainer_four_in_one, highest_trainer),
        of("DCP", F::TorchDistributed, 2, distributed, highest),
        of("DCP, iter", F::TorchDistributed, 1, distributed_iter, highest),
        of("Megatron", F::Megatron, 2, megatron, tracked_iteration),
        of("Megatron, distributed", F::Megatron, 2, megatron_distributed, tracked_iteration),
        of("DeepSpeed", F::DeepSpeed, 2, deep_speed, tracked_tag),
        of("Orbax", F::Orbax, 1, orbax, highest_committed),
        of("Orbax before 0.12.3", F::Orbax, 1, orbax_old, highest),
        of("Orbax, prefix and no rename", F::Orbax, 1, orbax_in_place, highest_committed),
        of("Lightning", F::Lightning, 1, lightning, highest_ckpt),
        of("Lightning, sharded", F::Lightning, 2, lightning_sharded, highest_ckpt),
        of("NeMo 2", F::Lightning, 2, nemo, nemo_last),
        of("renamed file", F::Rename, 1, renamed, highest),
        of("generic, marker", F::Generic, 1, generic_marker, highest_npz),
        Framework {
            is_sized_only: true,
            ..of("generic, sizes", F::Generic, 1, generic_sizes, highest_npz)
        },
    ]
}

/// The framework had emptied its tracker: everything else was there before.
pub(super) fn is_mended(framework: &Framework, done: &[Op]) -> bool {
    let is_tracked =
        matches!(framework.format, CheckpointFormat::Megatron | CheckpointFormat::DeepSpeed);
    let is_tracker = |path: &str| path == "latest" || path.ends_with("iteration.txt");
    is_tracked && matches!(done.last(), Some(Op::Write(path, _)) if is_tracker(path))
}

fn dir(path: String) -> Op {
    Op::Dir(path)
}

fn write(path: String, content: Vec<u8>) -> Op {
    Op::Write(path, content)
}

/// As a pickle of a distributed save looks: its protocol, names of shards among other things, its stop.
fn metadata(shards: &[String]) -> Vec<u8> {
    let mut content = b"\x80\x04\x95".to_vec();
    for shard in shards {
        content.extend(b"\x8c\x0dstorage_data\x8c\x0c");
        content.extend(shard.as_bytes());
        content.push(0x94);
    }
    content.push(b'.');
    content
}

/// One distributed save of `ranks` into `path`.
fn dcp(path: &str, ranks: u32) -> Vec<Op> {
    let shards: Vec<String> = (0..ranks).map(|rank| format!("__{rank}_0.distcp")).collect();
    let mut ops = vec![dir(path.to_owned())];
    // Ranks finish in any order.
    ops.extend(shards.iter().rev().map(|shard| write(format!("{path}/{shard}"), zip(30_000))));
    ops.push(write(format!("{path}/.metadata.tmp"), metadata(&shards)));
    ops.push(Op::Rename(format!("{path}/.metadata.tmp"), format!("{path}/.metadata")));
    ops
}

fn trainer_with(step: u64, files: Vec<Op>, ranks: &[&str]) -> Vec<Op> {
    let at = |name: &str| format!("checkpoint-{step}/{name}");
    let mut ops = vec![dir(format!("checkpoint-{step}")), write(at("config.json"), b"{}".to_vec())];
    ops.extend(files);
    ops.push(write(at("scheduler.pt"), zip(1_000)));
    ops.extend(ranks.iter().map(|rank| write(at(rank), zip(9_000))));
    ops.push(write(at("trainer_state.json"), trainer_state(step)));
    ops
}

fn whole_model(step: u64) -> Vec<Op> {
    let at = |name: &str| format!("checkpoint-{step}/{name}");
    vec![
        write(at("model.safetensors"), safetensors(20_000)),
        write(at("training_args.bin"), zip(3_000)),
        write(at("optimizer.pt"), zip(40_000)),
    ]
}

/// The last rank is slower than rank 0, which writes `trainer_state.json`.
fn trainer(step: u64) -> Vec<Op> {
    let mut ops = trainer_with(step, whole_model(step), &["rng_state_0.pth"]);
    ops.push(write(format!("checkpoint-{step}/rng_state_1.pth"), zip(9_000)));
    ops
}

fn trainer_on_sigterm(step: u64) -> Vec<Op> {
    let sentinel = format!("checkpoint-{step}/checkpoint-is-incomplete.txt");
    let mut ops = trainer_with(step, whole_model(step), &["rng_state.pth"]);
    ops.insert(1, write(sentinel.clone(), b"This checkpoint is not complete.".to_vec()));
    ops.push(Op::Remove(sentinel));
    ops
}

fn trainer_fsdp(step: u64) -> Vec<Op> {
    let mut files = dcp(&format!("checkpoint-{step}/pytorch_model_fsdp_0"), 2);
    files.extend(dcp(&format!("checkpoint-{step}/optimizer_0"), 2));
    trainer_with(step, files, &["rng_state_0.pth", "rng_state_1.pth"])
}

fn trainer_deep_speed(step: u64) -> Vec<Op> {
    let inner = deep_speed(step).into_iter().map(|op| match op {
        Op::Dir(path) => dir(format!("checkpoint-{step}/{path}")),
        Op::Write(path, content) => write(format!("checkpoint-{step}/{path}"), content),
        other => other,
    });
    trainer_with(step, inner.collect(), &["rng_state_0.pth", "rng_state_1.pth"])
}

/// One worker with a rank of the trainer on each of four devices.
fn trainer_four_in_one(step: u64) -> Vec<Op> {
    let ranks = ["rng_state_3.pth", "rng_state_1.pth", "rng_state_2.pth", "rng_state_0.pth"];
    trainer_with(step, whole_model(step), &ranks)
}

fn distributed(step: u64) -> Vec<Op> {
    dcp(&format!("step-{step}"), 2)
}

fn distributed_iter(step: u64) -> Vec<Op> {
    dcp(&format!("iter{step}"), 3)
}

fn megatron(step: u64) -> Vec<Op> {
    let at = format!("iter_{step:07}");
    let rank = |rank: u32| write(format!("{at}/mp_rank_0{rank}/model_optim_rng.pt"), zip(50_000));
    let tracker =
        write("latest_checkpointed_iteration.txt".to_owned(), step.to_string().into_bytes());
    vec![dir(at.clone()), rank(1), rank(0), tracker]
}

fn megatron_distributed(step: u64) -> Vec<Op> {
    let at = format!("iter_{step:07}");
    let mut ops = vec![dir(at.clone()), write(format!("{at}/common.pt"), zip(2_000))];
    ops.extend(dcp(&at, 2));
    ops.push(write(
        format!("{at}/metadata.json"),
        b"{\"sharded_backend\": \"torch_dist\"}".to_vec(),
    ));
    ops.push(write("latest_checkpointed_iteration.txt".to_owned(), step.to_string().into_bytes()));
    ops
}

fn deep_speed(step: u64) -> Vec<Op> {
    let at = format!("global_step{step}");
    let zero = |rank: u32| {
        write(format!("{at}/bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"), zip(40_000))
    };
    let model = write(format!("{at}/mp_rank_00_model_states.pt"), zip(20_000));
    vec![
        dir(at.clone()),
        model,
        zero(1),
        zero(0),
        write("latest".to_owned(), at.clone().into_bytes()),
    ]
}

/// The files of an item, and the step around it, below `path`.
fn orbax_files(path: &str, item: &str) -> Vec<Op> {
    vec![
        dir(path.to_owned()),
        write(format!("{path}/_CHECKPOINT_METADATA"), b"{\"init_timestamp_nsecs\": 1}".to_vec()),
        dir(format!("{path}/{item}")),
        write(format!("{path}/{item}/ocdbt.process_0/d/eae29055"), zip(20_000)),
        write(format!("{path}/{item}/_METADATA"), b"{\"tree_metadata\": {}}".to_vec()),
        write(format!("{path}/{item}/d/bb5d5679"), zip(2_000)),
        write(format!("{path}/{item}/manifest.ocdbt"), zip(100)),
    ]
}

/// The metadata of a step is written again before the end.
fn orbax_committed(path: &str) -> Op {
    let metadata = "{\"init_timestamp_nsecs\": 1, \"commit_timestamp_nsecs\": 2}";
    write(format!("{path}/_CHECKPOINT_METADATA"), metadata.as_bytes().to_vec())
}

/// Since 0.12.3: both levels are committed, then renamed.
fn orbax(step: u64) -> Vec<Op> {
    let tmp = format!("{step}.orbax-checkpoint-tmp");
    let item = format!("{tmp}/default.orbax-checkpoint-tmp");
    let mut ops = orbax_files(&tmp, "default.orbax-checkpoint-tmp");
    ops.push(write(format!("{item}/commit_success.txt"), b"committed".to_vec()));
    ops.push(Op::Rename(item, format!("{tmp}/default")));
    ops.push(orbax_committed(&tmp));
    ops.push(write(format!("{tmp}/commit_success.txt"), b"committed".to_vec()));
    ops.push(Op::Rename(tmp, step.to_string()));
    ops
}

/// A number tells attempts apart, and nothing but the name tells the end.
fn orbax_old(step: u64) -> Vec<Op> {
    let tmp = format!("{step}.orbax-checkpoint-tmp-1700000000");
    let item = "default.orbax-checkpoint-tmp-1700000001";
    let mut ops = orbax_files(&tmp, item);
    ops.push(Op::Rename(format!("{tmp}/{item}"), format!("{tmp}/default")));
    ops.push(orbax_committed(&tmp));
    ops.push(Op::Rename(tmp, step.to_string()));
    ops
}

/// On object stores the final name is there from the start.
fn orbax_in_place(step: u64) -> Vec<Op> {
    let at = format!("ckpt_{step}");
    let mut ops = orbax_files(&at, "state");
    ops.push(write(format!("{at}/state/commit_success.txt"), b"committed".to_vec()));
    ops.push(orbax_committed(&at));
    // That it exists is what Orbax asks.
    ops.push(write(format!("{at}/commit_success.txt"), Vec::new()));
    ops
}

fn lightning(step: u64) -> Vec<Op> {
    vec![write(format!("epoch=1-step={step}.ckpt"), zip(60_000))]
}

fn lightning_sharded(step: u64) -> Vec<Op> {
    let at = format!("epoch=1-step={step}.ckpt");
    let mut ops = dcp(&at, 2);
    ops.push(write(format!("{at}/meta.pt"), zip(5_000)));
    ops
}

fn nemo(step: u64) -> Vec<Op> {
    let at = format!("gpt--loss=1.25-epoch=0-step={step}-last");
    let mark = format!("{at}-unfinished");
    let mut ops = vec![write(mark.clone(), Vec::new()), dir(at.clone())];
    ops.extend(dcp(&format!("{at}/weights"), 2));
    ops.push(write(format!("{at}/context/model.yaml"), b"model: gpt".to_vec()));
    ops.push(Op::Remove(mark));
    ops
}

fn renamed(step: u64) -> Vec<Op> {
    let (tmp, at) = (format!("step-{step}.bin.tmp"), format!("step-{step}.bin"));
    vec![write(tmp.clone(), vec![7; 50_000]), Op::Rename(tmp, at)]
}

fn generic_marker(step: u64) -> Vec<Op> {
    let at = format!("model-{step}.npz");
    vec![write(at.clone(), vec![7; 50_000]), write(format!("{at}.done"), Vec::new())]
}

fn generic_sizes(step: u64) -> Vec<Op> {
    vec![write(format!("model-{step}.npz"), vec![7; 50_000])]
}

/// The entry of the highest step, of those in `entries` whose step `step` knows.
fn highest_of(tree: &Tree, step: impl Fn(&str) -> Option<u64>) -> Option<String> {
    let top = tree.keys().filter_map(|path| path.split('/').next());
    let steps = top.filter_map(|entry| Some((step(entry)?, entry.to_owned())));
    steps.max().map(|(_, entry)| entry)
}

/// `get_last_checkpoint`: the highest `checkpoint-N`, whole or not.
fn highest_trainer(tree: &Tree) -> Resumed {
    Ok(highest_of(tree, |entry| entry.strip_prefix("checkpoint-")?.parse().ok()))
}

/// The highest number that ends a name.
fn highest(tree: &Tree) -> Resumed {
    let step = |entry: &str| {
        if entry.contains("tmp") {
            return None;
        }
        let stem = entry.strip_suffix(".bin").unwrap_or(entry);
        let digits = stem.bytes().rev().take_while(u8::is_ascii_digit).count();
        stem[stem.len() - digits..].parse().ok()
    };
    Ok(highest_of(tree, step))
}

fn highest_committed(tree: &Tree) -> Resumed {
    let step = |entry: &str| {
        let is_committed = tree.contains_key(&format!("{entry}/commit_success.txt"));
        entry.rsplit('_').next()?.parse().ok().filter(|_| is_committed)
    };
    Ok(highest_of(tree, step))
}

fn tracked_iteration(tree: &Tree) -> Resumed {
    let Some(content) = tree.get("latest_checkpointed_iteration.txt") else { return Ok(None) };
    let iteration: u64 =
        String::from_utf8_lossy(content).trim().parse().map_err(|e| format!("{e}"))?;
    let entry = format!("iter_{iteration:07}");
    if tree.contains_key(&format!("{entry}/")) { Ok(Some(entry)) } else { Err(entry) }
}

fn tracked_tag(tree: &Tree) -> Resumed {
    let Some(content) = tree.get("latest") else { return Ok(None) };
    let entry = String::from_utf8_lossy(content).trim().to_owned();
    if tree.contains_key(&format!("{entry}/")) { Ok(Some(entry)) } else { Err(entry) }
}

fn highest_ckpt(tree: &Tree) -> Resumed {
    Ok(highest_of(tree, |entry| {
        let step = entry.strip_suffix(".ckpt")?.split("step=").nth(1)?;
        step.parse().ok()
    }))
}

/// The highest that ends in `last` and has no mark.
fn nemo_last(tree: &Tree) -> Resumed {
    Ok(highest_of(tree, |entry| {
        let step = entry.strip_suffix("-last")?.split("step=").nth(1)?.parse().ok();
        step.filter(|_| !tree.contains_key(&format!("{entry}-unfinished")))
    }))
}

fn highest_npz(tree: &Tree) -> Resumed {
    Ok(highest_of(tree, |entry| entry.strip_prefix("model-")?.strip_suffix(".npz")?.parse().ok()))
}
