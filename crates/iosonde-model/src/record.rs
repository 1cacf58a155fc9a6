//! What happened: runs, histograms, series and facts. Raw, versioned, self-describing.
//!
//! Nothing here is derived: every verdict can be computed again from these types, and a record of
//! another machine renders the same here. Only `store`, `export`, `ledger_file` and `witness_log`
//! write files.

use std::fs::FileType;
use std::os::unix::fs::FileTypeExt;

pub mod checksums;
pub mod controlled;
pub mod experiment;
pub mod experiment_folder;
pub mod export;
pub mod facts;
pub mod given;
pub mod hosts;
pub mod import;
pub mod json_record;
pub mod ladder;
pub mod layers;
pub mod ledger_file;
pub mod packed;
pub mod precision;
pub mod profile;
pub mod run;
pub mod selftest;
pub mod stacks;
pub mod store;
pub mod summary;
pub mod undo;
pub mod verify;
pub mod witness;
pub mod witness_log;
pub mod write_audit;

/// What exists under a name where a regular file was expected.
fn kind_of(file_type: FileType) -> &'static str {
    if file_type.is_dir() {
        "a directory"
    } else if file_type.is_symlink() {
        "a symbolic link"
    } else if file_type.is_block_device() {
        "a block device"
    } else if file_type.is_char_device() {
        "a character device"
    } else {
        "a pipe or socket"
    }
}

pub use controlled::ControlledRun;
pub use facts::{HostFacts, TargetFacts};
pub use hosts::HostsRun;
pub use json_record::JsonRecord;
pub use ladder::LadderRun;
pub use layers::LayersRun;
pub use precision::PrecisionRun;
pub use profile::ProfileRun;
pub use run::{Batches, DirectionRun, JobRun, Outcome, Run};
pub use selftest::{Matrix, MatrixRow, Repetition, RepetitionBlock};
pub use store::{Manifest, RunFolder};
pub use verify::{VerifyJobRun, VerifyRun};
pub use witness::WitnessRun;
pub use write_audit::WriteAudit;
