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
    /// As requested.
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
    /// Why nothing may be written, where that is so.
    pub reads_only: Option<&'a str>,
    /// Bytes that the whole experiment may write; `None` for no limit.
    pub write_limit_bytes: Option<u64>,
    /// Bytes written to the drive before the experiment, by its own count, where it has one.
    pub drive_written_before: Option<u64>,
    /// Temperature of the device above which no run begins, degrees Celsius.
    pub max_temperature_c: Option<u32>,
    /// Bytes written so far, test file preparation included.
    pub written_bytes: &'a AtomicU64,
    /// Whether the target keeps what was written while the program does not run: a test file that
    /// is created again does not.
    pub keeps_state: bool,
    /// What an earlier experiment left on the target, if that may be used.
    pub left: Option<&'a Left>,
    /// Whether runs may wait for a quiet machine, and be repeated if others disturbed them: not in
    /// a published procedure.
    pub may_repeat: bool,
    /// Whether what is measured can no longer be kept.
    pub is_lost: &'a AtomicBool,
}

/// What happens in a stage.
#[derive(Debug)]
pub enum StageEvent<'a> {
    /// The region is rewritten, or the page cache filled.
    Preparing(&'static str),
    /// A pass of preconditioning begins: its number from 0, how many there are, and its plan.
    Preconditioning(usize, usize, &'a Plan),
    /// The device is this hot, degrees Celsius, and is left alone until it is cooler.
    Hot(i64),
    /// The write cache of the device was set; the stage so far.
    CacheSet(&'a StageRun),
    /// The target was purged; the stage so far.
    Purged(&'a StageRun),
    /// The target is in the state in which the stage begins; the stage so far.
    Prepared(&'a StageRun),
    /// A run begins: how many have ended, how many there are to be, and its plan.
    Started(usize, usize, &'a Plan),
    /// It moves on.
    Moved(&'a Progress),
    /// It has ended.
    Finished(&'a TrialRun, &'a TrialFigures),
    /// A cell is skipped, and why.
    LeftOut(&'a Cell, &'a str),
}

/// The result of a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageEnd {
    /// As it was laid out, with what came of it.
    pub run: StageRun,
    /// The signal that ended it.
    pub signal: Option<i32>,
}
