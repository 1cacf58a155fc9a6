//! What the live view costs: the same run on a terminal, with the view and without, in turn. The
//! load is reads of 512 bytes from a file in memory: every request is a system call, and about 1.5
//! million fit into a second.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::measure::pinned;
use crate::numbers::{rate, spread};
use crate::parse::iosonde;
use crate::{BenchError, doing};

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

/// Measures both cases and prints a line for each.
pub(crate) fn live(args: &LiveArgs, out: &mut impl Write) -> Result<(), BenchError> {
    fs::create_dir_all(&args.dir).map_err(doing("cannot make the directory"))?;
    let folder =
        tempfile::tempdir_in(&args.memory).map_err(doing("cannot make a file in memory"))?;
    let data = folder.path().join("data");
    fs::write(&data, vec![1; FILE_BYTES]).map_err(doing("cannot write the file in memory"))?;
    let cases = [("a core of its own", &args.own), ("a shared core", &args.shared)];
    for ((name, cpus), limit) in cases.into_iter().zip(LIMITS) {
        let (mut ratios, mut plain) = (Vec::new(), Vec::new());
        for round in 0..args.rounds {
            let order = if round % 2 == 0 { [true, false] } else { [false, true] };
            let mut iops = [0.0; 2];
            for with_view in order {
                iops[usize::from(with_view)] = run(args, &data, cpus, with_view)?;
            }
            plain.push(iops[0]);
            ratios.push(iops[1] / iops[0]);
        }
        let (low, high) = spread(&ratios).unwrap_or_default();
        let median = median(&mut ratios);
        let loss = (1.0 - median) * 100.0;
        let verdict = if loss <= limit { "as asked" } else { "NOT met" };
        writeln!(
            out,
            "live view on {name} (CPU {cpus}): with / without {median:.4} ({low:.4} to {high:.4}, \
             {} rounds, {} IOPS without), loss {loss:.2} % (limit: {limit} %, {verdict})",
            args.rounds,
            rate(median_of(&plain)),
        )
        .map_err(doing("cannot write the result"))?;
    }
    Ok(())
}

fn median_of(values: &[f64]) -> f64 {
    median(&mut values.to_vec())
}

/// The median of at least one number.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// IOPS of one run on a terminal of its own.
fn run(args: &LiveArgs, data: &Path, cpus: &str, with_view: bool) -> Result<f64, BenchError> {
    let file = args.dir.join("live.json");
    let interval = if with_view { "1" } else { "0" };
    let line = format!(
        "'{}' run --ioengine psync --direct 0 --path '{}' --rw randread --bs 512 --runtime {} \
         --eta-interval {interval} --output-format json --output '{}'",
        args.iosonde.display(),
        data.display(),
        args.seconds,
        file.display()
    );
    let words = ["-qec", &line, "/dev/null"].map(str::to_owned);
    pinned(cpus, Path::new("script"), &words, &args.dir, &[0])?;
    let text = fs::read_to_string(&file).map_err(doing("cannot read the result"))?;
    let lacks = || BenchError::Output { program: "iosonde run".into(), what: "IOPS".into() };
    iosonde(&text).map(|reported| reported.iops).ok_or_else(lacks)
}
