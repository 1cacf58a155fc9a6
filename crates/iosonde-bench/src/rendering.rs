//! Time to render an experiment: reading, analysing and drawing the records of many runs.
//!
//! The runs are simulated, so they take little time; their records are like those of real runs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;

use crate::measure::{ask, children_peak_bytes};
use crate::{BenchError, doing};

/// What to render, and with which binary.
#[derive(Args)]
pub(crate) struct RenderingArgs {
    /// The iosonde to measure
    #[arg(long, env = "IOSONDE", default_value = "target/release/iosonde")]
    iosonde: PathBuf,
    /// Directory for the experiments
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Number of renderings of each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// 40 cells of 30 s each, with one interval a second.
const EXPERIMENT: &str = r#"
name = "retold"
question = "How long does rendering take?"
[[stage]]
name = "sweep"
seconds = 30
repeats = REPEATS
analysis = ["knee"]
set = { rw = "randread" }
[[stage.axis]]
name = "iodepth"
powers-of-two = { from = 1, to = 128 }
[[stage.axis]]
name = "block-size"
powers-of-two = { from = "4k", to = "64k" }
[[stage.figure]]
kind = "line"
x = "iodepth"
metrics = ["iops", "p99"]
[[stage.figure]]
kind = "ccdf"
[[stage.figure]]
kind = "time-series"
[[stage.figure]]
kind = "heat"
x = "iodepth"
series = "block-size"
metrics = ["iops"]
"#;
const DEVICE: &str = "servers=8,read=exp:20ms";
/// Runs of each cell, and the limits for rendering all of them: seconds, bytes of memory.
const SIZES: [(u32, f64, Option<u64>); 2] = [(5, 2.0, None), (25, 10.0, Some(300 << 20))];
/// Maximum size of the page, bytes.
const PAGE_BYTES: u64 = 3_000_000;

/// Creates the experiments and renders them.
pub(crate) fn rendering(args: &RenderingArgs, out: &mut impl Write) -> Result<(), BenchError> {
    fs::create_dir_all(&args.dir).map_err(doing("cannot make the directory"))?;
    let program = args.iosonde.to_string_lossy().into_owned();
    for (repeats, most_s, most_bytes) in SIZES {
        let folder = made(&program, &args.dir, repeats)?;
        let page = args.dir.join("retold.html");
        let mut times: Vec<f64> = Vec::new();
        for _ in 0..args.rounds {
            let words = [
                "report",
                &folder.to_string_lossy(),
                "--output-format",
                "html",
                "--output",
                &page.to_string_lossy(),
            ]
            .map(str::to_owned);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            // On all CPUs: threads read the records in parallel.
            let start = Instant::now();
            ask(&program, &words)?;
            times.push(start.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        let bytes = fs::metadata(&page).map_err(doing("cannot find the page"))?.len();
        let runs = repeats * 40;
        let said = |good: bool| if good { "as asked" } else { "NOT met" };
        let line = format!(
            "{runs:>5} runs rendered in {median:.2} s (limit: {most_s} s, {}), page of {:.2} MB \
             (limit: 3 MB, {})",
            said(median <= most_s),
            bytes as f64 / 1e6,
            said(bytes <= PAGE_BYTES),
        );
        // The largest of all children so far belongs to the largest experiment, which runs last.
        let memory = most_bytes.and_then(|most| {
            let peak = children_peak_bytes()?;
            let mib = peak >> 20;
            Some(format!(", {mib} MiB (limit: {} MiB, {})", most >> 20, said(peak <= most)))
        });
        writeln!(out, "{line}{}", memory.unwrap_or_default())
            .map_err(doing("cannot write the result"))?;
        fs::remove_dir_all(&folder).map_err(doing("cannot remove the experiment"))?;
    }
    Ok(())
}

/// Runs the experiment and returns its folder.
fn made(program: &str, dir: &Path, repeats: u32) -> Result<PathBuf, BenchError> {
    let file = dir.join("retold.toml");
    let text = EXPERIMENT.replace("REPEATS", &repeats.to_string());
    fs::write(&file, text).map_err(doing("cannot write the experiment"))?;
    let results = dir.join(format!("retold-{repeats}"));
    // Remains of an interrupted bench.
    let _ = fs::remove_dir_all(&results);
    let words = [
        "experiment",
        "run",
        &file.to_string_lossy(),
        DEVICE,
        "--ioengine=sim",
        "--seed=1",
        "--eta-interval=0",
        "--results",
        &results.to_string_lossy(),
    ]
    .map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    ask(program, &words)?;
    let entry = fs::read_dir(&results).map_err(doing("cannot find the results"))?.next();
    match entry {
        Some(Ok(entry)) => Ok(entry.path()),
        _ => Err(BenchError::Output { program: program.into(), what: "folder".into() }),
    }
}
