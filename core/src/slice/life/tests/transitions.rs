//! Every state with every input, as a table that is kept beside this file.

use expect_test::expect_file;

use super::*;

/// Every state, with and without a drain, by the shortest way to it.
fn states() -> Vec<(&'static str, Story)> {
    let mut states = vec![("ABSENT, to be created", Story::new(Policy::default()))];
    let mut created = Story::new(Policy::default());
    created.does(Input::Tick);
    states.push(("CREATED", created.clone()));
    let mut activating = created.clone();
    activating.sees(Condition::Activating);
    states.push(("ACTIVATING", activating));
    let active = Story::running(Policy::default());
    states.push(("ACTIVE", active.clone()));
    let deadline = active.now.plus_ms(MINUTE_MS);
    let mut saving = active.clone();
    saving.does(Input::Evict { deadline });
    states.push(("ACTIVE, saving", saving.clone()));
    saving.does(Input::Saved);
    states.push(("ACTIVE, pods ending", saving.clone()));
    let mut degraded = active.clone();
    degraded.sees(Condition::ActiveDegraded);
    states.push(("ACTIVE_DEGRADED", degraded.clone()));
    degraded.after(5 * MINUTE_MS);
    states.push(("ACTIVE_DEGRADED, place asked for", degraded));
    let mut failed = active.clone();
    failed.sees(Condition::Failed);
    states.push(("FAILED, pods ending", failed.clone()));
    failed.does(Input::PodsLeft(0));
    states.push(("DEACTIVATING, to be made again", failed.clone()));
    failed.sees(Condition::Gone);
    states.push(("ABSENT, to be made again", failed));
    saving.does(Input::PodsLeft(0));
    states.push(("DEACTIVATING, for the queue", saving.clone()));
    saving.sees(Condition::Gone);
    states.push(("ABSENT, in the queue", saving));
    let mut moving = active.clone();
    moving.does(Input::NodeFailed);
    moving.does(Input::PodsLeft(0));
    moving.sees(Condition::Gone);
    states.push(("ABSENT, place asked for", moving));
    let mut by_hand = active;
    by_hand.sees(Condition::Gone);
    states.push(("ABSENT by hand, pods ending", by_hand));
    states
}

fn inputs(now: Time) -> Vec<Input> {
    let conditions = [
        Condition::None,
        Condition::CreationFailed,
        Condition::Activating,
        Condition::Active,
        Condition::ActiveDegraded,
        Condition::Failed,
        Condition::Deactivating,
        Condition::Gone,
    ];
    let mut inputs: Vec<Input> = conditions.into_iter().map(Input::Observed).collect();
    inputs.extend([
        Input::PodsLeft(1),
        Input::PodsLeft(0),
        Input::Saved,
        Input::NodeFailed,
        Input::Maintenance { from: now.plus_ms(MINUTE_MS) },
        Input::MachineEnds { at: now.plus_ms(30 * SECOND_MS) },
        Input::Evict { deadline: now.plus_ms(MINUTE_MS) },
        Input::Place(place("b")),
        Input::NoPlace,
        Input::Finished,
        Input::Tick,
    ]);
    inputs
}

fn name(input: &Input) -> String {
    match input {
        Input::Maintenance { .. } => "Maintenance".to_owned(),
        Input::MachineEnds { .. } => "MachineEnds".to_owned(),
        Input::Evict { .. } => "Evict".to_owned(),
        other => format!("{other:?}"),
    }
}

fn shown(output: &Output, now: Time) -> String {
    match output {
        Output::Signal { deadline } => {
            format!("Signal {{ in {} s }}", deadline.ms_since(now) / 1_000)
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn every_input_in_every_state_does_what_the_table_says() {
    let mut table = String::new();
    for (title, start) in states() {
        table.push_str(&format!("{title}\n"));
        for input in inputs(start.now) {
            let mut story = start.clone();
            let before = story.life.state();
            let outputs = story.does(input.clone());
            let outputs: Vec<String> = outputs.iter().map(|o| shown(o, story.now)).collect();
            let after = story.life.state();
            let state = if after == before { "=".to_owned() } else { format!("{after:?}") };
            let line = format!("    {:<25} {state:<15} {}", name(&input), outputs.join(", "));
            table.push_str(line.trim_end());
            table.push('\n');
        }
    }
    expect_file!["transitions.txt"].assert_eq(&table);
}
