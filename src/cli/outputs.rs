//! Result files requested by name: series, histogram log, live figures, fio's logs.
//!
//! Each file is checked for writability before the measurement. A file of the same type is
//! replaced, as fio does with its logs; any other file is kept, and the command is refused.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::exit::{About, Exit, Failure, shown, wrong};
use super::output::note;
use super::progress::Progress;
use super::words::unfit;
use iosonde_analysis::intervals;
use iosonde_model::plan::Plan;
use iosonde_model::record::Run;
use iosonde_model::record::export;
use iosonde_model::units::duration;
use iosonde_report::fio::log::{self, Kind};
use iosonde_report::json::Document;
use iosonde_report::{hlog, prometheus, series};

/// Default width of an interval, ns.
const WIDTH_NS: u64 = 1_000_000_000;
/// Width of the recorded intervals, ns; other widths are multiples of it.
const FINEST_NS: u64 = 10_000_000;

/// Files that any measurement can write.
#[derive(Args, Debug)]
pub(crate) struct FileArgs {
    /// Format of progress on stderr
    #[arg(long, value_enum, value_name = "FORM", default_value = "text", help_heading = HEADING)]
    pub(crate) progress: Form,
    /// Write the figures of every interval, with percentiles: FILE.csv, or FILE.jsonl for JSON
    /// lines
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    series: Option<PathBuf>,
    /// Write the histograms of every interval as an HdrHistogram log
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    hlog: Option<PathBuf>,
    /// Write live figures as Prometheus text at each progress interval, and the result at the end
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    prometheus: Option<PathBuf>,
    /// Interval of series and logs, ms; a multiple of 10 [default: 1000]
    #[arg(long, value_name = "MS", help_heading = HEADING)]
    log_avg_msec: Option<u64>,
}

/// fio's logs, of one run.
#[derive(Args, Debug, Default)]
pub(crate) struct LogArgs {
    /// Write fio's bandwidth log: PREFIX_bw.1.log for the first job, and so on
    #[arg(long, value_name = "PREFIX", help_heading = HEADING)]
    write_bw_log: Option<PathBuf>,
    /// Write fio's IOPS log: PREFIX_iops.1.log
    #[arg(long, value_name = "PREFIX", help_heading = HEADING)]
    write_iops_log: Option<PathBuf>,
    /// Write fio's latency log: PREFIX_lat.1.log
    #[arg(long, value_name = "PREFIX", help_heading = HEADING)]
    write_lat_log: Option<PathBuf>,
}

const HEADING: &str = "Files and progress";

/// Format of progress.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Form {
    /// For people: one changing line on a terminal, plain lines elsewhere.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
    /// None.
    None,
}

/// A file type, which recognises its own files by their beginning.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum FileKind {
    Csv,
    JsonLines,
    Hlog,
    Log(Kind),
    Prometheus,
}

impl FileKind {
    fn knows(self, start: &str) -> bool {
        match self {
            FileKind::Csv => start.starts_with("workload,direction,"),
            FileKind::JsonLines => start.starts_with(series::JSON_OPENING),
            FileKind::Hlog => start.starts_with("#[Histogram log format version"),
            FileKind::Log(_) => log::is_log(start),
            FileKind::Prometheus => start.starts_with(prometheus::OPENING),
        }
    }
}

/// The checked output files.
#[derive(Debug)]
pub(crate) struct Outputs {
    width_ns: u64,
    files: Vec<(FileKind, PathBuf)>,
    /// The file with live figures.
    prometheus: Option<PathBuf>,
}

impl Outputs {
    /// Parses the options for a command with `jobs` jobs, and checks that each file can be written.
    pub(crate) fn new(
        args: &FileArgs,
        logs: &LogArgs,
        jobs: u32,
        eta_interval_ns: u64,
    ) -> Result<Outputs, Failure> {
        if args.progress == Form::Json && eta_interval_ns == 0 {
            return Err(wrong("--progress=json has no effect with --eta-interval=0"));
        }
        let requested: [(&str, Kind, &Option<PathBuf>); 3] = [
            ("--write-bw-log", Kind::Bandwidth, &logs.write_bw_log),
            ("--write-iops-log", Kind::Iops, &logs.write_iops_log),
            ("--write-lat-log", Kind::Latency, &logs.write_lat_log),
        ];
        let mut files: Vec<(&str, FileKind, PathBuf)> = Vec::new();
        if let Some(path) = &args.series {
            files.push(("--series", series_kind(path)?, path.clone()));
        }
        if let Some(path) = &args.hlog {
            files.push(("--hlog", FileKind::Hlog, path.clone()));
        }
        for (option, kind, prefix) in requested {
            let Some(prefix) = prefix else { continue };
            if args.log_avg_msec.is_none() {
                return Err(wrong(format!(
                    "{option} needs --log-avg-msec (such as --log-avg-msec=1000): logging every \
                     single I/O, as fio does without it, would slow down the measurement"
                )));
            }
            for job in 1..=jobs {
                files.push((option, FileKind::Log(kind), log_path(prefix, kind, job)));
            }
        }
        let width_ns = width_ns(args.log_avg_msec, files.is_empty())?;
        if let Some(path) = &args.prometheus {
            files.push(("--prometheus", FileKind::Prometheus, path.clone()));
        }
        for (index, (option, kind, path)) in files.iter().enumerate() {
            let analysed = path.display();
            if files[..index].iter().any(|(_, _, other)| other == path) {
                return Err(wrong(format!("{option}: `{analysed}` is given twice")));
            }
            export::probe(path, &|start| kind.knows(start))
                .or_wrong(format!("{option}: `{analysed}`"))?;
        }
        let files = files.into_iter().map(|(_, kind, path)| (kind, path));
        let files = files.filter(|(kind, _)| *kind != FileKind::Prometheus).collect();
        Ok(Outputs { width_ns, files, prometheus: args.prometheus.clone() })
    }

    /// Records histograms as finely as the files need them.
    pub(crate) fn fit(&self, plan: &mut Plan) {
        if self.files.is_empty() || plan.interval_ns == 0 {
            return;
        }
        let histogram_ns = plan.interval_ns * u64::from(plan.intervals_per_histogram);
        let shared_ns = common_divisor(histogram_ns, self.width_ns);
        if shared_ns.is_multiple_of(plan.interval_ns) {
            let count = u32::try_from(shared_ns / plan.interval_ns);
            plan.intervals_per_histogram = count.unwrap_or(plan.intervals_per_histogram);
        }
    }

    /// The progress of the command, with live figures in the Prometheus file.
    pub(crate) fn progress(&self, verb: &'static str, interval_ns: u64, form: Form) -> Progress {
        let gauge = self.prometheus.clone().map(|path| Gauge::new(path, verb));
        Progress::new(verb, interval_ns, form, gauge)
    }

    /// Writes every file; `false` if one could not be written, which is reported.
    pub(crate) fn write(&self, document: &Document<'_>) -> bool {
        let runs: Vec<&Run> = document.cells.iter().map(|(run, _)| *run).collect();
        if !self.files.is_empty() {
            runs.iter().for_each(|run| self.warn_width(run));
        }
        let mut all = true;
        for (kind, path) in &self.files {
            all &= written(path, self.text(*kind, path, &runs));
        }
        all
    }

    /// Warns about intervals that are wider than requested, as a long run may have.
    fn warn_width(&self, run: &Run) {
        let kept_ns = intervals::common_width_ns(&intervals::all_jobs(run), self.width_ns);
        if kept_ns > self.width_ns {
            note(&format!(
                "warning: {}: intervals are {} wide, not {}: neighbours were merged to save memory",
                run.plan.name,
                duration::span(kept_ns),
                duration::span(self.width_ns)
            ));
        }
    }

    fn text(&self, kind: FileKind, path: &Path, runs: &[&Run]) -> Result<String, String> {
        match kind {
            FileKind::Csv => Ok(series::csv(runs, self.width_ns)),
            FileKind::JsonLines => Ok(series::json_lines(runs, self.width_ns)),
            FileKind::Hlog => hlog::hlog(runs, self.width_ns),
            FileKind::Prometheus => Ok(String::new()),
            FileKind::Log(kind) => {
                let run = runs.first().ok_or("there is no run")?;
                let all = log::logs(run, kind, self.width_ns);
                let end = |job: usize| format!("_{}.{job}.log", kind.word());
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let found = all.into_iter().find(|(job, _)| name.ends_with(&end(*job)));
                found.map(|(_, text)| text).ok_or("there is no such job".into())
            }
        }
    }
}

/// Writes a file; `false` if that cannot be done, which is reported.
pub(crate) fn written(path: &Path, text: Result<String, String>) -> bool {
    let written = text.and_then(|text| export::write(path, &text).map_err(|e| e.to_string()));
    if let Err(error) = &written {
        note(&format!("error: {} cannot be written: {error}", shown(path)));
    }
    written.is_ok()
}

/// `PREFIX_bw.1.log`, as fio names it.
fn log_path(prefix: &Path, kind: Kind, job: u32) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(format!("_{}.{job}.log", kind.word()));
    name.into()
}

fn series_kind(path: &Path) -> Result<FileKind, Failure> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => Ok(FileKind::Csv),
        Some("jsonl" | "ndjson") => Ok(FileKind::JsonLines),
        _ => {
            let expected = "a name ending in .csv, or in .jsonl for JSON lines";
            Err(unfit("--series", &path.to_string_lossy(), expected))
        }
    }
}

fn width_ns(requested_ms: Option<u64>, idle: bool) -> Result<u64, Failure> {
    let Some(ms) = requested_ms else { return Ok(WIDTH_NS) };
    if idle {
        return Err(wrong("--log-avg-msec has no effect without a series or a log to write"));
    }
    let finest_ms = FINEST_NS / 1_000_000;
    match ms.checked_mul(1_000_000) {
        Some(ns) if ns > 0 && ns.is_multiple_of(FINEST_NS) => Ok(ns),
        _ => {
            let near = (ms / finest_ms).clamp(1, 36_000) * finest_ms;
            Err(wrong(format!(
                "--log-avg-msec: found {ms}, expected a multiple of {finest_ms} such as {near}: \
                 data is recorded in intervals of {finest_ms} ms"
            )))
        }
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// The Prometheus file of a command: live while it runs, and marked as ended in any case.
#[derive(Debug)]
pub(super) struct Gauge {
    path: PathBuf,
    verb: &'static str,
    /// Whether a file that says `running` exists.
    live: bool,
    failed: bool,
}

impl Gauge {
    fn new(path: PathBuf, verb: &'static str) -> Gauge {
        Gauge { path, verb, live: false, failed: false }
    }

    /// Writes the progress. An unwritable file is reported once.
    pub(crate) fn live(&mut self, pace: &iosonde_report::progress::Pace) {
        if self.failed {
            return;
        }
        self.live = true;
        if let Err(error) = export::publish(&self.path, &prometheus::live(pace)) {
            self.failed = true;
            note(&format!("warning: {} cannot be written: {error}", shown(&self.path)));
        }
    }

    /// Writes the end; `false` if that could not be written, which is reported.
    pub(crate) fn end(&mut self, document: &Document<'_>) -> bool {
        self.live = false;
        written(&self.path, Ok(prometheus::ended(document)))
    }
}

impl Drop for Gauge {
    /// Marks a failed command as ended.
    fn drop(&mut self) {
        if self.live {
            let exit_code = Exit::Environment.code();
            self.end(&Document { verb: self.verb, exit_code, ..Document::default() });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn histograms_are_kept_as_finely_as_requested() {
        let outputs = |ms: u64| Outputs {
            width_ns: ms * 1_000_000,
            files: vec![(FileKind::Csv, "x.csv".into())],
            prometheus: None,
        };
        let mut plan = run_of(&[Load::default()]).plan;
        for (ms, expected) in [(1_000, 10), (5_000, 10), (500, 5), (300, 1), (1_500, 5), (100, 1)] {
            plan.intervals_per_histogram = 10;
            outputs(ms).fit(&mut plan);
            assert_eq!(plan.intervals_per_histogram, expected, "{ms} ms");
        }
        plan.intervals_per_histogram = 10;
        plan.interval_ns = 10_000_000;
        outputs(10).fit(&mut plan);
        assert_eq!(plan.intervals_per_histogram, 1);
        plan.intervals_per_histogram = 10;
        Outputs { files: Vec::new(), ..outputs(100) }.fit(&mut plan);
        assert_eq!(plan.intervals_per_histogram, 10);
    }

    #[test]
    fn a_width_is_a_multiple_of_what_is_kept() {
        assert_eq!(width_ns(None, true).unwrap(), WIDTH_NS);
        assert_eq!(width_ns(Some(500), false).unwrap(), 500_000_000);
        assert_eq!(width_ns(Some(10), false).unwrap(), 10_000_000);
        for ms in [0, 5, 255, u64::MAX] {
            assert!(width_ns(Some(ms), false).is_err(), "{ms}");
        }
        assert!(width_ns(Some(500), true).is_err());
    }

    #[test]
    fn each_kind_knows_its_own() {
        let run = run_of(&[Load::default()]);
        let second = 1_000_000_000;
        let texts = [
            (FileKind::Csv, series::csv(&[&run], second)),
            (FileKind::JsonLines, series::json_lines(&[&run], second)),
            (FileKind::Hlog, hlog::hlog(&[&run], second).unwrap()),
            (FileKind::Log(Kind::Iops), log::logs(&run, Kind::Iops, second)[0].1.clone()),
            (FileKind::Prometheus, prometheus::ended(&Document::default())),
        ];
        for (kind, _) in &texts {
            for (other, text) in &texts {
                assert_eq!(kind.knows(text), kind == other, "{kind:?} and {other:?}");
            }
        }
    }
}
