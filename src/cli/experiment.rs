//! `iosonde experiment`: designed experiments, built in or the user's own.

mod dry_run;
mod execution;
pub(crate) mod folder;
mod load;
mod points;
mod print;
mod quick;
mod resolved_target;
mod resume;

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Subcommand};
use serde_json::json;

use super::consent::ConsentArgs;
use super::exit::{Exit, Failure, wrong};
use super::hosts::{Command, HostsArgs};
use super::intact::AcceptArgs;
use super::output::{Output, OutputFormat, has_png};
use super::place::fresh_seed;
use super::results;
pub(crate) use folder::study;
pub(crate) use load::own_texts;
pub(super) use points::points;
pub(crate) use print::{documents, end_of};

use iosonde_model::spec::catalogue;
use iosonde_report::clean::clean;

/// Find the knee, the crossover, the tail: designed experiments, built in or from a file.
///
/// An experiment answers a question about a target: it runs its cells in random order with repeats
/// and reports the results with intervals, charts and text. Everything is stored in one folder:
/// each run, the order, tables, charts and a report for a browser.
///
/// Examples:
///   iosonde experiment list
///   iosonde experiment run queue-depth .
///   iosonde experiment run study . --quick
///   iosonde experiment run mine.toml /dev/nvme0n1 --dry-run
///   iosonde experiment resume RESULTS/20261121T100000Z-experiment-12f439e4.partial
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct ExperimentArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the built-in experiments
    List(ListArgs),
    /// Print the file of an experiment, as a starting point for a new one
    Show(ShowArgs),
    Run(Box<RunArgs>),
    Resume(ResumeArgs),
}

#[derive(Args, Debug)]
struct ListArgs {
    /// Format of the result on stdout
    #[arg(long, value_parser = OutputFormat::text_or_json(), default_value = "normal")]
    output_format: OutputFormat,
}

#[derive(Args, Debug)]
struct ShowArgs {
    /// Name of a built-in experiment, or a file
    name: String,
    /// Format of the result on stdout
    #[arg(long, value_parser = OutputFormat::text_or_json(), default_value = "normal")]
    output_format: OutputFormat,
}

/// Run an experiment.
///
/// TARGET is a directory (an unnamed test file is created in it and removed afterwards), a file or
/// a block device. A file that contains anything except zeros or data written by this program, and
/// any block device, is only read, and cells with writes are skipped, unless a consent option names
/// it.
#[derive(Args, Debug)]
struct RunArgs {
    /// Name of a built-in experiment, or a file (NAME.toml)
    name: String,
    /// Directory, file or block device; device spec with --ioengine sim
    #[arg(default_value = ".")]
    target: PathBuf,
    /// Size of the test file, or of the used part of the target [default: that of the experiment,
    /// or a tenth of the free space, 256M to 1G; for a file or device all of it]
    #[arg(long)]
    size: Option<String>,
    /// Quick estimate: short runs, few repeats
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    changes: quick::ChangeArgs,
    /// Data sheet whose claims are checked (TOML)
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// I/O engine [default: io_uring]
    #[arg(long, value_name = "NAME")]
    ioengine: Option<String>,
    /// Use the page cache (buffered I/O)
    #[arg(long)]
    buffered: bool,
    /// Begin no run once this many bytes were written, preparation included
    #[arg(long, value_name = "SIZE")]
    max_written: Option<String>,
    /// Rated endurance of the drive, bytes written, for the wear in --dry-run (such as 600TB)
    #[arg(long, value_name = "SIZE")]
    rated_endurance: Option<String>,
    /// Begin no run at or above this device temperature, °C, until it is 5 °C cooler
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u32).range(20..=120))]
    max_temperature: Option<u32>,
    /// Folder of an earlier experiment on this target: skip the purge or preconditioning that it
    /// did, if measurements on the target confirm it; the decision is in the report
    #[arg(long, value_name = "FOLDER", value_parser = results::parser())]
    prepared_by: Option<PathBuf>,
    #[command(flatten)]
    consent: ConsentArgs,
    /// Seed of the order of the runs, of offsets and data
    #[arg(long, visible_alias = "seed", value_name = "N", help_heading = "Run and result")]
    randseed: Option<u64>,
    /// Seed of the order of the runs alone [default: one drawn from --randseed]
    #[arg(long, value_name = "N", help_heading = "Run and result")]
    order_seed: Option<u64>,
    /// Print what would be run, how long it takes and how much it writes, and do nothing
    #[arg(long, help_heading = "Run and result")]
    dry_run: bool,
    /// Directory under which the results are stored [default: the user's state directory]
    #[arg(long, value_name = "DIR", help_heading = "Run and result")]
    results: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Run and result")]
    common: CommonArgs,
    #[command(flatten)]
    hosts: HostsArgs,
}

/// Resume an interrupted experiment: missing runs are completed in their original random order.
///
/// What the experiment was allowed to write must be allowed again: without the same consent, or
/// with another engine, nothing is done.
#[derive(Args, Debug)]
struct ResumeArgs {
    /// Its folder, whose name ends in .partial, or which is incomplete
    #[arg(value_parser = results::parser())]
    folder: PathBuf,
    /// Begin no run once this many bytes were written in all, instead of the limit of the first
    /// command
    #[arg(long, value_name = "SIZE")]
    max_written: Option<String>,
    #[command(flatten)]
    accept: AcceptArgs,
    #[command(flatten)]
    consent: ConsentArgs,
    #[command(flatten, next_help_heading = "Run and result")]
    common: CommonArgs,
}

/// Options shared by `run` and `resume`.
#[derive(Args, Debug)]
struct CommonArgs {
    /// Format of the result on stdout
    #[arg(long, value_parser = OutputFormat::text_or_json(), default_value = "normal")]
    output_format: OutputFormat,
    /// Time between progress lines; 0 for none
    #[arg(long, value_name = "TIME", default_value = "5")]
    eta_interval: String,
    /// Write charts as PNG too, in addition to SVG
    #[arg(long)]
    png: bool,
    /// End in order when the process that started this one ends: for campaigns
    #[arg(long, hide = true)]
    end_with_parent: bool,
}

impl ExperimentArgs {
    /// The command for many hosts, if supported.
    pub(super) fn on_hosts(&self) -> Option<Command<'_>> {
        let What::Run(args) = &self.what else { return None };
        // Every host runs the cells in the same order, but with its own offsets.
        let has_order = args.order_seed.or(args.randseed).is_some();
        let order = (!has_order).then(|| format!("--order-seed={}", fresh_seed()));
        Some(Command {
            same: order.into_iter().collect(),
            results: args.results.as_deref(),
            ..Command::new("experiment", &args.hosts, args.common.output_format)
        })
    }

    /// Whether the command ends with its parent process.
    pub(super) fn ends_with_parent(&self) -> bool {
        self.common().is_some_and(|common| common.end_with_parent)
    }

    fn common(&self) -> Option<&CommonArgs> {
        match &self.what {
            What::Run(args) => Some(&args.common),
            What::Resume(args) => Some(&args.common),
            What::List(_) | What::Show(_) => None,
        }
    }
}

/// Replaces clap's error where the name of an experiment was given instead of a command.
pub(super) fn explained(error: &clap::Error) -> Option<Failure> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let is_here = error.render().to_string().contains("iosonde experiment");
    let hint = format!(
        "iosonde experiment run {word} runs an experiment; iosonde experiment list names those \
         built in"
    );
    is_here.then(|| Failure::usage(error).hinting(hint))
}

pub(super) fn experiment(args: &ExperimentArgs, words: &[String]) -> Result<Exit, Failure> {
    if args.common().is_some_and(|common| common.png) {
        has_png()?;
    }
    match &args.what {
        What::List(args) => list(args),
        What::Show(args) => show(args),
        What::Run(args) => execution::run(args, words),
        What::Resume(args) => resume::resume(args, words),
    }
}

fn list(args: &ListArgs) -> Result<Exit, Failure> {
    args.output_format.supports("experiment list")?;
    let mut output = Output::new(args.output_format);
    let mut all = Vec::new();
    let experiments = catalogue::experiments().map_err(wrong)?;
    let widest = experiments.iter().map(|experiment| experiment.name.len()).max().unwrap_or(0);
    for experiment in experiments {
        let whole = load::flattened(&experiment)?;
        let cells = load::cells_known(&whole);
        output.text(&format!("{:widest$}  {}\n", experiment.name, experiment.question));
        all.push(json!({
            "name": experiment.name,
            "question": experiment.question,
            "about": experiment.about,
            "stages": whole.stages.iter().map(|stage| &stage.name).collect::<Vec<_>>(),
            "cells_known": cells,
        }));
    }
    output.value(&json!({ "experiments": all }));
    Ok(output.end(Exit::Done))
}

fn show(args: &ShowArgs) -> Result<Exit, Failure> {
    args.output_format.supports("experiment show")?;
    let mut output = Output::new(args.output_format);
    let (text, whole) = load::load_whole(&args.name)?;
    // A user's file may contain anything.
    output.file(&text.lines().map(|line| format!("{}\n", clean(line))).collect::<String>());
    output.value(&json!({ "experiment": whole }));
    Ok(output.end(Exit::Done))
}
