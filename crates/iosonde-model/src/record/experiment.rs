//! What an experiment did: the question as it was asked, each stage as it was laid out, and one
//! record for each run.

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

/// An experiment as it was asked: enough to go on with it after an interruption.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ExperimentRun {
    /// [`EXPERIMENT_SCHEMA`].
    pub schema: String,
    /// Version of the program that wrote it.
    pub program: String,
    /// The experiment with everything that it includes, as it was carried out.
    pub experiment: Experiment,
    /// The data sheet, where one was given.
    pub claims: Option<Claims>,
    /// Seed from which the order of the runs and the seed of each were drawn.
    pub seed: u64,
    /// What is measured, as it was given.
    pub target: RequestedTarget,
    /// Bytes that it may write in all; `None` for no limit.
    pub max_written_bytes: Option<u64>,
    /// Bytes written to the drive before it, by the drive's own count, where it has one.
    pub drive_written_before: Option<u64>,
    /// Temperature of the device above which no run begins, degrees Celsius; `None` for no limit.
    pub max_temperature_c: Option<u32>,
    /// Start, ns since 1970.
    pub started_unix_ns: u64,
}

/// A target as it was given on the command line.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct RequestedTarget {
    /// Path, or the words of a simulated device.
    pub path: String,
    /// Size of the test file or of the region, bytes; 0 for the whole target.
    pub bytes: u64,
    /// Backend by name, where one was asked for.
    pub engine: Option<String>,
    /// The same path, absolute.
    pub place: String,
    pub used_bytes: u64,
    /// The block device underneath, by name and size, where there is one.
    pub device: String,
    /// What identifies that device, whatever the kernel calls it after the next start: serial
    /// number, WWN or backing file, and its size; empty where nothing does, or an older program did
    /// not note it.
    pub device_identity: String,
    /// Whether the page cache was asked for.
    pub buffered: bool,
    /// Whether all of what is used was written before the first run.
    pub is_laid_out: bool,
    /// Backend by name that is used; empty where an older program did not note it.
    pub used_engine: String,
    /// Whether I/O goes past the page cache.
    pub direct: bool,
}

/// A stage as it was laid out, written before its first run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct StageRun {
    /// [`STAGE_SCHEMA`].
    pub schema: String,
    /// Which stage.
    pub stage: String,
    pub cells: Vec<Cell>,
    /// Seed of the order of its blocks.
    pub order_seed: u64,
    /// What earlier stages had found by then.
    pub found: Found,
    /// Cells that were not carried out, by their place, and why.
    pub left_out: Vec<(usize, String)>,
    /// Why the whole stage was not carried out; empty if it was.
    pub skipped: String,
    /// Why it ended before its time; empty if it did not.
    pub ended_early: String,
    /// How its target was prepared for it, in order: once, or again after an interruption that lost
    /// its state.
    #[serde(default)]
    pub prepared: Vec<Preparation>,
    /// Every purge, in order: also one whose preparation was interrupted after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub purges: Vec<Purged>,
    /// The write cache of the device, where the stage set it.
    pub write_cache: Option<CacheSetting>,
    /// Runs that waited for a quiet machine.
    #[serde(default)]
    pub waits: u32,
    /// Milliseconds of these waits.
    #[serde(default)]
    pub waited_ms: u64,
}

/// The beginning of a state of the target: rounds before it are of another state.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Preparation {
    /// The first round (from 0) that is wholly of this state.
    pub first_round: u32,
    /// Passes of preconditioning that were completed.
    pub passes: u32,
    /// Length of the active range, bytes.
    pub range_bytes: u64,
    /// Bytes that the passes wrote, as counted from their requests.
    pub written_bytes: u64,
    /// Start, ns since 1970.
    pub started_unix_ns: u64,
    /// End, ns since 1970.
    pub ended_unix_ns: u64,
    /// The purge that came first.
    pub purge: Option<Purged>,
    /// What was decided on leaving out a part of it, and why; empty where that was not requested.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub decision: String,
}

/// A purge, and what was seen of it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Purged {
    /// What was done (`nvme-format`), or `simulated`.
    pub method: String,
    /// Why this method.
    pub reason: String,
    /// Commands of an outside program that did it, and what it printed last; empty where none did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// Who agreed: identity of the device, as the consent named it; empty for a file.
    pub identity: String,
    /// First revision of the firmware, where the device reports it.
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

/// A setting of the device that a stage changed for its time.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CacheSetting {
    /// What changes it: `nvme`, `scsi`, `virtio`.
    pub way: String,
    /// State before, to which it is returned.
    pub before: Switch,
    /// State during the stage, read back from the device.
    pub during: Switch,
    /// State afterwards, read back; `None` while the stage is not over.
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
    /// Place of the cell in its stage.
    pub cell: usize,
    /// The levels of the cell.
    pub levels: Vec<Level>,
    /// Which run of the cell, from 0: the number of its block.
    pub repeat: u32,
    /// Its place in the order in which the runs of the stage were carried out.
    pub position: u32,
    /// Which cache was to answer: `direct`, `cold`, `warm`, or empty for what the target gives.
    pub cache: String,
    /// What was observed.
    pub run: Run,
}

impl TrialRun {
    /// Name of its file: it sorts in the order of the runs.
    pub fn file_name(stage: &str, position: u32, cell: usize, repeat: u32) -> String {
        format!("{stage}-{position:05}-c{cell:04}-r{repeat:02}.json.zst")
    }
}

impl StageRun {
    /// How [`StageRun::ended_early`] begins where the preconditioning did not succeed.
    pub const UNPREPARED: &'static str = "its target could not be preconditioned";

    /// How it begins where an I/O error ended a run of a stage in rounds.
    pub const RUN_FAILED: &'static str = "an I/O error ended run";

    /// How it begins where the device did not become cooler.
    pub const TOO_HOT: &'static str = "the device stays too hot";

    pub fn file_name(stage: &str) -> String {
        format!("stage-{stage}.json")
    }
}
