//! Options that say when a run begins to count and when it ends.

use clap::Args;

use super::words::{size, time, wrong};
use crate::cli::exit::Failure;
use crate::plan::Stop;

#[derive(Args, Debug)]
#[command(next_help_heading = "Length")]
pub(super) struct LengthArgs {
    /// Length of the measurement, warm-up not included
    #[arg(long, value_name = "TIME", default_value = "10")]
    runtime: String,
    /// Warm-up before the measurement, not counted
    #[arg(long, value_name = "TIME", default_value = "0")]
    ramp_time: String,
    /// End after this many operations per job instead of after a time
    #[arg(long, value_name = "N", conflicts_with = "runtime")]
    number_ios: Option<u64>,
    /// End after this many bytes per job instead of after a time
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["runtime", "number_ios"])]
    io_size: Option<String>,
    /// Accepted from fio: without --number-ios or --io-size it is always so
    #[arg(
        long,
        num_args = 0..=1,
        default_missing_value = "1",
        value_name = "1",
        value_parser = ["1"],
        conflicts_with_all = ["number_ios", "io_size"]
    )]
    time_based: Option<String>,
}

impl LengthArgs {
    /// When the run ends.
    pub(super) fn stop(&self) -> Result<Stop, Failure> {
        let (option, found, stop) = match (self.number_ios, self.io_size.as_deref()) {
            (Some(ops), _) => ("--number-ios", ops.to_string(), Stop::AfterOps(ops)),
            (None, Some(text)) => {
                ("--io-size", text.to_owned(), Stop::AfterBytes(size("--io-size", text)?))
            }
            (None, None) => {
                let ns = time("--runtime", &self.runtime, 1_000_000_000)?;
                ("--runtime", self.runtime.clone(), Stop::AfterNs(ns))
            }
        };
        match stop {
            Stop::AfterNs(0) | Stop::AfterOps(0) | Stop::AfterBytes(0) => {
                Err(wrong(option, &found, "a length above 0"))
            }
            stop => Ok(stop),
        }
    }

    /// Warm-up, ns.
    pub(super) fn warmup_ns(&self) -> Result<u64, Failure> {
        time("--ramp-time", &self.ramp_time, 1_000_000_000)
    }
}

/// Words of fio for what is always so here.
#[derive(Args, Debug)]
#[command(next_help_heading = "Accepted from fio: it is always so")]
pub(super) struct AlwaysArgs {
    /// Figures are those of all jobs together
    #[arg(
        long,
        num_args = 0..=1,
        default_missing_value = "1",
        value_name = "1",
        value_parser = ["1"]
    )]
    group_reporting: Option<String>,
    /// Jobs are threads
    #[arg(
        long,
        num_args = 0..=1,
        default_missing_value = "1",
        value_name = "1",
        value_parser = ["1"]
    )]
    thread: Option<String>,
}
