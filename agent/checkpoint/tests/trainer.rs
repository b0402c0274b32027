//! The Hugging Face Trainer, imitated one write at a time.

use super::*;

#[test]
fn each_write_of_a_save_is_followed_and_only_the_last_completes_it() {
    for world_size in [1, 4] {
        let mut scene = Scene::new(CheckpointFormat::HuggingFace, world_size);
        scene.save(10, world_size);
        scene.scan_at_rest();
        let mut bytes = 0;
        for (name, content) in files_of_save(20, world_size) {
            bytes += content.len() as u64;
            scene.write(&format!("checkpoint-20/{name}"), content);
            let scan = scene.scan();
            assert_eq!(steps(&scan), [10], "{name}");
            assert_eq!((scan.saving, scan.saving_bytes()), (true, bytes), "{name}");
        }
        let scan = scene.scan();
        let expected = [scene.saved(20, world_size), scene.saved(10, world_size)];
        assert_eq!((scan.complete.as_slice(), scan.saving), (expected.as_slice(), false));
    }
}

#[test]
fn a_save_cut_off_anywhere_never_counts_and_says_what_is_missing() {
    let expected = [
        ("checkpoint_marker_missing", "config.json"),
        ("checkpoint_marker_missing", "model.safetensors"),
        ("checkpoint_marker_missing", "training_args.bin"),
        ("checkpoint_marker_missing", "optimizer.pt"),
        ("checkpoint_marker_missing", "scheduler.pt"),
        ("checkpoint_marker_missing", "rng_state_0.pth"),
        ("checkpoint_marker_missing", "rng_state_1.pth"),
    ];
    for (count, (code, last)) in expected.into_iter().enumerate() {
        let mut scene = Scene::new(CheckpointFormat::HuggingFace, 2);
        let files = files_of_save(20, 2);
        for (name, content) in &files[..=count] {
            scene.write(&format!("checkpoint-20/{name}"), content);
        }
        let scan = scene.scan_at_rest();
        assert_eq!(files[count].0, last);
        assert_eq!((steps(&scan), codes(&scan), scan.saving), (vec![], vec![code], false));
    }
}

/// Saves step 20 in full but for `change`, and says why it does not count.
fn broken(world_size: u32, change: impl Fn(&Scene)) -> Vec<(Option<u64>, IncompleteReason)> {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, world_size);
    scene.save(10, world_size);
    scene.scan_at_rest();
    scene.save(20, world_size);
    change(&scene);
    let scan = scene.scan_at_rest();
    assert_eq!((steps(&scan), scan.saving), (vec![10], false));
    reasons(&scan)
}

#[test]
fn every_part_of_a_checkpoint_is_needed() {
    let remove = |name: &'static str| {
        broken(4, move |scene| fs::remove_file(scene.path("checkpoint-20").join(name)).unwrap())
    };
    let marker = "trainer_state.json".to_owned();
    assert_eq!(
        remove("trainer_state.json"),
        [(Some(20), IncompleteReason::MarkerMissing { marker })]
    );
    let file = "rng_state_2.pth".to_owned();
    let missing = IncompleteReason::RankMissing { file, missing_ranks: 1, world_size: 4 };
    assert_eq!(remove("rng_state_2.pth"), [(Some(20), missing)]);
    assert_eq!(remove("model.safetensors"), [(Some(20), IncompleteReason::WeightsMissing)]);
    assert_eq!(remove("optimizer.pt"), [(Some(20), IncompleteReason::OptimizerMissing)]);
    let file = "scheduler.pt".to_owned();
    assert_eq!(remove("scheduler.pt"), [(Some(20), IncompleteReason::FileMissing { file })]);
}

#[test]
fn a_marker_that_contradicts_is_not_believed() {
    let with_marker = |text: &str| {
        let text = text.to_owned();
        broken(1, move |scene| scene.write("checkpoint-20/trainer_state.json", &text))
    };
    let marker = || "trainer_state.json".to_owned();
    let mismatch =
        IncompleteReason::StepMismatch { marker: marker(), named_step: 20, found_step: 19 };
    assert_eq!(with_marker("{\"global_step\": 19}"), [(Some(20), mismatch)]);
    let torn = IncompleteReason::MarkerInvalid {
        marker: marker(),
        detail: "it ends early, after 18 bytes".to_owned(),
    };
    assert_eq!(with_marker("{\"global_step\": 20,"[..18].as_ref()), [(Some(20), torn)]);

    let sentinel = "checkpoint-is-incomplete.txt";
    let unfinished = IncompleteReason::Unfinished { marker: sentinel.to_owned() };
    let there = broken(1, |scene| scene.write(&format!("checkpoint-20/{sentinel}"), ""));
    assert_eq!(there, [(Some(20), unfinished)]);

    let large = broken(1, |scene| {
        let file = fs::File::create(scene.path("checkpoint-20/trainer_state.json")).unwrap();
        file.set_len((16 << 20) + 1).unwrap();
    });
    let too_large = IncompleteReason::MarkerTooLarge {
        marker: marker(),
        bytes: (16 << 20) + 1,
        limit_bytes: 16 << 20,
    };
    assert_eq!(large, [(Some(20), too_large)]);
}

#[test]
fn a_cut_file_is_found_without_an_earlier_checkpoint() {
    for (name, content) in
        [("model.safetensors", safetensors(20_000)), ("optimizer.pt", zip(40_000))]
    {
        for kept in [1, content.len() / 2, content.len() - 1] {
            let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
            scene.save(20, 1);
            scene.write(&format!("checkpoint-20/{name}"), &content[..kept]);
            let scan = scene.scan_at_rest();
            let is_cut = codes(&scan) == ["checkpoint_truncated"];
            // One byte of a zip file does not show that it is one.
            assert!(is_cut || (name == "optimizer.pt" && kept == 1), "{name} {kept} {scan:?}");
        }
    }
}

#[test]
fn sizes_are_learned_and_a_changed_model_counts_at_its_second_save() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    scene.save(10, 1);
    scene.scan_at_rest();
    let save_with = |scene: &Scene, step: u64, data_bytes: usize| {
        scene.save(step, 1);
        scene.write(&format!("checkpoint-{step}/optimizer.pt"), zip(data_bytes));
    };
    save_with(&scene, 20, 41_000);
    assert_eq!(steps(&scene.scan_at_rest()), [20, 10]);
    save_with(&scene, 30, 60_000);
    let scan = scene.scan_at_rest();
    let unexpected = IncompleteReason::SizeUnexpected {
        file: "optimizer.pt".to_owned(),
        bytes: 60_026,
        expected_bytes: 41_026,
    };
    assert_eq!((steps(&scan), reasons(&scan)), (vec![20, 10], vec![(Some(30), unexpected)]));
    save_with(&scene, 40, 60_500);
    scene.scan_at_rest();
    assert_eq!(steps(&scene.scan()), [40, 30, 20, 10]);
}

#[test]
fn sharded_weights_need_every_file_their_index_lists() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    scene.save(20, 1);
    fs::remove_file(scene.path("checkpoint-20/model.safetensors")).unwrap();
    let shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    scene.write(&format!("checkpoint-20/{}", shards[0]), safetensors(100));
    assert_eq!(codes(&scene.scan_at_rest()), ["checkpoint_weights_missing"]);
    let index = format!(
        "{{\"metadata\":{{\"total_size\":200}},\"weight_map\":{{\"a\":\"{}\",\"b\":\"{}\",\"c\":\"{}\"}}}}",
        shards[0], shards[1], shards[0]
    );
    scene.write("checkpoint-20/model.safetensors.index.json", index);
    let missing = IncompleteReason::ShardMissing {
        index: "model.safetensors.index.json".to_owned(),
        file: shards[1].to_owned(),
    };
    assert_eq!(reasons(&scene.scan_at_rest()), [(Some(20), missing)]);
    scene.write(&format!("checkpoint-20/{}", shards[1]), safetensors(100));
    assert_eq!(steps(&scene.scan_at_rest()), [20]);
}

#[test]
fn distributed_weights_need_the_metadata_that_is_written_last() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 2);
    scene.save(20, 2);
    fs::remove_file(scene.path("checkpoint-20/model.safetensors")).unwrap();
    fs::remove_file(scene.path("checkpoint-20/optimizer.pt")).unwrap();
    for directory in ["pytorch_model_fsdp_0", "optimizer_0"] {
        for rank in 0..2 {
            scene.write(&format!("checkpoint-20/{directory}/__{rank}_0.distcp"), "shard");
        }
    }
    assert_eq!(codes(&scene.scan_at_rest()), ["checkpoint_weights_missing"]);
    scene.write("checkpoint-20/pytorch_model_fsdp_0/.metadata", "m");
    assert_eq!(codes(&scene.scan_at_rest()), ["checkpoint_optimizer_missing"]);
    scene.write("checkpoint-20/optimizer_0/.metadata", "m");
    assert_eq!(steps(&scene.scan_at_rest()), [20]);
}

#[test]
fn deep_speed_needs_latest_and_the_state_of_every_rank() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 2);
    scene.save(20, 2);
    fs::remove_file(scene.path("checkpoint-20/model.safetensors")).unwrap();
    fs::remove_file(scene.path("checkpoint-20/optimizer.pt")).unwrap();
    scene.write("checkpoint-20/global_step20/mp_rank_00_model_states.pt", zip(10));
    let part = "checkpoint-20/global_step20/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt";
    scene.write(part, zip(10));
    assert_eq!(codes(&scene.scan_at_rest()), ["checkpoint_marker_missing"]);
    scene.write("checkpoint-20/latest", "global_step20\n");
    assert_eq!(codes(&scene.scan_at_rest()), ["checkpoint_rank_missing"]);
    scene.write(&part.replace("pp_rank_0", "pp_rank_1"), zip(10));
    assert_eq!(steps(&scene.scan_at_rest()), [20]);
}

#[test]
fn steps_decide_which_is_newest_whatever_the_times_say() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    for step in [1000, 200, 30] {
        scene.save(step, 1);
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(step);
        let file = fs::File::open(scene.path(&format!("checkpoint-{step}"))).unwrap();
        file.set_modified(old).unwrap();
    }
    assert_eq!(steps(&scene.scan_at_rest()), [1000, 200, 30]);
}

#[test]
fn deleting_old_checkpoints_is_not_a_save() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    scene.save(10, 1);
    scene.save(20, 1);
    scene.scan_at_rest();
    fs::remove_file(scene.path("checkpoint-10/optimizer.pt")).unwrap();
    let scan = scene.scan();
    assert_eq!((steps(&scan), scan.saving), (vec![20], false));
    fs::remove_dir_all(scene.path("checkpoint-10")).unwrap();
    assert_eq!((steps(&scene.scan()), codes(&scene.scan())), (vec![20], vec![]));
}

#[test]
fn a_complete_checkpoint_that_is_written_again_counts_again_only_at_rest() {
    let mut scene = Scene::new(CheckpointFormat::HuggingFace, 1);
    scene.save(10, 1);
    assert_eq!(steps(&scene.scan_at_rest()), [10]);
    // Same sizes: only the change hints differ.
    scene.write("checkpoint-10/optimizer.pt", zip(40_000));
    let scan = scene.scan();
    assert_eq!((codes(&scan), scan.saving), (vec!["checkpoint_growing"], true));
    assert_eq!(steps(&scene.scan()), [10]);
}
