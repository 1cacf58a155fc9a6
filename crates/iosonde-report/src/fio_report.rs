//! The report of fio results: all jobs side by side. Percentiles of several jobs are never
//! averaged. They are read from the merged bins, or replaced by a bound if bins are missing.

mod figures;
mod tables;

use iosonde_analysis::foreign::{concerns, in_flight, is_group};
use iosonde_model::plan::IoKind;
use iosonde_model::record::import::{Foreign, ForeignJob, ForeignLog};
use iosonde_model::units::{bytes, count, duration};

use super::chart::Measured;
use super::report::{Block, Picture, Report, Section, Source, Warning};

/// Contents of the given files; at least one document or log.
#[derive(Clone, Debug, Default)]
pub struct FioResults {
    /// Documents with their file names.
    pub documents: Vec<(String, Foreign)>,
    pub logs: Vec<ForeignLog>,
}

/// One job of a document, with the data for its row.
pub(super) struct Row<'a> {
    /// File, job and host, as far as needed to distinguish it.
    pub name: String,
    pub foreign: &'a Foreign,
    pub job: &'a ForeignJob,
    /// Codes of the concerns about it, and whether one is severe.
    pub concerns: Vec<&'static str>,
    pub is_severe: bool,
}

impl Row<'_> {
    /// A value of the job; of low confidence if a concern is severe.
    pub(super) fn measured(&self, value: f64) -> Measured {
        if self.is_severe { Measured::LowConfidence(value) } else { Measured::Good(value) }
    }
}

pub fn fio_report(results: &FioResults) -> Report {
    let (rows, warnings) = rows(results);
    let complete = rows.iter().all(|row| row.job.error == 0);
    let mut sections = Vec::new();
    if !rows.is_empty() {
        sections.push(jobs_section(&rows));
    }
    let sweep = figures::sweep(&rows);
    if let Some((option, pictures)) = sweep {
        let blocks = pictures.into_iter().map(boxed).collect();
        sections.push(Section::new("sweep", format!("Over {option}"), blocks));
    }
    let spread = figures::distributions(&rows);
    if !spread.is_empty() {
        let mut blocks = vec![Block::Words(
            "From the bins of fio's JSON+: each is at most 1.6 % of its value wide.".into(),
        )];
        blocks.extend(spread.into_iter().map(boxed));
        sections.push(Section::new("distribution", "Latency distributions", blocks));
    }
    let course = figures::over_time(&results.logs);
    if !course.is_empty() {
        let blocks = course.into_iter().map(boxed).collect();
        sections.push(Section::new("over-time", "Over time", blocks));
    }
    let programs = programs(results);
    Report {
        conformance: None,
        title: title(results, &programs),
        source: Source {
            program: programs,
            command: Vec::new(),
            started_unix_ns: results.documents.iter().find_map(|(_, each)| each.written_unix_ns),
            complete,
            exit_code: 0,
        },
        question: "What did these jobs of fio measure, and are they consistent?".into(),
        answer: rows.iter().filter(|row| !row.job.is_sum).take(6).map(sentence).collect(),
        warnings,
        sections,
        method: method(),
        environment: environment(results),
        data: tables::data(&rows).into_iter().chain(tables::log_data(&results.logs)).collect(),
    }
}

fn boxed(picture: Picture) -> Block {
    Block::Picture(Box::new(picture))
}

fn programs(results: &FioResults) -> String {
    let mut names: Vec<&str> = results.documents.iter().map(|(_, f)| f.program.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { "fio".into() } else { names.join(", ") }
}

fn title(results: &FioResults, programs: &str) -> String {
    match results.documents.as_slice() {
        [(name, _)] => format!("Results of {programs}: {name}"),
        [] => format!("Logs of fio: {}", results.logs.len()),
        several => format!("Results of {programs}: {} files", several.len()),
    }
}

/// Every job with its name and its concerns, and all concerns as warnings.
fn rows(results: &FioResults) -> (Vec<Row<'_>>, Vec<Warning>) {
    let (mut rows, mut warnings) = (Vec::new(), Vec::new());
    let several = results.documents.len() > 1;
    for (file, foreign) in &results.documents {
        let concerns = concerns(foreign);
        let first = rows.len();
        for (index, job) in foreign.jobs.iter().enumerate() {
            let of_job = || concerns.iter().filter(|doubt| doubt.job == Some(index));
            rows.push(Row {
                name: name(file, several, foreign, index),
                foreign,
                job,
                concerns: of_job().map(|doubt| doubt.code).collect(),
                is_severe: of_job().any(|doubt| doubt.severe),
            });
        }
        for note in &foreign.notes {
            warnings.push(Warning::new("file", "", false, format!("{file}: {note}.")));
        }
        for doubt in concerns {
            let whom = match doubt.job {
                Some(index) => format!("{}: ", rows[first + index].name),
                None if several => format!("{file}: "),
                None => String::new(),
            };
            let words = format!("{whom}{}", doubt.words);
            let strength = doubt.strength.word();
            warnings.push(Warning::new(doubt.code, strength, doubt.severe, words));
        }
    }
    for log in &results.logs {
        for note in &log.notes {
            warnings.push(Warning::new("log", "", false, format!("log {}: {note}.", log.name)));
        }
    }
    if tables::has_bounds(&rows) {
        let words = "Percentiles of several jobs cannot be merged from percentiles: ≤ stands \
                     before the greatest of the jobs, which is a bound, not a percentile. fio \
                     writes what is needed with --output-format=json+.";
        warnings.push(Warning::new("bound", "", false, words));
    }
    warnings.sort_by_key(|warning| !warning.severe);
    (rows, warnings)
}

/// A unique name of a job.
fn name(file: &str, several: bool, foreign: &Foreign, index: usize) -> String {
    let job = &foreign.jobs[index];
    let mut name = if job.name.is_empty() { "(no name)".into() } else { job.name.clone() };
    if let Some(host) = job.host.as_ref().filter(|_| !job.is_sum) {
        name = format!("{name} on {host}");
    }
    let like = |other: &&ForeignJob| other.name == job.name && other.host == job.host;
    if foreign.jobs.iter().filter(like).count() > 1 {
        let number = foreign.jobs[..index].iter().filter(like).count() + 1;
        name = format!("{name} {number}");
    }
    if several { format!("{file}: {name}") } else { name }
}

fn jobs_section(rows: &[Row<'_>]) -> Section {
    let mut blocks = vec![Block::Table(tables::jobs(rows))];
    blocks.extend(figures::bars(rows).into_iter().map(boxed));
    Section::new("jobs", "What each job did", blocks)
}

/// `reader: 40,283 IOPS, 165 MB/s read; mean latency 198 µs, 7.98 in flight.`
fn sentence(row: &Row<'_>) -> String {
    let mut parts = Vec::new();
    for direction in row.job.directions.iter().filter(|each| each.way != IoKind::Sync) {
        let mut words = format!(
            "{} {} IOPS, {} MB/s",
            direction.way.word(),
            count::significant_or_whole(direction.iops),
            count::significant_or_whole(direction.bytes_per_s / 1e6),
        );
        if let Some((_, latency)) = direction.whole() {
            words.push_str(&format!(", mean latency {}", duration::latency(latency.mean_ns)));
        }
        parts.push(words);
    }
    if parts.is_empty() {
        return format!("{}: nothing was done.", row.name);
    }
    let depth = in_flight(row.foreign, row.job);
    let depth = depth.map_or(String::new(), |depth| {
        format!("; {} in flight, averaged over time", count::significant(depth.seen))
    });
    let group = if is_group(row.foreign, row.job) { " (several jobs as one)" } else { "" };
    format!("{}{group}: {}{depth}.", row.name, parts.join("; "))
}

fn method() -> Vec<String> {
    [
        "All numbers are fio's own. They were checked against each other: rates against counts and \
         times, bytes against operations and block size, samples against operations, and the \
         requests in flight by Little's law (operations per second times mean latency) against \
         iodepth and numjobs.",
        "fio's percentiles come from bins of at most 1.6 % of their value, and are of `clat` \
         unless lat_percentiles is set: from the return of the submission to completion. The mean \
         is that of `lat`, which also holds the submission.",
        "A percentile beyond which fewer than 3.7 samples are expected is not shown.",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn environment(results: &FioResults) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    for (file, foreign) in &results.documents {
        facts.push((format!("{file}: program"), foreign.program.clone()));
        if let Some(job) = foreign.jobs.iter().find(|job| !job.is_sum) {
            for option in ["ioengine", "filename", "directory", "size", "direct", "runtime"] {
                if let Some(value) = job.options.get(option) {
                    facts.push((format!("{file}: {option}"), value.clone()));
                }
            }
        }
        for (device, busy) in &foreign.devices {
            let words = format!("busy {} % of the time", count::significant(*busy));
            facts.push((format!("{file}: {device}"), words));
        }
        let moved: u64 = (foreign.jobs.iter().filter(|job| !job.is_sum))
            .flat_map(|job| &job.directions)
            .fold(0, |sum, direction| sum.saturating_add(direction.bytes));
        facts.push((format!("{file}: moved"), bytes::rough(moved)));
    }
    facts
}
