//! Runs an experiment, or its missing part, from the first stage to the report.

mod needs;
mod together;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::json;

use super::folder;
use super::load;
use super::print::{Printer, has_lost_runs};
use super::quick::changed;
use super::resolved_target::{ResolvedTarget, TargetOptions, resolve_target};
use super::{CommonArgs, RunArgs, dry_run};
use crate::cli::exit::{About, Exit, Failure, wrong};
use crate::cli::keep::Keeper;
use crate::cli::layout::lay_out;
use crate::cli::output::{Output, OutputFormat, note};
use crate::cli::place::{self, Place};
use crate::cli::progress::Progress;
use crate::cli::words::{self, time};
use crate::schedule::RunContext;
use crate::schedule::experiment::{StageEvent, StageJob, drive_written_bytes, execute_stage};
use iosonde_analysis::experiment::prepared::Left;
use iosonde_analysis::experiment::{StageFacts, Study, TrialFigures};
use iosonde_engine::target::open;
use iosonde_model::plan::chance;
use iosonde_model::plan::design::{self, Found};
use iosonde_model::record::experiment::{
    EXPERIMENT_SCHEMA, ExperimentRun, RequestedTarget, STAGE_SCHEMA, StageRun, TrialRun,
};
use iosonde_model::record::experiment_folder::ExperimentFolder;
use iosonde_model::spec::experiment::{Needs, Stage};
use iosonde_model::units::{bytes, count};
use iosonde_report::point_line;

/// State of an experiment run.
pub(super) struct Session<'a> {
    place: &'a Place,
    resolved: ResolvedTarget,
    context: RunContext,
    keeper: Keeper,
    progress: Progress,
    printer: Printer,
    study: Study,
    /// State left on the target by an earlier experiment, if it may be used.
    left: Option<Left>,
    /// Seed of the order of the runs of each stage.
    order_seed: u64,
    /// Accepted alterations of a resumed experiment, in words.
    altered: Vec<String>,
    /// Bytes written so far, test file preparation included.
    written_bytes: AtomicU64,
    /// Whether results can no longer be stored.
    is_lost: AtomicBool,
}

/// Parses a size on the command line, if given.
pub(super) fn size(option: &'static str, text: &Option<String>) -> Result<Option<u64>, Failure> {
    text.as_deref().map(|text| words::size(option, text)).transpose()
}

/// Target as requested on the command line.
pub(super) fn requested_target(args: &RunArgs) -> Result<RequestedTarget, Failure> {
    Ok(RequestedTarget {
        path: args.target.to_string_lossy().into_owned(),
        bytes: size("--size", &args.size)?.unwrap_or(0),
        engine: args.ioengine.clone(),
        buffered: args.buffered,
        ..RequestedTarget::default()
    })
}

/// `experiment run`.
pub(super) fn run(args: &RunArgs, words: &[String]) -> Result<Exit, Failure> {
    args.common.output_format.supports("experiment run")?;
    let experiment = changed(load::load(&args.name)?, args.quick, &args.changes)?;
    let claims = args.spec.as_deref().map(load::claims).transpose()?;
    let needs_claims = |stage: &Stage| stage.needs == Needs::Claims;
    if claims.is_some() && !experiment.stages.iter().any(needs_claims) {
        return Err(wrong("--spec has no effect: no stage checks data sheet claims"));
    }
    if claims.is_none() && experiment.stages.iter().all(needs_claims) {
        return Err(wrong(format!(
            "`{}` checks data sheet claims: give --spec FILE",
            experiment.name
        )));
    }
    design::check(&experiment, claims.as_ref()).map_err(wrong)?;
    let target = requested_target(args)?;
    let max_written_bytes = size("--max-written", &args.max_written)?;
    let endurance_bytes = size("--rated-endurance", &args.rated_endurance)?;
    let place = Place::find()?;
    let seed = args.randseed.unwrap_or_else(place::fresh_seed);
    let options = TargetOptions {
        target: &target,
        consent: &args.consent,
        results: args.results.as_deref(),
        usual_bytes: experiment.size,
        seed,
        dry_run: args.dry_run,
        was_written: None,
    };
    let resolved = resolve_target(&options, &place)?;
    let before_bytes = resolved.layout_bytes(&experiment.stages)
        + experiment.stages.first().map_or(0, |first| resolved.precondition_bytes(first));
    if let Some(most) = max_written_bytes.filter(|most| *most < before_bytes) {
        return Err(wrong(format!(
            "--max-written: found {}, but preparing the test file writes {}; give a smaller --size",
            bytes::exact(most),
            bytes::exact(before_bytes)
        )));
    }
    let mut output = Output::new(args.common.output_format);
    if args.dry_run {
        // Without a consent a device is only read.
        if let (Some(held), false) = (&resolved.held, args.consent.devices().is_empty()) {
            let intent = args.consent.intent(&held.path, true, options.results, true);
            open::rehearse_writing(&held.path, &intent)?;
        }
        resolved.can_prepare(&experiment.stages, &place).map_err(wrong)?;
        let limits = (endurance_bytes, max_written_bytes);
        let estimate = dry_run::Estimate::of(&experiment, claims.as_ref(), &resolved, limits)?;
        output.text(&estimate.text());
        output.value(&estimate.json());
        return Ok(output.end(Exit::Done));
    }
    if let (true, Some(why)) = (place.has_peers(), together::differs(&experiment)) {
        return Err(wrong(format!("--hosts: {why}")));
    }
    let left =
        args.prepared_by.as_deref().map(|path| folder::left(path, &experiment)).transpose()?;
    place.admit(resolved.held.as_slice(), resolved.layout.is_some())?;
    let mut keeper = match args.results.as_deref() {
        // Hours of results must be stored in the directory that --results names.
        Some(place) => Keeper::insist("--results DIR", place, "experiment", words)
            .or_environment("--results")?,
        None => Keeper::open(None, "experiment", words),
    };
    let run = ExperimentRun {
        schema: EXPERIMENT_SCHEMA.into(),
        program: env!("CARGO_PKG_VERSION").into(),
        experiment,
        claims,
        seed,
        target: resolved.found(&target, &place),
        max_written_bytes,
        drive_written_before: drive_written_bytes(resolved.held.as_ref()),
        max_temperature_c: args.max_temperature,
        started_unix_ns: iosonde_sys::clock::realtime_ns(),
    };
    keeper.keep_undo(resolved.held.as_ref().map_or(&[], |held| &held.undo))?;
    keeper.announce();
    keeper.keep("experiment.json", &run);
    keeper.keep("host.json", &place.host);
    let study = folder::begun(run, Some(place.host.clone()));

    let mut session = session(&place, resolved, keeper, (study, Vec::new()), &args.common)?;
    session.left = left;
    session.order_seed = args.order_seed.unwrap_or(session.order_seed);
    session.execute(None)
}

/// Prepares a session to begin or resume an experiment. `altered` lists accepted alterations.
pub(super) fn session<'a>(
    place: &'a Place,
    resolved: ResolvedTarget,
    keeper: Keeper,
    (study, altered): (Study, Vec<String>),
    args: &CommonArgs,
) -> Result<Session<'a>, Failure> {
    let eta_interval_ns = time("--eta-interval", &args.eta_interval)?;
    let form = match args.output_format {
        OutputFormat::Json => crate::cli::outputs::Form::None,
        _ => crate::cli::outputs::Form::Text,
    };
    let context = place.context(resolved.held.clone(), resolved.medium.clone());
    Ok(Session {
        place,
        resolved,
        context,
        keeper,
        progress: Progress::new("experiment", eta_interval_ns, form, None),
        printer: Printer::new(args),
        order_seed: chance::mix(study.run.seed ^ 0x0be5),
        left: None,
        study,
        altered,
        written_bytes: AtomicU64::new(0),
        is_lost: AtomicBool::new(false),
    })
}

impl Session<'_> {
    /// Runs what is missing, stage by stage, and reports on the whole experiment.
    pub(super) fn execute(mut self, old: Option<&ExperimentFolder>) -> Result<Exit, Failure> {
        let mut exit = Exit::Done;
        let stages = self.study.run.experiment.stages.clone();
        if self.needs_layout(&stages, old)? && !self.lay_out()? {
            exit = Exit::Signal(self.place.interrupted().unwrap_or(2));
        }
        let mut complete = exit == Exit::Done;
        for stage in &stages {
            if exit != Exit::Done {
                break;
            }
            let end = self.stage(stage, old)?;
            if let Some(signal) = end {
                exit = Exit::Signal(signal);
                complete = false;
            }
            if self.keeper.is_lost() {
                exit = exit.or_graver(Exit::Environment);
                complete = false;
            }
            if self.study.stages.last().is_some_and(StageFacts::is_cut_off) {
                break;
            }
        }
        self.progress.clear();
        if self.has_lost_records() {
            exit = exit.or_graver(Exit::Environment);
            complete = false;
        }
        // A stage in which no cell can be run is complete.
        let is_early = |facts: &StageFacts| {
            !facts.laid_out.ended_early.is_empty() && facts.why_not_run().is_none()
        };
        let early = self.study.stages.iter().any(is_early);
        complete &= !early && !has_lost_runs(&self.study);
        self.study.conclude();
        let nothing = self.study.stages.iter().all(|facts| facts.trials.is_empty());
        if nothing && matches!(exit, Exit::Signal(_)) {
            return Err(Failure::new(exit, "interrupted before anything was measured"));
        }
        if self.resolved.is_in_use() && self.study.why_not_run().is_some() {
            let why = "is in use by another process, and every cell writes";
            let message = format!("{} {why}; nothing was measured", self.resolved.words);
            return Err(Failure::new(Exit::Refused, message));
        }
        let target = &self.resolved.words;
        let study = (&self.study, self.altered.as_slice(), target.as_str());
        Ok(self.printer.conclude(study, complete, exit, self.keeper))
    }

    /// Whether other programs removed files while the experiment ran.
    fn has_lost_records(&mut self) -> bool {
        let gone = self.keeper.forget_gone();
        let Some(first) = gone.first() else { return false };
        let count = count::of(gone.len() as u64, "stored file");
        note(&format!("error: {count} removed by others during the experiment, first {first}"));
        self.keeper.log(&json!({ "event": "removed by others", "files": gone }));
        true
    }

    /// Whether the region must be written before the first stage: not if the preconditioning of
    /// that stage writes all of it, and not if that would destroy the state that rounds before an
    /// interruption established.
    fn needs_layout(
        &self,
        stages: &[Stage],
        old: Option<&ExperimentFolder>,
    ) -> Result<bool, Failure> {
        let Some(first) = stages.first() else { return Ok(true) };
        let is_begun = match old {
            None => false,
            Some(old) => {
                let begun = old.stage(&first.name).map_err(wrong)?;
                begun.is_some_and(|begun| !begun.prepared.is_empty())
                    || !old.trials(&first.name).map_err(wrong)?.is_empty()
            }
        };
        if !is_begun {
            return Ok(!self.resolved.is_written_by_first(stages));
        }
        Ok(!(self.resolved.keeps_state && stages.iter().any(Stage::has_state)))
    }

    /// Writes the test file; `false` if a signal interrupted it.
    fn lay_out(&mut self) -> Result<bool, Failure> {
        let Some(layout) = &self.resolved.layout else { return Ok(true) };
        self.written_bytes.fetch_add(layout.target().bytes, Ordering::Relaxed);
        lay_out(layout, &self.context, &mut self.progress).map(|signal| signal.is_none())
    }

    /// Runs the missing part of a stage; returns the signal that ended it, if any.
    fn stage(
        &mut self,
        stage: &Stage,
        old: Option<&ExperimentFolder>,
    ) -> Result<Option<i32>, Failure> {
        let (mut laid_out, mut trials) = self.begun(stage, old)?;
        let mut end_signal = None;
        if laid_out.skipped.is_empty() {
            let shared = design::shared(stage).map_err(wrong)?;
            let job = StageJob {
                experiment: &self.study.run.experiment.name,
                stage,
                laid_out: &laid_out,
                shared: &shared,
                setting: &self.resolved.setting,
                layout: self.resolved.layout.as_ref(),
                seed: self.study.run.seed,
                host: self.study.host.as_ref(),
                reads_only: self.resolved.reads_only.as_deref(),
                write_limit_bytes: self.study.run.max_written_bytes,
                drive_written_before: self.study.run.drive_written_before,
                max_temperature_c: self.study.run.max_temperature_c,
                written_bytes: &self.written_bytes,
                keeps_state: self.resolved.keeps_state,
                left: self.left.as_ref().filter(|_| self.study.stages.is_empty()),
                may_repeat: self.study.run.experiment.procedure.is_none()
                    && !stage.fixed_repeats
                    && !self.place.has_peers(),
                is_lost: &self.is_lost,
            };
            let is_lost = &self.is_lost;
            let (keeper, progress) = (&mut self.keeper, &mut self.progress);
            let (target, printer) = (&mut self.study.target, &mut self.printer);
            let names = laid_out.cells.iter().map(cell_name).collect();
            progress.begin_curve(names);
            let context = self.place.together(self.context.clone());
            let end = execute_stage(&job, &context, &mut trials, &mut |event| match event {
                StageEvent::Preparing(what) => progress.print(what),
                StageEvent::Preconditioning(pass, passes, plan) => {
                    let size = bytes::exact(plan.target().bytes);
                    let title = format!("{}: preconditioning {size}", stage.name);
                    progress.begin(*pass, *passes, &title, 0);
                }
                StageEvent::Hot(celsius) => {
                    progress.print("waiting until the device is cooler");
                    keeper.log(&json!({
                        "event": "hot", "stage": stage.name, "temperature_c": celsius,
                    }));
                }
                StageEvent::CacheSet(begun)
                | StageEvent::Purged(begun)
                | StageEvent::Prepared(begun) => {
                    progress.clear();
                    keeper.log(&match event {
                        StageEvent::CacheSet(_) => json!({
                            "event": "write cache set", "stage": stage.name,
                            "setting": begun.write_cache,
                        }),
                        StageEvent::Purged(_) => json!({
                            "event": "purged", "stage": stage.name, "purge": begun.purges.last(),
                        }),
                        _ => json!({
                            "event": "prepared", "stage": stage.name,
                            "preparation": begun.prepared.last(),
                        }),
                    });
                    keeper.keep(&StageRun::file_name(&stage.name), begun);
                }
                StageEvent::Started(done, total, plan) => {
                    let each = (stage.seconds + stage.idle_seconds) * 1e9;
                    let to_come = total.saturating_sub(done + 1) as f64 * each;
                    let title = format!("{}: {}", stage.name, plan.title);
                    progress.begin(*done, *total, &title, to_come as u64);
                }
                StageEvent::Moved(moved) => progress.moved(moved),
                StageEvent::Finished(trial, figures) => {
                    progress.clear();
                    let name =
                        TrialRun::file_name(&trial.stage, trial.position, trial.cell, trial.repeat);
                    keeper.keep_packed_cell(&format!("trials/{name}"), trial);
                    is_lost.store(keeper.is_lost(), Ordering::Relaxed);
                    keeper.log(&json!({
                        "event": "finished", "trial": name, "outcome": trial.run.outcome,
                    }));
                    target.get_or_insert_with(|| trial.run.target.clone());
                    printer.trial(stage, figures);
                    progress.point(trial.cell, figures.figures.all.total.iops);
                }
                StageEvent::LeftOut(cell, reason) => {
                    progress.clear();
                    keeper.log(&json!({
                        "event": "left out", "stage": stage.name, "cell": cell.index,
                        "because": reason,
                    }));
                }
            })?;
            (laid_out, end_signal) = (end.run, end.signal);
        }
        self.keeper.keep(&StageRun::file_name(&stage.name), &laid_out);
        let facts = StageFacts::of(stage, laid_out, trials, &self.study.stages);
        self.progress.clear();
        for point in &facts.points {
            self.progress.row(&format!("{}: {}", stage.name, point_line(point)));
        }
        self.study.stages.push(facts);
        Ok(end_signal)
    }

    /// Stage as designed before an interruption, with its complete runs; otherwise designed now.
    fn begun(
        &mut self,
        stage: &Stage,
        old: Option<&ExperimentFolder>,
    ) -> Result<(StageRun, Vec<TrialFigures>), Failure> {
        if let Some(old) = old
            && let Some(laid_out) = old.stage(&stage.name).map_err(wrong)?
            && laid_out.skipped.is_empty()
        {
            let names = old.trials(&stage.name).map_err(wrong)?;
            let host = self.study.host.as_ref();
            let keeper = &mut self.keeper;
            let mut set_aside = |name: &str, why: &str| {
                note(&format!("warning: {why}; it is set aside, and carried out again"));
                keeper.set_aside(&format!("trials/{name}")).or_environment(name)
            };
            let (mut trials, first) = folder::trials(old, &names, host, &mut |name, error| {
                set_aside(name, &error.to_string())
            })?;
            for failed in trials.extract_if(.., |trial| trial.has_failed()) {
                set_aside(&failed.file, &format!("{}: {}", stage.name, failed.failure()))?;
            }
            if self.study.target.is_none() {
                self.study.target = first;
            }
            let prepared = laid_out.prepared.iter().map(|each| each.written_bytes);
            let written = trials.iter().map(|trial| trial.written_bytes).chain(prepared).sum();
            self.written_bytes.fetch_add(written, Ordering::Relaxed);
            let files = trials.iter().map(|trial| format!("trials/{}", trial.file));
            files.for_each(|name| self.keeper.count_cell(&name));
            let reopened =
                StageRun { left_out: Vec::new(), ended_early: String::new(), ..laid_out };
            return Ok((reopened, trials));
        }
        let laid_out = self.laid_out(stage)?;
        self.keeper.keep(&StageRun::file_name(&stage.name), &laid_out);
        Ok((laid_out, Vec::new()))
    }

    fn laid_out(&self, stage: &Stage) -> Result<StageRun, Failure> {
        let mut found = Found::new();
        self.study.stages.iter().for_each(|facts| found.extend(facts.all_found()));
        let claims = self.study.run.claims.as_ref();
        let mut laid_out = StageRun {
            schema: STAGE_SCHEMA.into(),
            stage: stage.name.clone(),
            order_seed: self.order_seed,
            found,
            skipped: self.lacking(stage).unwrap_or_default(),
            ..StageRun::default()
        };
        if laid_out.skipped.is_empty() {
            match design::cells(stage, &laid_out.found, claims) {
                Ok(cells) => laid_out.cells = cells,
                // An earlier stage did not find the levels of this one: a result, not an error.
                Err(error @ design::DesignError::Source { .. }) => {
                    laid_out.skipped = error.to_string();
                }
                Err(error) => return Err(wrong(error)),
            }
        }
        Ok(laid_out)
    }
}

/// Levels of a cell as one name.
pub(super) fn cell_name(cell: &design::Cell) -> String {
    cell.levels.iter().map(|level| level.label.as_str()).collect::<Vec<_>>().join(", ")
}
