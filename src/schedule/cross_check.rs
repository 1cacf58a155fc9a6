//! One load, run alternately by iosonde and another program.

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use iosonde_model::plan::interleave;

use super::{RunContext, execute_single};
use iosonde_engine::engine::{EngineError, Medium, Progress};
use iosonde_engine::host::{Fio, FioError};
use iosonde_model::plan::Plan;
use iosonde_model::record::WitnessRun;
use iosonde_model::record::run::{Outcome, Run};

/// Time after the planned end at which the other program is ended, ns.
const GRACE_NS: u64 = 60_000_000_000;
/// If the load is not limited by time: largest multiple of our time that the other program may
/// take.
const PATIENCE: u64 = 20;

/// The other program and its arguments.
#[derive(Clone, Debug)]
pub struct Witness<'a> {
    /// The installed program.
    pub fio: &'a Fio,
    /// The load as its arguments, with the targets from [`witness_paths`].
    pub words: Vec<String>,
    /// Number of rounds.
    pub rounds: u32,
}

/// One round: both have run the load.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// Our measurement.
    pub ours: Run,
    /// The other program's measurement.
    pub theirs: WitnessRun,
}

/// The result of all rounds.
#[derive(Clone, Debug, Default)]
pub struct Crossed {
    /// Whole rounds.
    pub rounds: Vec<Round>,
    /// Our first run, even if its round was not completed.
    pub first: Option<Run>,
    /// Why it ended before all rounds were complete; a signal is reported by our own run.
    pub ended: Option<FioError>,
}

/// A progress event.
#[derive(Debug)]
pub enum Turn<'a> {
    /// Our run starts.
    Ours(u32),
    /// Our run progresses.
    Moved(&'a Progress),
    /// Our run has ended.
    Ended,
    /// The other program's run.
    Theirs(u32),
}

/// The plan with target paths for another program: they name the files that are open here, which
/// have no name that could be removed or recreated. So only their content can change, and our locks
/// on them stay in effect. Targets that are not files are unchanged.
pub fn witness_paths(plan: &Plan, medium: &Medium) -> Plan {
    let mut plan = plan.clone();
    if let Medium::Files(files) = medium {
        let us = std::process::id();
        for (target, file) in plan.targets.iter_mut().zip(files) {
            target.path = format!("/proc/{us}/fd/{}", file.as_raw_fd());
        }
    }
    plan
}

/// Runs a load in rounds: iosonde starts the first, the other program the second, and so on.
/// Ends early after a signal, after a run of ours that does not end as planned, and after a failure
/// of the other program.
///
/// # Errors
/// If nothing can be measured.
pub fn cross_check(
    plan: &Plan,
    context: &RunContext,
    witness: &Witness<'_>,
    on_turn: &mut dyn FnMut(&Turn<'_>),
) -> Result<Crossed, EngineError> {
    let mut crossed = Crossed::default();
    let mut limit_ns = plan.stop.length_ns().map(|ns| ns + plan.warmup_ns);
    for round in 0..witness.rounds {
        let (mut ours, mut theirs) = (None, None);
        for place in interleave::order(2, round) {
            if place == 0 {
                on_turn(&Turn::Ours(round));
                let run = execute_single(plan, context, &mut |moved| on_turn(&Turn::Moved(moved)))?;
                on_turn(&Turn::Ended);
                limit_ns = limit_ns.or(Some(run.measured_ns * PATIENCE));
                crossed.first.get_or_insert_with(|| run.clone());
                if run.outcome != Outcome::Complete {
                    return Ok(crossed);
                }
                ours = Some(run);
            } else {
                on_turn(&Turn::Theirs(round));
                let limit = Duration::from_nanos(limit_ns.unwrap_or(0) + GRACE_NS);
                match their_turn(plan, context, witness, limit) {
                    Ok(run) => theirs = Some(run),
                    Err(error) => return Ok(Crossed { ended: Some(error), ..crossed }),
                }
            }
        }
        crossed.rounds.extend(ours.zip(theirs).map(|(ours, theirs)| Round { ours, theirs }));
    }
    Ok(crossed)
}

fn their_turn(
    plan: &Plan,
    context: &RunContext,
    witness: &Witness<'_>,
    limit: Duration,
) -> Result<WitnessRun, FioError> {
    let interrupted = || context.control.signal.load(Ordering::Relaxed) != 0;
    if let Some(short) = shrunk(plan, &context.medium) {
        return Err(FioError::Ran(format!("not started: `{short}` was truncated")));
    }
    witness.fio.run(&witness.words, plan.writes(), limit, &interrupted)
}

/// The path of a file that is shorter than in the plan: writing would make it grow.
fn shrunk<'a>(plan: &'a Plan, medium: &Medium) -> Option<&'a str> {
    let Medium::Files(files) = medium else { return None };
    let is_short = |bytes: u64, file: &std::os::fd::OwnedFd| {
        let Ok(facts) = rustix::fs::fstat(file) else { return true };
        let is_file = rustix::fs::FileType::from_raw_mode(facts.st_mode).is_file();
        is_file && u64::try_from(facts.st_size).is_ok_and(|size| size < bytes)
    };
    let mut pairs = plan.targets.iter().zip(files);
    pairs.find(|(target, file)| is_short(target.bytes, file)).map(|(target, _)| &*target.path)
}
