//! Readings as metrics: base units, one family after the other.

use std::fmt::Error;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use sluice::wire::digest::worker_id;
use sluice::wire::pb;
use sluice_core::agent::Stage;
use sluice_core::client::ClientProblem;

use super::gpu;
use crate::clock;
use crate::report::Reporter;
use crate::uplink::Outbox;

/// Label values of `device_health`, in the contract's order.
const HEALTHS: [(&str, pb::Health); 4] = [
    ("healthy", pb::Health::Healthy),
    ("degraded", pb::Health::Degraded),
    ("unhealthy", pb::Health::Unhealthy),
    ("unknown", pb::Health::Unknown),
];

/// Everything that is told.
#[derive(Debug)]
pub(super) struct AgentMetrics {
    pub(super) reporter: Reporter,
    pub(super) outbox: Outbox,
}

impl Collector for AgentMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut families = Families(encoder);
        let report = self.reporter.report();
        let status = self.reporter.status();
        self.agent(&mut families, &status)?;
        collectors(&mut families, &status.sensors)?;
        devices(&mut families, &report.devices)?;
        let judged = self.reporter.health.borrow().clone();
        super::health::health(&mut families, &report, &judged)?;
        if let Some(table) = self.reporter.sensors.gpu_table() {
            gpu::gpus(&mut families, &table)?;
        }
        volumes(&mut families, &report.volumes)?;
        pressure(&mut families, report.pressure.as_ref())?;
        workers(&mut families, &report.workers)?;
        self.drains(&mut families)?;
        itself(&mut families)
    }
}

impl AgentMetrics {
    fn agent(&self, families: &mut Families<'_>, status: &pb::AgentStatus) -> Result<(), Error> {
        let info = [("version", status.version.as_str())];
        families.gauges("build_info", "Version of the agent", [(info, 1_u64)])?;
        let connected = u64::from(status.connected);
        families.gauge("connected", "1 while the stream to the arbiter is up", connected)?;
        if let Some(age_ms) = status.last_ack_age_ms {
            let help = "Time since the arbiter last acknowledged something";
            families.gauge("last_ack_age_seconds", help, seconds(age_ms))?;
        }
        families.gauge("epoch", "Highest epoch of an arbiter obeyed", status.epoch)?;
        let waiting = u64::try_from(self.outbox.len()).unwrap_or(u64::MAX);
        families.gauge(
            "events_waiting",
            "Drain events that the arbiter has not acknowledged",
            waiting,
        )?;
        let counters = &self.reporter.counters;
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let reports = value(&counters.reports_sent);
        families.counter("reports_sent", "Reports sent to the arbiter", reports)?;
        let reconnects = value(&counters.connects).saturating_sub(1);
        families.counter("reconnects", "Streams to the arbiter after the first", reconnects)?;
        let failures = value(&counters.journal_failures);
        families.counter(
            "journal_failures",
            "Attempts to write the journal that failed",
            failures,
        )?;
        let sent = [
            ([("signal", "save")], value(&counters.save_signals_sent)),
            ([("signal", "term")], value(&counters.term_signals_sent)),
            ([("signal", "kill")], value(&counters.kill_signals_sent)),
        ];
        families.counters("signals_sent", "Signals sent to processes of workers", sent)?;
        let failed = value(&counters.signals_failed);
        families.counter("signals_failed", "Signals that could not be sent", failed)?;
        self.client_files(families)
    }

    fn client_files(&self, families: &mut Families<'_>) -> Result<(), Error> {
        let counters = &self.reporter.counters;
        let told = counters.client_orders.load(Ordering::Relaxed);
        families.counter(
            "client_orders",
            "Times a worker was told something in its files",
            told,
        )?;
        let refused = ClientProblem::ALL.map(|problem| {
            let count = counters.client_file(problem).load(Ordering::Relaxed);
            ([("reason", problem.code())], count)
        });
        families.counters("client_files_refused", "Files of workers that were not used", refused)
    }

    fn drains(&self, families: &mut Families<'_>) -> Result<(), Error> {
        let drains = self.reporter.drains();
        let count = |stage: Stage| {
            let of_stage = drains.iter().filter(|drain| drain.stage == stage.as_str()).count();
            ([("stage", stage.as_str())], of_stage)
        };
        families.gauges("drains", "Drains by stage", Stage::ALL.map(count))
    }
}

fn collectors(families: &mut Families<'_>, sensors: &[pb::SensorStatus]) -> Result<(), Error> {
    let label = |sensor: &pb::SensorStatus| [("collector", sensor.name.clone())];
    let success = sensors.iter().map(|s| (label(s), u64::from(s.error.is_empty())));
    families.gauges("collector_success", "1 while the collector works", success)?;
    let duration = sensors.iter().map(|s| (label(s), seconds(s.sample_duration_us) / 1e3));
    families.gauges("collector_duration_seconds", "Time of the last attempt", duration)?;
    let age = sensors.iter().filter_map(|s| Some((label(s), seconds(s.age_ms?))));
    families.gauges("collector_age_seconds", "Time since the last good sample", age)
}

fn devices(families: &mut Families<'_>, devices: &[pb::Device]) -> Result<(), Error> {
    let states = devices.iter().flat_map(|device| {
        HEALTHS.map(|(state, health)| {
            let simulated = if device.simulated { "true" } else { "false" };
            let labels = [
                ("device", device.id.clone()),
                ("kind", device.kind.clone()),
                ("simulated", simulated.to_owned()),
                ("state", state.to_owned()),
            ];
            (labels, u64::from(device.health() == health))
        })
    });
    families.gauges("device_health", "1 for the state that the device is in", states)?;
    let holders = devices.iter().map(|d| ([("device", d.id.clone())], d.holder_pids.len()));
    families.gauges("device_holders", "Processes that hold the device", holders)
}

fn volumes(families: &mut Families<'_>, volumes: &[pb::Volume]) -> Result<(), Error> {
    let label = |volume: &pb::Volume| {
        [("device", volume.device.clone()), ("cloud_disk", volume.cloud_disk.clone())]
    };
    let ahead = volumes.iter().filter_map(|v| Some((label(v), v.read_ahead_bytes?)));
    families.gauges("block_read_ahead_bytes", "Read-ahead in force", ahead)?;
    let wanted = volumes.iter().filter_map(|v| Some((label(v), v.read_ahead_wanted_bytes?)));
    families.gauges("block_read_ahead_wanted_bytes", "Read-ahead that was asked for", wanted)?;
    let asked = volumes.iter().filter(|v| v.read_ahead_wanted_bytes.is_some());
    let drifted = asked.map(|v| (label(v), u64::from(v.read_ahead_state == "drifted")));
    let help = "1 where read-ahead is otherwise than asked for";
    families.gauges("block_read_ahead_drifted", help, drifted)?;
    families.gauges(
        "block_limited_by",
        "1 for who holds it up",
        volumes.iter().flat_map(limited),
    )?;
    let size = volumes.iter().map(|v| (label(v), v.size_bytes));
    families.gauges("block_size_bytes", "Capacity", size)?;
    let counted = |value: fn(&pb::VolumeCounters) -> u64| {
        volumes.iter().filter_map(move |v| Some((label(v), value(v.counters.as_ref()?))))
    };
    families.gauges("block_io_in_flight", "Requests in flight", counted(|c| c.in_flight))?;
    families.counters("block_read_bytes", "Read", counted(|c| c.read_bytes))?;
    families.counters("block_written_bytes", "Written", counted(|c| c.write_bytes))?;
    families.counters("block_reads_completed", "Completed reads", counted(|c| c.reads))?;
    families.counters("block_writes_completed", "Completed writes", counted(|c| c.writes))
}

/// One series for each of those who can hold a volume up.
fn limited(volume: &pb::Volume) -> impl Iterator<Item = ([(&'static str, String); 3], u64)> {
    let who = ["read-ahead", "cgroup", "volume", "node", "hung"];
    let is_judged = !volume.bottleneck.is_empty();
    who.into_iter().filter(move |_| is_judged).map(|who| {
        let labels = [
            ("device", volume.device.clone()),
            ("cloud_disk", volume.cloud_disk.clone()),
            ("by", who.to_owned()),
        ];
        (labels, u64::from(volume.bottleneck == who))
    })
}

fn pressure(families: &mut Families<'_>, pressure: Option<&pb::Pressure>) -> Result<(), Error> {
    let Some(p) = pressure else { return Ok(()) };
    let lines = [
        ("cpu", "some", p.cpu_some),
        ("memory", "some", p.memory_some),
        ("memory", "full", p.memory_full),
        ("io", "some", p.io_some),
        ("io", "full", p.io_full),
    ];
    let known = || {
        lines.into_iter().filter_map(|(r, k, line)| Some(([("resource", r), ("kind", k)], line?)))
    };
    let share = known().map(|(labels, line)| (labels, f64::from(line.avg10_permille) / 1e3));
    families.gauges(
        "pressure_ratio",
        "Share of the last 10 s in which tasks were stalled",
        share,
    )?;
    let total = known().map(|(labels, line)| (labels, seconds(line.total_us) / 1e3));
    families.counters(
        "pressure_stalled_seconds",
        "Time in which tasks were stalled, since boot",
        total,
    )
}

fn workers(families: &mut Families<'_>, workers: &[pb::Worker]) -> Result<(), Error> {
    let label = |worker: &pb::Worker| [("worker", worker_id(worker))];
    let processes = workers.iter().map(|w| (label(w), w.processes));
    families.gauges("worker_processes", "Live processes of the worker", processes)?;
    let step = workers.iter().filter_map(|w| Some((label(w), w.checkpoint.as_ref()?.step)));
    families.gauges("worker_checkpoint_step", "Step of the newest complete checkpoint", step)?;
    let age = workers.iter().filter_map(|w| Some((label(w), seconds(w.checkpoint_age_ms?))));
    families.gauges("worker_checkpoint_age_seconds", "Time since it was found complete", age)
}

/// The agent's own use of memory and processor.
fn itself(families: &mut Families<'_>) -> Result<(), Error> {
    let stat = procfs::process::Process::myself().and_then(|me| me.stat());
    let Ok(stat) = stat else { return Ok(()) };
    let resident = stat.rss.saturating_mul(procfs::page_size());
    families.gauge("resident_memory_bytes", "Memory of the agent", resident)?;
    let ticks = stat.utime.saturating_add(stat.stime);
    let cpu = seconds(ticks.saturating_mul(1_000))
        / seconds(procfs::ticks_per_second().saturating_mul(1_000));
    families.counter("cpu_seconds", "Processor time of the agent", cpu)?;
    let uptime = clock::now().0;
    families.gauge("host_uptime_seconds", "Time since the machine was started", seconds(uptime))
}

/// Seconds, exact up to 285,000 years of milliseconds.
#[expect(clippy::cast_precision_loss, reason = "2^53 ms are longer than any machine runs")]
pub(super) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

/// Writes families; one without any series is left out.
pub(super) struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    pub(super) fn gauge(
        &mut self,
        name: &str,
        help: &str,
        value: impl EncodeGaugeValue + Copy,
    ) -> Result<(), Error> {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    pub(super) fn counter(
        &mut self,
        name: &str,
        help: &str,
        value: impl EncodeCounterValue + Copy,
    ) -> Result<(), Error> {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    pub(super) fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, V)>,
    ) -> Result<(), Error> {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            encoder.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    pub(super) fn counters<L: EncodeLabelSet, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, V)>,
    ) -> Result<(), Error> {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in series {
            encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }
}
