//! `iosonde verify fsync`: tests whether fsync is honoured, as far as this machine permits.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use crate::cli::consent::ConsentArgs;
use crate::cli::exit::{Exit, Failure, wrong};
use crate::cli::keep::{self, Keeper};
use crate::cli::output::{Output, OutputFormat, note};
use crate::cli::outputs::Form;
use crate::cli::place::{self, Place};
use crate::cli::progress::Progress;
use crate::cli::screen;
use crate::cli::words::{size, time};
use crate::schedule::ladder::ladder;
use iosonde_analysis::Ladder;
use iosonde_engine::engine::Medium;
use iosonde_engine::engine::waits::Wait;
use iosonde_engine::host::Root;
use iosonde_engine::target::gate::Report;
use iosonde_engine::target::{Direct, Held, Intent, open};
use iosonde_model::plan::ladder::{FEWEST_ROUNDS, LEVELS, LadderPlan, SMALLEST_BYTES, USUAL_BYTES};
use iosonde_model::record::LadderRun;
use iosonde_model::record::TargetFacts;
use iosonde_model::record::facts::FilesystemClass;
use iosonde_model::record::run::Outcome;
use iosonde_model::units::bytes;
use iosonde_report::{ladder_header, ladder_json, ladder_text};

/// Test whether fsync is honoured, by a series of tests; each states only what it can show.
///
///   F1  do flushes reach the block device? Counted by the kernel around every fsync, on each
///       device below the file system; conclusive if the device has a volatile cache.
///   F2  does a flush take longer, the more was written before it? If not, the cache is protected,
///       or the flush is ignored; this test cannot distinguish the two.
///   F3  replay of logged writes, and F4, power cuts, are not run by this command, which
///       prints what they need.
///
/// PATH is a directory, in which an unnamed file is created and removed afterwards; or an existing
/// file or block device, whose first bytes are overwritten with consent. The power is not cut: the
/// result describes what the calls did, not which data would survive.
///
/// Exit code 7 if no test could be run, 1 if a call failed: a failed fsync is not retried.
///
/// Examples:
///   iosonde verify fsync /mnt/data
///   iosonde verify fsync /mnt/data --samples 100 --output-format json
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct FsyncArgs {
    /// Directory, file or block device
    path: PathBuf,
    /// Rounds, each with one sync of every type
    #[arg(long, value_name = "N", default_value = "20",
          value_parser = clap::value_parser!(u32).range(i64::from(FEWEST_ROUNDS)..=100_000))]
    samples: u32,
    /// Bytes used, from the start of the target; levels that need more are left out [default: 128M,
    /// or less if the target or the free space is smaller]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// 1: direct I/O, or fail; 0: buffered I/O, whose write-back is then part of every fsync
    /// [default: direct if possible]
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1))]
    direct: Option<u8>,
    /// Seed of order, offsets and data, for exact reproduction
    #[arg(long, visible_alias = "randseed", value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    consent: ConsentArgs,
    /// Print what would be done, and do nothing
    #[arg(long, help_heading = "Run and result")]
    dry_run: bool,
    /// Format of the result on stdout
    #[arg(long, help_heading = "Run and result", default_value = "normal",
          value_parser = OutputFormat::text_or_json())]
    output_format: OutputFormat,
    /// Time between progress lines; 0 for none
    #[arg(long, help_heading = "Run and result", value_name = "TIME", default_value = "5")]
    eta_interval: String,
    /// Directory under which the results are stored [default: the user's state directory]
    #[arg(long, help_heading = "Run and result", value_name = "DIR")]
    results: Option<PathBuf>,
}

/// Runs `verify fsync`.
pub(in crate::cli) fn fsync(args: &FsyncArgs, words: &[String]) -> Result<Exit, Failure> {
    args.output_format.supports("verify fsync")?;
    let eta_interval_ns = time("--eta-interval", &args.eta_interval)?;
    let requested_bytes = requested_bytes(args)?;
    args.consent.check_kinds()?;
    let place = Place::find()?;
    let opening = Wait::begin("opening", args.path.to_string_lossy());
    let held = if args.path.is_dir() {
        made(args, &place.root, requested_bytes)?
    } else {
        found(args, &place.root)?
    };
    let plan = plan(args, &place.root, &held, requested_bytes)?;
    drop(opening);
    let output = Output::new(args.output_format);
    if args.dry_run {
        return dry_run(args, &place.root, &plan, output);
    }
    if let Some(reason) = &held.direct_refused {
        note(&format!("warning: {reason}; writes go through the page cache"));
    }
    let medium = Medium::Files(vec![Arc::clone(&held.file)]);
    let mut keeper = Keeper::open(args.results.as_deref(), "verify-fsync", words);
    keeper.keep_undo(&held.undo)?;
    let context = place.context(Some(held), medium);
    keeper.keep("host.json", &place.host);
    let mut progress = Progress::new("verify", eta_interval_ns, Form::Text, None);
    progress.begin(0, 1, "fsync tests", 0);
    let run = ladder(&plan, &context, &mut |moved| progress.moved(moved))?;
    progress.clear();
    Ok(conclude(&run, output, keeper))
}

/// Prints and stores the result; returns the exit code.
fn conclude(run: &LadderRun, mut output: Output, mut keeper: Keeper) -> Exit {
    let analysed = iosonde_analysis::ladder(run);
    let exit = end_of(run, &analysed);
    output.text(&ladder_text(run, &analysed, screen::columns()));
    output.value(&ladder_json(run, &analysed, exit.code()));
    let exit = output.end(exit);
    keeper.keep_cell("01-fsync.json", run);
    let complete = run.outcome == Outcome::Complete;
    keeper.finish(complete, exit.code(), &analysed.words());
    exit
}

/// Exit code for the result of the tests.
pub(in crate::cli) fn end_of(run: &LadderRun, analysed: &Ladder) -> Exit {
    match &run.outcome {
        Outcome::Failed { .. } => Exit::Environment,
        Outcome::Interrupted { signal } => Exit::Signal(*signal),
        Outcome::Complete if analysed.states() => Exit::Done,
        Outcome::Complete => Exit::Inconclusive,
    }
}

fn requested_bytes(args: &FsyncArgs) -> Result<Option<u64>, Failure> {
    let Some(text) = &args.size else { return Ok(None) };
    let size = size("--size", text)?;
    if size < SMALLEST_BYTES {
        return Err(wrong(format!(
            "--size: found {}, expected at least {}; 16 MiB for a statement on latency",
            bytes::exact(size),
            bytes::exact(SMALLEST_BYTES)
        )));
    }
    Ok(Some(size))
}

fn direct(args: &FsyncArgs) -> Direct {
    match args.direct {
        None => Direct::Preferred,
        Some(0) => Direct::Never,
        Some(_) => Direct::Demanded,
    }
}

/// Creates an unnamed file in a directory, if it is on storage.
fn made(args: &FsyncArgs, root: &Root, requested_bytes: Option<u64>) -> Result<Held, Failure> {
    args.consent.none("an unnamed file contains no data of others")?;
    refuse_memory(&args.path, &open::describe_directory(root, &args.path)?)?;
    let (free_bytes, total_bytes) = open::space(&args.path)?;
    let fits = |size| open::fits(&args.path, size, free_bytes, total_bytes);
    let size_bytes = match requested_bytes {
        Some(size) => size,
        // The default size if it fits, otherwise the largest level that does.
        None => {
            let sizes = std::iter::once(USUAL_BYTES).chain(LEVELS.into_iter().rev());
            let mut sizes = sizes.filter(|size| *size >= SMALLEST_BYTES);
            sizes.find(|size| fits(*size).is_ok()).unwrap_or(SMALLEST_BYTES)
        }
    };
    fits(size_bytes)?;
    let make = if args.dry_run { open::rehearsed } else { open::unnamed };
    Ok(make(&args.path, size_bytes, direct(args))?)
}

/// Opens an existing file or device.
fn found(args: &FsyncArgs, root: &Root) -> Result<Held, Failure> {
    let intent = args.consent.intent(&args.path, true, args.results.as_deref(), args.dry_run);
    // Inspected before anything is opened for writing.
    let looked = open::existing(&args.path, &Intent::default(), Direct::Never)?;
    let facts = looked.describe(root);
    drop(looked);
    refuse_memory(&args.path, &facts)?;
    let held = open::existing(&args.path, &intent, direct(args))?;
    place::print_link(&held);
    args.consent.were_needed(std::slice::from_ref(&held), args.dry_run)?;
    Ok(held)
}

/// Refuses what is not storage: memory loses everything with the power, whatever fsync does.
fn refuse_memory(path: &Path, facts: &TargetFacts) -> Result<(), Failure> {
    let on = facts.filesystem.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
    let reason = match facts.class {
        FilesystemClass::Memory => "it is in memory, so nothing is ever durable",
        FilesystemClass::Virtual => "it cannot contain files",
        _ if matches!(facts.kind.as_str(), "character device" | "null") => "it stores nothing",
        _ => return Ok(()),
    };
    let message = format!("`{}`{on} is not storage: {reason}", path.display());
    let hint = "give a directory on the storage to measure";
    Err(Failure::new(Exit::Refused, message).hinting(hint))
}

fn plan(
    args: &FsyncArgs,
    root: &Root,
    held: &Held,
    requested_bytes: Option<u64>,
) -> Result<LadderPlan, Failure> {
    let span_bytes = requested_bytes.unwrap_or(USUAL_BYTES.min(held.bytes));
    let path = held.path.to_string_lossy();
    if span_bytes > held.bytes {
        let (requested, has) = (bytes::exact(span_bytes), bytes::exact(held.bytes));
        return Err(wrong(format!("--size: found {requested}, but `{path}` has {has}")));
    }
    let align_bytes = held.align_bytes(&held.describe(root));
    let span_bytes = span_bytes / align_bytes * align_bytes;
    if span_bytes < SMALLEST_BYTES {
        return Err(wrong(format!(
            "`{path}` has {}, expected at least {}; give a directory to test with an unnamed file",
            bytes::exact(held.bytes),
            bytes::exact(SMALLEST_BYTES)
        )));
    }
    let seed = args.seed.unwrap_or_else(place::fresh_seed);
    let plan = LadderPlan::new(&path, seed, args.samples, span_bytes);
    Ok(if held.direct { plan.directly(align_bytes) } else { plan })
}

/// Prints the plan and, for a device, why it would be refused; writes nothing.
fn dry_run(
    args: &FsyncArgs,
    root: &Root,
    plan: &LadderPlan,
    mut output: Output,
) -> Result<Exit, Failure> {
    let absolute = std::path::absolute(&args.path).ok();
    let refused = if absolute.is_some_and(|path| root.node(path).is_some()) {
        let results = keep::directory(args.results.as_deref());
        let how = args.consent.inspection();
        let report = Report::of(root, &args.path, results.as_deref(), how)?;
        report.objection(args.consent.of_devices()).map(|objection| objection.to_string())
    } else {
        None
    };
    let write_bytes = plan.write_bytes();
    output.value(&json!({ "plan": plan, "write_bytes": write_bytes, "refused": refused }));
    output.text(&ladder_header(plan));
    let levels: Vec<String> = plan.levels.iter().map(|level| bytes::exact(*level)).collect();
    output.text(&format!("  flushes after {}\n", levels.join(", ")));
    if let Some(reason) = &refused {
        output.text(&format!("  refused: {reason}\n"));
    }
    Ok(output.end(if refused.is_some() { Exit::Refused } else { Exit::Done }))
}
