//! `iosonde check`: is this storage healthy?

mod reference;
mod session;
mod storage;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use session::Session;

use super::cross_check::CrossCheckArgs;
use super::exit::{About, Exit, Failure, wrong};
use super::hosts::{Command, HostsArgs};
use super::keep::Keeper;
use super::layout::{self, lay_out_first};
use super::output::{Output, OutputFormat, note};
use super::outputs::{FileArgs, LogArgs, Outputs};
use super::place::{self, Place};
use super::words::{listed, size, time};
use iosonde_analysis::expectation::Expectation;
use iosonde_engine::engine::Medium;
use iosonde_engine::engine::waits::Wait;
use iosonde_engine::target::Held;
use iosonde_model::plan::{self, LatencyTarget, Plan, Pursuit, Setting, Stop, resolve};
use iosonde_model::record::TargetFacts;
use iosonde_model::spec::experiment::Stage;
use iosonde_model::spec::{Workload, catalogue};
use iosonde_model::units::duration;

/// Check storage: eight application workloads, one table, one verdict.
///
/// Runs in a directory, with an unnamed test file that disappears when the command ends for any
/// reason. Needs no privileges. Uses direct I/O if the file system supports it.
///
/// Examples:
///   iosonde check                         the current directory, in about 90 seconds
///   iosonde check /mnt/data 2G            another directory, with a 2 GiB test file
///   iosonde check --quick --only database,cache
///   iosonde check -l 5                    find the depth that keeps p99 within 5 ms
///   iosonde check --expect 'Database.p99<=2ms'     exit code 3 if that is missed
///   iosonde check --read-only /dev/nvme0n1         the rows that only read; nothing is written
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct CheckArgs {
    /// Directory whose storage is measured; with --read-only also a file or a block device
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Size of the test file, at least 256M [default: a tenth of the free space, 256M to 1G]
    size: Option<String>,
    /// Measure without writing: only the workloads that read, on the block device or file given, or
    /// on the largest file of the directory
    #[arg(long, conflicts_with_all = ["size", "durable", "cross_check"])]
    read_only: bool,
    /// Measure each workload that writes a second time (+D), each write durable before it completes
    #[arg(long)]
    durable: bool,
    /// Length of each workload, of which 30 % are warm-up [default: 10]
    #[arg(long, value_name = "TIME", conflicts_with = "quick")]
    seconds: Option<String>,
    /// Three seconds per workload
    #[arg(long)]
    quick: bool,
    /// Keep p99 within this latency (ms, or with a unit): each row adjusts its depth, is measured
    /// once the depth has converged, after at most 60 s, and goes on adjusting it
    #[arg(short = 'l', long, value_name = "MS")]
    latency: Option<String>,
    /// Only these workloads (names separated by commas)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// All except these workloads
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    skip: Vec<String>,
    /// Number of CPUs to scale the workloads to [default: allowed CPUs within the quota, at most
    /// 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// An expectation such as 'Database.p99<=2ms' or 'Backup.bw>=1GB/s'; may be repeated
    #[arg(long, value_name = "RULE")]
    expect: Vec<String>,
    /// Measure although the file system is not local storage; its type as printed by the refusal
    /// (tmpfs)
    #[arg(long, value_name = "FSTYPE")]
    allow_fs: Option<String>,
    /// Compare with this instead of earlier checks here: a kept result (a folder, `last`, `last~2`,
    /// the beginning of its name), or a file of classes of storage as references/storage.toml
    #[arg(long, value_name = "RUN|FILE", value_parser = super::results::parser())]
    reference: Option<PathBuf>,
    /// Seed of offsets and data, for exact reproduction
    #[arg(long, value_name = "N")]
    randseed: Option<u64>,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Format of the result on stdout
    #[arg(long, value_parser = OutputFormat::of_runs(), default_value = "normal")]
    output_format: OutputFormat,
    /// Time between progress lines; 0 for none
    #[arg(long, value_name = "TIME", default_value = "5")]
    eta_interval: String,
    /// Directory under which the results are stored [default: the user's state directory]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    #[command(flatten)]
    cross_check: CrossCheckArgs,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    hosts: HostsArgs,
}

/// Time in which a controller has to converge, ns.
const CONVERGES_WITHIN_NS: u64 = 60_000_000_000;

/// The parsed request.
struct Request {
    stage: Stage,
    workloads: Vec<Workload>,
    /// Titles of the workloads that --read-only excludes.
    left_out: Vec<String>,
    length_ns: u64,
    size_bytes: Option<u64>,
    eta_interval_ns: u64,
    expectations: Vec<Expectation>,
    latency: Option<LatencyTarget>,
}

impl CheckArgs {
    /// The command for many hosts.
    pub(super) fn on_hosts(&self) -> Command<'_> {
        Command {
            results: self.results.as_deref(),
            ..Command::new("check", &self.hosts, self.output_format)
        }
    }
}

pub(super) fn check(args: &CheckArgs, words: &[String]) -> Result<Exit, Failure> {
    let requested = understand(args)?;
    let (classes, named) = reference::find(args.reference.as_deref())?;
    let second = args.cross_check.find(args.output_format)?;
    if second.is_some() && requested.latency.is_some() {
        let message = "--cross-check and a latency target cannot be combined: fio's latency \
            target differs";
        return Err(wrong(message));
    }
    let place = Place::find()?;
    let opening = Wait::begin("opening storage in", args.path.to_string_lossy());
    let held = storage::open(args, &requested)?;
    drop(opening);
    let facts = held.describe(&place.root);
    let seed = args.randseed.unwrap_or_else(place::fresh_seed);
    let setting = setting(args, &requested, &place, &held, &facts, seed);
    let layout = || layout::plan(&setting, &[], setting.engine.clone());
    let layout = (!args.read_only).then(layout).transpose()?;
    let outputs = Outputs::new(&args.files, &LogArgs::default(), 0, requested.eta_interval_ns)?;
    let mut cells = requested
        .workloads
        .iter()
        .map(|workload| cell(workload, &setting, &requested))
        .collect::<Result<Vec<Plan>, _>>()?;
    cells.iter_mut().for_each(|plan| outputs.fit(plan));
    let mut output = Output::new(args.output_format);
    let is_cost_stated = args.dry_run || storage::holds_the_system(&args.path);
    if let Some(layout) = layout.as_ref().filter(|_| is_cost_stated) {
        note(&storage::cost(layout, &cells, facts.device.as_ref(), &args.path));
    }
    if args.dry_run {
        args.output_format.supports("--dry-run")?;
        return Ok(print_plans(&mut output, layout.as_ref(), &cells));
    }
    let medium = Medium::Files(vec![Arc::clone(&held.file)]);
    let context = place.context(Some(held), medium);
    place.admit(context.held.as_slice(), layout.is_some())?;
    let mut keeper = Keeper::open(args.results.as_deref(), "check", words);
    keeper.keep("host.json", &place.host);
    let (eta_ns, form) = (requested.eta_interval_ns, args.files.progress);
    let mut progress = outputs.progress("check", eta_ns, form);
    place::warn_about(&setting.engine);
    if let Some(layout) = &layout {
        lay_out_first(layout, &context, &mut progress)?;
    }
    let context = place.together(context);
    let mut session = Session {
        host: &place.host,
        output,
        outputs,
        keeper,
        progress,
        runs: Vec::new(),
        rows: Vec::new(),
        cross_checks: Vec::new(),
        classes,
        reference: named,
        witness_exit: Exit::Done,
    };
    match &second {
        None => session.measure(&cells, &context)?,
        Some(second) => session.measure_both(&cells, &context, second)?,
    }
    Ok(session.conclude(&requested, &cells, &context))
}

fn understand(args: &CheckArgs) -> Result<Request, Failure> {
    let experiment = catalogue::experiment("check").map_err(wrong)?;
    let Some(mut stage) = experiment.stages.into_iter().next() else {
        return Err(wrong("the experiment `check` has no stage"));
    };
    if args.quick {
        stage.seconds = 3.0;
    }
    let length_ns = match &args.seconds {
        Some(text) => time("--seconds", text)?,
        None => (stage.seconds * 1e9) as u64,
    };
    if !(100_000_000..=86_400_000_000_000).contains(&length_ns) {
        let found = duration::latency(length_ns as f64);
        return Err(wrong(format!("--seconds: found {found}, expected 0.1 s to 24 h")));
    }
    let mut workloads = Vec::new();
    let names = stage.axes.iter().flat_map(|axis| &axis.values).filter_map(|name| name.as_str());
    for name in names {
        workloads.push(catalogue::workload(name).map_err(wrong)?);
    }
    for (option, names) in [("--only", &args.only), ("--skip", &args.skip)] {
        for name in names {
            known(option, name, &workloads)?;
        }
    }
    let is_named =
        |workload: &Workload, names: &[String]| names.iter().any(|name| named(workload, name));
    workloads.retain(|workload| args.only.is_empty() || is_named(workload, &args.only));
    workloads.retain(|workload| !is_named(workload, &args.skip));
    let mut left_out = Vec::new();
    if args.read_only {
        let writing = workloads.extract_if(.., |workload| workload.writes());
        left_out.extend(writing.map(|workload| workload.title));
    }
    if args.durable {
        if !workloads.iter().any(Workload::writes) {
            return Err(wrong("--durable has no effect: none of the workloads writes"));
        }
        let each = |workload: Workload| {
            let durable = workload.writes().then(|| workload.durable());
            [Some(workload), durable].into_iter().flatten()
        };
        workloads = workloads.into_iter().flat_map(each).collect();
    }
    if workloads.is_empty() {
        let why = match left_out.is_empty() {
            true => "--only and --skip leave no workload".to_owned(),
            false => format!("--read-only leaves no workload: {} write", left_out.join(", ")),
        };
        return Err(wrong(why));
    }
    let size_bytes = args.size.as_deref().map(|text| size("size", text)).transpose()?;
    let eta_interval_ns = time("--eta-interval", &args.eta_interval)?;
    let titles = workloads.iter().map(|workload| workload.title.as_str()).collect::<Vec<_>>();
    let titles: Vec<&str> = titles.into_iter().chain(left_out.iter().map(String::as_str)).collect();
    let mut expectations = Vec::new();
    for text in &args.expect {
        let parsed = Expectation::parse(text, &titles).or_wrong(format!("--expect '{text}'"))?;
        expectations.push(parsed);
    }
    let latency = args.latency.as_deref().map(latency_target).transpose()?;
    Ok(Request {
        stage,
        workloads,
        left_out,
        length_ns,
        size_bytes,
        eta_interval_ns,
        expectations,
        latency,
    })
}

/// Parses the p99 limit that the depth controller holds.
fn latency_target(limit: &str) -> Result<LatencyTarget, Failure> {
    LatencyTarget::parse(&format!("p99<={limit}")).or_wrong("-l")
}

/// Resolves the plan of a cell. With a latency target, convergence replaces the warm-up.
fn cell(workload: &Workload, setting: &Setting, requested: &Request) -> Result<Plan, Failure> {
    let plan = resolve(workload, setting)?;
    let Some(target) = requested.latency else { return Ok(plan) };
    let plan = Plan { warmup_ns: 0, ..plan };
    Ok(plan.pursuing(target, Pursuit::Hold, CONVERGES_WITHIN_NS)?)
}

fn named(workload: &Workload, name: &str) -> bool {
    let name = name.trim();
    workload.name.eq_ignore_ascii_case(name) || workload.title.eq_ignore_ascii_case(name)
}

fn known(option: &str, name: &str, workloads: &[Workload]) -> Result<(), Failure> {
    if workloads.iter().any(|workload| named(workload, name)) {
        return Ok(());
    }
    let names: Vec<&str> = workloads.iter().map(|workload| workload.name.as_str()).collect();
    let available = listed(&names, name);
    Err(wrong(format!("{option}: no workload `{name}`; available: {available}")))
}

fn setting(
    args: &CheckArgs,
    requested: &Request,
    place: &Place,
    held: &Held,
    facts: &TargetFacts,
    seed: u64,
) -> Setting {
    let target = held.target(&held.path, held.bytes, facts);
    let (warmup_ns, measured_ns) = requested.stage.parts_of_ns(requested.length_ns);
    Setting {
        cpus: args.threads.unwrap_or_else(|| place.cpus()),
        iodepth: requested.stage.depth(),
        warmup_ns,
        stop: Stop::AfterNs(measured_ns),
        final_sync: requested.stage.final_sync && !args.read_only,
        ..place.setting(place::default_engine(), vec![target], seed)
    }
}

fn print_plans(output: &mut Output, layout: Option<&Plan>, cells: &[Plan]) -> Exit {
    output.value(&json!({ "layout": layout, "cells": cells }));
    for plan in layout.into_iter().chain(cells) {
        output.text(&plan::describe::describe(plan));
    }
    output.end(Exit::Done)
}

/// Planned length of a cell, ns.
fn length_ns(plan: &Plan) -> u64 {
    plan.stop.length_ns().map_or(0, |ns| plan.warmup_ns + ns)
}
