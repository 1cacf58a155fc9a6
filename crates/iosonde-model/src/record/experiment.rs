//! Records of an experiment: the request, the layout of each stage, and one record per run.

use serde::{Deserialize, Serialize};

use super::Run;
use crate::plan::design::{Cell, Found, Level};
use crate::spec::Experiment;
use crate::spec::experiment::{Claims, Switch};

/// Name and version of the schema of [`ExperimentRun`].
pub const EXPERIMENT_SCHEMA: &str = "iosonde.experiment/1";
/// Name and version of the schema of [`StageRun`].
pub const STAGE_SCHEMA: &str = "iosonde.stage/1";
/// Name and version of the schema of [`TrialRun`].
pub const TRIAL_SCHEMA: &str = "iosonde.trial/1";

/// An experiment as requested: enough to resume it after an interruption.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ExperimentRun {
    /// [`EXPERIMENT_SCHEMA`].
    pub schema: String,
    /// Version of the program that wrote it.
    pub program: String,
    /// The experiment as carried out, with everything that it includes.
    pub experiment: Experiment,
    /// The data sheet, where one was given.
    pub claims: Option<Claims>,
    /// Seed from which the order of the runs and the seed of each were drawn.
    pub seed: u64,
    /// The measured target, as given.
    pub target: RequestedTarget,
    /// Limit of all bytes written; `None` for no limit.
    pub max_written_bytes: Option<u64>,
    /// Bytes written to the drive before the experiment, by the drive's own counter, if it has one.
    pub drive_written_before: Option<u64>,
    /// Device temperature above which no run begins, degrees Celsius; `None` for no limit.
    pub max_temperature_c: Option<u32>,
    /// Start, ns since 1970.
    pub started_unix_ns: u64,
}

/// A target as it was given on the command line.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct RequestedTarget {
    /// Path, or specification of a simulated device.
    pub path: String,
    /// Size of the test file or of the region, bytes; 0 for the whole target.
    pub bytes: u64,
    /// Name of the requested backend, if any.
    pub engine: Option<String>,
    /// The same path, absolute.
    pub place: String,
    pub used_bytes: u64,
    /// The block device underneath, by name and size, where there is one.
    pub device: String,
    /// Identity of that device, independent of its kernel name: serial number, WWN or backing file,
    /// with its size. Empty if it has none, or in records of older programs.
    pub device_identity: String,
    /// Whether buffered I/O was requested.
    pub buffered: bool,
    /// Whether the entire used range was written before the first run.
    pub is_laid_out: bool,
    /// Name of the backend in use; empty in records of older programs.
    pub used_engine: String,
    /// Whether I/O bypasses the page cache.
    pub direct: bool,
}

/// Layout of a stage, written before its first run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct StageRun {
    /// [`STAGE_SCHEMA`].
    pub schema: String,
    /// Name of the stage.
    pub stage: String,
    pub cells: Vec<Cell>,
    /// Seed of the order of its blocks.
    pub order_seed: u64,
    /// Results of earlier stages at that time.
    pub found: Found,
    /// Cells that were not carried out, by index, and why.
    pub left_out: Vec<(usize, String)>,
    /// Why the whole stage was not carried out; empty if it was.
    pub skipped: String,
    /// Why it ended before its time; empty if it did not.
    pub ended_early: String,
    /// Preparations of its target, in order: one, and another after each interruption that lost its
    /// state.
    #[serde(default)]
    pub prepared: Vec<Preparation>,
    /// All purges, in order, also of preparations that were interrupted afterwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub purges: Vec<Purged>,
    /// Write cache setting of the device, if the stage changed it.
    pub write_cache: Option<CacheSetting>,
    /// Runs that waited for a quiet machine.
    #[serde(default)]
    pub waits: u32,
    /// Milliseconds of these waits.
    #[serde(default)]
    pub waited_ms: u64,
}

/// Preparation of a state of the target. Earlier rounds measured another state.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Preparation {
    /// The first round (from 0) measured entirely in this state.
    pub first_round: u32,
    /// Completed passes of preconditioning.
    pub passes: u32,
    /// Length of the active range, bytes.
    pub range_bytes: u64,
    /// Bytes written by the passes, counted from their requests.
    pub written_bytes: u64,
    /// Start, ns since 1970.
    pub started_unix_ns: u64,
    /// End, ns since 1970.
    pub ended_unix_ns: u64,
    /// The purge before it.
    pub purge: Option<Purged>,
    /// Decision on skipping a part of it, with the reason; empty if not requested.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub decision: String,
}

/// A purge and its observed result.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Purged {
    /// Method (`nvme-format`), or `simulated`.
    pub method: String,
    /// Reason for this method.
    pub reason: String,
    /// Commands of the external program used, and its last output; empty if none was used.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// Identity of the device, as named in the consent; empty for a file.
    pub identity: String,
    /// Firmware revision, if the device reports it.
    pub firmware: String,
    /// Bytes that it covered.
    pub range_bytes: u64,
    /// Blocks of 4 KiB that were read afterwards.
    pub checked_blocks: u32,
    /// Those of them that were blank: only zeros or only ones.
    pub blank_blocks: u32,
    /// Start, ns since 1970.
    pub started_unix_ns: u64,
    /// End, ns since 1970.
    pub ended_unix_ns: u64,
}

/// Write cache setting that a stage changed for its duration.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CacheSetting {
    /// Interface used: `nvme`, `scsi`, `virtio`.
    pub way: String,
    /// State before the stage, which is restored afterwards.
    pub before: Switch,
    /// State during the stage, read back from the device.
    pub during: Switch,
    /// State afterwards, read back; `None` until the stage ends.
    pub after: Option<Switch>,
}

/// One run of one cell.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct TrialRun {
    /// [`TRIAL_SCHEMA`].
    pub schema: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the stage.
    pub stage: String,
    /// Index of the cell in its stage.
    pub cell: usize,
    /// The levels of the cell.
    pub levels: Vec<Level>,
    /// Number of the run within its cell, from 0: the number of its block.
    pub repeat: u32,
    /// Position of the run in the execution order of the stage.
    pub position: u32,
    /// Requested cache state: `direct`, `cold`, `warm`, or empty for the target's default.
    pub cache: String,
    /// What was observed.
    pub run: Run,
}

impl TrialRun {
    /// Name of its file, which sorts in execution order.
    pub fn file_name(stage: &str, position: u32, cell: usize, repeat: u32) -> String {
        format!("{stage}-{position:05}-c{cell:04}-r{repeat:02}.json.zst")
    }
}

impl StageRun {
    /// Beginning of [`StageRun::ended_early`] if preconditioning failed.
    pub const UNPREPARED: &'static str = "its target could not be preconditioned";

    /// The same if an I/O error ended a run of a stage in rounds.
    pub const RUN_FAILED: &'static str = "an I/O error ended run";

    /// The same if the device did not cool down.
    pub const TOO_HOT: &'static str = "the device stays too hot";

    pub fn file_name(stage: &str) -> String {
        format!("stage-{stage}.json")
    }
}
