//! Options for the start of the measurement and the end of the run.

use clap::Args;

use super::words::{size, time, unfit};
use crate::cli::exit::{About, Failure, wrong};
use iosonde_model::plan::{Precision, Stop};

/// Default for the largest number of rounds.
const MOST_ROUNDS: u64 = 25;

#[derive(Args, Debug)]
#[command(next_help_heading = "Length")]
pub(super) struct LengthArgs {
    /// Length of the measurement, without warm-up; with --until the maximum [default: 10, with
    /// --until 10m]
    #[arg(long, value_name = "TIME")]
    runtime: Option<String>,
    /// End as soon as a figure has this precision, such as 'p99+-3%' or 'read.iops+-1%': half its
    /// 95 % interval, at two consecutive checks. Exit code 7 if --runtime or --io-size ends the run
    /// first
    #[arg(long, value_name = "RULE", conflicts_with_all = ["number_ios", "latency_target"])]
    until: Option<String>,
    /// Continue in rounds of this length until the IOPS of 5 consecutive rounds are steady (range
    /// at most 20 % and slope at most 10 % of their mean); at most --runtime [default: 25 rounds].
    /// Exit code 3 if they are not. Without a TIME, rounds last 60 s
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "60",
        conflicts_with_all = ["number_ios", "io_size", "until", "latency_target"]
    )]
    steady: Option<String>,
    /// Warm-up before the measurement, not counted; figures begin later where the rate was not yet
    /// steady, which the report says
    #[arg(long, value_name = "TIME", default_value = "0")]
    ramp_time: String,
    /// End after this many operations per job instead of after a time
    #[arg(long, value_name = "N", conflicts_with = "runtime")]
    number_ios: Option<u64>,
    /// End after this many bytes per job instead of after a time; with --until, the maximum
    #[arg(long, value_name = "SIZE", conflicts_with = "number_ios")]
    io_size: Option<String>,
    /// Accepted from fio: always on without --number-ios or --io-size
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_name = "1")]
    #[arg(value_parser = ["1"], conflicts_with_all = ["number_ios", "io_size"])]
    time_based: Option<String>,
}

impl LengthArgs {
    /// End condition of the run.
    pub(super) fn stop(&self) -> Result<Stop, Failure> {
        let (option, found, stop) = match (self.number_ios, self.io_size.as_deref()) {
            (Some(ops), _) => ("--number-ios", ops.to_string(), Stop::AfterOps(ops)),
            (None, Some(_)) if self.until.is_none() && self.runtime.is_some() => {
                let message = "--io-size and --runtime are two lengths; give one of them \
                               (both are limits with --until)";
                return Err(wrong(message));
            }
            (None, Some(text)) => {
                let bytes = size("--io-size", text)?;
                let stop = match self.until {
                    Some(_) if bytes > 0 => Stop::AfterNsOrBytes(self.most_ns()?, bytes),
                    _ => Stop::AfterBytes(bytes),
                };
                ("--io-size", text.to_owned(), stop)
            }
            (None, None) => {
                ("--runtime", self.longest().to_owned(), Stop::AfterNs(self.most_ns()?))
            }
        };
        match stop {
            Stop::AfterNs(0) | Stop::AfterOps(0) | Stop::AfterBytes(0) => {
                Err(unfit(option, &found, "a length above 0"))
            }
            stop => Ok(stop),
        }
    }

    fn longest(&self) -> &str {
        let usual = if self.until.is_some() { "10m" } else { "10" };
        self.runtime.as_deref().unwrap_or(usual)
    }

    /// Longest measurement, ns.
    fn most_ns(&self) -> Result<u64, Failure> {
        if let (None, Some(round_ns)) = (&self.runtime, self.steady_round_ns()?) {
            return Ok(round_ns.saturating_mul(MOST_ROUNDS));
        }
        time("--runtime", self.longest(), 1_000_000_000)
    }

    /// Length of a round with --steady, ns.
    pub(super) fn steady_round_ns(&self) -> Result<Option<u64>, Failure> {
        let Some(text) = self.steady.as_deref() else { return Ok(None) };
        match time("--steady", text, 1_000_000_000)? {
            0 => Err(unfit("--steady", text, "a length above 0")),
            round_ns => Ok(Some(round_ns)),
        }
    }

    /// Requested precision.
    pub(super) fn until(&self) -> Result<Option<Precision>, Failure> {
        let Some(text) = self.until.as_deref() else { return Ok(None) };
        let parsed = Precision::parse(text).or_wrong(format!("--until '{text}'"))?;
        Ok(Some(parsed))
    }

    /// Warm-up, ns.
    pub(super) fn warmup_ns(&self) -> Result<u64, Failure> {
        time("--ramp-time", &self.ramp_time, 1_000_000_000)
    }
}

/// Words of fio for what is always so here.
#[derive(Args, Debug)]
#[command(next_help_heading = "Accepted from fio: always on")]
pub(super) struct AlwaysArgs {
    /// Figures are those of all jobs together
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_name = "1")]
    #[arg(value_parser = ["1"])]
    group_reporting: Option<String>,
    /// Jobs are threads
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_name = "1")]
    #[arg(value_parser = ["1"])]
    thread: Option<String>,
}
