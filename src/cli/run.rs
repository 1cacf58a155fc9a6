//! `iosonde run`: measures a single load.

mod data;
mod device;
mod engine;
mod file;
mod fio_line;
mod foreign;
mod job_file;
mod latency;
mod layers;
mod length;
mod load;
mod pace;
mod request;
mod resolved_target;
mod submit;
pub(super) mod vhost;
mod words;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use data::DataArgs;
use engine::EngineArgs;
pub(super) use fio_line::FioLine;
pub(super) use foreign::explained;
use latency::LatencyArgs;
use length::{AlwaysArgs, LengthArgs};
use load::LoadArgs;
use pace::PaceArgs;
use request::{Request, understand};
use resolved_target::{ResolvedTarget, TargetArgs, resolve_target};
use submit::SubmitArgs;

use super::cross_check::{self, Both, CrossCheckArgs, Second};
use super::ending::Ending;
use super::exit::{About, Exit, Failure, environment, wrong};
use super::hosts::{Command, HostsArgs};
use super::keep::Keeper;
use super::layout::{self, lay_out_first};
use super::output::{Output, OutputFormat, note};
use super::outputs::{FileArgs, LogArgs, Outputs};
use super::place::{self, Place};
use super::progress::Progress;
use super::results;
use super::screen;
use crate::schedule::{RunContext, execute_single};
use iosonde_analysis::history;
use iosonde_analysis::verdict::assess;
use iosonde_engine::engine::waits::Wait;
use iosonde_model::plan::{Engine, OnError, Plan, Setting, resolve};
use iosonde_model::record::run::Run;
use iosonde_model::spec::{Speed, catalogue};
use iosonde_report::{cross_check_text, runs_text};

/// Run a single load, given by fio-style options for identical jobs, or by a workload file with
/// different roles.
///
/// The target is a file, a directory (an unnamed file of --size is created in it and removed
/// afterwards), or a block device. A file that contains anything except zeros or data written by
/// this program is not written unless --overwrite-file names it; a block device is not written
/// unless --destroy-data names it, it is not in use, and it is empty.
///
/// Sizes: 4096, 4k, 4KiB (both 4096) or 4kB (4000); times: 10 (seconds), 500ms or 200us. Hyphens
/// and underscores are equivalent. 0|1 may be omitted and means 1 then.
///
/// With --name, or with a fio job file, all options are read as fio reads them, with fio's defaults
/// (psync, buffered, until --size is done): replace the word `fio` by `iosonde run`. --cmdhelp=all
/// lists fio's options.
///
/// Examples:
///   iosonde run --path . --size 1g --rw randread --bs 4k --iodepth 32
///   iosonde run --path disk.img --rw randrw --rwmixread 70 --numjobs 4 --runtime 30
///   iosonde run --path /dev/nvme0n1 --rw randread --iodepth 1 --ioengine psync
///   iosonde run --path a.img --path b.img --rw randread --rate-iops 5000 --rate-process poisson
///   iosonde run kv-store --path . --size 1g --runtime 30
///   iosonde run app.toml --path disk.img --runtime 60 --speed 2x
///   iosonde run --name=a --rw=randread --ioengine=libaio --iodepth=8 --direct=1 --size=1g
///   iosonde run --ioengine sim --path 'servers=8,read=exp:90us' --rw randread --iodepth 16
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct RunArgs {
    /// A workload file (NAME.toml), fio job files (any other name, - for standard input), or the
    /// name of a built-in workload; or give --rw
    #[arg(
        value_name = "FILE",
        conflicts_with_all = ["LoadArgs", "PaceArgs", "DataArgs", "SubmitArgs"]
    )]
    file: Option<PathBuf>,
    /// Print the file of a built-in workload, and do nothing
    #[arg(long, value_name = "NAME", exclusive = true)]
    show: Option<String>,
    /// Speed of a workload file relative to its rates, such as 2x or 0.5x, or max for as fast as
    /// the target completes requests
    #[arg(long, value_name = "N(x)|max")]
    speed: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    length: LengthArgs,
    #[command(flatten)]
    pace: PaceArgs,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    submit: SubmitArgs,
    #[command(flatten)]
    latency: LatencyArgs,
    #[command(flatten)]
    cross_check: CrossCheckArgs,
    #[command(flatten)]
    run: ControlArgs,
    #[command(flatten)]
    always: AlwaysArgs,
    #[command(flatten)]
    hosts: HostsArgs,
}

/// Everything that is not part of the load.
#[derive(Args, Debug)]
#[command(next_help_heading = "Run and result")]
struct ControlArgs {
    /// Seed of offsets and data, for exact reproduction
    #[arg(long, visible_alias = "seed", value_name = "N")]
    randseed: Option<u64>,
    /// Without effect: variables of the environment are always read by a fio job file
    #[arg(long, hide = true)]
    allow_env: bool,
    /// Count I/O errors and continue, instead of stopping at the first
    #[arg(long)]
    continue_on_error: bool,
    /// An expectation such as 'p99<=2ms' or 'read.iops>=10k'; may be repeated
    #[arg(long, value_name = "RULE")]
    expect: Vec<String>,
    /// Profile the run in the kernel, and report the time by layer: before the block layer, in its
    /// queue, in the device; needs CAP_BPF and CAP_PERFMON
    #[arg(long)]
    profile: bool,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Format of the result on stdout
    #[arg(long, value_enum, default_value = "normal")]
    output_format: OutputFormat,
    /// Write the result to this file instead of stdout; only an earlier result is replaced
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Time between progress lines; 0 for none
    #[arg(long, value_name = "TIME", default_value = "2")]
    eta_interval: String,
    /// Directory under which the results are stored [default: the user's state directory]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    logs: LogArgs,
}

/// A word that is on or off, as fio has it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Switch {
    #[value(name = "0")]
    Off,
    #[value(name = "1")]
    On,
}

/// Whether a switch is given and on.
fn switched(switch: Option<Switch>) -> bool {
    switch == Some(Switch::On)
}

impl RunArgs {
    /// The command for many hosts.
    pub(super) fn on_hosts(&self) -> Command<'_> {
        Command {
            output: self.run.output.as_deref(),
            results: self.run.results.as_deref(),
            ..Command::new("run", &self.hosts, self.run.output_format)
        }
    }
}

pub(super) fn run(
    args: &RunArgs,
    fio: Option<&FioLine>,
    words: &[String],
) -> Result<Exit, Failure> {
    if let Some(name) = &args.show {
        let text = catalogue::workload_text(name).or_wrong("--show")?;
        let mut output = Output::new(OutputFormat::Normal);
        output.file(&text);
        return Ok(output.end(Exit::Done));
    }
    let is_rehearsed_job = args.run.output_format == OutputFormat::FioJob;
    if is_rehearsed_job && !args.run.dry_run {
        return Err(wrong("--output-format fio-job needs --dry-run"));
    }
    if let Some(line) = fio {
        return job_file::run(args, line, words);
    }
    if args.run.allow_env {
        return Err(wrong("--allow-env has no effect without a job file"));
    }
    let opening = Wait::begin("opening", args.target.words());
    let requested = understand(args)?;
    let second = args.cross_check.find(args.run.output_format)?;
    if second.is_some() && requested.latency.is_some() {
        let message = "--cross-check and a latency target cannot be combined: fio's latency \
            target differs";
        return Err(wrong(message));
    }
    let place = Place::find()?;
    for role in &requested.workload.roles {
        submit::placeable(role, &place)?;
    }
    let seed = args.run.randseed.unwrap_or_else(place::fresh_seed);
    let resolved = resolve_target(args, &requested, &place)?;
    drop(opening);
    let setting = setting(args, &requested, &place, &resolved, seed);
    let mut plan = resolve(&requested.over(&resolved), &setting)?;
    plan.notes.extend(requested.speed.map(Speed::words));
    if let Some(latency) = &requested.latency {
        plan = latency.over(plan)?;
    }
    if let Some(precision) = requested.until {
        plan = plan.until(precision)?;
    }
    if let Some(round_ns) = requested.steady_round_ns {
        plan = plan.until_steady(round_ns)?;
    }
    vhost::admit(&args.target, &resolved.medium, &plan, place.cpus())?;
    let jobs = u32::try_from(plan.jobs.len()).unwrap_or(u32::MAX);
    let outputs = Outputs::new(&args.run.files, &args.run.logs, jobs, requested.eta_interval_ns)?;
    outputs.fit(&mut plan);
    let output = Output::to(args.run.output_format, args.run.output.as_deref())?;
    if args.run.dry_run {
        args.run.output_format.supports_plans()?;
        return device::dry_run(args, &place.root, &plan, &resolved.fresh, output);
    }
    warn_about(&setting.engine, &resolved.warnings);
    if second.is_some() {
        cross_check::warn_about(&plan, &resolved.fresh);
    }
    let laying = Engine { sqpoll: false, iopoll: false, ..setting.engine.clone() };
    let layout = match resolved.fresh.as_slice() {
        [] => None,
        fresh => Some(layout::plan(&setting, fresh, laying)?),
    };
    let context = place.context(resolved.held, resolved.medium);
    let words_of_fio = |second: &Second| second.words(&plan, &context);
    let words_of_fio = second
        .as_ref()
        .map(words_of_fio)
        .transpose()
        .map_err(|error| wrong(format!("--cross-check: the load {error}")))?;
    if args.run.profile && !requested.engine.kind.is_real() {
        return Err(wrong(format!(
            "--profile has no effect with the {} engine, whose requests reach no block layer",
            requested.engine.kind.name()
        )));
    }
    place.admit(&resolved.all, requested.changes())?;
    let mut keeper = Keeper::open(args.run.results.as_deref(), "run", words);
    keeper.keep_undo(context.held.as_ref().map_or(&[], |held| &held.undo))?;
    keeper.keep("host.json", &place.host);
    let (eta_ns, form) = (requested.eta_interval_ns, args.run.files.progress);
    let mut progress = outputs.progress("run", eta_ns, form);
    if let Some(layout) = layout {
        lay_out_first(&layout, &context, &mut progress)?;
    }
    let context = place.together(context);
    let watched = args.run.profile.then(|| layers::Watched::begin(&place.root)).transpose()?;
    let (run, both) = match second.zip(words_of_fio) {
        None => (Some(execute_alone(&plan, &context, &mut progress)?), None),
        Some((second, words)) => {
            let both = second.run(&plan, words, &context, &mut progress)?;
            (both.first.clone(), Some(both))
        }
    };
    let Some(mut run) = run else {
        return Err(environment("nothing was measured"));
    };
    if let Some(watched) = watched {
        watched.end(&mut run);
    }
    keeper.keep_cell("01-run.json", &run);
    if let Some(both) = &both {
        both.keep(&mut keeper, "01");
    }
    let rows = [assess(&run, Some(&place.host))];
    let ending = Ending {
        verb: "run",
        host: &place.host,
        cells: &[(&run, &rows[0])],
        rows: &rows,
        cross_checks: both.as_ref().map_or(&[], |both| std::slice::from_ref(&both.check)),
        written: None,
        expectations: &requested.expectations,
        beside: None,
        all: true,
        exit: place.end().or_graver(both.as_ref().map_or(Exit::Done, Both::exit)),
    };
    Ok(conclude(ending, (output, outputs, progress), keeper))
}

fn setting(
    args: &RunArgs,
    requested: &Request,
    place: &Place,
    resolved: &ResolvedTarget,
    seed: u64,
) -> Setting {
    Setting {
        offset_bytes: resolved.offset_bytes,
        iodepth: args.engine.iodepth.unwrap_or_else(|| usual_depth(args, &requested.engine)),
        warmup_ns: requested.warmup_ns,
        stop: requested.stop,
        on_error: if args.run.continue_on_error { OnError::Continue } else { OnError::Stop },
        // An endless device has nothing to make durable, and refuses fsync.
        final_sync: resolved.durable,
        ..place.setting(requested.engine.clone(), resolved.targets.clone(), seed)
    }
}

/// Default requests in flight per job: those of the row of `check` if the workload is one and the
/// engine is asynchronous, else 1.
fn usual_depth(args: &RunArgs, engine: &Engine) -> u32 {
    let name = args.file.as_ref().map(|file| file.to_string_lossy());
    let depth = name.and_then(|name| catalogue::depth_in_check(&name));
    depth.filter(|_| !engine.kind.is_synchronous()).unwrap_or(1)
}

fn warn_about(engine: &Engine, about_targets: &[String]) {
    place::warn_about(engine);
    for reason in about_targets {
        note(&format!("warning: {reason}; I/O goes through the page cache"));
    }
}

pub(super) fn execute_alone(
    plan: &Plan,
    context: &RunContext,
    progress: &mut Progress,
) -> Result<Run, Failure> {
    progress.begin(0, 1, &plan.title, 0);
    let run = execute_single(plan, context, &mut |moved| progress.moved(moved))?;
    progress.clear();
    Ok(run)
}

/// Judges and prints stored runs, and returns the exit code.
fn conclude(ending: Ending<'_>, sinks: (Output, Outputs, Progress), mut keeper: Keeper) -> Exit {
    let cells = ending.cells;
    let beside =
        history::of_run(cells).and_then(|now| results::against_earlier(&mut keeper, "run", &now));
    let compared: String = ending.cross_checks.iter().map(cross_check_text).collect();
    Ending { beside, ..ending }.conclude(sinks, keeper, |answer, judgement, _| {
        let runs = runs_text(cells, &judgement.verdict, &judgement.judged);
        answer.text(screen::columns()) + &runs + &compared
    })
}
