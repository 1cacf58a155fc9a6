//! `iosonde run`: what does exactly this load do?

mod asked;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use asked::{Asked, understand};
use clap::Args;
use serde_json::json;

use super::check::{end_of, end_of_expectation};
use super::exit::{Exit, Failure};
use super::keep::Keeper;
use super::output::{Output, OutputFormat, note};
use super::place::{self, Place};
use super::progress::Progress;
use crate::analysis::expectation::judge_all;
use crate::analysis::verdict::{assess, verdict};
use crate::backend::sim::Model;
use crate::engine::{Control, Medium};
use crate::plan::{self, Engine, EngineKind, OnError, Plan, Setting, Stop, Target, resolve};
use crate::record::run::{Outcome, Run};
use crate::report::json::Document;
use crate::report::{expectations_text, run_text, verdict_text};
use crate::schedule::{Bench, Event, carry_out};
use crate::spec::{Access, Role, Threads, Workload, catalogue};
use crate::target::{Held, Intent, open};
use crate::units::bytes;

/// What does exactly this load do? In fio's words; all jobs are alike.
///
/// The target is a file, a directory (an unnamed file of --size is laid out in it and is gone
/// afterwards), or a block device, which is opened for reading only. A file that holds anything but
/// zeros or what this program wrote is not written unless --overwrite-file names it.
///
/// Examples:
///   iosonde run --path . --size 1g --rw randread --bs 4k --iodepth 32
///   iosonde run --path disk.img --rw randrw --rwmixread 70 --numjobs 4 --runtime 30
///   iosonde run --path /dev/nvme0n1 --rw randread --iodepth 1 --ioengine psync
///   iosonde run --ioengine sim --path 'servers=8,read=exp:90us' --rw randread --iodepth 16
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct RunArgs {
    /// File, block device or directory; for the simulated engine, the device in words
    #[arg(long, visible_alias = "filename", value_name = "PATH")]
    path: Option<PathBuf>,
    /// Direction and order: read, write, randread, randwrite, rw, readwrite, randrw, randreadwrite
    #[arg(long, visible_alias = "readwrite", value_name = "MODE")]
    rw: String,
    /// Size of one operation
    #[arg(long, visible_alias = "blocksize", value_name = "SIZE", default_value = "4k")]
    bs: String,
    /// Requests in flight per job
    #[arg(long, value_name = "N", default_value_t = 1)]
    iodepth: u32,
    /// Jobs: one thread and one queue each
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=4096)
    )]
    numjobs: u32,
    /// Length of the measurement, warm-up not included
    #[arg(long, value_name = "TIME", default_value = "10")]
    runtime: String,
    /// Length of the region that the jobs share [default: what the target has beyond --offset]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// First byte of the region
    #[arg(long, value_name = "SIZE", default_value = "0")]
    offset: String,
    /// Percentage of reads in rw and randrw [default: 50]
    #[arg(long, value_name = "PERCENT")]
    rwmixread: Option<u8>,
    /// Warm-up before the measurement, not counted
    #[arg(long, value_name = "TIME", default_value = "0")]
    ramp_time: String,
    /// 1: past the page cache or not at all; 0: through it [default: past it if possible]
    #[arg(long, value_name = "0|1", value_parser = ["0", "1"])]
    direct: Option<String>,
    /// io_uring, psync (exactly one request in flight), null, sim [default: io_uring]
    #[arg(long, value_name = "NAME")]
    ioengine: Option<String>,
    /// Seed of offsets and data, for an exact repetition
    #[arg(long, value_name = "N")]
    randseed: Option<u64>,
    /// Draw random offsets independently; without it every block comes once before any comes twice
    #[arg(long)]
    norandommap: bool,
    /// End after this many operations per job instead of after a time
    #[arg(long, value_name = "N", conflicts_with = "runtime")]
    number_ios: Option<u64>,
    /// A kernel thread submits (io_uring only)
    #[arg(long)]
    sqpoll: bool,
    /// Poll for completions (io_uring only; needs a device with polled queues)
    #[arg(long)]
    hipri: bool,
    /// Count I/O errors and go on, instead of stopping at the first
    #[arg(long)]
    continue_on_error: bool,
    /// Write this file although it holds foreign data; names it exactly as --path does
    #[arg(long, value_name = "NAME")]
    overwrite_file: Option<String>,
    /// An expectation such as 'p99<=2ms' or 'read.iops>=10k'; may be repeated
    #[arg(long, value_name = "RULE")]
    expect: Vec<String>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Form of the result on stdout
    #[arg(long, value_enum, default_value = "normal")]
    output_format: OutputFormat,
    /// Time between progress lines; 0 for none
    #[arg(long, value_name = "TIME", default_value = "2")]
    eta_interval: String,
    /// Directory under which the results are kept [default: the user's state directory]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// What the operations go to.
struct Aim {
    medium: Medium,
    held: Option<Held>,
    target: Target,
    /// A file made for this run, which has to be laid out.
    fresh: bool,
}

/// Size of the target of the null engine where none is given.
const NULL_BYTES: u64 = 1 << 30;

/// Runs the verb.
pub(super) fn run(args: &RunArgs, words: &[String]) -> Result<Exit, Failure> {
    let asked = understand(args)?;
    let place = Place::find()?;
    let seed = args.randseed.unwrap_or_else(place::fresh_seed);
    let aim = aim(args, &asked, &place)?;
    let setting = setting(args, &asked, &place, &aim, seed);
    let plan = resolve(&workload(args, &asked), &setting)?;
    let mut output = Output::new(args.output_format);
    if args.dry_run {
        output.value(&json!({ "plan": plan }));
        output.text(&plan::describe::describe(&plan));
        return Ok(output.end(Exit::Done));
    }
    caution_about(&setting.engine, aim.held.as_ref());
    let layout = if aim.fresh { Some(layout_plan(&setting)?) } else { None };
    let bench = Bench {
        root: place.root.clone(),
        clock: place.clock,
        held: aim.held,
        medium: aim.medium,
        control: Arc::new(Control::new(Arc::clone(&place.signal))),
    };
    let mut keeper = Keeper::open(args.results.as_deref(), "run", words);
    keeper.keep("host.json", &place.host);
    let mut progress = Progress::new(asked.eta_interval_ns);
    if let Some(layout) = layout {
        let outcome = carry_out_alone(&layout, &bench, &mut progress)?.map(|run| run.outcome);
        laid_out(outcome)?;
    }
    let Some(run) = carry_out_alone(&plan, &bench, &mut progress)? else {
        return Err(Failure::new(Exit::Environment, "nothing was measured"));
    };
    Ok(conclude(&asked, &place, output, keeper, &run))
}

/// Opens the target, or makes it.
fn aim(args: &RunArgs, asked: &Asked, place: &Place) -> Result<Aim, Failure> {
    match asked.engine.kind {
        EngineKind::Null => {
            let size_bytes = asked.size_bytes.unwrap_or(NULL_BYTES);
            let target = bare_target("null", size_bytes.saturating_add(asked.offset_bytes));
            Ok(Aim { medium: Medium::Null(None), held: None, target, fresh: false })
        }
        EngineKind::Sim => {
            let words = args.path.as_deref().map(Path::to_string_lossy).unwrap_or_default();
            let model = Model::parse(&words)
                .map_err(|error| Failure::new(Exit::Asked, format!("--path: {error}")))?;
            let bytes = within(asked, model.bytes, "the simulated device")?;
            let target = bare_target(&format!("sim:{words}"), bytes);
            Ok(Aim { medium: Medium::Sim(model), held: None, target, fresh: false })
        }
        EngineKind::IoUring | EngineKind::Libaio | EngineKind::Psync => {
            real_aim(args, asked, place)
        }
        EngineKind::VhostUser => {
            Err(Failure::new(Exit::Asked, "the virtio-blk-vhost-user engine is not built in"))
        }
    }
}

fn bare_target(path: &str, bytes: u64) -> Target {
    Target { path: path.into(), bytes, direct: false, align_bytes: 1 }
}

fn real_aim(args: &RunArgs, asked: &Asked, place: &Place) -> Result<Aim, Failure> {
    let Some(path) = args.path.as_deref() else {
        let message = "--path is missing: give a file, a block device or a directory";
        return Err(Failure::new(Exit::Asked, message));
    };
    let fresh = path.is_dir();
    let held = if fresh {
        let Some(size_bytes) = asked.size_bytes else {
            let message = format!(
                "`{}` is a directory: give --size, and a file of that size is made in it, \
                 and is gone afterwards",
                path.display()
            );
            return Err(Failure::new(Exit::Asked, message));
        };
        let (free_bytes, total_bytes) = open::space(path)?;
        let wanted_bytes = asked.offset_bytes.saturating_add(size_bytes);
        open::fits(path, wanted_bytes, free_bytes, total_bytes)?;
        let make = if args.dry_run { open::rehearsed } else { open::unnamed };
        make(path, wanted_bytes, asked.direct)?
    } else {
        let write = asked.rw.read_percent(asked.mix) < 100;
        let intent = Intent { write, overwrite_file: args.overwrite_file.clone() };
        open::existing(path, &intent, asked.direct).map_err(with_size_hint)?
    };
    let bytes = within(asked, held.bytes, &format!("`{}`", path.display()))?;
    let facts = held.describe(&place.root);
    let target = Target {
        path: path.to_string_lossy().into_owned(),
        bytes,
        direct: held.direct,
        align_bytes: held.align_bytes(&facts),
    };
    Ok(Aim { medium: Medium::Files(vec![Arc::clone(&held.file)]), held: Some(held), target, fresh })
}

fn with_size_hint(error: crate::target::TargetError) -> Failure {
    let missing = matches!(error, crate::target::TargetError::Missing(_));
    let mut failure = Failure::from(error);
    if missing {
        failure.hint = Some("give a directory and --size to measure with an unnamed file".into());
    }
    failure
}

/// End of the region, bytes from the target's beginning; it must lie within the target.
fn within(asked: &Asked, available: u64, what: &str) -> Result<u64, Failure> {
    let wrong = |message: String| Failure::new(Exit::Asked, message);
    if available == 0 {
        return Err(wrong(format!(
            "{what} is empty; give a directory and --size to measure with an unnamed file"
        )));
    }
    if asked.offset_bytes >= available {
        return Err(wrong(format!(
            "--offset: found {}, but {what} has {}",
            bytes::exact(asked.offset_bytes),
            bytes::exact(available)
        )));
    }
    let Some(size_bytes) = asked.size_bytes else {
        if available == u64::MAX {
            return Err(wrong(format!("{what} has no size of its own: give --size")));
        }
        return Ok(available);
    };
    let end_bytes = asked.offset_bytes.saturating_add(size_bytes);
    if end_bytes > available {
        return Err(wrong(format!(
            "--size and --offset reach to {}, but {what} has {}",
            bytes::exact(end_bytes),
            bytes::exact(available)
        )));
    }
    Ok(end_bytes)
}

fn setting(args: &RunArgs, asked: &Asked, place: &Place, aim: &Aim, seed: u64) -> Setting {
    Setting {
        engine: asked.engine.clone(),
        targets: vec![aim.target.clone()],
        offset_bytes: asked.offset_bytes,
        cpus: place.cpus(),
        iodepth: args.iodepth,
        seed,
        warmup_ns: asked.warmup_ns,
        stop: asked.stop,
        on_error: if args.continue_on_error { OnError::Continue } else { OnError::Stop },
        // An endless device has nothing to make durable, and refuses the call.
        final_sync: aim.held.as_ref().is_some_and(|held| held.bytes != u64::MAX),
        buffer_limit_bytes: place.buffer_limit_bytes(),
    }
}

/// The flags as a workload of one role.
fn workload(args: &RunArgs, asked: &Asked) -> Workload {
    let role = Role {
        threads: Threads::Count(args.numjobs),
        access: if args.norandommap { Access::Uniform } else { Access::Permutation },
        ..Role::new("job", asked.rw)
    };
    Workload {
        name: "run".into(),
        title: asked.rw.word().into(),
        pattern: asked.rw.word().into(),
        models: String::new(),
        block_size: asked.block_bytes,
        read_percent: asked.rw.read_percent(asked.mix),
        roles: vec![role],
    }
}

fn layout_plan(setting: &Setting) -> Result<Plan, Failure> {
    let mut workload = catalogue::workload("layout")
        .map_err(|error| Failure::new(Exit::Asked, error.to_string()))?;
    // A file smaller than a layout block, or no multiple of it, is written in smaller pieces.
    while !setting.targets[0].bytes.is_multiple_of(workload.block_size) && workload.block_size > 512
    {
        workload.block_size /= 2;
    }
    let setting = Setting {
        warmup_ns: 0,
        offset_bytes: 0,
        stop: Stop::AfterOnePass,
        on_error: OnError::Stop,
        engine: Engine { sqpoll: false, iopoll: false, ..setting.engine.clone() },
        ..setting.clone()
    };
    Ok(resolve(&workload, &setting)?)
}

fn caution_about(engine: &Engine, held: Option<&Held>) {
    if !engine.chosen_because.is_empty() {
        note(&format!("caution: {}", engine.chosen_because));
    }
    if let Some(reason) = held.and_then(|held| held.direct_refused.as_deref()) {
        note(&format!("caution: {reason}; I/O goes through the page cache"));
    }
}

fn carry_out_alone(
    plan: &Plan,
    bench: &Bench,
    progress: &mut Progress,
) -> Result<Option<Run>, Failure> {
    let mut record = None;
    progress.begin(0, 1, &plan.title, 0);
    carry_out(std::slice::from_ref(plan), bench, &mut |event| match event {
        Event::Moved { progress: moved, .. } => progress.moved(moved),
        Event::Finished { run, .. } => record = Some((*run).clone()),
        Event::Started { .. } => {}
    })?;
    progress.clear();
    Ok(record)
}

fn laid_out(outcome: Option<Outcome>) -> Result<(), Failure> {
    match outcome {
        Some(Outcome::Complete) => Ok(()),
        Some(Outcome::Interrupted { signal }) => {
            Err(Failure::new(Exit::Signal(signal), "interrupted while laying out the file"))
        }
        Some(Outcome::Failed { error }) => {
            Err(Failure::new(Exit::Environment, format!("the file could not be laid out: {error}")))
        }
        None => Err(Failure::new(Exit::Environment, "the file could not be laid out")),
    }
}

/// Judges, tells and keeps the run, and gives the exit code that follows.
fn conclude(
    asked: &Asked,
    place: &Place,
    mut output: Output,
    mut keeper: Keeper,
    run: &Run,
) -> Exit {
    let row = assess(run, Some(&place.host));
    let judged = judge_all(&asked.expectations, &[(run, &row)]);
    let rows = [row];
    let told = verdict(&rows);
    let [row] = &rows;
    let mut exit = end_of(run, row);
    if let Some(signal) = place.interrupted() {
        exit = exit.or_graver(Exit::Signal(signal));
    }
    for each in &judged {
        exit = exit.or_graver(end_of_expectation(&each.judgement));
    }
    keeper.keep_cell("01-run.json", run);
    output.text(&run_text(run, &row.figures, &row.books));
    output.text(&verdict_text(&told));
    output.text(&expectations_text(&judged));
    output.document(&Document {
        verb: "run",
        complete: row.complete,
        exit_code: exit.code(),
        cells: &[(run, row)],
        verdict: Some(&told),
        expectations: &judged,
        host: Some(&place.host),
        target: Some(&run.target),
        error: None,
    });
    let exit = output.end(exit);
    if let Some(path) = keeper.finish(row.complete, exit.code(), &told.words) {
        note(&format!("results kept in {}", path.display()));
    }
    exit
}
