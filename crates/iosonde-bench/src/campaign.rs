//! The share of time that a campaign spends outside I/O, its space per point, and the cost of
//! `campaign status` and `campaign report` while it runs.
//!
//! On a simulated device a point takes almost no time, so the elapsed time is the campaign's own.
//! On a file the points take the requested time, and the rest is the campaign's own.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use crate::measure::ask;
use crate::numbers::spread;
use crate::{BenchError, doing};
use iosonde_stats::ratio::{Ratio, median};

/// What to run, and where.
#[derive(Args)]
pub(crate) struct CampaignArgs {
    /// The iosonde to measure
    #[arg(long, env = "IOSONDE", default_value = "target/release/iosonde")]
    iosonde: PathBuf,
    /// Directory for the file and the results
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Points of the campaign on the simulated device; a tenth of them is run too
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(20..=9000))]
    points: u32,
    /// Points of the campaign on the file
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(5..=9000))]
    file_points: u32,
    /// Seconds of each point on the file
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds with `status` and `report` beside a campaign on the file, and without
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..))]
    rounds: u32,
}

/// Eight servers of 1 ms. One request at a time makes 50 requests in the simulated time of a point.
const DEVICE: &str = "servers=8,read=exp:1ms,size=64M";
const SIMULATED_S: f64 = 0.05;
/// Larger than the points need, and quick to write.
const FILE_BYTES: usize = 64 << 20;
/// Limits of the time outside I/O, percent, and of the space per point, bytes.
const MOST_PERCENT: f64 = 1.0;
const MOST_BYTES: u64 = 50_000;
/// Pause between calls of `status` and `report`: shorter than in practice.
const PAUSE: Duration = Duration::from_secs(1);

/// Result of a campaign.
struct Took {
    seconds: f64,
    points: u64,
    stored_bytes: u64,
    /// Mean of the IOPS of all points.
    iops: f64,
}

/// Runs the campaigns and prints a line for each.
pub(crate) fn campaign(args: &CampaignArgs, out: &mut impl Write) -> Result<(), BenchError> {
    fs::create_dir_all(&args.dir).map_err(doing("cannot make the directory"))?;
    let data = args.dir.join("campaign-data");
    // With content, so that the campaign need not prepare it.
    fs::write(&data, vec![1; FILE_BYTES]).map_err(doing("cannot make the file"))?;
    let mut print =
        |line: String| writeln!(out, "{line}").map_err(doing("cannot write the result"));
    let said = |good: bool| if good { "as asked" } else { "NOT met" };
    for points in [args.points / 10, args.points] {
        let took = measured(args, DEVICE, points, SIMULATED_S, false)?;
        let each_ms = took.seconds * 1e3 / took.points as f64;
        let bytes = took.stored_bytes / took.points;
        print(format!(
            "simulated device, {} points: {each_ms:.2} ms per point, {bytes} B stored per point \
             (limit: {MOST_BYTES} B, {}); points of 1 s: {:.2} % outside I/O",
            took.points,
            said(bytes <= MOST_BYTES),
            each_ms / 10.0,
        ))?;
    }
    let target = data.to_string_lossy().into_owned();
    let took = measured(args, &target, args.file_points, args.seconds, false)?;
    let outside_s = took.seconds - took.points as f64 * args.seconds;
    let percent = outside_s / took.seconds * 100.0;
    let bytes = took.stored_bytes / took.points;
    print(format!(
        "file, {} points of {} s: {:.1} ms per point outside I/O, {percent:.2} % (limit: \
         {MOST_PERCENT} %, {}), {bytes} B stored per point (limit: {MOST_BYTES} B, {})",
        took.points,
        args.seconds,
        outside_s * 1e3 / took.points as f64,
        said(percent <= MOST_PERCENT),
        said(bytes <= MOST_BYTES),
    ))?;
    if args.rounds > 0 {
        print(beside(args, &target)?)?;
    }
    fs::remove_file(&data).map_err(doing("cannot remove the file"))
}

/// Ratio of a campaign's IOPS with `status` and `report` running to those without, in turn.
fn beside(args: &CampaignArgs, target: &str) -> Result<String, BenchError> {
    let mut pairs = Vec::new();
    let points = args.file_points.min(20);
    for round in 0..args.rounds {
        let iops = |is_asked: bool| {
            measured(args, target, points, args.seconds, is_asked).map(|took| took.iops)
        };
        pairs.push(if round.is_multiple_of(2) {
            let with = iops(true)?;
            (with, iops(false)?)
        } else {
            let without = iops(false)?;
            (iops(true)?, without)
        });
    }
    let lacks =
        || BenchError::Output { program: "iosonde campaign".into(), what: "IOPS above 0".into() };
    let ratio = Ratio::in_rounds(&pairs).ok_or_else(lacks)?;
    let single: Vec<f64> = pairs.iter().map(|(with, without)| with / without).collect();
    let (low, high) = spread(&single).unwrap_or_default();
    Ok(format!(
        "status and report once a second beside it: IOPS with over without {:.4} ({}, {} rounds, \
         single ones {low:.3} to {high:.3})",
        median(&single).unwrap_or(f64::NAN),
        ratio
            .interval
            .map_or("no interval".to_owned(), |(low, high)| format!("95 %: {low:.4} to {high:.4}")),
        ratio.rounds,
    ))
}

/// Runs a campaign of `points` points; with `is_asked`, calls its status and report meanwhile.
fn measured(
    args: &CampaignArgs,
    target: &str,
    points: u32,
    seconds: f64,
    is_asked: bool,
) -> Result<Took, BenchError> {
    let output = args.dir.join("campaign");
    // Remains of an interrupted bench.
    let _ = fs::remove_dir_all(&output);
    let values: Vec<String> = (1..=points).map(|point| (4096 * point).to_string()).collect();
    let experiment = format!(
        "name = \"points\"\nquestion = \"How long does it take?\"\n[[stage]]\nname = \"points\"\n\
         repeats = 1\nseconds = {seconds}\nfixed-repeats = true\n\
         set = {{ rw = \"randread\", block-size = \"4k\" }}\n[[stage.axis]]\nname = \"span\"\n\
         values = [{}]\n",
        values.join(", "),
    );
    let engine = if target == DEVICE { "ioengine = \"sim\"\n" } else { "" };
    let [points_toml, fleet_toml] =
        ["campaign-points.toml", "campaign.toml"].map(|name| args.dir.join(name));
    let fleet = format!(
        "name = \"bench\"\n[[device]]\nname = \"a\"\npath = \"{target}\"\n{engine}\
         [[experiment]]\nname = \"{}\"\nrandseed = 1\n",
        points_toml.display(),
    );
    fs::write(&points_toml, experiment).map_err(doing("cannot write the experiment"))?;
    fs::write(&fleet_toml, fleet).map_err(doing("cannot write the campaign"))?;
    let mut command = Command::new(&args.iosonde);
    command.args(["campaign", "run"]).arg(&fleet_toml).arg("--output").arg(&output);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let start = Instant::now();
    let child = command
        .spawn()
        .map_err(|error| BenchError::NotRun { program: "iosonde campaign".into(), error })?;
    let seconds = ended(args, child, start, &output, is_asked)?;
    let (points, iops) = records(args, &output)?;
    let took = Took { seconds, points, stored_bytes: stored_bytes(&output)?, iops };
    fs::remove_dir_all(&output).map_err(doing("cannot remove the campaign"))?;
    Ok(took)
}

/// Waits for the end of a campaign. Returns the seconds since its start.
fn ended(
    args: &CampaignArgs,
    mut child: Child,
    start: Instant,
    output: &Path,
    is_asked: bool,
) -> Result<f64, BenchError> {
    let program = args.iosonde.to_string_lossy().into_owned();
    let mut asked = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(doing("cannot wait for the campaign"))? {
            break status;
        }
        if is_asked && asked.elapsed() >= PAUSE {
            for verb in ["status", "report"] {
                // Before the first record, and while the campaign ends, these may fail.
                let _ = ask(&program, &["campaign", verb, &output.to_string_lossy()]);
            }
            asked = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let seconds = start.elapsed().as_secs_f64();
    if status.success() {
        return Ok(seconds);
    }
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut said);
    }
    Err(BenchError::Failed { program, status: status.to_string(), said })
}

/// Points of a campaign and the mean of their IOPS, from the table of its only experiment.
fn records(args: &CampaignArgs, output: &Path) -> Result<(u64, f64), BenchError> {
    let lacks =
        |what: &str| BenchError::Output { program: "iosonde campaign".into(), what: what.into() };
    let folder = only(&only(&only(&output.join("devices"))?)?)?;
    let text = ask(
        &args.iosonde.to_string_lossy(),
        &["report", &folder.to_string_lossy(), "--output-format", "json"],
    )?;
    let report: Value = serde_json::from_str(&text).map_err(|_| lacks("JSON"))?;
    let table = report["data"].as_array().into_iter().flatten();
    let table = table.into_iter().find(|data| data["name"] == "trials");
    let table = table.ok_or_else(|| lacks("table of runs"))?;
    let columns = table["columns"].as_array().ok_or_else(|| lacks("columns"))?;
    let iops = columns.iter().position(|column| column == "iops_per_s");
    let iops = iops.ok_or_else(|| lacks("IOPS"))?;
    let rows = table["rows"].as_array().map_or(&[][..], Vec::as_slice);
    let sum: f64 = rows.iter().filter_map(|row| row[iops].as_f64()).sum();
    Ok((rows.len() as u64, sum / rows.len().max(1) as f64))
}

/// The only entry of a directory.
fn only(directory: &Path) -> Result<PathBuf, BenchError> {
    let mut entries = fs::read_dir(directory).map_err(doing("cannot find the results"))?;
    match entries.next() {
        Some(Ok(entry)) => Ok(entry.path()),
        _ => Err(BenchError::Output { program: "iosonde campaign".into(), what: "folder".into() }),
    }
}

/// Bytes of all files below a directory.
fn stored_bytes(directory: &Path) -> Result<u64, BenchError> {
    let mut sum = 0;
    for entry in fs::read_dir(directory).map_err(doing("cannot list the results"))? {
        let path = entry.map_err(doing("cannot list the results"))?.path();
        sum += match path.is_dir() {
            true => stored_bytes(&path)?,
            false => fs::metadata(&path).map_err(doing("cannot find a result"))?.len(),
        };
    }
    Ok(sum)
}
