//! A stage to run, what happens in it, and how it ends.

use std::sync::atomic::{AtomicBool, AtomicU64};

use iosonde_analysis::experiment::TrialFigures;
use iosonde_analysis::experiment::prepared::Left;
use iosonde_engine::engine::Progress;
use iosonde_model::plan::design::Cell;
use iosonde_model::plan::{Plan, Setting};
use iosonde_model::record::HostFacts;
use iosonde_model::record::experiment::{StageRun, TrialRun};
use iosonde_model::spec::experiment::{Parameter, Stage, Value};

/// A stage to run.
#[derive(Debug)]
pub struct StageJob<'a> {
    /// Name of the experiment.
    pub experiment: &'a str,
    /// The stage as requested.
    pub stage: &'a Stage,
    /// The resolved design.
    pub laid_out: &'a StageRun,
    /// The parameters set by all its cells.
    pub shared: &'a [(Parameter, Value)],
    /// The defaults for what its cells leave open.
    pub setting: &'a Setting,
    /// The plan that writes the whole region, if allowed.
    pub layout: Option<&'a Plan>,
    /// Seed of the experiment.
    pub seed: u64,
    /// The machine.
    pub host: Option<&'a HostFacts>,
    /// Why nothing may be written; `None` if it may.
    pub reads_only: Option<&'a str>,
    /// Bytes that the whole experiment may write; `None` for no limit.
    pub write_limit_bytes: Option<u64>,
    /// Bytes written to the drive before the experiment, by its own count, where it has one.
    pub drive_written_before: Option<u64>,
    /// Temperature of the device above which no run begins, degrees Celsius.
    pub max_temperature_c: Option<u32>,
    /// Bytes written so far, test file preparation included.
    pub written_bytes: &'a AtomicU64,
    /// Whether the target keeps its data between two commands. A test file that is created again
    /// does not.
    pub keeps_state: bool,
    /// The state in which an earlier experiment left the target, if that may be used.
    pub left: Option<&'a Left>,
    /// Whether runs may wait for a quiet machine, and be repeated if disturbed: not in a published
    /// procedure.
    pub may_repeat: bool,
    /// Whether results can no longer be stored.
    pub is_lost: &'a AtomicBool,
}

/// What happens in a stage.
#[derive(Debug)]
pub enum StageEvent<'a> {
    /// The region is rewritten, or the page cache filled.
    Preparing(&'static str),
    /// A pass of preconditioning begins: its number from 0, the number of passes, and its plan.
    Preconditioning(usize, usize, &'a Plan),
    /// The device has this temperature, degrees Celsius, and rests until it is cooler.
    Hot(i64),
    /// The write cache of the device was set; the stage so far.
    CacheSet(&'a StageRun),
    /// The target was purged; the stage so far.
    Purged(&'a StageRun),
    /// The target is prepared; the stage so far.
    Prepared(&'a StageRun),
    /// A run begins: number of completed runs, total number of runs, and its plan.
    Started(usize, usize, &'a Plan),
    /// The run progresses.
    Moved(&'a Progress),
    /// The run has ended.
    Finished(&'a TrialRun, &'a TrialFigures),
    /// A cell is skipped, and why.
    LeftOut(&'a Cell, &'a str),
}

/// The result of a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageEnd {
    /// The resolved design with its results.
    pub run: StageRun,
    /// The signal that ended it.
    pub signal: Option<i32>,
}
