//! The setting of the story: the stage's nodes and queue, the trainer's flags, and what happens
//! before the first act.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::narrator::{Narrator, Who};
use super::observe::Scene;
use super::stage::{Role, Stage};
use super::training::{Finish, Follower, Training};
use crate::failure::Failure;
use crate::text::safe;

/// The queue: Kueue's own YAML, as shipped.
const QUEUES: &str = include_str!("../../manifests/demo/queues.yaml");
/// Nodes with [`DEVICES_PER_NODE`] accelerators each: the quota is all of them.
const NODES: [&str; 3] = ["demo-a", "demo-b", "demo-c"];
const DEVICES_PER_NODE: usize = 2;
pub(super) const TRAINER: &str = "finetune";
/// The gang's devices: two workers of two.
pub(super) const GANG_DEVICES: u64 = 4;

/// Steps of the training. Long enough for a drain in the middle and checkpoints after it.
pub(super) const STEPS: u64 = 60;
/// Steps between two checkpoints.
pub(super) const SAVE_STEPS: u64 = 10;
/// Serving needs more when this step is done: between two checkpoints, so that killing the gang then
/// costs what it costs on average, and far enough from the next one not to hit it half-written.
pub(super) const ASK_STEP: u64 = 34;
/// Time of a step. Real ones take seconds; shorter ones than this would pass while a busy machine
/// looks whether a checkpoint is whole, and the demo would tell of the machine, not of draining.
pub(super) const STEP_MS: u64 = 250;
pub(super) const SAVE_MS: u64 = 200;
/// Time the trainer and a server take to load, as if their models were large.
pub(super) const TRAINER_STARTUP_MS: u64 = 600;
pub(super) const SERVER_STARTUP_MS: u64 = 300;

/// How long programs may take to come up. Each takes less than a second on an idle machine.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(10);
/// How long the training may take from one point of the story to the next: it takes 10 s at most.
pub(super) const TRAIN_PATIENCE: Duration = Duration::from_secs(30);

/// How the arbiter makes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// What Sluice does.
    CheckpointDrain,
    /// What a scheduler without drains does.
    Kill,
}

impl Policy {
    /// Its name in the table, and of its directory.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CheckpointDrain => "checkpoint-drain",
            Self::Kill => "kill",
        }
    }

    /// The title of its act.
    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::CheckpointDrain => "Act 1: checkpoint-drain",
            Self::Kill => "Act 2: the same with an arbiter that ends victims at once",
        }
    }
}

/// Says what is going to happen.
pub(super) fn prologue(narrator: &mut Narrator) {
    narrator.aside(
        "Three nodes with two simulated NVIDIA L4 each; one queue with a quota of 6 GPUs.\n\
         Serving (priority 30) uses 2 GPUs a replica, fine-tuning (priority 20) is a gang of two\n\
         workers with 2 GPUs each. In the strip below, S1 and S2 are replicas of the server, T0 and\n\
         T1 the ranks of the trainer. Beside act 1 the same training runs undisturbed, at full speed.",
    );
}

/// The training without any disturbance, alone and at full speed: the loss that both acts have to end
/// with, bit for bit. It runs beside the first act.
#[derive(Debug)]
pub(super) struct Undisturbed {
    follower: Follower,
}

impl Undisturbed {
    const NAME: &str = "undisturbed";

    /// Starts it.
    ///
    /// # Errors
    /// As the system says it.
    pub(super) fn start(stage: &mut Stage) -> Result<Self, Failure> {
        stage.next_act(Self::NAME)?;
        let dir = stage.act_dir().to_owned();
        let log = dir.join("training.jsonl");
        let mut flags = trainer_flags(&log, 0, 0, 0);
        flags.extend(["--output-dir".to_owned(), dir.join("checkpoints").display().to_string()]);
        let program = stage.programs.sluice.clone();
        stage.start(Self::NAME, Role::Alone, &program, &flags)?;
        Ok(Self { follower: Follower::new(&log) })
    }

    /// Waits for its end, which is usually long past.
    ///
    /// # Errors
    /// It failed, or takes too long.
    pub(super) async fn finish(
        mut self,
        stage: &mut Stage,
        narrator: &mut Narrator,
    ) -> Result<Finish, Failure> {
        let deadline = Instant::now() + TRAIN_PATIENCE;
        while stage.ended(Self::NAME).is_none() && Instant::now() < deadline {
            sleep(Duration::from_millis(30)).await;
        }
        let mut training = Training::default();
        self.follower.follow(&mut training)?;
        let Some(finish) = training.last_run().and_then(|run| run.finished) else {
            let tail = stage.tail(Self::NAME);
            return Err(Failure::runtime(format!("the undisturbed training has no end{tail}")));
        };
        let (loss, bits) = (finish.loss, finish.loss_bits);
        let text =
            format!("undisturbed, {STEPS} steps give a loss of {loss:.6} (bits {bits:#010x})");
        narrator.say(Who::Trainer, &text);
        Ok(finish)
    }
}

/// Brings the arbiter and the agents up; where they are, as flags of `sluice run`.
///
/// # Errors
/// One of them does not start, or not in time.
pub(super) async fn bring_up(
    scene: &mut Scene<'_>,
    policy: Policy,
) -> Result<Vec<String>, Failure> {
    let dir = scene.stage.act_dir().to_owned();
    let (state, queues) = (dir.join("state"), dir.join("queues.yaml"));
    std::fs::write(&queues, QUEUES)
        .map_err(|e| Failure::runtime(format!("could not write {queues:?}: {e}")))?;
    let programs = scene.stage.programs.clone();
    let shared = ["--state-dir".to_owned(), state.display().to_string()];
    let mut flags = words("--listen 127.0.0.1:0 --release-grace-ms 2000");
    flags.extend(["--queues".to_owned(), queues.display().to_string()]);
    if policy == Policy::Kill {
        flags.push("--no-checkpoint-drain".to_owned());
    }
    flags.extend(shared.clone());
    scene.stage.start("arbiter", Role::Server, &programs.arbiter, &flags)?;
    let ready = said(scene, "arbiter", "sluice-arbiter ready: ").await?;
    let address = field(&ready, "grpc=")?;
    let mut places = vec!["--arbiter".to_owned(), address.clone()];
    for node in NODES {
        let mut flags = words("--simulate nvidia-l4=2");
        flags.extend(["--node", node, "--arbiter", &address].map(str::to_owned));
        flags.extend(shared.clone());
        scene.stage.start(node, Role::Server, &programs.agent, &flags)?;
    }
    for node in NODES {
        let ready = said(scene, node, "sluice-agent ready: ").await?;
        places.extend(["--agent-socket".to_owned(), field(&ready, "socket=")?]);
    }
    let address = address.parse().map_err(|_| {
        Failure::runtime(format!("the arbiter listens on {address:?}, which is no address"))
    })?;
    scene.attend(address).await?;
    scene.gather(NODES.len() * DEVICES_PER_NODE, START_PATIENCE).await?;
    let text = format!("an arbiter and {} agents are up", NODES.len());
    scene.narrator.say(Who::Stage, &text);
    Ok(places)
}

/// `demo-train` as the tutorial's script behaves: its SIGTERM handler saves nothing and exits with 0.
pub(super) fn trainer_flags(
    log: &Path,
    step_ms: u64,
    save_ms: u64,
    startup_ms: u64,
) -> Vec<String> {
    let mut flags = words(&format!(
        "demo-train --steps {STEPS} --save-steps {SAVE_STEPS} --step-ms {step_ms} \
         --save-ms {save_ms} --startup-ms {startup_ms} --save-total-limit 5 --on-sigterm exit0 \
         --log"
    ));
    flags.push(log.display().to_string());
    flags
}

/// The words of a command line.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Waits for the ready line of a program.
async fn said(scene: &mut Scene<'_>, name: &str, prefix: &str) -> Result<String, Failure> {
    let look = |scene: &mut Scene<'_>| Ok(scene.stage.said(name, prefix));
    scene.until(&format!("{name} is ready"), name, START_PATIENCE, look).await
}

/// A value of a ready line.
fn field(ready: &str, name: &str) -> Result<String, Failure> {
    let value = ready.split_whitespace().find_map(|word| word.strip_prefix(name));
    value.map(str::to_owned).ok_or_else(|| {
        Failure::runtime(format!("no {name} in the ready line {:?}", safe(ready)))
            .hint("the programs beside this one may be of another version")
    })
}
