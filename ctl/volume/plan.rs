//! `sluice volume plan`: whether a volume can be so, how long loads from it take, and what to set.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use sluice::queues::{Quantity, QuantityError};
use sluice_core::volume::plan::{Ask, Forecast, Plan, plan};
use sluice_core::volume::{Finding, MIB_BYTES, Mib, Severity};

use super::{manifest, parse_bytes};
use crate::args::{Global, parse_span};
use crate::failure::Failure;
use crate::output::{self, Document, Format};
use crate::paint::{bad, dim, warn};
use crate::table::Sheet;
use crate::text::{bytes, count, safe, span};

/// Bytes of one GiB: disks are sold in whole ones.
const GIB_BYTES: u64 = 1 << 30;

/// Says whether a volume can be so, how long loads from it take, and what to set.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
What cannot be is refused with the nearest that can (exit status 64). Without --throughput the plan shows what Google
gives by default, and what to set instead.

Examples:
  sluice volume plan --size 300Gi --readers 16 --bytes 140Gi
  sluice volume plan --size 300Gi --readers 16 --bytes 140Gi --machine a3-ultragpu-8g --streams 8
  sluice volume plan --size 300Gi --readers 16 --bytes 140Gi --throughput 2400Mi --load-within 5m
  sluice volume plan --size 300Gi --readers 16 --bytes 140Gi --manifest | kubectl apply -f -")]
pub(crate) struct PlanArgs {
    /// Size of the volume, such as 300Gi; rounded up to whole GiB.
    #[arg(long = "size", value_name = "SIZE", value_parser = parse_bytes)]
    size_bytes: u64,
    /// Machines that load from it at the same time.
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
    readers: u64,
    /// What each of them loads, such as 140Gi. Without it: the whole volume.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    bytes: Option<u64>,
    /// Type of the disk.
    #[arg(long = "type", value_name = "TYPE", default_value = "hyperdisk-ml")]
    disk: String,
    /// Machine type of the readers, such as a3-highgpu-8g, or its family.
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Throughput to provision, as a quantity of bytes: 2400Mi is 2,400 MiB/s. Without it: Google's default.
    #[arg(long, value_name = "QUANTITY")]
    throughput: Option<String>,
    /// What one machine moves, where you know it better than the table: 4000Mi.
    #[arg(long, value_name = "QUANTITY")]
    node_limit: Option<String>,
    /// Read-ahead that will be set, in KiB. Without it: the one advised.
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u64).range(4..=1_048_576))]
    read_ahead_kib: Option<u64>,
    /// Threads of one machine that read different places at the same time.
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=4_096))]
    streams: u64,
    /// Advise only so much throughput that a load takes at most so long, such as 5m.
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    load_within: Option<Duration>,
    /// Rows that go before the built-in limits.
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    /// Print only the StorageClass.
    #[arg(long, conflicts_with = "output")]
    manifest: bool,
    /// How to print it.
    #[arg(long, short, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

/// Runs `sluice volume plan`.
///
/// # Errors
/// The plan is not legal, or a quantity is none.
pub(super) fn run(global: &Global, args: &PlanArgs) -> Result<(), Failure> {
    let limits = super::table(args.limits.as_ref())?;
    let (ask, remarks) = ask(args)?;
    let mut plan = plan(&limits, &ask).map_err(|findings| refused(&remarks, &findings))?;
    plan.findings.splice(0..0, remarks);
    if args.manifest {
        return output::write_stdout(manifest::manifest(&ask, &plan).as_bytes());
    }
    let view = PlanView::of(&ask, &plan);
    if let Some(text) = output::encode(args.output, &Document::new("VolumePlan", &view))? {
        return output::write_stdout(text.as_bytes());
    }
    output::print(global.color, &render(&ask, &plan))
}

/// What core is asked, and what there is to say about how it was written.
pub(super) fn ask(args: &PlanArgs) -> Result<(Ask, Vec<Finding>), Failure> {
    let mut remarks = Vec::new();
    let throughput = match &args.throughput {
        Some(text) => Some(throughput("--throughput", text, &mut remarks)?),
        None => None,
    };
    let node_limit = match &args.node_limit {
        Some(text) => Some(throughput_of("--node-limit", text)?),
        None => None,
    };
    let within_ms = args.load_within.map(|s| u64::try_from(s.as_millis()).unwrap_or(u64::MAX));
    let ask = Ask {
        disk: args.disk.clone(),
        size_gib: args.size_bytes.div_ceil(GIB_BYTES),
        readers: args.readers,
        load_bytes: args.bytes.unwrap_or(args.size_bytes),
        throughput,
        machine: args.machine.clone(),
        node_limit,
        read_ahead_kib: args.read_ahead_kib,
        streams: args.streams,
        load_within_ms: within_ms,
    };
    Ok((ask, remarks))
}

/// As the driver reads `provisioned-throughput-on-create`: a quantity of bytes, rounded up to MiB.
fn throughput(flag: &str, text: &str, remarks: &mut Vec<Finding>) -> Result<Mib, Failure> {
    let mib = throughput_of(flag, text)?;
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        remarks.push(Finding::VolumeThroughputUnit { text: text.to_owned(), mib });
    }
    Ok(mib)
}

fn throughput_of(flag: &str, text: &str) -> Result<Mib, Failure> {
    let amount = Quantity::parse(text).and_then(|quantity| quantity.count(1));
    let amount = amount.map_err(|error: QuantityError| {
        Failure::usage(format!("{flag} is \"{}\" but {error}", safe(text)))
            .hint("2400Mi is 2,400 MiB a second")
    })?;
    let mib = u64::try_from(amount.value).unwrap_or(0).div_ceil(MIB_BYTES);
    if mib == 0 {
        let message = format!("{flag} is \"{}\" but must be above 0", safe(text));
        return Err(Failure::usage(message).hint("2400Mi is 2,400 MiB a second"));
    }
    Ok(Mib(mib))
}

fn refused(remarks: &[Finding], findings: &[Finding]) -> Failure {
    let all = remarks.iter().chain(findings);
    let lines: Vec<String> = all
        .map(|f| format!("{} ({}); {}", safe(&f.to_string()), f.code(), safe(&f.hint())))
        .collect();
    Failure::usage(lines.join("\n        "))
}

/// A finding as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct FindingView {
    code: &'static str,
    severity: &'static str,
    message: String,
    hint: String,
}

#[derive(Debug, Serialize)]
struct ForecastView {
    throughput_mib_per_second: u64,
    read_ahead_kib: u64,
    share_bytes_per_second: u64,
    reader_bytes_per_second: u64,
    load_ms: u64,
    limited_by: &'static str,
    full_speed_readers: u64,
    staggered_mean_ms: u64,
}

#[derive(Debug, Serialize)]
struct PlanView {
    #[serde(rename = "type")]
    disk: String,
    size_gib: u64,
    readers: u64,
    load_bytes: u64,
    throughput_min_mib_per_second: u64,
    throughput_max_mib_per_second: u64,
    throughput_default_mib_per_second: Option<u64>,
    machines_max: Option<u64>,
    iops: Option<u64>,
    node_limit_mib_per_second: u64,
    node_limit_assumed: bool,
    node_limit_source: String,
    node_volumes_max: Option<u64>,
    asked: Option<ForecastView>,
    untuned: Option<ForecastView>,
    advised: ForecastView,
    findings: Vec<FindingView>,
    manifest: String,
}

impl ForecastView {
    fn of(forecast: &Forecast) -> Self {
        Self {
            throughput_mib_per_second: forecast.throughput.0,
            read_ahead_kib: forecast.read_ahead_kib,
            share_bytes_per_second: forecast.share_bytes_per_second,
            reader_bytes_per_second: forecast.reader_bytes_per_second,
            load_ms: forecast.load_ms,
            limited_by: forecast.binding.as_str(),
            full_speed_readers: forecast.full_speed_readers,
            staggered_mean_ms: forecast.staggered_mean_ms,
        }
    }
}

impl PlanView {
    fn of(ask: &Ask, plan: &Plan) -> Self {
        let finding = |finding: &Finding| FindingView {
            code: finding.code(),
            severity: finding.severity().as_str(),
            message: finding.to_string(),
            hint: finding.hint(),
        };
        Self {
            disk: ask.disk.clone(),
            size_gib: ask.size_gib,
            readers: ask.readers,
            load_bytes: ask.load_bytes,
            throughput_min_mib_per_second: plan.throughput_min.0,
            throughput_max_mib_per_second: plan.throughput_max.0,
            throughput_default_mib_per_second: plan.throughput_default.map(|mib| mib.0),
            machines_max: plan.machines_max,
            iops: plan.iops,
            node_limit_mib_per_second: plan.node.throughput.0,
            node_limit_assumed: plan.node.is_assumed,
            node_limit_source: plan.node.source.clone(),
            node_volumes_max: plan.node.volumes_max,
            asked: plan.asked.as_ref().map(ForecastView::of),
            untuned: plan.untuned.as_ref().map(ForecastView::of),
            advised: ForecastView::of(&plan.advised),
            findings: plan.findings.iter().map(finding).collect(),
            manifest: manifest::manifest(ask, plan),
        }
    }
}

pub(super) fn render(ask: &Ask, plan: &Plan) -> String {
    let mut sheet = Sheet::new();
    let machine = ask.machine.as_deref().unwrap_or("a machine not named");
    sheet.field("Volume", format!("{}, {} GiB", safe(&ask.disk), ask.size_gib));
    let readers = count(usize::try_from(ask.readers).unwrap_or(usize::MAX), "reader");
    sheet.field("Load", format!("{readers} x {}", bytes(ask.load_bytes)));
    let default =
        plan.throughput_default.map_or_else(String::new, |d| format!("; {d} if nothing is set"));
    sheet.field(
        "Throughput",
        format!("{} to {}{default}", plan.throughput_min, plan.throughput_max),
    );
    let attach = plan.machines_max.map_or("unknown".to_owned(), |max| format!("at most {max}"));
    sheet.field("Machines", attach);
    let volumes = plan.node.volumes_max.map_or_else(String::new, |max| format!(", {max} volumes"));
    sheet.field("One machine", format!("{}{volumes}: {}", plan.node.throughput, safe(machine)));
    sheet.field("Known from", safe(&plan.node.source));
    let mut rows = Vec::new();
    let asked = if ask.throughput.is_some() { "as asked" } else { "nothing set" };
    let kernel = format!("{asked}, kernel's read-ahead");
    rows.extend(plan.untuned.as_ref().map(|forecast| row(&kernel, forecast)));
    rows.extend(plan.asked.as_ref().map(|forecast| row(asked, forecast)));
    rows.push(row("advised", &plan.advised));
    let titles =
        ["", "PROVISIONED", "READ-AHEAD", "EACH READER", "LOAD", "LIMITED BY", "STAGGERED"];
    sheet.section("All readers at the same time").table(&titles, &rows);
    sheet.lines(&dim(
        "STAGGERED: readers served at full speed at once, and the mean time until one is done",
    ));
    if !plan.findings.is_empty() {
        sheet.section("To know");
        for finding in &plan.findings {
            sheet.lines(&finding_line(finding));
        }
    }
    sheet.section("To set").lines(&manifest::manifest(ask, plan));
    sheet.finish()
}

fn row(name: &str, forecast: &Forecast) -> Vec<String> {
    vec![
        name.to_owned(),
        forecast.throughput.to_string(),
        format!("{} KiB", forecast.read_ahead_kib),
        format!("{}/s", bytes(forecast.reader_bytes_per_second)),
        span(forecast.load_ms),
        forecast.binding.as_str().to_owned(),
        format!("{} at once, {}", forecast.full_speed_readers, span(forecast.staggered_mean_ms)),
    ]
}

fn finding_line(finding: &Finding) -> String {
    let severity = match finding.severity() {
        Severity::Note => finding.severity().as_str().to_owned(),
        Severity::Warning => warn(finding.severity().as_str()),
        Severity::Error => bad(finding.severity().as_str()),
    };
    let hint = finding.hint();
    let hint = if hint.is_empty() { hint } else { format!("; {hint}") };
    format!("{severity}: {}{} ({})", safe(&finding.to_string()), safe(&hint), finding.code())
}
