//! Why: every reason that a decision, a refusal or a state can have, as data.
//!
//! Each reason has a stable code, typed values, a message (what and why) and, where somebody can
//! do something, a hint. The log line, the metric label, the record and `sluice explain` print the
//! same value. `docs/reasons.md` explains each code; a test keeps the two complete.

#[macro_use]
mod define;
mod ms;

use std::collections::BTreeMap;
use std::fmt;

use crate::drain::Mode;
use crate::id::{DeviceId, DrainId, NodeName, QueueName, ResourceName, WorkloadName};
use crate::workload::Exit;

pub use ms::Ms;

reasons! {
    // Waiting.
    /// Ranks of the gang are missing.
    GangIncomplete { have: u32, want: u32 } = "gang-incomplete",
        "{have} of {want} ranks have been submitted", hint "start the missing ranks with the same --name and --nnodes";
    /// The queue's quota is in use.
    WaitingForQuota { queue: QueueName, resource: ResourceName, requested: u64, used: u64, nominal: u64 } = "waiting-for-quota",
        "queue {queue} uses {used} of {nominal} {resource}; {requested} more are asked for and no running workload of lower priority makes room",
        hint "wait, raise the priority, or raise the queue's quota";
    /// Quota is there, devices are not.
    WaitingForDevices { resource: ResourceName, requested: u64, ranks: u32, free: u64 } = "waiting-for-devices",
        "{ranks} x {requested} {resource} do not fit on the free devices ({free} are free and usable)", hint "sluice get devices shows who holds what";
    /// No node has that many devices.
    NoNodeLargeEnough { resource: ResourceName, requested: u64, largest: u64 } = "no-node-large-enough",
        "one rank asks for {requested} {resource}; the largest node known has {largest}", hint "ask for fewer per rank, use more ranks, or add a larger node";
    /// Nodes reachable by the launcher are not connected.
    NodesNotConnected { node: NodeName } = "nodes-not-connected",
        "node {node} is the only choice and its agent is not connected", hint "sluice get nodes; start sluice-agent there";
    /// Capacity is being made.
    WaitingForDrain { drain: DrainId, victim: WorkloadName } = "waiting-for-drain", "{victim} is being drained to make room ({drain})";
    /// Victims exist and are protected for now.
    WaitingForFloor { victim: WorkloadName, wait_ms: Ms } = "waiting-for-productive-floor",
        "{victim} was drained before and keeps its devices for another {wait_ms:#} so that it makes progress";
    /// The only victims have been drained as often as they may be.
    WaitingForBudget { victim: WorkloadName, wait_ms: Ms } = "waiting-for-drain-budget",
        "{victim} was drained too often within the hour and keeps its devices for another {wait_ms:#}";
    /// It was drained again and again, and comes back when demand has been low for a while.
    HeldOff { wait_ms: Ms } = "held-off", "it was drained repeatedly; it comes back once what it needs has been free for another {wait_ms:#}";
    /// Devices are free, but not where they have to be.
    WaitingForTopology { why: String } = "waiting-for-topology", "the free devices do not lie as the workload asks: {why}",
        hint "wait, or ask for a preferred topology instead of a required one";
    /// No flavor of the queue suits it.
    NoMatchingFlavor { queue: QueueName, why: String } = "no-matching-flavor", "no flavor of queue {queue} suits: {why}",
        hint "sluice config check shows the flavors; compare their labels with those of the nodes";
    /// The queue admits nothing.
    QueueInactive { queue: QueueName, why: String } = "queue-inactive", "queue {queue} admits nothing: {why}";
    /// Others of its queue go first.
    WaitingForTurn { queue: QueueName, code: String } = "waiting-for-turn", "it has not been its turn in queue {queue} yet ({code})";
    /// It was drained and waits for capacity to resume.
    ResumePending { drain: DrainId, beneficiary: WorkloadName, step: u64 } = "resume-pending",
        "drained for {beneficiary} ({drain}); resumes from step {step} when capacity is free";
    /// It was drained without a checkpoint and waits to start again.
    RestartPending { drain: DrainId, beneficiary: WorkloadName } = "restart-pending",
        "drained for {beneficiary} ({drain}) without a new checkpoint; starts again when capacity is free";
    /// What it ran on failed.
    ResumeElsewhere { drain: DrainId, step: u64 } = "resume-elsewhere", "what it ran on failed ({drain}); resumes from step {step} where there is room";
    /// The same without a checkpoint.
    RestartElsewhere { drain: DrainId } = "restart-elsewhere", "what it ran on failed ({drain}) and there is no new checkpoint; starts again where there is room";
    /// A launcher is away.
    WaitingForLauncher { rank: u32 } = "waiting-for-launcher", "the sluice run process of rank {rank} is not connected";
    /// A slice of TPUs that cannot be asked for.
    SliceIllegal { why: String } = "slice-illegal", "these slices cannot be asked for: {why}";
    /// No place for its slices.
    SliceWaits { shape: String, count: u32, code: String, why: String } = "slice-waits", "no place for {count} x {shape}: {why}", hint "sluice slice plan";
    /// Where its slices go.
    SlicePlaced { shape: String, partitions: String, code: String, why: String } = "slice-found", "{shape} on {partitions}: {why}";
    /// Slices that have to move.
    SliceMoves { code: String, node: NodeName, why: String } = "slice-moves", "its slice has to move: {why}", hint "sluice slice map shows the hosts";
    /// Just submitted.
    Submitted = "submitted", "submitted";

    // What would be, and what would help.
    /// There is room for it.
    WouldBeAdmitted { nodes: String } = "would-be-admitted", "it would get devices now, on {nodes}";
    /// There is room once others have given way.
    WouldPreempt { victims: String, cost_device_ms: u64 } = "would-preempt", "it would get room by draining {victims}";
    /// Its queue is strictly in order.
    WaitingBehind { queue: QueueName, first: WorkloadName } = "waiting-behind",
        "queue {queue} is strictly first in, first out, and {first} goes first", hint "explain that one; or let the queue be BestEffortFIFO";
    /// It runs or has ended.
    NothingToDecide { workload: WorkloadName } = "nothing-to-decide",
        "nothing is to be decided about workload {workload} now: it runs, has ended, or not all of it is there", hint "ask what-if of a workload that waits";
    /// A question that cannot be asked.
    BadWhatIf { change: String, why: String } = "bad-what-if", "what-if {change:?}: {why}";
    /// More quota would do.
    RaiseQuota { queue: QueueName, amounts: String } = "raise-quota", "give queue {queue} {amounts} more";
    /// More priority would do.
    RaisePriority { priority: i32, current: i32 } = "raise-priority", "give it priority {priority} instead of {current}";
    /// A wider topology would do.
    RelaxTopology { topology: String, current: String } = "relax-topology", "let it lie {topology} instead of {current}";
    /// Fewer ranks would do.
    FewerRanks { ranks: u32, current: u32 } = "fewer-ranks", "run it with {ranks} ranks instead of {current}";
    /// The end of another workload would do.
    WorkloadEnds { workload: WorkloadName } = "workload-ends", "wait until {workload} ends, or cancel it";
    /// Time alone will do.
    ProtectionEnds { workload: WorkloadName, rule: String, wait_ms: Ms } = "protection-ends", "wait another {wait_ms:#}: until then {workload} is left alone (rule {rule})";
    /// A flavor that can be had.
    FlavorFits { flavor: String } = "flavor-fits", "there is room in flavor {flavor}";
    /// A flavor that can be had if others give way.
    FlavorNeedsVictims { flavor: String } = "flavor-needs-victims", "there is room in flavor {flavor} if others give way";
    /// A flavor of which too much is in use.
    FlavorLacksQuota { flavor: String, resource: ResourceName, missing: u64 } = "flavor-lacks-quota",
        "{missing} more {resource} of flavor {flavor} would be needed; others use them";
    /// A flavor of which there is not so much.
    FlavorExceedsQuota { flavor: String, resource: ResourceName, requested: u64, maximum: u64 } = "flavor-exceeds-quota",
        "{requested} {resource} of flavor {flavor} are asked for and the queue can never have more than {maximum}";
    /// A flavor in which there is no place.
    FlavorNotPlaced { flavor: String, failure: String, why: String } = "flavor-not-placed", "there is quota in flavor {flavor} and no place: {why}";
    /// A flavor that does not suit.
    FlavorUnsuitable { flavor: String, mismatch: String, why: String } = "flavor-unsuitable", "flavor {flavor} does not suit: {why}";

    // Admission and running.
    /// Devices were free.
    AdmittedFree { nodes: String } = "admitted-free", "devices were free on {nodes}";
    /// Devices had been held for it.
    AdmittedHeld { nodes: String, drain: DrainId } = "admitted-held", "devices on {nodes} were freed for it by {drain}";
    /// All ranks have started.
    Started { attempt: u32 } = "started", "all ranks run (start number {attempt})";
    /// All ranks ended well.
    Succeeded = "succeeded", "every rank ended with exit status 0";
    /// A rank failed.
    WorkerFailed { rank: u32, exit: Exit } = "worker-failed", "rank {rank} ended with {exit}", hint "see the worker's own output";
    /// Somebody cancelled it.
    Cancelled = "cancelled", "cancelled on request";
    /// Its `sluice run` has gone.
    LauncherGone { rank: u32, after_ms: Ms } = "launcher-gone", "the sluice run process of rank {rank} has been gone for {after_ms:#}", hint "submit it again";
    /// Its `sluice run` does not start it.
    StartTimedOut { rank: u32, waited_ms: Ms } = "start-timed-out",
        "rank {rank} was not started within {waited_ms:#} of its admission", hint "see the output of sluice run for that rank";

    // Refusals at submission.
    /// No such queue.
    QueueUnknown { queue: QueueName, known: String } = "queue-unknown", "there is no queue {queue}; there are: {known}",
        hint "use one of these, or add the queue to the queues file";
    /// A LocalQueue's name alone, which several namespaces use.
    QueueAmbiguous { queue: QueueName, candidates: String } = "queue-ambiguous", "{queue} may be each of {candidates}", hint "give the namespace too, as in one of these";
    /// Larger than the queue will ever allow.
    ExceedsQuota { queue: QueueName, resource: ResourceName, requested: u64, maximum: u64 } = "exceeds-quota",
        "the gang asks for {requested} {resource}; queue {queue} can never give more than {maximum}",
        hint "ask for less or raise the quota: as it is, this would wait for ever";
    /// The resource has no quota in this queue.
    ResourceUnknown { queue: QueueName, resource: ResourceName } = "resource-unknown", "queue {queue} has no quota for {resource}",
        hint "add the resource to the queue, or ask for another";
    /// Two launchers disagree about one gang.
    SpecConflict { field: String, first: String, second: String } = "spec-conflict",
        "another rank of this workload was submitted with {field} {first}, this one says {second}", hint "use the same flags for all ranks, or another --name";
    /// The rank is taken.
    RankTaken { rank: u32 } = "rank-taken", "rank {rank} of this workload is already held by another sluice run", hint "use another --node-rank, or another --name";
    /// Rank outside the gang.
    RankOutOfRange { rank: u32, nnodes: u32 } = "rank-out-of-range", "rank {rank} is not below --nnodes {nnodes}", hint "ranks count from 0";
    /// Nothing asked for, or absurdly much.
    BadSpec { field: String, value: String, expected: String } = "bad-spec", "{field} is {value}; expected {expected}";
    /// No node named.
    NoNodes = "no-nodes", "the launcher names no node on which it can start a worker", hint "is sluice-agent running here? see sluice status";
    /// The workload has ended or never was.
    NoSuchWorkload { workload: WorkloadName } = "no-such-workload", "there is no workload {workload}", hint "sluice get workloads --all";
    /// It cannot be changed any more.
    AlreadyFinished { workload: WorkloadName } = "already-finished", "workload {workload} has ended";
    /// Too many at once.
    LimitReached { what: String, limit: u64 } = "limit-reached", "the limit of {limit} {what} is reached", hint "wait until some have ended";

    // Preemption and drains.
    /// Why a drain was started.
    PreemptedFor { beneficiary: WorkloadName, priority: i32, victim_priority: i32, cost_device_ms: u64 } = "preempted-for",
        "{beneficiary} (priority {priority}) needs the devices of this workload (priority {victim_priority})";
    /// What it runs on is broken.
    Evicted { why: String } = "evicted", "what it runs on can no longer be used: {why}";
    /// A candidate that was chosen.
    CheapestVictim { preemptor: WorkloadName, cost_device_ms: u64, at_risk_device_ms: u64 } = "cheapest-victim", "draining it for {preemptor} loses least work";
    /// A candidate that was not.
    CostlierVictim { preemptor: WorkloadName, cost_device_ms: u64, at_risk_device_ms: u64, chosen_device_ms: u64 } = "costlier-victim",
        "draining it for {preemptor} would lose more work than draining those chosen";
    /// Never a victim: its priority is not lower.
    PriorityNotLower { priority: i32, preemptor: i32 } = "priority-not-lower", "its priority {priority} is not below {preemptor}";
    /// Being drained already.
    DrainOpen { drain: DrainId } = "drain-open", "it is being drained already ({drain})";
    /// Drained before; has to make progress first.
    ProtectedByFloor { wait_ms: Ms } = "protected-by-floor", "it was drained before and is left alone for another {wait_ms:#}";
    /// Too many drains in an hour.
    BudgetSpent { drains: u32 } = "drain-budget-spent", "it was drained {drains} times within the hour";
    /// It would not help.
    WouldNotHelp = "would-not-help", "its devices would not make room";
    /// Mode chosen.
    LeastLoss { mode: Mode, loss_device_ms: u64 } = "least-loss", "{mode} loses least within the deadline";
    /// Checkpoint-drain is switched off.
    DrainSwitchedOff { mode: Mode } = "drain-switched-off", "this arbiter does not wait for checkpoints: {mode} is the only mode",
        hint "start the arbiter without --no-checkpoint-drain";
    /// Nothing fits the deadline.
    DeadlineForced { mode: Mode, deadline_ms: Ms } = "deadline-forced", "no mode that saves the work fits the deadline of {deadline_ms:#}; {mode} is used";
    /// Mode is too slow.
    TooSlow { delay_ms: Ms, deadline_ms: Ms } = "too-slow", "needs {delay_ms:#}; the deadline is {deadline_ms:#}";
    /// Mode loses more.
    MoreLoss { loss_device_ms: u64, chosen_device_ms: u64 } = "more-loss", "would lose more than the mode chosen";
    /// Mode is as good and slower.
    Slower { delay_ms: Ms, chosen_ms: Ms } = "slower", "loses no less and takes {delay_ms:#} instead of {chosen_ms:#}";
    /// No checkpoint to be fresh.
    NoCheckpointYet = "no-checkpoint-yet", "no complete checkpoint has been seen";
    /// Last checkpoint is too old for KILL-FRESH.
    NotFresh { age_ms: Ms, limit_ms: Ms } = "not-fresh", "the last checkpoint is {age_ms:#} old; up to {limit_ms:#} counts as fresh";
    /// Nobody said where checkpoints are.
    NoCheckpointDir = "no-checkpoint-dir", "no checkpoint directory was declared", hint "pass --checkpoint-dir";
    /// No save signal declared.
    NoSaveSignal = "no-save-signal", "no save signal was declared", hint "pass --save-signal if the trainer saves on a signal";
    /// Save signal shown not to work.
    SignalUnproven = "signal-unproven", "an earlier save signal produced no checkpoint; it is not used again";
    /// Save signal never tried.
    SignalUntried = "signal-untried", "the save signal was declared and has not been seen to save",
        hint "sluice rehearse tries it; or declare it with --save-signal-proven";
    /// A launcher would kill the save.
    GraceTooShort { delay_ms: Ms, grace_ms: Ms } = "grace-too-short",
        "step and save (p95) take {delay_ms:#}; a launcher within the worker kills its processes {grace_ms:#} after the signal",
        hint "use the worker client, or a save signal that the launcher does not handle, such as USR1 sent to the ranks";
    /// The worker has no client.
    NoClient = "no-client", "not every rank has said hello in its files", hint "add the worker client: clients/python";
    /// Client shown not to save.
    ClientUnproven = "client-unproven", "the worker did not save when it was asked through its files; it is not asked so again", hint "sluice rehearse tries it again";
    /// An agent refused this mode before.
    ModeRefused { code: String } = "mode-refused", "an agent refused it: {code}";
    /// All agents have journalled the order.
    AllArmed { ranks: u32 } = "all-armed", "the agents of all {ranks} ranks have accepted and journalled the order";
    /// Order sent.
    OrderSent { mode: Mode } = "order-sent", "the order to prepare ({mode}) was sent";
    /// Commit sent.
    CommitSent { mode: Mode } = "commit-sent", "every agent may act ({mode})";
    /// An agent said no.
    AgentRefused { rank: u32, code: String, detail: String } = "agent-refused", "the agent of rank {rank} refused: {code}: {detail}";
    /// An agent did not answer.
    ArmTimedOut { waited_ms: Ms, missing: u32 } = "arm-timed-out", "not all agents accepted the order within {waited_ms:#} (missing: {missing}); no signal was sent";
    /// Checkpoint verified.
    CheckpointDurable { step: u64, bytes: u64 } = "checkpoint-durable", "checkpoint of step {step} ({bytes} bytes) was found complete from outside";
    /// The last checkpoint is the one to resume from.
    CheckpointKept { step: u64 } = "checkpoint-kept", "the checkpoint of step {step} is the point to resume from";
    /// No checkpoint; the work is given up.
    WorkGivenUp { at_risk_device_ms: u64 } = "work-given-up", "the work since the last checkpoint is given up";
    /// The save did not succeed.
    SaveFailed { code: String, detail: String } = "save-failed", "no complete checkpoint: {code}: {detail}";
    /// Time is up.
    DeadlinePassed { deadline_ms: Ms } = "deadline-passed", "no complete checkpoint within {deadline_ms:#}; the worker is ended";
    /// Release order sent.
    ReleaseSent { grace_ms: Ms } = "release-sent", "the worker is told to end (grace {grace_ms:#})";
    /// Devices verified idle.
    DevicesIdle { devices: u32 } = "devices-idle", "no process holds any of the {devices} devices";
    /// Beneficiary runs.
    HandedOver { beneficiary: WorkloadName } = "handed-over", "{beneficiary} runs on the devices";
    /// Waits to start again.
    WaitsToResume { step: u64 } = "waits-to-resume", "it has devices again; the first step beyond {step} is awaited";
    /// Waits to start again without a checkpoint.
    WaitsToRestart = "waits-to-restart", "it has devices again; there is no checkpoint to resume from";
    /// Resumed at or beyond the saved step.
    Resumed { saved: u64, seen: u64 } = "resumed", "step {seen} was reached after the restart; step {saved} had been saved";
    /// Resumed from an older point.
    ResumeRegressed { saved: u64, seen: u64 } = "resume-regressed", "step {seen} was written after the restart though step {saved} had been saved: work was lost at resume",
        hint "check that the trainer resumes from the newest checkpoint";
    /// The victim never resumed because it ended.
    EndedBeforeResume = "ended-before-resume", "the workload ended before a step beyond the saved one was seen";
    /// Another drain came before it had resumed.
    DrainedAgain = "drained-again", "the workload was drained again before a step beyond the saved one was seen";
    /// Demand vanished.
    DemandGone { beneficiary: WorkloadName } = "demand-gone", "{beneficiary} no longer needs the devices";
    /// Stopped by the kill switch.
    AbortedByFreeze = "aborted-by-freeze", "decisions were frozen before any signal was sent";
    /// The worker finished on its own.
    FinishedMeanwhile = "finished-meanwhile", "the workload ended by itself before it had to be released";
    /// Asked and not heeded: another mode goes on.
    SaveNotBegun { mode: Mode, waited_ms: Ms } = "save-not-begun", "there was no sign of a save within {waited_ms:#}; the next periodic checkpoint is awaited ({mode})";
    /// A process was killed in the middle of its work.
    UncleanKill { workload: WorkloadName, rank: u32 } = "unclean-kill",
        "rank {rank} of {workload} was ended by SIGKILL and had not parked: a collective may have been cut off",
        hint "look at the devices of this node: interconnects report faults after that";
    /// A trial of a save.
    Rehearsal { mode: Mode } = "rehearsal", "a save is tried ({mode}); nobody needs the devices";
    /// A trial that succeeded.
    Rehearsed { step: u64, took_ms: Ms } = "rehearsed", "the worker saved step {step} {took_ms:#} after it was asked, and goes on";
    /// A trial that succeeded and ended the worker.
    RehearsedEnds { step: u64, took_ms: Ms } = "rehearsed-ends", "the worker saved step {step} {took_ms:#} after it was asked, and then ended; it starts again";
    /// A trial that was none.
    RehearsedUnasked = "rehearsed-unasked", "a save was under way already, so the worker was not asked: nothing was learned", hint "try again between two saves";
    /// A trial that did not succeed.
    RehearsalFailed { code: String } = "rehearsal-failed", "the worker did not save when it was asked ({code}); it is not asked so in a drain";
    /// Nothing to try.
    NothingToRehearse { workload: WorkloadName } = "nothing-to-rehearse",
        "workload {workload} has neither a save signal nor a worker client", hint "declare --save-signal, or add the worker client: clients/python";
    /// Not in a state to be tried.
    NotRunning { workload: WorkloadName, phase: String } = "not-running", "workload {workload} is {phase}; only one that runs can be asked to save";
    /// An agent is silent in a drain.
    DrainNodeSilent { node: NodeName, silent_ms: Ms } = "drain-node-silent", "node {node} has been silent for {silent_ms:#}; its devices are not given to anyone";

    // Nodes and the cluster.
    /// Agent is connected.
    NodeConnected = "node-connected", "the agent is connected";
    /// Agent is silent.
    NodeSilent { silent_ms: Ms } = "node-silent", "nothing has been heard for {silent_ms:#}; the state of its devices is unknown, nothing is drained for that",
        hint "is sluice-agent running there? sluice status on the node";
    /// Never seen since start.
    NodeAwaited = "node-awaited", "known from before the arbiter's restart; its agent has not come back yet";
    /// Kill switch.
    Frozen { why: String } = "frozen", "decisions are frozen: {why}", hint "sluice unfreeze";
    /// Most agents vanished at once.
    MostAgentsSilent { silent: u32, known: u32 } = "most-agents-silent", "most agents are silent ({silent} of {known}): no new decision until more than half are back",
        hint "look at the network between the nodes and the arbiter before anything else";
    /// After a restart.
    Recovering { missing: u32 } = "recovering", "the arbiter has restarted and waits for agents that have running workers (missing: {missing})";
    /// Decisions go on.
    Unfrozen = "unfrozen", "decisions are made again";

    // Health of devices.
    /// The driver's log speaks of a fault.
    GpuXid { xid: u32, what: String, text: String } = "gpu-xid", "Xid {xid} ({what}): {text}",
        hint "sluice describe device shows what is to be done, dmesg the whole message; once done: sluice clear-faults --device ID";
    /// The driver asks for something.
    GpuActionAsked { action: String, value: String } = "gpu-action-asked", "the driver asks for {action} (recovery action {value})",
        hint "do as it asks; the device is offered again when the driver asks for nothing any more, or by sluice clear-faults";
    /// The driver asks for something unknown.
    GpuActionUnknown { value: String } = "gpu-action-unknown", "the driver asks for recovery action {value}, which this version does not know",
        hint "see NVIDIA's documentation of Xid 154; the device is not offered, and nobody is drained for that";
    /// NVML refuses the GPU.
    GpuLost { nvml: u32, text: String } = "gpu-lost", "NVML refuses the GPU: {text} ({nvml})",
        hint "look into the kernel's log; restart the machine if the GPU does not come back";
    /// On the bus, unknown to the driver.
    GpuNotListed { pci: String } = "gpu-not-listed", "the GPU at {pci} is on the PCI bus and the driver does not list it",
        hint "look into the kernel's log for why the driver could not start it";
    /// Not on the bus.
    GpuNotOnBus { pci: String } = "gpu-not-on-bus", "the GPU at {pci} is no longer on the PCI bus", hint "restart the machine";
    /// A row waits.
    GpuRowsPending = "gpu-rows-pending", "a row of its memory waits for a reset to be replaced", hint "reset it when it is idle";
    /// A row could not be replaced.
    GpuRowsFailed = "gpu-rows-failed", "a row of its memory could not be replaced", hint "have the board replaced";
    /// A page waits.
    GpuPagesPending = "gpu-pages-pending", "a page of its memory waits for a reset to be retired", hint "reset it when it is idle";
    /// Many corrected errors.
    GpuEccRate { per_second: u64 } = "gpu-ecc-rate", "{per_second} errors of its memory are corrected each second", hint "test it when it is idle";
    /// Uncorrected errors.
    GpuEccUncorrected { errors: u64 } = "gpu-ecc-uncorrected", "{errors} errors of its memory were not corrected since the look before",
        hint "see whether an Xid came with them";
    /// On-chip memory.
    GpuSramThreshold = "gpu-sram-threshold", "its on-chip memory has had more errors than the maker allows", hint "have the board replaced";
    /// Slowed down.
    GpuThrottled { cause: String } = "gpu-throttled", "the hardware slows it down: {cause}", hint "look at cooling and power of the machine";
    /// Fewer lanes.
    GpuPcieWidth { width: u32, widest: u32 } = "gpu-pcie-width", "its PCIe link has {width} lanes under load and had {widest}", hint "seat the board anew, or test it";
    /// Replays.
    GpuPcieReplays { per_minute: u64 } = "gpu-pcie-replays", "{per_minute} packets a minute are sent again over its PCIe link", hint "seat the board anew, or test it";
    /// Links down.
    GpuLinksDown { down: u32, links: u32 } = "gpu-links-down", "{down} of the {links} NVLinks that it had are down",
        hint "see whether an Xid (74, 144 to 150) came with it";
    /// Fabric.
    GpuFabric { state: u32, why: String } = "gpu-fabric", "it is no sound member of its NVSwitch fabric (state {state}): {why}",
        hint "look at the fabric manager of the machine: systemctl status nvidia-fabricmanager";
    /// A switch.
    SwitchSxid { pci: String, sxid: u32, text: String } = "switch-sxid", "NVSwitch {pci}: SXid {sxid}: {text}",
        hint "all GPUs of the machine hang on it; restart it if the message is fatal";
    /// Old answers.
    DriverStale { age_ms: Ms } = "driver-stale", "the driver's last answer is {age_ms:#} old", hint "sluice status shows whether it hangs";
    /// It hangs.
    DriverUnresponsive { since_ms: Ms, detail: String } = "driver-unresponsive",
        "a call into the driver has not returned for {since_ms:#}; the state of its GPUs is unknown {detail}",
        hint "look into the kernel's log; only a restart of the machine ends a process that hangs in the driver";
    /// Being changed.
    DriverMaintenance { why: String } = "driver-maintenance", "the driver cannot be asked: {why}; nobody is drained for that",
        hint "nothing while it is installed or upgraded; else load it, or restart the machine";
    /// Not to be had.
    DriverUnavailable { why: String } = "driver-unavailable", "the driver cannot be asked: {why}", hint "sluice doctor on the node checks driver, library and device files";
    /// A program's error.
    WorkerGpuFault { pci: String, xid: u32, text: String } = "worker-gpu-fault", "its program met Xid {xid} on the GPU at {pci}: {text}",
        hint "the error is the program's; the GPU is offered as before";
    /// A device is gone.
    DeviceGone { device: String } = "device-gone", "device {device} was there when the agent started and is gone",
        hint "look into the kernel's log; restart the node if the device does not come back";
    /// A device is not seen.
    DeviceStale { device: String, age: String } = "device-stale", "device {device} was last seen {age}",
        hint "see the agent's sensors with sluice status: a device they ask may hang";
    /// Drained for a device.
    DeviceFault { node: NodeName, device: DeviceId, fault: String, action: String } = "device-fault",
        "device {device} of node {node} has a fault ({fault}) and needs {action}: its workers save and leave while they can",
        hint "sluice describe device shows the fault; the device is offered again when it is gone";
    /// Less time for an open drain.
    DrainHurried { node: NodeName, device: DeviceId, fault: String, action: String, left_ms: Ms } = "drain-hurried",
        "device {device} of node {node} has a fault ({fault}) and needs {action}: this drain has {left_ms:#} left";
    /// Taken back for a more urgent one.
    OvertakenByFault { node: NodeName, device: DeviceId } = "overtaken-by-fault", "device {device} of node {node} fails: planned anew for that";
    /// Kept for somebody, and not to be given.
    ReservationFailing { node: NodeName, device: DeviceId } = "reservation-failing", "device {device} of node {node}, kept for it, fails: placed anew";
    /// Too many at once.
    MostNodesFaulty { faulty: u32, known: u32 } = "most-nodes-faulty",
        "{faulty} of {known} nodes report new faults within 5 min: no new decision, as this is more likely a mistake than the devices",
        hint "look at what changed (driver, firmware, cooling); sluice unfreeze to decide all the same";

    // Records of other versions.
    /// A reason of another version of Sluice, kept as it was told.
    Unrecognized { code: String, message: String } = "unrecognized", "{message} ({code}, told by another version of sluice)";
}
