//! Options for the times at which operations are sent.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::words::{number, phase, size, time, unfit};
use crate::cli::exit::{Failure, wrong};
use iosonde_model::spec::{Arrivals, Pace, Rate, Role, Think};
use iosonde_model::units::duration;

#[derive(Args, Debug)]
#[command(next_help_heading = "Pace")]
pub(super) struct PaceArgs {
    /// Open loop: this many bytes per second and job, regardless of the storage; latency counts
    /// from the due time
    #[arg(long, value_name = "SIZE", conflicts_with = "rate_iops")]
    rate: Option<String>,
    /// Open loop: this many operations per second and job
    #[arg(long, value_name = "N")]
    rate_iops: Option<String>,
    /// Distribution of due times: even (linear), or as of independent users (poisson) [default:
    /// linear]
    #[arg(long, value_enum, value_name = "DIST")]
    rate_process: Option<Process>,
    /// Open loop: due times from a file, one per line, since the start (`0.5ms`; bare: seconds)
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["rate", "rate_iops", "rate_process"]
    )]
    arrivals: Option<PathBuf>,
    /// Pause of a job after every --thinktime-blocks operations; a bare number is in µs
    #[arg(long, value_name = "TIME")]
    thinktime: Option<String>,
    /// Operations between two pauses [default: 1]
    #[arg(long, value_name = "N", requires = "thinktime")]
    thinktime_blocks: Option<u64>,
    /// A phase, such as `for=5s,rate=0`, in percent of the rate; may be repeated, and a job cycles
    /// through its phases
    #[arg(long, value_name = "for=TIME,rate=PERCENT,read=PERCENT")]
    phase: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Process {
    Linear,
    Poisson,
}

/// Largest file of due times, bytes.
const MAX_ARRIVALS_BYTES: u64 = 256 << 20;

impl PaceArgs {
    /// Adds the pace to the role.
    pub(super) fn onto(&self, role: Role) -> Result<Role, Failure> {
        let phases =
            self.phase.iter().map(|text| phase("--phase", text)).collect::<Result<_, _>>()?;
        Ok(Role { pace: self.pace()?, think: self.think()?, phases, ..role })
    }

    fn pace(&self) -> Result<Pace, Failure> {
        if let Some(path) = &self.arrivals {
            return arrivals(path).map(Pace::Recorded);
        }
        let rate = match (self.rate.as_deref(), self.rate_iops.as_deref()) {
            (Some(text), _) => Rate::Bytes(size("--rate", one_rate("--rate", text)?)? as f64),
            (None, Some(text)) => {
                let option = "--rate-iops";
                let expected = "operations per second, such as 1000 or 0.5";
                Rate::Ops(number(option, one_rate(option, text)?, expected)?)
            }
            (None, None) if self.rate_process.is_some() => {
                return Err(wrong("--rate-process has no effect without --rate or --rate-iops"));
            }
            (None, None) => return Ok(Pace::Closed),
        };
        if matches!(rate, Rate::Ops(0.0) | Rate::Bytes(0.0)) {
            let message = "found a rate of 0, expected a positive one; omit it to run as fast as \
                possible";
            return Err(wrong(message));
        }
        let arrivals = match self.rate_process {
            Some(Process::Poisson) => Arrivals::Poisson,
            Some(Process::Linear) | None => Arrivals::Constant,
        };
        Ok(Pace::Rate { rate, arrivals })
    }

    fn think(&self) -> Result<Think, Failure> {
        let Some(text) = self.thinktime.as_deref() else { return Ok(Think::default()) };
        let ns = time("--thinktime", text, 1_000)?;
        if ns == 0 {
            return Err(unfit("--thinktime", text, "a time above 0"));
        }
        match self.thinktime_blocks.unwrap_or(1) {
            0 => Err(unfit("--thinktime-blocks", "0", "at least 1")),
            every_ops => Ok(Think { ns, every_ops, ..Think::default() }),
        }
    }
}

/// Refuses separate rates for reads and writes.
fn one_rate<'a>(option: &str, text: &'a str) -> Result<&'a str, Failure> {
    if text.contains(',') {
        let expected = "one rate per job; for separate read and write rates use two roles in a \
            workload file";
        return Err(unfit(option, text, expected));
    }
    Ok(text)
}

/// Reads due times, ns; empty lines and lines that begin with # are skipped.
fn arrivals(path: &std::path::Path) -> Result<Vec<u64>, Failure> {
    let text = super::file::text_of("--arrivals", path, MAX_ARRIVALS_BYTES)?;
    let refuse = |line: usize, what: String| {
        wrong(format!("--arrivals: line {line} of `{}`: {what}", path.display()))
    };
    let mut times: Vec<u64> = Vec::new();
    for (line, word) in (1..).zip(text.lines()) {
        let word = word.trim();
        if word.is_empty() || word.starts_with('#') {
            continue;
        }
        let due_ns = duration::parse(word, 1_000_000_000)
            .map_err(|error| refuse(line, error.to_string()))?;
        if times.last().is_some_and(|before| due_ns < *before) {
            return Err(refuse(line, format!("found `{word}`, expected ascending times")));
        }
        times.push(due_ns);
    }
    if times.is_empty() {
        return Err(unfit("--arrivals", &path.to_string_lossy(), "a file with at least one time"));
    }
    Ok(times)
}
