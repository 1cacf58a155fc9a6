//! `iosonde compare`: compares two sets of runs, or a profile and its replay.

mod fidelity;
mod page;
mod peers;
mod sides;
mod turns;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::exit::{About, Exit, Failure, no_effect, shown, wrong};
use super::intact::AcceptArgs;
use super::output::{Output, OutputFormat, note};
use super::place;
use super::recorded::runs::{Meaning, meaning};
use super::results;
use super::screen;
use super::words::unfit;
use iosonde_analysis::comparison::contrast::TOLERANCE;
use iosonde_analysis::comparison::gate::metric;
use iosonde_analysis::comparison::{
    Comparison, Gate, Incomparable, Kind, Outcome, Request, Side, compare as compare_sides,
};
use iosonde_report::clean::clean;
use iosonde_report::{comparison_json, comparison_text};

/// Compare two sets of runs statistically, or a replay with the recorded program.
///
/// A and B are result folders, records in them, baselines, or directories that contain several of
/// these (as given to --results). Each run gives one value per metric; at least five runs per side,
/// or six rounds of --run (more for many metrics), are needed, ten are better. The verdict is
/// faster or slower, different but below the tolerance, the same within it, or inconclusive with
/// the numbers of missing runs. Runs of different engines, versions, targets or plans are refused
/// unless --allow names the difference. --run measures now: both command lines alternate, in new
/// processes.
///
/// --peers takes results of many devices, at least ten of a model, and names the outliers, at a
/// false discovery rate of 5 % over the groups of devices.
///
/// If A is the result of `iosonde profile`, B is a replay (preferably a profile of it), and each
/// dimension of the load gets a score: 1 is identical. --speed and --figures apply to this.
///
/// Exit codes: 0 compared, and every gate passed; 2 the two cannot be compared; 3 a gate failed;
/// 6 no run is valid, or files were altered; 7 a gate is unknown.
///
/// Examples:
///   iosonde compare before/ after/
///   iosonde compare before/ after/ --gate 'iops>-5%' --gate 'p99<+10%'
///   iosonde compare --run 'iosonde run --path a.img --rw randread --iodepth 1'
///                   --run 'iosonde run --path a.img --rw randread --iodepth 2'
///   iosonde compare --save-baseline good.json before/
///   iosonde compare good.json after/ --gate 'iops>-5%'
///   iosonde compare --peers fleet/ --tolerance 10%
///   iosonde compare RESULTS/20261121T100000Z-profile-1 RESULTS/20261121T100500Z-profile-2
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompareArgs {
    /// A and B, or PROFILE and REPLAY; with --save-baseline the runs to store
    #[arg(value_name = "A B", conflicts_with_all = ["a", "b", "run"])]
    #[arg(value_parser = results::parser())]
    paths: Vec<PathBuf>,
    /// Runs of side A, if there are several paths
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "b")]
    #[arg(value_parser = results::parser())]
    a: Vec<PathBuf>,
    /// Runs of side B
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "a")]
    #[arg(value_parser = results::parser())]
    b: Vec<PathBuf>,
    /// A command line to measure now; given twice, for A and for B
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["a", "b"])]
    run: Vec<String>,
    /// Number of rounds of --run [default: 10]
    #[arg(long, value_name = "N", requires = "run",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Directory under which the runs of --run are stored [default: the user's state directory]
    #[arg(long, value_name = "DIR", requires = "run")]
    results: Option<PathBuf>,
    /// Differences of less than this do not matter [default: 5%]
    #[arg(long, value_name = "SHARE%")]
    tolerance: Option<String>,
    /// Metrics to compare, such as iops,read.p99,cpu; fewer metrics need fewer runs
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    metrics: Vec<String>,
    /// A limit on the change from A to B, such as 'iops>-5%' or 'p99<+10%'; may be repeated
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    gate: Vec<String>,
    /// Kinds of facts that may differ
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    allow: Vec<Allowed>,
    /// Compare each device with its peers: the devices of the same model under the same load in all
    /// results under these paths
    #[arg(long, value_name = "PATH", num_args = 1.., value_parser = results::parser())]
    #[arg(conflicts_with_all = ["paths", "a", "b", "run"])]
    peers: Vec<PathBuf>,
    /// Store the given runs as a baseline in this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["a", "b", "run"])]
    save_baseline: Option<PathBuf>,
    /// Seed of the order of --run and of all resampling
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Speed of the replay: recorded times are divided by it, or ignored with max
    /// [default: 1x]
    #[arg(long, value_name = "N(x)|max")]
    speed: Option<String>,
    /// Folder for charts of both side by side (SVG); needs a profile of the replay
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    #[command(flatten)]
    accept: AcceptArgs,
    /// Write the comparison as a page to this file, such as compare.html
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Format of the result on stdout
    #[arg(long, value_parser = OutputFormat::text_or_json(), default_value = "normal")]
    output_format: OutputFormat,
}

/// Facts that may differ.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Allowed {
    /// The I/O engine
    Engine,
    /// The version of this program
    Version,
    /// Type, model, serial number, size of the target; direct or buffered
    Target,
    /// Block size, depth, mix, length and all other settings of the load
    Plan,
    /// The machine
    Host,
}

impl Allowed {
    fn kind(self) -> Kind {
        match self {
            Allowed::Engine => Kind::Engine,
            Allowed::Version => Kind::Version,
            Allowed::Target => Kind::Target,
            Allowed::Plan => Kind::Plan,
            Allowed::Host => Kind::Host,
        }
    }
}

/// Default seed of resampling: the same records give the same figures.
const USUAL_SEED: u64 = 1;

pub(super) fn compare(args: &CompareArgs, words: &[String]) -> Result<Exit, Failure> {
    args.output_format.supports("compare")?;
    if let Some(file) = &args.save_baseline {
        return sides::save_baseline(args, file);
    }
    if !args.peers.is_empty() {
        return peers::compare(args);
    }
    if !args.run.is_empty() {
        no_replay(args)?;
        let why = "--run: two command lines may differ in anything";
        no_effect(&[("--allow", !args.allow.is_empty())], why)?;
        return turns::compare(args, words);
    }
    // Checked here: the parser cannot express a requirement that conflicts with A and B.
    let given = [("--rounds", args.rounds.is_some()), ("--results", args.results.is_some())];
    no_effect(&given, "existing runs: it applies to --run")?;
    let requested_comparison = request_text(args, USUAL_SEED)?;
    let (a, b) = match (args.paths.as_slice(), args.a.as_slice()) {
        ([], [_, ..]) => (args.a.as_slice(), args.b.as_slice()),
        ([a, b], _) => {
            if meaning(a) == Meaning::Profile {
                no_runs(args)?;
                return fidelity::compare(args, a, b);
            }
            (std::slice::from_ref(a), std::slice::from_ref(b))
        }
        (paths, _) => {
            let found = paths.len();
            let hint = "iosonde compare -h\nseveral per side: --a PATH… --b PATH…\nmeasured now: \
                        --run COMMAND --run COMMAND";
            return Err(wrong(format!(
                "expected two results, A and B or PROFILE and REPLAY, found {found}"
            ))
            .hinting(hint));
        }
    };
    no_replay(args)?;
    if let Some(shared) = sides::shared(a, b) {
        let hint = "expected different runs: a result does not differ from itself";
        return Err(wrong(format!("{} is part of both A and B", shown(shared))).hinting(hint));
    }
    let (a, altered_a) = sides::read("A", a, args.accept)?;
    let (b, altered_b) = sides::read("B", b, args.accept)?;
    let mut analysed = contrasted(&a, &b, &requested_comparison)?;
    let altered = [altered_a, altered_b].into_iter().filter(|lines| !lines.is_empty());
    analysed.warnings.splice(0..0, altered.map(|lines| format!("ALTERED: {}", lines.join(" "))));
    Ok(print(args, &analysed, Exit::Done))
}

/// Compares two sides; the failure says why they cannot be compared.
fn contrasted(a: &Side, b: &Side, requested: &Request) -> Result<Comparison, Failure> {
    compare_sides(a, b, requested).map_err(|error| {
        let exit = match &error {
            Incomparable::NothingLeft { why, .. } if why.contains("INVALID") => Exit::Invalid,
            Incomparable::NothingLeft { .. } => Exit::Inconclusive,
            Incomparable::Different(_) | Incomparable::NoCommonCell { .. } => Exit::Usage,
        };
        // The message contains foreign names, of devices and cells.
        let message = error.to_string();
        Failure::new(exit, message.lines().map(clean).collect::<Vec<_>>().join("\n"))
    })
}

/// Prints the result; `exit` is the outcome of the measurement.
fn print(args: &CompareArgs, analysed: &Comparison, exit: Exit) -> Exit {
    let exit = analysed.gates.iter().fold(exit, |exit, gated| {
        exit.or_graver(match gated.outcome {
            Outcome::Passed { .. } => Exit::Done,
            Outcome::Failed { .. } => Exit::Missed,
            Outcome::Unknown { .. } => Exit::Inconclusive,
        })
    });
    let mut output = Output::new(args.output_format);
    output.text(&comparison_text(analysed, screen::columns()));
    output.value(&comparison_json(analysed, exit.code()));
    let written = |path| super::page::write(path, page::report(analysed, exit));
    output.end(exit.or_graver(args.page.as_deref().map_or(Exit::Done, written)))
}

fn request_text(args: &CompareArgs, seed: u64) -> Result<Request, Failure> {
    let gates = args.gate.iter().map(|text| Gate::parse(text));
    let gates = gates.collect::<Result<_, _>>().or_wrong("--gate")?;
    let mut metrics = Vec::new();
    for word in &args.metrics {
        let (front, name) = metric(word.trim()).or_wrong("--metrics")?;
        if let Some(front) = front {
            let message = format!("--metrics: found `{front}` before the metric, expected read.");
            return Err(wrong(format!("{message}, write. or nothing")));
        }
        if !metrics.contains(&name) {
            metrics.push(name);
        }
    }
    Ok(Request {
        tolerance: args.tolerance.as_deref().map_or(Ok(TOLERANCE), tolerance)?,
        seed: args.seed.unwrap_or(seed),
        allow: args.allow.iter().map(|each| each.kind()).collect(),
        metrics,
        gates,
        in_rounds: false,
        now_unix_ns: iosonde_sys::clock::realtime_ns(),
    })
}

fn tolerance(text: &str) -> Result<f64, Failure> {
    let share = text.trim().strip_suffix('%').and_then(|share| share.trim().parse::<f64>().ok());
    let share = share.filter(|share| (0.1..=100.0).contains(share));
    let expected = "0.1% to 100%, such as 5%";
    share.map(|share| share / 100.0).ok_or_else(|| unfit("--tolerance", text, expected))
}

/// Refuses options of a replay in a comparison of runs.
fn no_replay(args: &CompareArgs) -> Result<(), Failure> {
    let given = [("--speed", args.speed.is_some()), ("--figures", args.figures.is_some())];
    no_effect(&given, "a comparison of runs: it applies to a profile and its replay")
}

/// Refuses options of runs in a comparison with a replay.
fn no_runs(args: &CompareArgs) -> Result<(), Failure> {
    let why = "a profile and its replay: it applies to a comparison of runs";
    no_effect(&of_runs(args), why)?;
    no_effect(&[("--page", args.page.is_some())], why)
}

/// The options for comparing runs, and whether each was given.
fn of_runs(args: &CompareArgs) -> [(&'static str, bool); 5] {
    [
        ("--gate", !args.gate.is_empty()),
        ("--metrics", !args.metrics.is_empty()),
        ("--allow", !args.allow.is_empty()),
        ("--tolerance", args.tolerance.is_some()),
        ("--seed", args.seed.is_some()),
    ]
}
