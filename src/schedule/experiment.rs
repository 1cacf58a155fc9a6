//! The runs of one stage: replicate by replicate, each cell once per replicate, in random order.
//!
//! Decisions during a stage use the results so far, by the rules of the stage; runs completed
//! before an interruption are not repeated. A stage in rounds ends with the first steady window.

mod job;
mod precondition;
mod prepared;
mod quiet;
mod rounds;
mod search;
mod waiting;
mod write_cache;
mod written;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{RunContext, execute_single};
use iosonde_analysis::experiment::{Measure, Spread, TrialFigures};
use iosonde_engine::engine::{EngineError, Medium, signal_in};
use iosonde_model::plan::design::{self, Cell};
use iosonde_model::plan::precondition::active_range;
use iosonde_model::plan::trial::{Cache, Trial, TrialError, trial};
use iosonde_model::plan::{Plan, Refusal, Setting, Stop, chance, resolve};
use iosonde_model::record::experiment::{StageRun, TRIAL_SCHEMA, TrialRun};
use iosonde_model::record::run::Outcome;
use iosonde_model::spec::experiment::{Prefill, Stage};
use iosonde_model::spec::{Direction, Precision, Role, Rw, Workload};
use iosonde_model::units::count;
use iosonde_stats::cheapest::{Setting as Level, Worse, gets_worse};
pub use job::{StageEnd, StageEvent, StageJob};
use quiet::{MOST_FURTHER, Quiet, is_disturbed};
use search::Turn;
pub use written::drive_written_bytes;

/// Runs what is left of a stage, with the write cache of the device as the stage requests it.
/// `finished` are its completed runs; new ones are added.
///
/// # Errors
/// If nothing can be measured.
pub fn execute_stage(
    job: &StageJob<'_>,
    context: &RunContext,
    finished: &mut Vec<TrialFigures>,
    on_event: &mut dyn FnMut(&StageEvent<'_>),
) -> Result<StageEnd, EngineError> {
    let run = StageRun { write_cache: write_cache::left(job), ..job.laid_out.clone() };
    let end = StageEnd { run, signal: None };
    let mut course = Course { job, context, finished, out: BTreeSet::new(), end, on_event };
    if !course.set_write_cache() {
        return Ok(course.end);
    }
    let carried_out = course.carry_out();
    course.restore_write_cache();
    carried_out.map(|()| course.end)
}

/// A running stage.
struct Course<'a> {
    job: &'a StageJob<'a>,
    context: &'a RunContext,
    /// Its completed runs.
    finished: &'a mut Vec<TrialFigures>,
    /// Cells that are not run.
    out: BTreeSet<usize>,
    end: StageEnd,
    on_event: &'a mut dyn FnMut(&StageEvent<'_>),
}

impl Course<'_> {
    fn carry_out(&mut self) -> Result<(), EngineError> {
        let (job, context) = (self.job, self.context);
        for cell in &job.laid_out.cells {
            let reason = match trial(job.stage, job.shared, cell, &setting_of(job, cell, 0)) {
                Err(error) => error.to_string(),
                Ok(planned) => match job.reads_only {
                    Some(why) if planned.plan.writes() => format!("it writes, and {why}"),
                    _ => continue,
                },
            };
            self.leave_out(cell, reason);
        }
        if !self.energised() {
            return Ok(());
        }
        let began_ns = context.clock.now_ns();
        if job.stage.prefill == Prefill::Stage && self.finished.is_empty() {
            match self.prepare()? {
                Outcome::Complete => {}
                Outcome::Interrupted { signal } => self.end.signal = Some(signal),
                Outcome::Failed { error } => {
                    return self.ends(format!("the region could not be rewritten: {error}"));
                }
            }
        }
        if self.end.signal.is_none() && !self.precondition()? {
            return Ok(());
        }
        let mut position = self.finished.iter().map(|trial| trial.position + 1).max().unwrap_or(0);
        let blocks = search::turns(job).unwrap_or(job.stage.most_repeats());
        let mut quiet = Quiet::of(job, context);
        let may_repeat = job.may_repeat && job.stage.rounds.is_none() && job.stage.search.is_none();
        let further = if may_repeat { MOST_FURTHER } else { 0 };
        for repeat in 0..blocks + further {
            if let Some(ended) = rounds::ended(job, &self.end, self.finished) {
                return self.ends(ended);
            }
            let (repeat, chosen) = match search::next(job, &self.out, self.finished) {
                None => (repeat, None),
                Some(Turn::Run { repeat, cell }) => (repeat, Some(vec![cell])),
                Some(Turn::Over(ended)) => return self.ends(ended),
            };
            // The first replicate of a stage that may end a rising sweep early runs in ascending
            // order.
            let is_rising = job.stage.until.worse_percent.is_some();
            let order = chosen.unwrap_or_else(|| match is_rising && repeat == 0 {
                true => (0..job.laid_out.cells.len()).collect(),
                false => {
                    let cells = job.laid_out.cells.len();
                    design::block(cells, repeat, job.stage.order, job.laid_out.order_seed)
                }
            });
            for place in order {
                let cell = &job.laid_out.cells[place];
                let is_done = |trial: &TrialFigures| trial.cell == place && trial.repeat == repeat;
                if self.end.signal.is_some()
                    || self.out.contains(&place)
                    || self.finished.iter().any(is_done)
                {
                    continue;
                }
                let is_further = repeat >= blocks || is_known(job.stage, place, self.finished);
                if job.stage.rounds.is_none()
                    && repeat >= job.stage.repeats
                    && is_further
                    && !(further > 0 && is_disturbed(job, place, self.finished))
                {
                    continue;
                }
                if let Some(reason) = over(job, context, began_ns) {
                    return self.ends(reason);
                }
                if let Some(reason) = worse(job, cell, self.finished) {
                    self.leave_out(cell, reason);
                    continue;
                }
                let planned = trial(job.stage, job.shared, cell, &setting_of(job, cell, repeat));
                let planned = planned.and_then(|planned| until_known(job.stage, planned));
                let planned = planned.and_then(|planned| {
                    let is_warm = planned.cache == Cache::Warm;
                    let filling = is_warm.then(|| reading_pass(&planned.plan)).transpose()?;
                    Ok((planned, filling))
                });
                let (planned, filling) = match planned {
                    Ok(planned) => planned,
                    Err(error) => {
                        self.leave_out(cell, error.to_string());
                        continue;
                    }
                };
                if let Err(reason) = self.cool() {
                    return self.ends(reason);
                }
                if waiting::idle(job.stage, context) {
                    self.end.signal = signal(context);
                    continue;
                }
                if job.stage.prefill == Prefill::Run {
                    match self.prepare()? {
                        Outcome::Complete => {}
                        Outcome::Interrupted { signal } => {
                            self.end.signal = Some(signal);
                            continue;
                        }
                        Outcome::Failed { error } => {
                            let reason = format!("the region could not be rewritten: {error}");
                            self.leave_out(cell, reason);
                            continue;
                        }
                    }
                }
                if let Some(filling) = &filling {
                    (self.on_event)(&StageEvent::Preparing("filling the page cache"));
                    if let Outcome::Failed { error } = through(filling, context)? {
                        let reason = format!("the page cache could not be filled: {error}");
                        self.leave_out(cell, reason);
                        continue;
                    }
                }
                if let Some(quiet) = &mut quiet {
                    quiet.wait(
                        |why| (self.on_event)(&StageEvent::Preparing(why)),
                        || signal(context).is_some(),
                    );
                    self.end.run.waits = job.laid_out.waits + quiet.waits;
                    self.end.run.waited_ms =
                        job.laid_out.waited_ms + quiet.waited.as_millis() as u64;
                }
                self.end.signal = signal(context);
                if self.end.signal.is_some() {
                    continue;
                }
                let total = blocks_to_come(job.stage, job.laid_out.cells.len() - self.out.len());
                // Further runs of disturbed cells are not in the estimate.
                let total = total.max(self.finished.len() + 1);
                (self.on_event)(&StageEvent::Started(self.finished.len(), total, &planned.plan));
                let run = self.one(&planned)?;
                let record = TrialRun {
                    schema: TRIAL_SCHEMA.into(),
                    experiment: job.experiment.into(),
                    stage: job.stage.name.clone(),
                    cell: place,
                    levels: cell.levels.clone(),
                    repeat,
                    position,
                    cache: cache_word(planned.cache).into(),
                    run,
                };
                if let Outcome::Interrupted { signal } = record.run.outcome {
                    self.end.signal = Some(signal);
                    continue;
                }
                let file = TrialRun::file_name(&job.stage.name, position, place, repeat);
                if let (Some(quiet), Some(device)) = (&mut quiet, &record.run.target.device) {
                    quiet.watch(&context.root, device);
                }
                let figures = TrialFigures::of(&record, &file, job.host);
                quiet.iter_mut().for_each(|quiet| quiet.seen(&figures.findings));
                job.written_bytes.fetch_add(figures.written_bytes, Ordering::Relaxed);
                (self.on_event)(&StageEvent::Finished(&record, &figures));
                self.finished.push(figures);
                position += 1;
                if job.stage.rounds.is_some()
                    && let Some(failed) = self.finished.last().filter(|trial| trial.has_failed())
                {
                    return self.ends(failed.failure());
                }
            }
        }
        Ok(())
    }

    /// Ends the stage for this reason.
    fn ends(&mut self, reason: String) -> Result<(), EngineError> {
        self.end.run.ended_early = reason;
        Ok(())
    }

    fn leave_out(&mut self, cell: &Cell, reason: String) {
        (self.on_event)(&StageEvent::LeftOut(cell, &reason));
        self.out.insert(cell.index);
        self.end.run.left_out.push((cell.index, reason));
    }

    /// Rewrites the region, and returns the outcome.
    ///
    /// # Errors
    /// If nothing can be run.
    fn prepare(&mut self) -> Result<Outcome, EngineError> {
        let Some(layout) = self.job.layout else { return Ok(Outcome::Complete) };
        (self.on_event)(&StageEvent::Preparing("rewriting the region"));
        self.job.written_bytes.fetch_add(layout.target().bytes, Ordering::Relaxed);
        outcome_of(layout, self.context)
    }

    /// Performs one run with the cache state requested by its cell.
    fn one(&mut self, planned: &Trial) -> Result<iosonde_model::record::Run, EngineError> {
        let mut own = self.context.clone();
        if let Some(held) = &mut own.held {
            held.set_direct(planned.plan.target().direct);
            if let Medium::Files(files) = &mut own.medium {
                *files = vec![Arc::clone(&held.file)];
            }
        }
        own.keeps_cache = planned.cache == Cache::Warm;
        let moved = &mut |moved: &_| (self.on_event)(&StageEvent::Moved(moved));
        let run = execute_single(&planned.plan, &own, moved)?;
        if let Some(held) = &mut own.held {
            held.set_direct(self.context.held.as_ref().is_some_and(|held| held.direct));
        }
        Ok(run)
    }
}

/// Runs a plan whose figures are not used, without waiting for other hosts.
fn outcome_of(plan: &Plan, context: &RunContext) -> Result<Outcome, EngineError> {
    Ok(execute_single(plan, &context.alone(), &mut |_| {})?.outcome)
}

/// Like [`outcome_of`], with direct I/O set as in the plan.
fn through(plan: &Plan, context: &RunContext) -> Result<Outcome, EngineError> {
    let mut own = context.clone();
    if let Some(held) = &mut own.held {
        held.set_direct(plan.target().direct);
    }
    let ended = outcome_of(plan, &own);
    if let Some(held) = &mut own.held {
        held.set_direct(context.held.as_ref().is_some_and(|held| held.direct));
    }
    ended
}

/// The seed of a run depends only on the experiment's seed and the run's index.
fn setting_of(job: &StageJob<'_>, cell: &Cell, repeat: u32) -> Setting {
    let stage = job.stage.name.bytes().fold(0, |seed, byte| chance::mix(seed ^ u64::from(byte)));
    let place = (cell.index as u64) << 32 | u64::from(repeat);
    let (warmup_ns, measured_ns) = job.stage.parts_ns();
    Setting {
        seed: chance::mix(job.seed ^ stage ^ chance::mix(place)),
        warmup_ns,
        stop: Stop::AfterNs(measured_ns.max(1)),
        ..active_range(job.stage, job.setting)
    }
}

/// Estimated number of runs of a stage; the maximum for a stage in rounds.
fn blocks_to_come(stage: &Stage, cells: usize) -> usize {
    let all = cells * stage.rounds.as_ref().map_or(stage.repeats, |rounds| rounds.max) as usize;
    stage.search.as_ref().map_or(all, |search| all.min(search.max_runs as usize))
}

fn until_known(stage: &Stage, planned: Trial) -> Result<Trial, TrialError> {
    if stage.until.known.is_empty() {
        return Ok(planned);
    }
    let precision = Precision::parse(&stage.until.known)
        .map_err(|error| TrialError::Word(format!("until.known: {error}")))?;
    Ok(Trial { plan: planned.plan.until(precision)?, ..planned })
}

fn rate(trials: &[TrialFigures], cell: usize) -> Option<Spread> {
    let own = trials.iter().filter(|trial| trial.cell == cell && trial.is_usable());
    Spread::of(own.filter_map(|t| Measure::Iops.of(&t.figures, Direction::Total)).collect())
}

/// Whether the rate of a cell has the precision requested by its stage.
fn is_known(stage: &Stage, cell: usize, finished: &[TrialFigures]) -> bool {
    let Some(wanted) = stage.until.width_percent else { return true };
    let width = rate(finished, cell).and_then(|spread| spread.width());
    // Law and Kelton's correction (method 2.8): the interval is of an estimate.
    let wanted = wanted / 100.0 / (1.0 + wanted / 100.0);
    width.is_some_and(|width| width <= wanted)
}

/// Why a level is skipped: the two previous levels, all else being equal, are both shown to be
/// worse than the best by more than the stage allows. A single run of a level is not enough.
fn worse(job: &StageJob<'_>, cell: &Cell, finished: &[TrialFigures]) -> Option<String> {
    let (stage, cells) = (job.stage, &job.laid_out.cells);
    let allowed = stage.until.worse_percent?;
    let axis = &stage.axes.first()?.name;
    let at = |cell: &Cell| cell.levels.iter().find(|level| level.axis == *axis)?.value;
    let others = |cell: &Cell| -> Vec<String> {
        let others = cell.levels.iter().filter(|level| level.axis != *axis);
        others.map(|level| level.label.clone()).collect()
    };
    let own = at(cell)?;
    let mut below: Vec<Level> = cells
        .iter()
        .filter(|each| others(each) == others(cell))
        .filter_map(|each| {
            Some(Level { cost: at(each)?, values: rate(finished, each.index)?.values })
        })
        .filter(|setting| setting.cost < own)
        .collect();
    below.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let Worse::Yes { best_cost, .. } = gets_worse(&below, allowed / 100.0, job.laid_out.order_seed)
    else {
        return None;
    };
    let best = count::setting(best_cost);
    Some(format!(
        "the two previous levels are significantly more than {allowed} % below the best, {axis} \
         {best}"
    ))
}

/// Why the stage must end now, if it must.
fn over(job: &StageJob<'_>, context: &RunContext, began_ns: u64) -> Option<String> {
    if job.is_lost.load(Ordering::Relaxed) {
        return Some("its results could no longer be stored".into());
    }
    let spent_ns = context.clock.now_ns().saturating_sub(began_ns);
    if let Some(minutes) = job.stage.until.minutes
        && spent_ns as f64 >= minutes * 60e9
    {
        return Some(format!("its time limit of {minutes} min was reached"));
    }
    written::limit_reached(job, context)
}

fn signal(context: &RunContext) -> Option<i32> {
    signal_in(&context.control.signal)
}

/// One sequential pass over all regions of a plan's jobs, through the page cache.
fn reading_pass(plan: &Plan) -> Result<Plan, Refusal> {
    let start = plan.jobs.iter().map(|job| job.region_start).min().unwrap_or(0);
    let ends = plan.jobs.iter().map(|job| job.region_start + job.region_bytes);
    let end = ends.max().unwrap_or(start);
    let block = 1 << 20;
    let depth = if plan.engine.kind.is_synchronous() { 1 } else { 4 };
    let role = Role {
        offset: Some(0),
        size: Some(end - start),
        iodepth: Some(depth),
        block_size: Some(block.min(end - start)),
        ..Role::new("warm", Rw::Read)
    };
    let workload = Workload {
        name: "warm".into(),
        title: "filling the page cache".into(),
        pattern: "read".into(),
        models: String::new(),
        block_size: block,
        read_percent: 100,
        roles: vec![role],
    };
    let setting = Setting {
        engine: plan.engine.clone(),
        targets: plan.targets.clone(),
        offset_bytes: start,
        cpus: 1,
        iodepth: depth,
        seed: plan.seed,
        warmup_ns: 0,
        stop: Stop::AfterOnePass,
        on_error: plan.on_error,
        final_sync: false,
        buffer_limit_bytes: 64 << 20,
    };
    resolve(&workload, &setting)
}

fn cache_word(cache: Cache) -> &'static str {
    match cache {
        Cache::AsOpen => "",
        Cache::Direct => "direct",
        Cache::Cold => "cold",
        Cache::Warm => "warm",
    }
}
