//! Many results as rows for a query engine: one per result, figure, interval and finding. Each row
//! contains host, device and load, so that queries need no join.

#[cfg(feature = "parquet")]
mod parquet;

use std::fs::File;
use std::io::{self, BufWriter, Write};

use serde::Serialize;
use serde_json::{Map, Value};

use super::json::json_line;
use super::report::Datum;
use super::run_text::load::settings;
use super::series;
use iosonde_analysis::figures::{DirectionFigures, GroupFigures};
use iosonde_analysis::finding::Finding;
use iosonde_analysis::verdict::{Assessment, Verdict};
use iosonde_model::record::facts::{DeviceFacts, TargetFacts};
use iosonde_model::record::store::timestamp;
use iosonde_model::record::{HostFacts, Manifest, Run};
use iosonde_stats::quantile::Quantile;

/// Version of the tables; the meaning of a column changes only with it.
pub const FLEET_SCHEMA: &str = "iosonde.fleet/1";

/// Type of the values of a column, any of which may be missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// A count, bytes or ns: a whole number below 2^63.
    Integer,
    /// Any other number.
    Number,
    /// A time, stored as ns since 1970.
    Time,
}

/// One of the tables.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub name: &'static str,
    /// Its own columns, after those of [`IDENTITY`].
    own: &'static [Columns],
}

/// Adjacent columns with values of one type.
type Columns = (Kind, &'static [&'static str]);

/// The first columns of each row in all tables.
const IDENTITY: [Columns; 3] = [
    (Kind::Text, &["result"]),
    (Kind::Time, &["started"]),
    (Kind::Text, &["verb", "host", "device_model", "device_firmware", "device_serial"]),
];

/// The four tables.
pub const TABLES: [Form; 4] = [
    Form {
        name: "results",
        own: &[
            (Kind::Text, &["program_version", "command", "complete"]),
            (Kind::Integer, &["exit_code"]),
            (Kind::Text, &["verdict", "confidence", "target", "target_kind"]),
            (Kind::Text, &["filesystem", "device_transport"]),
            (Kind::Integer, &["device_bytes"]),
            (Kind::Text, &["kernel", "cpu_model", "virtualization"]),
        ],
    },
    Form {
        name: "metrics",
        own: &[
            (Kind::Text, &["run", "load", "role", "direction", "metric"]),
            (Kind::Number, &["value", "low", "high"]),
        ],
    },
    Form {
        name: "intervals",
        own: &[
            (Kind::Text, &["run", "load", "direction"]),
            (Kind::Integer, &["start_ns", "end_ns", "operations_count", "moved_bytes"]),
            (Kind::Integer, &["latency_p50_ns", "latency_p99_ns", "latency_max_ns"]),
        ],
    },
    Form {
        name: "findings",
        own: &[
            (Kind::Text, &["run", "load", "code", "severity", "strength"]),
            (Kind::Number, &["effect_share"]),
            (Kind::Text, &["text"]),
        ],
    },
];

impl Form {
    /// All columns, in the order of the cells of a row.
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, Kind)> {
        let all = IDENTITY.into_iter().chain(self.own.iter().copied());
        all.flat_map(|(kind, names)| names.iter().map(move |name| (*name, kind)))
    }
}

/// Length of the intervals, ns.
const WIDTH_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
pub struct FleetResult<'a> {
    pub folder: &'a str,
    /// Name of the host, if known.
    pub host: Option<&'a str>,
    /// The manifest of the folder; without it, the folder is unfinished.
    pub manifest: Option<&'a Manifest>,
    /// Facts about the host, if the folder contains them.
    pub machine: Option<&'a HostFacts>,
    /// The runs; at least one.
    pub runs: &'a [FleetRun],
    /// The verdict over all runs.
    pub verdict: &'a Verdict,
}

/// A run of a result.
#[derive(Clone, Debug)]
pub struct FleetRun {
    pub run: Run,
    /// Its cell, if it is of an experiment; otherwise empty.
    pub cell: String,
    pub assessment: Assessment,
}

/// Rows of each of the [`TABLES`].
pub type Rows = [Vec<Vec<Datum>>; TABLES.len()];

/// The rows of a result.
pub fn rows(result: FleetResult<'_>) -> Rows {
    let identity = identity(result);
    let with = |own: Vec<Datum>| identity.iter().cloned().chain(own).collect::<Vec<Datum>>();
    let per_run = |rows: fn(&FleetRun) -> Vec<Vec<Datum>>| {
        result.runs.iter().flat_map(rows).map(with).collect()
    };
    [vec![with(facts(result))], per_run(metrics), per_run(intervals), per_run(findings)]
}

fn identity(result: FleetResult<'_>) -> Vec<Datum> {
    let first = result.runs.first().map(|each| &each.run);
    let device = first.and_then(|run| run.target.device.as_ref());
    let started = result.manifest.map(|manifest| manifest.started_unix_ns);
    let of_device = |pick: fn(&DeviceFacts) -> &Option<String>| {
        text(device.and_then(|device| pick(device).as_deref()))
    };
    vec![
        result.folder.into(),
        started.or(first.map(|run| run.started_unix_ns)).into(),
        text(result.manifest.map(|manifest| manifest.verb.as_str())),
        text(result.host),
        of_device(|device| &device.model),
        of_device(|device| &device.firmware),
        of_device(|device| &device.serial),
    ]
}

/// The cells of a result's row in the table `results`.
fn facts(result: FleetResult<'_>) -> Vec<Datum> {
    let target = result.runs.first().map(|each| &each.run.target);
    let of_target = |pick: fn(&TargetFacts) -> Option<&str>| text(target.and_then(pick));
    let of_machine = |pick: fn(&HostFacts) -> &Option<String>| {
        text(result.machine.and_then(|of| pick(of).as_deref()))
    };
    let device = target.and_then(|target| target.device.as_ref());
    let manifest = result.manifest;
    vec![
        text(manifest.map(|manifest| manifest.program.as_str())),
        text(manifest.map(|manifest| manifest.command.join(" ")).as_deref()),
        if manifest.is_some_and(|manifest| manifest.complete) { "yes" } else { "no" }.into(),
        manifest.map(|manifest| u64::from(manifest.exit_code)).into(),
        result.verdict.words.as_str().into(),
        result.verdict.confidence.word().into(),
        of_target(|target| Some(&target.path)),
        of_target(|target| Some(&target.kind)),
        of_target(|target| target.filesystem.as_deref()),
        text(device.and_then(|device| device.transport.as_deref())),
        device.and_then(|device| device.bytes).into(),
        of_machine(|machine| &machine.kernel),
        of_machine(|machine| &machine.cpu_model),
        text(result.machine.map(|machine| machine.virtualization.join(", ")).as_deref()),
    ]
}

/// One row per figure; none for a run whose consistency checks failed.
fn metrics(of: &FleetRun) -> Vec<Vec<Datum>> {
    let figures = &of.assessment.figures;
    if !of.assessment.consistency.valid() {
        return Vec::new();
    }
    let mut rows = Vec::new();
    let mut add = |role: &str, direction: &str, metric: Metric| {
        let mut row = place(of);
        row.extend([role.into(), direction.into(), Datum::Text(metric.name)]);
        row.push(metric.value.into());
        row.extend(
            [metric.interval.map(|(low, _)| low), metric.interval.map(|(_, high)| high)]
                .map(Datum::from),
        );
        rows.push(row);
    };
    for group in figures.groups() {
        let role = group.name();
        let total = std::iter::once(("total", &group.total));
        for (direction, figures) in total.chain(group.directions()) {
            of_direction(figures).into_iter().for_each(|metric| add(role, direction, metric));
        }
        of_group(group).into_iter().for_each(|metric| add(role, "total", metric));
    }
    let durable = figures.durable.as_ref().and_then(|durable| durable.bytes_per_s);
    let alone = [
        ("durable_bytes_per_s", durable),
        ("cpu_per_op_ns", figures.cpu_ns_per_op),
        ("errors_count", Some(figures.errors as f64)),
    ];
    for (name, value) in alone.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        add("all", "total", Metric::alone(name, value));
    }
    rows
}

/// A figure with its 95 % interval, if it has one.
struct Metric {
    name: String,
    value: Option<f64>,
    interval: Option<(f64, f64)>,
}

impl Metric {
    fn alone(name: &str, value: f64) -> Metric {
        Metric { name: name.into(), value: Some(value), interval: None }
    }
}

fn of_group(group: &GroupFigures) -> Vec<Metric> {
    vec![
        Metric::alone("depth_asked_count", group.depth_asked as f64),
        Metric::alone("depth_seen_count", group.depth_seen),
    ]
}

fn of_direction(figures: &DirectionFigures) -> Vec<Metric> {
    let with = |name: &str, value: Option<f64>, interval: Option<(f64, f64)>| Metric {
        name: name.into(),
        value,
        interval,
    };
    let latency = &figures.latency;
    let mut metrics = vec![
        with("iops", Some(figures.iops), figures.iops_interval.and_then(Result::ok)),
        Metric::alone("bandwidth_bytes_per_s", figures.bytes_per_s),
        Metric::alone("operations_count", figures.ops as f64),
        Metric::alone("moved_bytes", figures.bytes as f64),
        with("latency_mean_ns", latency.mean_ns, latency.mean_interval_ns.ok()),
    ];
    let ends = [("latency_min_ns", latency.min_ns), ("latency_max_ns", latency.max_ns)];
    metrics.extend(ends.map(|(name, value)| with(name, value.map(|ns| ns as f64), None)));
    metrics.extend(latency.quantiles.iter().map(percentile));
    metrics.retain(|metric| metric.value.is_some());
    metrics
}

/// A percentile, named like `latency_p99_9_ns`.
fn percentile(quantile: &Quantile) -> Metric {
    let percent = format!("{:.4}", quantile.q * 100.0);
    let percent = percent.trim_end_matches('0').trim_end_matches('.').replace('.', "_");
    let interval = quantile.interval().and_then(Result::ok);
    Metric {
        name: format!("latency_p{percent}_ns"),
        value: quantile.value_ns().map(|ns| ns as f64),
        interval: interval.map(|(low, high)| (low as f64, high as f64)),
    }
}

/// One row per second and direction.
fn intervals(of: &FleetRun) -> Vec<Vec<Datum>> {
    let row = |each: series::Row<'_>| {
        let mut row = place(of);
        row.push(each.direction.into());
        let counts = [each.interval.start_ns, each.interval.end_ns, each.interval.ops];
        row.extend(counts.map(Datum::Integer));
        row.push(Datum::Integer(each.interval.bytes));
        row.extend([each.p50_ns, each.p99_ns, each.max_ns].map(Datum::from));
        row
    };
    series::rows(&of.run, WIDTH_NS).into_iter().map(row).collect()
}

fn findings(of: &FleetRun) -> Vec<Vec<Datum>> {
    let row = |finding: &Finding| {
        let mut row = place(of);
        row.extend([finding.code.into(), Datum::Text(word(&finding.severity))]);
        row.push(Datum::Text(word(&finding.strength)));
        row.extend([finding.effect.into(), finding.words.as_str().into()]);
        row
    };
    of.assessment.findings.iter().map(row).collect()
}

/// Name and load of the run.
fn place(of: &FleetRun) -> Vec<Datum> {
    let plan = &of.run.plan;
    let cell = if of.cell.is_empty() { String::new() } else { format!(" ({})", of.cell) };
    let load = format!("{}{cell}: {}", plan.title, settings(&plan.jobs));
    vec![plan.name.as_str().into(), Datum::Text(load)]
}

fn text(text: Option<&str>) -> Datum {
    text.filter(|text| !text.is_empty()).map_or(Datum::Missing, Datum::from)
}

/// Name of a variant in JSON.
fn word(variant: &impl Serialize) -> String {
    let value = serde_json::to_value(variant).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// A row as one JSON line with the name of its table; missing values are omitted.
pub fn line(form: Form, row: &[Datum]) -> String {
    let mut object = Map::new();
    object.insert("table".into(), form.name.into());
    for ((name, kind), datum) in form.columns().zip(row) {
        let value: Value = match (kind, datum) {
            (_, Datum::Missing) => continue,
            (Kind::Time, Datum::Integer(ns)) => timestamp(*ns).into(),
            (_, Datum::Integer(value)) => (*value).into(),
            (_, Datum::Number(value)) => (*value).into(),
            (_, Datum::Text(text)) => text.as_str().into(),
        };
        object.insert(name.into(), value);
    }
    json_line(FLEET_SCHEMA, &Value::Object(object))
}

/// Whether a file with this beginning is a table of results.
pub fn is_table(start: &str) -> bool {
    start.starts_with("{\"schema\":\"iosonde.fleet/") || start.starts_with("PAR1")
}

/// A table file under construction.
#[derive(Debug)]
pub enum TableFile {
    /// JSON lines.
    Ndjson(Form, BufWriter<File>),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::Columns>),
}

impl TableFile {
    /// A file of JSON lines.
    pub fn ndjson(form: Form, file: File) -> TableFile {
        TableFile::Ndjson(form, BufWriter::new(file))
    }

    /// A Parquet file.
    ///
    /// # Errors
    /// If the header cannot be written.
    #[cfg(feature = "parquet")]
    pub fn parquet(form: Form, file: File) -> io::Result<TableFile> {
        parquet::Columns::new(form, file).map(|columns| TableFile::Parquet(Box::new(columns)))
    }

    /// Appends rows with one cell per column.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn append(&mut self, rows: Vec<Vec<Datum>>) -> io::Result<()> {
        match self {
            TableFile::Ndjson(form, file) => {
                rows.iter().try_for_each(|row| file.write_all(line(*form, row).as_bytes()))
            }
            #[cfg(feature = "parquet")]
            TableFile::Parquet(columns) => columns.append(rows),
        }
    }

    /// Writes buffered rows, and syncs the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> io::Result<()> {
        let file = match self {
            TableFile::Ndjson(_, file) => file.into_inner().map_err(|error| error.into_error())?,
            #[cfg(feature = "parquet")]
            TableFile::Parquet(columns) => columns.finish()?,
        };
        file.sync_all()
    }
}
