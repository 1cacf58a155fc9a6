//! The ledger file: the verifier's progress on storage.
//!
//! The operations of a job follow from the plan, so that the file needs no data per block. It holds
//! the plan and the progress of each job; a later check replays the stream up to there. Its size
//! does not depend on that of the target.
//!
//! ```text
//! first 64 bytes   "iosonde.ledger/2\n" | lengths | checksum of the header | checksum of these
//! header           JSON, to the next 512
//! per job          two sectors of 512, written alternately; 64 bytes of each hold the progress
//! failures         32 bytes each: operations that were answered with an error
//! ```
//!
//! It is written ahead: a job notes operations before it submits them. The two sectors of a job are
//! written alternately, so that a crash during a note leaves the previous one; operations announced
//! by the torn note were never submitted. A broken sector does not show whether it was torn by the
//! crash or damaged later. With one of two broken, the upper bound of that job is unknown, which is
//! reported: missing knowledge must neither raise an alarm nor be ignored.
//!
//! The version covers the format of the blocks too. Version 1 is refused: sectors of its blocks did
//! not state their place within the block.
//!
//! Every byte is checked; unused bytes must be zero. An older version of the whole file, returned
//! by faulty storage, cannot be detected: the ledger belongs on other storage than its target.

mod format;
mod read;
mod write;

use std::io;

use serde::{Deserialize, Serialize};

use crate::content::block::RunId;

pub use read::{JobProgress, LedgerError, LedgerFile, Reader};
pub(super) use write::sync_directory_of;
pub use write::{JobLedger, LedgerWriter};

/// Name and version of the file's schema.
pub const LEDGER_SCHEMA: &str = "iosonde.ledger/2";
/// Advice for a ledger of an older version.
pub(super) const OTHER_BLOCKS: &str = "blocks of version 1 do not state the position of their \
    sectors, so displaced sectors were not detected; write and check again, or check with the \
    program that wrote them";
/// Most jobs of a ledger.
pub const MAX_JOBS: u32 = 4096;
/// Longest header, bytes of JSON.
pub const MAX_HEADER_BYTES: u32 = 1 << 20;
/// Failed operations that a ledger has room for.
pub const FAILURES: u32 = 4096;

/// The run of the ledger, and everything that is needed to replay it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerHeader {
    /// [`LEDGER_SCHEMA`].
    pub schema: String,
    /// Version of the program that wrote it.
    pub program: String,
    /// Identity of the run, which every block states.
    pub run_id: RunId,
    /// Version of the algorithm that derives operations from the plan.
    pub stream_version: u32,
    /// Jobs of the plan, 1 to [`MAX_JOBS`].
    pub jobs: u32,
    pub block_bytes: u64,
    /// Length of a sector, each of which is stamped, bytes.
    pub sector_bytes: u64,
    /// The target as named by the user.
    pub target: String,
    /// Identity of the target, wherever it is attached, if known: a serial number, a UUID.
    pub identity: Option<String>,
    /// Size of the target, bytes.
    pub target_bytes: u64,
    /// First byte of the target that belongs to the run.
    pub region_start: u64,
    /// Bytes of the target that belong to the run.
    pub region_bytes: u64,
    /// Identity of the boot in which it was written, if the kernel has one.
    pub boot_id: Option<String>,
    /// Time of creation, ns since 1970.
    pub created_unix_ns: u64,
    /// Whether each note is made durable before the operations it announces are submitted. If not,
    /// notes may be lost with the host's memory.
    pub synced: bool,
    pub plan: serde_json::Value,
}

impl LedgerHeader {
    /// Why this header contradicts itself, if it does.
    fn contradiction(&self) -> Option<String> {
        let end = self.region_start.checked_add(self.region_bytes);
        let (block, sector) = (self.block_bytes, self.sector_bytes);
        if self.schema != LEDGER_SCHEMA {
            Some(format!("schema `{}`, expected `{LEDGER_SCHEMA}`; {OTHER_BLOCKS}", self.schema))
        } else if !(1..=MAX_JOBS).contains(&self.jobs) {
            Some(format!("{} jobs, expected 1 to {MAX_JOBS}", self.jobs))
        } else if sector == 0 || block == 0 || !block.is_multiple_of(sector) {
            Some(format!("blocks of {block} bytes in sectors of {sector}"))
        } else if self.region_bytes == 0 || end.is_none_or(|end| end > self.target_bytes) {
            Some(format!(
                "a region of {} bytes at {} in a target of {}",
                self.region_bytes, self.region_start, self.target_bytes
            ))
        } else {
            None
        }
    }

    /// The header in one line, which is parsed again to prove that nothing changes: a different
    /// number would derive another stream of operations.
    pub(super) fn to_json(&self) -> io::Result<String> {
        let refused = |words: String| io::Error::new(io::ErrorKind::InvalidInput, words);
        if let Some(contradiction) = self.contradiction() {
            return Err(refused(format!("the header of the ledger says {contradiction}")));
        }
        let json = serde_json::to_string(self)?;
        if serde_json::from_str::<LedgerHeader>(&json)? != *self {
            return Err(refused("the header of the ledger is not read as it was written".into()));
        }
        if json.len() as u64 > u64::from(MAX_HEADER_BYTES) {
            return Err(refused(format!("a header of {} bytes is too long", json.len())));
        }
        Ok(json)
    }

    /// Parses the output of [`to_json`](LedgerHeader::to_json), or returns what is wrong with it.
    pub(super) fn from_json(json: &[u8]) -> Result<LedgerHeader, String> {
        let header: LedgerHeader =
            serde_json::from_slice(json).map_err(|error| error.to_string())?;
        header.contradiction().map_or(Ok(header), Err)
    }

    /// Deserialises the plan.
    ///
    /// # Errors
    /// If it is not a valid plan.
    pub fn plan<P: serde::de::DeserializeOwned>(&self) -> Result<P, LedgerError> {
        P::deserialize(&self.plan).map_err(|error| LedgerError::Damaged {
            place: "the plan".into(),
            found: error.to_string(),
        })
    }

    /// Checks that this program derives operations from a plan by the same algorithm.
    pub(super) fn follows_law(&self, known: u32) -> Result<(), LedgerError> {
        if self.stream_version == known {
            return Ok(());
        }
        let (found, program) = (self.stream_version, self.program.clone());
        Err(LedgerError::OtherStream { found, known, program })
    }

    /// End of the region, bytes of the target.
    pub fn region_end(&self) -> u64 {
        self.region_start.saturating_add(self.region_bytes)
    }

    /// Checks that the blocks of this ledger fit a target.
    ///
    /// # Errors
    /// If the logical blocks of the target do not divide those of the ledger.
    pub fn fits(&self, logical_block_bytes: u64) -> Result<(), LedgerError> {
        if logical_block_bytes == 0 || !self.block_bytes.is_multiple_of(logical_block_bytes) {
            let (found, expected) = (logical_block_bytes, self.block_bytes);
            return Err(LedgerError::SectorMismatch { found, expected });
        }
        Ok(())
    }
}

/// Progress of a job. Operations are counted from the beginning of its stream.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Progress {
    /// No operation from this one on has been submitted.
    pub submitted: u64,
    /// Every operation before this one was answered, with success or not.
    pub acked: u64,
    /// Every operation before this one was answered before a flush that succeeded.
    pub durable: u64,
    /// Whether the job has ended, with nothing in flight.
    pub ended: bool,
}

impl Progress {
    /// Progress of a job that has ended: all operations answered, the first `durable` made durable.
    pub fn ended(ops: u64, durable: u64) -> Progress {
        Progress { submitted: ops, acked: ops, durable, ended: true }
    }

    /// Whether the counts are consistent.
    fn is_sound(&self) -> bool {
        let ordered = self.durable <= self.acked && self.acked <= self.submitted;
        ordered && (!self.ended || self.acked == self.submitted)
    }

    /// Whether this progress can follow the earlier one.
    fn follows(&self, earlier: &Progress) -> bool {
        !earlier.ended
            && self.submitted >= earlier.submitted
            && self.acked >= earlier.acked
            && self.durable >= earlier.durable
    }
}

#[cfg(test)]
mod tests;
