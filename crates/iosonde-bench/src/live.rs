//! Cost of the live view: the same run on a terminal, with the view and without, in turn. The load
//! is reads of 512 bytes from a file in memory: each is a system call, about 1.5 million per
//! second. If such runs scatter by more than the limit, the view's CPU time decides. It is the same
//! at any load, so a light load shows it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::measure::{Ran, pinned};
use crate::numbers::{rate, spread};
use crate::parse::iosonde;
use crate::{BenchError, doing};
use iosonde_stats::ratio::{Ratio, median};

/// What to run, and where.
#[derive(Args)]
pub(crate) struct LiveArgs {
    /// The iosonde to measure
    #[arg(long, env = "IOSONDE", default_value = "target/release/iosonde")]
    iosonde: PathBuf,
    /// Directory for the results
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Directory in memory (tmpfs) for the file that is read
    #[arg(long, default_value = "/dev/shm")]
    memory: PathBuf,
    /// Rounds, of one run with the view and one without
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds per run
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// CPUs where the view has a core of its own
    #[arg(long, default_value = "0,1")]
    own: String,
    /// The CPU that view and job share
    #[arg(long, default_value = "0")]
    shared: String,
}

/// Larger than the cache of a core, and small enough for any machine.
const FILE_BYTES: usize = 64 << 20;

/// Largest loss of IOPS, percent: on a core of its own, on a shared core.
const LIMITS: [f64; 2] = [0.5, 1.0];

/// Requests per second of the light load: enough for a new p99 in each interval.
const LIGHT_IOPS: u32 = 2_000;

/// Measures both cases at full load, then the CPU time of the view, and prints a line for each.
pub(crate) fn live(args: &LiveArgs, out: &mut impl Write) -> Result<(), BenchError> {
    fs::create_dir_all(&args.dir).map_err(doing("cannot make the directory"))?;
    let folder =
        tempfile::tempdir_in(&args.memory).map_err(doing("cannot make a file in memory"))?;
    let data = folder.path().join("data");
    fs::write(&data, vec![1; FILE_BYTES]).map_err(doing("cannot write the file in memory"))?;
    let mut print =
        |line: String| writeln!(out, "{line}").map_err(doing("cannot write the result"));
    let cases = [("a core of its own", &args.own), ("a shared core", &args.shared)];
    for ((name, cpus), limit) in cases.into_iter().zip(LIMITS) {
        let pairs = pairs(args, |with_view| {
            run(args, &data, cpus, "", with_view).and_then(|_| iops(args))
        })?;
        let (with, without) = pairs.iter().copied().unzip::<_, _, Vec<_>, Vec<_>>();
        let ratio = Ratio::in_rounds(&pairs);
        let ratio = ratio.ok_or_else(|| BenchError::Output {
            program: "iosonde run".into(),
            what: "IOPS above 0".into(),
        })?;
        print(format!(
            "live view on {name} (CPU {cpus}): {} IOPS with, {} without, ratio {:.4} ({}, {} \
             rounds), limit: a loss of {limit} %, {}",
            rate(typical(&with)),
            rate(typical(&without)),
            ratio.median,
            ratio.interval.map_or("no interval".to_owned(), |(low, high)| format!(
                "95 %: {low:.4} to {high:.4}"
            )),
            ratio.rounds,
            verdict(ratio.interval, limit),
        ))?;
    }
    let light = format!("--rate {LIGHT_IOPS}");
    let pairs = pairs(args, |with_view| {
        let ran = run(args, &data, &args.shared, &light, with_view)?;
        Ok(ran.cpu.as_secs_f64() * 1e3 / f64::from(args.seconds))
    })?;
    let extra: Vec<f64> = pairs.iter().map(|(with, without)| with - without).collect();
    let (low, high) = spread(&extra).unwrap_or_default();
    print(format!(
        "CPU time of the view and its terminal: {:.2} ms per second ({:.2} % of a CPU; single \
         pairs {low:.2} to {high:.2} ms); limit on a shared core: {:.0} ms",
        typical(&extra),
        typical(&extra) / 10.0,
        LIMITS[1] * 10.0,
    ))
}

/// The figure of each round with the view and without, in alternating order.
fn pairs(
    args: &LiveArgs,
    mut figure: impl FnMut(bool) -> Result<f64, BenchError>,
) -> Result<Vec<(f64, f64)>, BenchError> {
    let mut pair = |round: u32| {
        if round.is_multiple_of(2) {
            let with = figure(true)?;
            return Ok((with, figure(false)?));
        }
        let without = figure(false)?;
        Ok((figure(true)?, without))
    };
    (0..args.rounds).map(&mut pair).collect()
}

/// Whether the ratio is within `limit` percent: met, not met or undecidable.
fn verdict(interval: Option<(f64, f64)>, limit: f64) -> &'static str {
    let least = 1.0 - limit / 100.0;
    match interval {
        Some((low, _)) if low >= least => "met",
        Some((_, high)) if high < least => "NOT met",
        _ => "not decidable here: the pairs scatter more",
    }
}

/// Median; NaN without values.
fn typical(values: &[f64]) -> f64 {
    median(values).unwrap_or(f64::NAN)
}

/// One run on its own terminal, with additional options.
fn run(
    args: &LiveArgs,
    data: &Path,
    cpus: &str,
    further: &str,
    with_view: bool,
) -> Result<Ran, BenchError> {
    let interval = if with_view { "1" } else { "0" };
    let line = format!(
        "'{}' run --ioengine psync --direct 0 --path '{}' --rw randread --bs 512 --runtime {} \
         {further} --eta-interval {interval} --output-format json --output '{}'",
        args.iosonde.display(),
        data.display(),
        args.seconds,
        result(args).display()
    );
    let words = ["-qec", &line, "/dev/null"].map(str::to_owned);
    pinned(cpus, Path::new("script"), &words, &args.dir, &[0])
}

/// File with the result of a run.
fn result(args: &LiveArgs) -> PathBuf {
    args.dir.join("live.json")
}

/// IOPS of the last run.
fn iops(args: &LiveArgs) -> Result<f64, BenchError> {
    let text = fs::read_to_string(result(args)).map_err(doing("cannot read the result"))?;
    let lacks = || BenchError::Output { program: "iosonde run".into(), what: "IOPS".into() };
    iosonde(&text).map(|reported| reported.iops).ok_or_else(lacks)
}
