//! Logs that jobs request, such as `write_bw_log`, in the files that fio would write.

use std::path::{Path, PathBuf};

use super::super::fio_line::FioLine;
use crate::cli::exit::{About, Failure, shown, wrong};
use crate::cli::output::note;
use crate::cli::outputs::written;
use iosonde_model::plan::Plan;
use iosonde_model::record::export;
use iosonde_model::record::run::{JobRun, Run};
use iosonde_model::spec::fio::{Asking, LogRequest};
use iosonde_model::spec::listed::MAX_LISTED;
use iosonde_report::fio::iolog;
use iosonde_report::fio::log::{self, Kind, Style};

/// Intervals are multiples of this, ms.
const FINEST_MS: u64 = 100;

/// Content of a log file.
#[derive(Clone, Copy, Debug)]
enum Of {
    Series(Kind),
    /// Bandwidth of this direction only.
    Bandwidth(&'static str),
    Histograms {
        coarseness: u32,
    },
    Operations,
}

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    of: Of,
    width_ns: u64,
    style: Style,
    /// Index of the group, and indices of its jobs.
    group: usize,
    jobs: Vec<usize>,
}

/// All logs of a command, checked for writability.
#[derive(Debug, Default)]
pub(super) struct Logs(Vec<LogFile>);

impl Logs {
    /// Log files of these groups; checks that each can be written.
    pub(super) fn new(
        askings: &[Asking],
        plans: &[&Plan],
        line: &FioLine,
    ) -> Result<Logs, Failure> {
        let mut files: Vec<LogFile> = Vec::new();
        let mut before = 0;
        for (group, (asking, plan)) in askings.iter().zip(plans).enumerate() {
            for request in &asking.logs {
                let plays = |index: &usize| plan.jobs[*index].role == request.role;
                let jobs: Vec<usize> = (0..plan.jobs.len()).filter(plays).collect();
                add(&mut files, request, group, before, &jobs);
            }
            // fio numbers the jobs of a command, not of a group.
            before += plan.jobs.len();
        }
        if line.bandwidth_log {
            for (group, plan) in plans.iter().enumerate() {
                let jobs: Vec<usize> = (0..plan.jobs.len()).collect();
                let number = if group == 0 { String::new() } else { format!(".{}", group + 1) };
                for way in ["read", "write", "trim"] {
                    let path = PathBuf::from(format!("agg-{way}_bw{number}.log"));
                    let (of, jobs) = (Of::Bandwidth(way), jobs.clone());
                    let (width_ns, style) = (500_000_000, Style::default());
                    files.push(LogFile { path, of, width_ns, style, group, jobs });
                }
            }
        }
        for (index, file) in files.iter().enumerate() {
            let about = format!("log {}", shown(&file.path));
            if files[..index].iter().any(|other| other.path == file.path) {
                return Err(wrong(format!(
                    "{about}: two jobs would write it; give them prefixes of their own"
                )));
            }
            let is_ours = match file.of {
                Of::Operations => iolog::is_iolog,
                _ => log::is_log,
            };
            export::probe(&file.path, &is_ours).or_wrong(about)?;
        }
        Ok(Logs(files))
    }

    /// Adapts the histogram intervals of a plan to the logs of its group.
    pub(super) fn fit(&self, plan: &mut Plan, group: usize) {
        let is_timed = |file: &&LogFile| !matches!(file.of, Of::Operations);
        let files = self.0.iter().filter(|file| file.group == group).filter(is_timed);
        let widths = files.map(|file| file.width_ns);
        for width_ns in widths {
            let whole_ns = plan.interval_ns * u64::from(plan.intervals_per_histogram);
            if !width_ns.is_multiple_of(whole_ns) && plan.interval_ns > 0 {
                let finest = FINEST_MS * 1_000_000 / plan.interval_ns;
                plan.intervals_per_histogram = u32::try_from(finest.max(1)).unwrap_or(1);
            }
        }
    }

    /// Writes the files of all groups that ran; `false` if one could not be written.
    pub(super) fn write(&self, runs: &[(usize, &Run)]) -> bool {
        let mut all = true;
        for file in &self.0 {
            let Some((_, run)) = runs.iter().find(|(group, _)| *group == file.group) else {
                continue;
            };
            let jobs: Vec<&JobRun> =
                file.jobs.iter().filter_map(|index| run.jobs.get(*index)).collect();
            let block = file.jobs.first().and_then(|index| run.plan.jobs.get(*index));
            let block_bytes = block.map_or(0, |job| job.block_bytes);
            let origin_ms = file.style.origin_ms(run);
            let (width_ns, style) = (file.width_ns, (file.style, origin_ms));
            let text = match file.of {
                Of::Series(kind) => log::log(&jobs, kind, width_ns, None, style),
                Of::Bandwidth(way) => log::log(&jobs, Kind::Bandwidth, width_ns, Some(way), style),
                Of::Operations => {
                    note_cut(&file.path, &jobs);
                    iolog::text(run, &file.jobs)
                }
                Of::Histograms { coarseness } => {
                    log::histograms(&jobs, width_ns, block_bytes, coarseness, origin_ms)
                }
            };
            all &= written(&file.path, Ok(text));
        }
        all
    }
}

/// Notes that a log lacks the last operations of a job.
fn note_cut(path: &Path, jobs: &[&JobRun]) {
    if jobs.iter().any(|job| iolog::is_cut(job)) {
        note(&format!(
            "note: `{}` has the first {MAX_LISTED} operations of the job: times are recorded of no \
             more",
            path.display()
        ));
    }
}

/// Adds the files of a request.
fn add(
    files: &mut Vec<LogFile>,
    request: &LogRequest,
    group: usize,
    before: usize,
    jobs: &[usize],
) {
    let LogRequest { largest, offset, since_1970, .. } = *request;
    let style = Style { largest, offset, since_1970 };
    if request.option == "write_iolog" {
        let (of, width_ns) = (Of::Operations, 0);
        for (copy, job) in jobs.iter().enumerate() {
            let number = if copy == 0 { String::new() } else { format!(".{copy}") };
            let path = PathBuf::from(format!("{}{number}", request.prefix));
            files.push(LogFile { path, of, width_ns, style, group, jobs: vec![*job] });
        }
        return;
    }
    let kinds: &[(Of, &str)] = match request.option {
        "write_bw_log" => &[(Of::Series(Kind::Bandwidth), "bw")],
        "write_iops_log" => &[(Of::Series(Kind::Iops), "iops")],
        "write_hist_log" => &[(Of::Histograms { coarseness: request.coarseness }, "clat_hist")],
        _ => &[
            (Of::Series(Kind::Latency), "lat"),
            (Of::Series(Kind::Submission), "slat"),
            (Of::Series(Kind::Completion), "clat"),
        ],
    };
    let width_ns = width_ms(request) * 1_000_000;
    let numbered: Vec<(String, Vec<usize>)> = match request.per_job {
        true => jobs.iter().map(|job| (format!(".{}", before + job + 1), vec![*job])).collect(),
        false => vec![(String::new(), jobs.to_vec())],
    };
    for (number, jobs) in numbered {
        for (of, word) in kinds {
            let path = PathBuf::from(format!("{}_{word}{number}.log", request.prefix));
            // Without a number per job, all jobs share a file.
            if let Some(file) = files.iter_mut().find(|file| file.path == path && !request.per_job)
            {
                file.jobs.extend(&jobs);
                continue;
            }
            files.push(LogFile { path, of: *of, width_ns, style, group, jobs: jobs.clone() });
        }
    }
}

/// Supported width of a log, ms; notes a difference from the requested one.
fn width_ms(request: &LogRequest) -> u64 {
    let LogRequest { place, option, .. } = request;
    let Some(ms) = request.width_ms else {
        note(&format!(
            "note: {place} {option}: means over {FINEST_MS} ms are logged, not each operation; \
             give log_avg_msec"
        ));
        return FINEST_MS;
    };
    let near = ms.next_multiple_of(FINEST_MS);
    if near != ms {
        note(&format!(
            "note: {place} {option}: means over {near} ms are logged, not over {ms}: data is \
             recorded in intervals of {FINEST_MS} ms"
        ));
    }
    near
}
