//! Runs jobs of fio from its command line and from job files: group by group, each as a separate
//! run.

mod around;
mod comparable;
mod lint;
mod logs;
mod options;
mod shelf;
mod sources;
mod written;

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use serde_json::json;

use around::{pre_read, verification};
use logs::Logs;
use shelf::{Opened, Shelf, at, opened};

use super::fio_line::{FioLine, Instead};
use super::request::expectations;
use super::words::time;
use super::{RunArgs, conclude, device, execute_alone, warn_about};
use crate::cli::ending::Ending;
use crate::cli::exit::{Exit, Failure, environment, wrong};
use crate::cli::keep::Keeper;
use crate::cli::layout::{self, lay_out_first};
use crate::cli::output::{Output, OutputFormat, hold_remarks_back, note};
use crate::cli::outputs::{Form, LogArgs, Outputs};
use crate::cli::place::{self, Place};
use crate::cli::progress::Progress;
use crate::schedule::RunContext;
use iosonde_analysis::expectation::Expectation;
use iosonde_analysis::verdict::assess;
use iosonde_engine::engine::Medium;
use iosonde_engine::engine::waits::Wait;
use iosonde_engine::target::Held;
use iosonde_engine::target::held::advise;
use iosonde_model::plan::{self, EngineKind, Plan, Pursuit, Setting, Stop, Target, resolve};
use iosonde_model::record::run::{Outcome, Run};
use iosonde_model::spec::Workload;
use iosonde_model::spec::fio::{Asking, TargetRequest, ask, command, jobs};
use iosonde_report::fio_job::fio_job;

/// First line of the report: the defaults that apply.
const DEFAULTS: &str = "read as fio's command line: fio's defaults (psync, buffered, until size is \
    done)\n";

/// State that all groups share.
struct Beside<'a> {
    args: &'a RunArgs,
    line: &'a FioLine,
    expectations: Vec<Expectation>,
}

/// Runs the job groups of a command line and of its job files in order.
pub(super) fn run(args: &RunArgs, line: &FioLine, words: &[String]) -> Result<Exit, Failure> {
    if let Some(text) = options::text(&line.instead)? {
        return Ok(options::print(&text));
    }
    let beside = &Beside { args, line, expectations: expectations(&args.run.expect)? };
    let eta_interval_ns = eta_interval_ns(beside)?;
    let place = Place::find()?;
    let (line, results) = &lint::apart(line);
    let (own, files) = sources::read(line, &place)?;
    if line.instead == Instead::ShowCommand {
        let all: Vec<_> = own.iter().chain(files.iter().flatten()).cloned().collect();
        return Ok(options::print(&format!("{}\n", command::words(&all))));
    }
    let mut file = jobs(&own, &files, &line.sections).map_err(wrong)?;
    sources::iologs(&mut file)?;
    if line.instead == Instead::Lint {
        return lint::lint(&file, results, &place, args.run.output_format);
    }
    let mut askings = Vec::new();
    for group in &file.groups {
        askings.push(ask(group).map_err(wrong)?);
    }
    let notes = askings.iter().flat_map(|asking| &asking.notes);
    for said in line.notes.iter().chain(&file.notes).chain(notes) {
        note(&format!("note: {said}"));
    }
    if line.instead == Instead::Parse {
        return Ok(Exit::Done);
    }
    args.target.consent.check_kinds()?;
    let written = |asking: &Asking| asking.writes() && asking.engine.kind != EngineKind::Null;
    if line.readonly && askings.iter().any(written) {
        return Err(wrong("--readonly: a job writes or trims; give rw=read or randread"));
    }
    if !askings.iter().any(written) {
        args.target.consent.none("nothing is written")?;
    }
    // Problems of any group must show before the first operation.
    let opening = Wait::begin("opening the targets of", &file.groups[0].jobs[0].name);
    let mut shelf = Shelf::new(&askings);
    let mut groups = Vec::new();
    for asking in &askings {
        groups.push(ready(beside, &place, asking, &mut shelf)?);
    }
    drop(opening);
    // Results are named after their jobs.
    for index in 0..groups.len() {
        let name = &askings[index].title;
        let is_single = askings.iter().filter(|asking| asking.title == *name).count() == 1;
        groups[index].plan.name =
            if is_single { name.clone() } else { format!("{name}-{}", index + 1) };
    }
    let written_targets = written_of(&askings, &groups);
    args.target.consent.were_needed(&written_targets, args.run.dry_run)?;
    if beside.args.run.dry_run {
        return rehearse(beside, &place, &askings, groups);
    }
    comparable::check(&groups, &askings)?;
    let held: Vec<Held> = groups.iter().flat_map(|group| group.held.clone()).collect();
    place.admit(&held, askings.iter().any(written))?;
    let output = Output::to(args.run.output_format, args.run.output.as_deref())?;
    let mut output = output.also(&line.more_formats);
    output.text(DEFAULTS);
    let outputs = Outputs::new(&args.run.files, &LogArgs::default(), 0, eta_interval_ns)?;
    let plans: Vec<&Plan> = groups.iter().map(|ready| &ready.plan).collect();
    let logs = Logs::new(&askings, &plans, line)?;
    let names = plans.iter().map(|plan| plan.name.as_str());
    let written = written::written(askings.iter().zip(names));
    for (index, ready) in groups.iter_mut().enumerate() {
        logs.fit(&mut ready.plan, index);
    }
    let mut keeper = Keeper::open(beside.args.run.results.as_deref(), "run", words);
    keeper.keep_undo(&shelf.undo())?;
    keeper.keep("host.json", &place.host);
    let mut progress = outputs.progress("run", eta_interval_ns, args.run.files.progress);
    shelf.keep();
    let mut runs: Vec<Run> = Vec::new();
    // Index of each group's run among all runs, some of which only verify.
    let mut of_groups = Vec::new();
    let mut failed = None;
    // Whether `exit_what=all` has cancelled the remaining groups.
    let mut is_ended = false;
    let creates_only = askings.iter().all(|asking| asking.creates_only);
    for (index, (ready, asking)) in groups.into_iter().zip(&askings).enumerate() {
        let done = match group(&place, ready, asking, (&outputs, &mut progress)) {
            Ok(done) if done.is_empty() && asking.creates_only => continue,
            Ok(done) if done.is_empty() => break,
            Ok(done) => done,
            // Earlier results are kept.
            Err(failure) if !runs.is_empty() => {
                note(&failure.message);
                failed = Some(failure.exit);
                break;
            }
            Err(failure) => return Err(failure),
        };
        of_groups.push((index, runs.len()));
        for run in done {
            keeper.keep_cell(&format!("{:02}-run.json", runs.len() + 1), &run);
            runs.push(run);
        }
        if runs.last().is_some_and(|run| run.outcome != Outcome::Complete) {
            break;
        }
        if asking.is_last() {
            note_not_run(&askings[index + 1..]);
            is_ended = true;
            break;
        }
    }
    let logged: Vec<(usize, &Run)> =
        of_groups.iter().map(|(group, at)| (*group, &runs[*at])).collect();
    if !logs.write(&logged) {
        failed = Some(failed.unwrap_or(Exit::Environment));
    }
    if creates_only && runs.is_empty() && place.interrupted().is_none() {
        note("note: create_only=1: the files are prepared, and nothing was measured");
        return Ok(Exit::Done);
    }
    if runs.is_empty() {
        return Err(environment("nothing was measured"));
    }
    let all = of_groups.len() + askings.iter().filter(|asking| asking.creates_only).count();
    let rows: Vec<_> = runs.iter().map(|run| assess(run, Some(&place.host))).collect();
    let ending = Ending {
        verb: "run",
        host: &place.host,
        cells: &runs.iter().zip(&rows).collect::<Vec<_>>(),
        rows: &rows,
        cross_checks: &[],
        written: Some(&written),
        expectations: &beside.expectations,
        beside: None,
        all: is_ended || all == askings.len(),
        exit: failed.unwrap_or(Exit::Done).or_graver(place.end()),
    };
    Ok(conclude(ending, (output, outputs, progress), keeper))
}

/// Time between progress lines, 0 for none. As in fio, only a terminal gets them by default.
fn eta_interval_ns(beside: &Beside<'_>) -> Result<u64, Failure> {
    let run = &beside.args.run;
    let given_ns = time("--eta-interval", &run.eta_interval, 1_000_000_000)?;
    let is_asked = beside.line.asks_for_eta || run.files.progress == Form::Json;
    let in_the_way = hold_remarks_back(run.output_format, run.output.as_deref());
    let shown = is_asked || io::stderr().is_terminal() && !in_the_way;
    Ok(if shown { given_ns } else { 0 })
}

/// Names the groups that `exit_what=all` has cancelled.
fn note_not_run(later: &[Asking]) {
    if !later.is_empty() {
        let titles: Vec<&str> = later.iter().map(|asking| asking.title.as_str()).collect();
        note(&format!("note: exit_what=all: not run: {}", titles.join(", ")));
    }
}

/// Targets that are written.
fn written_of(askings: &[Asking], groups: &[Ready]) -> Vec<Held> {
    let groups = askings.iter().zip(groups);
    let targets = groups.flat_map(|(asking, group)| {
        let targets = asking.targets.iter().zip(&group.held);
        targets.filter(|(target, _)| asking.writes_to(&target.path)).map(|(_, held)| held.clone())
    });
    targets.collect()
}

/// A group that is ready to run.
struct Ready {
    plan: Plan,
    setting: Setting,
    held: Vec<Held>,
    fresh: Vec<u16>,
    medium: Medium,
}

fn ready(
    beside: &Beside<'_>,
    place: &Place,
    asking: &Asking,
    shelf: &mut Shelf,
) -> Result<Ready, Failure> {
    let kind = asking.engine.kind;
    let lengths = |targets: &[Target]| targets.iter().map(|target| target.bytes).collect();
    let opened = match kind {
        EngineKind::Null => bare(asking),
        _ => opened(beside, place, asking, shelf)?,
    };
    let known: Vec<u64> = lengths(&opened.targets);
    let (mut workload, stop) = asking.workload(&known).map_err(wrong)?;
    on_nodes(&mut workload, asking, place)?;
    let counted = matches!(stop, Stop::AfterOps(_) | Stop::AfterBytes(_));
    let seed = asking.seed.unwrap_or_else(place::fresh_seed);
    let setting = Setting {
        warmup_ns: if counted { 0 } else { asking.warmup_ns },
        stop,
        // A device without an end stores nothing, and refuses the call.
        final_sync: opened.held.iter().any(|held| held.bytes != u64::MAX),
        ..place.setting(asking.engine.engine(), opened.targets, seed)
    };
    let mut plan = resolve(&workload, &setting).map_err(|refusal| {
        let failure = Failure::from(refusal);
        asking.targets.first().map_or(failure.clone(), |target| at(&target.place, &failure))
    })?;
    // fio leaves threads to the scheduler unless `cpus_allowed` is given.
    plan.pinned = false;
    // As in fio, operations during warm-up count towards the limit.
    plan.warmup_ns = asking.warmup_ns;
    if let Some(latency) = asking.latency {
        // A latency target has no length in bytes: its rate is not known in advance.
        if let Stop::AfterNsOrBytes(ns, _) = plan.stop {
            plan.stop = Stop::AfterNs(ns);
        }
        let pursuit = if latency.holds { Pursuit::Hold } else { Pursuit::Search };
        plan = plan.pursuing(latency.target, pursuit, latency.window_ns)?;
    }
    if let Some(settling) = asking.settling {
        plan = plan.until_settled(settling)?;
    }
    let medium = match kind {
        EngineKind::Null => Medium::Null(None),
        _ => place::medium(&opened.held),
    };
    Ok(Ready { plan, setting, held: opened.held, fresh: opened.fresh, medium })
}

/// Restricts roles with `numa_cpu_nodes` to the CPUs of these nodes.
fn on_nodes(workload: &mut Workload, asking: &Asking, place: &Place) -> Result<(), Failure> {
    for (role, (nodes, said)) in workload.roles.iter_mut().zip(asking.cpu_nodes()) {
        for node in nodes {
            let cpus = place.root.cpus_of_node(*node).ok_or_else(|| {
                wrong(format!("{said}: numa_cpu_nodes: this system has no node {node}"))
            })?;
            role.place.cpus.extend(cpus);
        }
    }
    Ok(())
}

/// Targets of the null engine; only their length has a meaning.
fn bare(asking: &Asking) -> Opened {
    const NULL_BYTES: u64 = 1 << 30;
    let target = |requested: &iosonde_model::spec::fio::TargetRequest| Target {
        path: requested.path.clone(),
        bytes: requested.bytes.unwrap_or(NULL_BYTES),
        direct: false,
        align_bytes: 1,
    };
    let targets = asking.targets.iter().map(target).collect();
    Opened { held: Vec::new(), fresh: Vec::new(), targets }
}

/// Prints the dry run.
fn rehearse(
    beside: &Beside<'_>,
    place: &Place,
    askings: &[Asking],
    groups: Vec<Ready>,
) -> Result<Exit, Failure> {
    let run = &beside.args.run;
    let mut output = Output::to(run.output_format, run.output.as_deref())?;
    output.text(DEFAULTS);
    let (mut plans, mut made, mut devices) = (Vec::new(), Vec::new(), Vec::new());
    for (asking, ready) in askings.iter().zip(groups) {
        let written =
            |target: &&TargetRequest| !ready.held.is_empty() && asking.writes_to(&target.path);
        let mut paths: Vec<PathBuf> = asking
            .targets
            .iter()
            .filter(written)
            .map(|target| PathBuf::from(&target.path))
            .collect();
        paths.dedup();
        devices.extend(device::reports(beside.args, &place.root, &ready.plan, &paths)?);
        output.text(&plan::describe::describe(&ready.plan));
        plans.push(ready.plan);
        // fio itself creates a missing file under its name.
        made.push(Vec::<u16>::new());
    }
    if beside.args.run.output_format == OutputFormat::FioJob {
        let groups: Vec<_> = plans.iter().zip(made.iter().map(Vec::as_slice)).collect();
        output.fio_job(&fio_job(&groups).map_err(wrong)?);
    }
    let values: Vec<serde_json::Value> = devices.iter().map(device::DeviceReport::value).collect();
    if let [plan] = plans.as_slice() {
        output.value(&json!({ "plan": plan, "devices": values }));
    } else {
        output.value(&json!({ "plans": plans, "devices": values }));
    }
    devices.iter().for_each(|reported| output.text(&reported.text()));
    let refused = devices.iter().any(|reported| reported.refused.is_some());
    Ok(output.end(if refused { Exit::Refused } else { Exit::Done }))
}

/// Lays out and runs one group.
fn group(
    place: &Place,
    mut ready: Ready,
    asking: &Asking,
    (outputs, progress): (&Outputs, &mut Progress),
) -> Result<Vec<Run>, Failure> {
    outputs.fit(&mut ready.plan);
    let warnings = ready.held.iter().filter_map(|held| held.direct_refused.clone());
    warn_about(&ready.setting.engine, &warnings.collect::<Vec<String>>());
    let context = RunContext {
        keeps_cache: asking.keeps_cache || asking.pre_reads(),
        ..place.context(Held::first_for_all(&ready.held), ready.medium)
    };
    for index in ready.fresh {
        let layout = layout::plan(&ready.setting, &[index], place::default_engine())?;
        lay_out_first(&layout, &context, progress)?;
    }
    if asking.creates_only {
        return Ok(Vec::new());
    }
    if asking.pre_reads() {
        asking.targets.iter().try_for_each(|target| pre_read(&target.path))?;
    }
    for (index, held) in (0..).zip(&ready.held) {
        advise(&held.file, asking.hint(index));
    }
    let context = place.together(context);
    let mut runs = Vec::new();
    if !asking.verifies_only() {
        runs.push(execute_alone(&ready.plan, &context, progress)?);
    }
    let written = runs.first();
    let goes_on = written.is_none_or(|run| run.outcome == Outcome::Complete);
    if let Some(plan) = verification(&ready.plan, asking, written).filter(|_| goes_on) {
        runs.push(execute_alone(&plan, &context, progress)?);
    }
    Ok(runs)
}
