//! The report of one run or of a check: figures, graphs over time, distributions, and findings as
//! warnings with their strength.

mod figures;
mod overview;

use iosonde_analysis::figures::{DirectionFigures, GroupFigures};
use iosonde_analysis::finding::Severity;
use iosonde_analysis::{Assessment, Verdict, intervals};
use iosonde_model::plan::Plan;
use iosonde_model::record::facts::DeviceFacts;
use iosonde_model::record::run::{Outcome, Run, by_signal};
use iosonde_model::record::{HostFacts, Manifest, TargetFacts, WriteAudit};
use iosonde_model::units::{bytes, count, duration};
use iosonde_stats::Quantile;
use iosonde_stats::dependent::NoInterval;

use super::answer::Answer;
use super::report::{
    Block, Column, DataSet, Datum, Entry, PERCENTILE_COLUMNS, PERCENTILES, Picture, Report,
    Section, Source, Table, Trust, Warning,
};
use super::wording::capital;

/// Most findings reported as warnings.
const MOST: usize = 20;

/// Data for a report of runs.
#[derive(Clone, Copy, Debug)]
pub struct RunReport<'a> {
    /// The runs with their assessments; at least one.
    pub rows: &'a [(&'a Run, &'a Assessment)],
    /// The verdict over all runs.
    pub verdict: &'a Verdict,
    /// The manifest of the command, if known.
    pub manifest: Option<&'a Manifest>,
    pub host: Option<&'a HostFacts>,
    /// Warnings about the result folder, not its runs.
    pub warnings: &'a [String],
    /// Comparison with earlier results and with classes of storage, if any.
    pub beside: Option<&'a str>,
}

/// The report of one run or of a check.
pub fn run_report(report: RunReport<'_>) -> Report {
    let rows = report.rows;
    let verb = report.manifest.map_or("run", |manifest| manifest.verb.as_str());
    let path = rows.first().map_or("", |(run, _)| run.target.path.as_str());
    let mut sections = vec![Section::new("figures", "Figures", vec![Block::Table(table(rows))])];
    if rows.len() > 1
        && let Ok(figure) = overview::overview(rows, path)
    {
        let caption = "Acknowledged and durable bandwidth of each row, and the usual range of the \
                       nearest class of storage.";
        let (name, caption) = ("overview".into(), caption.into());
        let picture = Block::Picture(Box::new(Picture { name, caption, figure }));
        sections[0].blocks.insert(0, picture);
    }
    for (index, (run, row)) in rows.iter().enumerate() {
        let blocks = blocks(index, run, row);
        let heading = if row.title.is_empty() { "The run" } else { &row.title };
        sections.push(Section::new(format!("run-{}", index + 1), heading, blocks));
    }
    Report {
        conformance: None,
        title: format!("{verb} on {}", absolute(path, report.manifest)),
        source: Source {
            program: rows
                .first()
                .map_or(String::new(), |(run, _)| format!("iosonde {}", run.program)),
            command: report.manifest.map_or(Vec::new(), |manifest| manifest.command.clone()),
            // A simulated run uses virtual time, which begins in 1970.
            started_unix_ns: match report.manifest {
                Some(manifest) => Some(manifest.started_unix_ns),
                None => {
                    let started = rows.first().map(|(run, _)| run.started_unix_ns);
                    started.filter(|ns| *ns > 1_000_000_000)
                }
            },
            complete: is_complete(&report),
            exit_code: report.manifest.map_or(0, |manifest| manifest.exit_code),
        },
        question: match rows {
            [(run, _)] => format!("What does this load do? {}", run.plan.title),
            _ => "Is this storage healthy, and how fast is it under the loads of applications?"
                .into(),
        },
        answer: answer(report),
        warnings: warnings(report),
        sections,
        method: rows.first().map_or(Vec::new(), |(run, _)| method(&run.plan)),
        environment: environment(report),
        data: data(rows),
    }
}

/// The absolute path, if the working directory of the command is known.
fn absolute(path: &str, manifest: Option<&Manifest>) -> String {
    let directory = manifest.map_or("", |manifest| manifest.directory.as_str());
    // A simulated device has no path.
    let is_relative = !path.starts_with('/') && !path.contains('=') && !directory.is_empty();
    match path.trim_start_matches("./") {
        _ if !is_relative => path.to_owned(),
        "." => directory.to_owned(),
        below => format!("{directory}/{below}"),
    }
}

/// Whether all that was planned was measured.
fn is_complete(report: &RunReport<'_>) -> bool {
    report.rows.iter().all(|(_, row)| row.complete)
        && report.manifest.is_none_or(|manifest| manifest.complete)
}

fn answer(report: RunReport<'_>) -> Vec<String> {
    let complete = is_complete(&report);
    let first = Answer::of_runs(report.rows, complete, report.verdict, report.beside);
    let result = format!("{}.", capital(&first.result));
    let mut answer = Answer { result, ..first }.sentences();
    for (run, _) in report.rows.iter().filter(|(_, row)| !row.consistency.valid()) {
        answer.push(format!("{}: INVALID, a consistency check failed.", run.plan.title));
    }
    answer
}

fn warnings(report: RunReport<'_>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for words in report.warnings {
        warnings.push(Warning::new("", "", false, capital(words)));
    }
    for (run, row) in report.rows {
        let title = if report.rows.len() > 1 { format!("{}: ", row.title) } else { String::new() };
        match &run.outcome {
            Outcome::Complete => {}
            Outcome::Failed { error } => {
                let words = format!("{title}The run failed: {error}.");
                warnings.push(Warning::new("failed", "proven", true, words));
            }
            Outcome::Interrupted { signal } => {
                let words = format!("{title}The run was interrupted {}.", by_signal(*signal));
                warnings.push(Warning::new("partial", "proven", false, words));
            }
        }
        for identity in row.consistency.broken() {
            let severe = identity.severity == iosonde_analysis::consistency::Severity::Invalid;
            let words = format!("{title}{}", identity.words());
            warnings.push(Warning::new(identity.code, "proven", severe, words));
        }
        for finding in row.findings.iter().filter(|each| each.severity > Severity::Fact) {
            let words = format!("{title}{}", finding.words);
            warnings.push(Warning::of_finding(finding, words));
        }
    }
    warnings.sort_by_key(|warning| !warning.severe);
    warnings.truncate(MOST);
    warnings
}

/// One row per direction of each run, and of each role if a run has several.
fn table(rows: &[(&Run, &Assessment)]) -> Table {
    let words = ["run", "role", "direction"];
    let mut columns = Column::all(&words, &["IOPS", "MB/s", "depth", "mean"]);
    columns.extend(PERCENTILES.map(|(_, name)| Column::numbers(name)));
    columns.push(Column::numbers("max"));
    let mut lines = Vec::new();
    for (_, row) in rows {
        for group in row.figures.groups() {
            for (way, direction) in group.directions() {
                lines.push(line(row, group, way, direction));
            }
        }
    }
    let caption = "What was measured. Percentiles are of all requests together. Each figure has \
                   its 95 % interval within the run, or says what it lacks; n/a where there were \
                   too few requests for a percentile.";
    Table { caption: caption.into(), columns, rows: lines }
}

fn line(row: &Assessment, group: &GroupFigures, way: &str, of: &DirectionFigures) -> Vec<Entry> {
    let trust = if !row.consistency.valid() {
        Trust::Failed
    } else if row.findings.iter().any(|finding| finding.severity >= Severity::LowConfidence) {
        Trust::LowConfidence
    } else {
        Trust::Good
    };
    let rate = count::significant_or_whole;
    let mut line = vec![Entry::of(&row.title), Entry::of(group.name()), Entry::of(way)];
    let ends = of.iops_interval.map_or(String::new(), |ends| interval(ends, rate));
    line.push(Entry::new(rate(of.iops), ends, trust));
    line.push(match way {
        "sync" => Entry::of("-"),
        _ => Entry::new(rate(of.bytes_per_s / 1e6), "", trust),
    });
    let requested = format!("asked {} for all directions", group.depth_asked);
    line.push(match group.has_depth(row.figures.inline) {
        true => Entry::new(count::significant(group.depth_of(of)), requested, Trust::Good),
        false => Entry::of("inline"),
    });
    let latency = &of.latency;
    let ends = interval(latency.mean_interval_ns, duration::latency);
    line.push(Entry::latency(latency.mean_ns, ends, trust));
    let of_quantile = |q: f64| Some(quantile(latency.quantile(q)?, trust));
    line.extend(PERCENTILES.map(|(q, _)| of_quantile(q).unwrap_or(Entry::of("n/a"))));
    line.push(Entry::latency(latency.max_ns.map(|ns| ns as f64), "", trust));
    line
}

fn quantile(of: &Quantile, trust: Trust) -> Entry {
    let Some(value) = of.value_ns() else {
        let needs =
            of.needs().map_or(String::new(), |n| format!("needs {} samples", count::thousands(n)));
        return Entry::new("n/a", needs, Trust::Good);
    };
    let trust = if of.is_rough() && trust == Trust::Good { Trust::LowConfidence } else { trust };
    let ends = of.interval().map(|ends| ends.map(|(low, high)| (low as f64, high as f64)));
    let more = ends.map_or(String::new(), |ends| interval(ends, duration::latency));
    Entry::new(duration::latency(value as f64), more, trust)
}

/// `95 %: 1.2 ms to 1.4 ms`, or why there is no interval.
fn interval(ends: Result<(f64, f64), NoInterval>, words: impl Fn(f64) -> String) -> String {
    match ends {
        Ok((low, high)) => format!("95 %: {} to {}", words(low), words(high)),
        Err(reason) => format!("95 %: n/a: {reason}"),
    }
}

fn blocks(index: usize, run: &Run, row: &Assessment) -> Vec<Block> {
    let mut blocks = vec![Block::Words(run.plan.pattern.clone())];
    let notes: Vec<String> = run.plan.notes.clone();
    if !notes.is_empty() {
        blocks.push(Block::List(notes));
    }
    let pictures = figures::pictures(index, run, row);
    blocks.extend(pictures.into_iter().map(|picture| Block::Picture(Box::new(picture))));
    blocks
}

fn method(plan: &Plan) -> Vec<String> {
    let warmup = match plan.warmup_ns {
        0 => "no warm-up".to_owned(),
        ns => format!("warm-up {}, which is not measured", duration::span(ns)),
    };
    vec![
        format!("Engine {}; {warmup}.", plan.engine.kind.name()),
        "Throughput counts completions in the window. Latency runs from before submission to after \
         reaping, for whole lives only; it is kept in histograms of at most 0.4 % error, which are \
         merged and never averaged."
            .into(),
        "Each run is checked for consistency: Little's law, bytes, counts, clocks, and the \
         counters of the device. A run that fails a check has no headline."
            .into(),
    ]
}

fn environment(report: RunReport<'_>) -> Vec<(String, String)> {
    let Some((run, _)) = report.rows.first() else { return environment_of(None, report.host) };
    let mut facts = environment_of(Some(&run.target), None);
    facts.extend(present([
        ("engine", Some(run.backend.engine.clone())),
        ("engine features", Some(run.backend.features.join(", "))),
        ("clock", Some(run.backend.clock.clone())),
    ]));
    facts.extend(run.target.write_audits.iter().flat_map(WriteAudit::lines));
    facts.extend(environment_of(None, report.host));
    facts
}

/// Target and machine as names and values, as far as known.
pub fn environment_of(
    target: Option<&TargetFacts>,
    host: Option<&HostFacts>,
) -> Vec<(String, String)> {
    let of_target = target.into_iter().flat_map(|target| {
        let device = target.device.as_ref();
        let name = device.map(|device| {
            let model = device.model.as_ref().map(|model| format!(" ({model})"));
            format!("{}{}", device.name, model.unwrap_or_default())
        });
        let of_device = |fact: fn(&DeviceFacts) -> Option<String>| device.and_then(fact);
        present([
            ("target", Some(format!("{} ({})", target.path, target.kind))),
            ("device", name),
            ("firmware", of_device(|device| device.firmware.clone())),
            ("capacity", of_device(|device| device.bytes.map(bytes::exact))),
            ("scheduler", of_device(|device| device.scheduler.clone())),
            ("write cache", of_device(|device| device.write_cache.clone())),
            ("file system", target.filesystem.clone()),
            ("mounted from", target.mount_source.clone()),
            ("mount options", Some(target.mount_options.join(","))),
            ("size", target.bytes.map(bytes::exact)),
            ("access", Some(if target.direct { "direct" } else { "buffered" }.into())),
        ])
    });
    let of_host = host.into_iter().flat_map(|host| {
        present([
            ("host", host.hostname.clone()),
            ("kernel", host.kernel.clone()),
            ("system", host.os.clone()),
            ("processor", host.cpu_model.clone()),
            ("CPUs online", host.cpus_online.map(|count| count.to_string())),
            ("CPUs allowed", host.cpus_allowed.map(|count| count.to_string())),
            ("memory", host.memory_bytes.map(bytes::rough)),
            ("governor", host.governor.clone()),
            ("clock source", host.clocksource.clone()),
            ("virtualization", Some(host.virtualization.join(", "))),
        ])
    });
    of_target.chain(of_host).collect()
}

/// The known facts with their names.
fn present<const N: usize>(facts: [(&str, Option<String>); N]) -> Vec<(String, String)> {
    let known = |(name, value): (&str, Option<String>)| {
        value.filter(|text| !text.is_empty()).map(|text| (name.to_owned(), text))
    };
    facts.into_iter().filter_map(known).collect()
}

fn data(rows: &[(&Run, &Assessment)]) -> Vec<DataSet> {
    let columns = ["run", "role", "direction", "iops", "bandwidth_bytes_per_s", "operations_count"]
        .into_iter()
        .chain(["moved_bytes", "in_flight_count"])
        .chain(["latency_mean_ns", "latency_min_ns", "latency_max_ns"])
        .chain(PERCENTILE_COLUMNS);
    let mut lines = Vec::new();
    for (run, row) in rows.iter().filter(|(_, row)| row.consistency.valid()) {
        for group in row.figures.groups() {
            for (way, of) in group.directions() {
                let mut line: Vec<Datum> =
                    vec![run.plan.name.as_str().into(), group.name().into(), way.into()];
                line.extend([Some(of.iops), Some(of.bytes_per_s)].map(Datum::from));
                line.extend([Some(of.ops), Some(of.bytes)].map(Datum::from));
                line.push(Some(group.depth_of(of)).into());
                line.push(of.latency.mean_ns.into());
                line.extend([of.latency.min_ns, of.latency.max_ns].map(Datum::from));
                line.extend(PERCENTILES.map(|(q, _)| Datum::from(of.latency.at(q))));
                lines.push(line);
            }
        }
    }
    vec![DataSet::new("figures", columns, lines), series(rows)]
}

/// Operations and bytes of each interval and direction.
fn series(rows: &[(&Run, &Assessment)]) -> DataSet {
    let columns = ["run", "direction", "start_ns", "end_ns", "operations_count", "moved_bytes"];
    let mut lines = Vec::new();
    for (run, _) in rows {
        let jobs = intervals::all_jobs(run);
        let width_ns = intervals::counter_width_ns(&jobs, figures::STEP_NS);
        for of in intervals::DIRECTIONS {
            let all = intervals::rates(&jobs, &[of], run.measured_ns, width_ns);
            if all.iter().all(|interval| interval.ops == 0) {
                continue;
            }
            lines.extend(all.iter().map(|interval| {
                let mut line: Vec<Datum> = vec![run.plan.name.as_str().into(), of.0.into()];
                let numbers = [interval.start_ns, interval.end_ns, interval.ops, interval.bytes];
                line.extend(numbers.map(Datum::Integer));
                line
            }));
        }
    }
    DataSet::new("series", columns, lines)
}
