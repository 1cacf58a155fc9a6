//! What a verifier remembers outside of its memory: the ledger file.
//!
//! The operations of a job follow from the plan, so that the file needs no word about blocks. It
//! holds the plan and, per job, how far the job has come; whoever checks later replays the stream
//! that far. It is as small for a petabyte as for a page.
//!
//! ```text
//! first 64 bytes   "iosonde.ledger/2\n" | lengths | checksum of the header | checksum of these
//! header           JSON, to the next 512
//! per job          two sectors of 512, of which 64 hold how far the job has come, in turn
//! failures         32 bytes each: operations that were answered with an error
//! ```
//!
//! It is written ahead: a job notes what it is about to submit before it does. The two sectors of a
//! job are written in turn, so that a death in the middle of a note leaves the one before; what the
//! torn one announced was never submitted. One cannot see from a broken sector, however, whether it
//! was torn then or damaged since. With one of two broken, the upper bound of that job is unknown,
//! and this is reported: too little knowledge must neither raise an alarm nor pass in silence.
//!
//! The version is that of the blocks, too: version 1 was about blocks whose sectors did not state
//! their place within the block, and is refused.
//!
//! Every byte counts: what is not used is zero and is checked to be. What cannot be noticed is that
//! storage gives back an older version of the whole file, so the ledger belongs on other storage
//! than the one it is about.

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
/// What to do about a ledger of an older version.
pub(super) const OTHER_BLOCKS: &str = "blocks of version 1 do not state the position of their \
    sectors, so displaced sectors were not detected; write and check again, or check with the \
    program that wrote them";
/// Most jobs of a ledger.
pub const MAX_JOBS: u32 = 4096;
/// Longest header, bytes of JSON.
pub const MAX_HEADER_BYTES: u32 = 1 << 20;
/// Failed operations that a ledger has room for.
pub const FAILURES: u32 = 4096;

/// Which run the ledger is about, and everything that is needed to replay it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerHeader {
    /// [`LEDGER_SCHEMA`].
    pub schema: String,
    /// Version of the program that wrote it.
    pub program: String,
    /// Identity of the run, which stands in every block.
    pub run_id: RunId,
    /// Version of the law by which operations follow from the plan.
    pub stream_version: u32,
    /// Jobs of the plan, 1 to [`MAX_JOBS`].
    pub jobs: u32,
    pub block_bytes: u64,
    /// Bytes of a sector, each of which is stamped.
    pub sector_bytes: u64,
    /// The target as it was named.
    pub target: String,
    /// What the target is wherever it is attached, if that is known: a serial number, a UUID.
    pub identity: Option<String>,
    /// Size of the target, bytes.
    pub target_bytes: u64,
    /// First byte of the target that belongs to the run.
    pub region_start: u64,
    /// Bytes of the target that belong to the run.
    pub region_bytes: u64,
    /// Identity of the boot in which it was written, if the kernel has one.
    pub boot_id: Option<String>,
    /// When it was made, ns since 1970.
    pub created_unix_ns: u64,
    /// Whether each note is made durable before the operations it announces are submitted. If not,
    /// notes may be lost with the host's memory.
    pub synced: bool,
    pub plan: serde_json::Value,
}

impl LedgerHeader {
    /// Why this header makes no sense, if so.
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

    /// The header in one line, which is proved to be read as it was meant: a number that came back
    /// different would make another stream of operations.
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

    /// What was written by [`to_json`](LedgerHeader::to_json), or what is wrong with it.
    pub(super) fn from_json(json: &[u8]) -> Result<LedgerHeader, String> {
        let header: LedgerHeader =
            serde_json::from_slice(json).map_err(|error| error.to_string())?;
        header.contradiction().map_or(Ok(header), Err)
    }

    /// The plan as its own type.
    ///
    /// # Errors
    /// If it is none.
    pub fn plan<P: serde::de::DeserializeOwned>(&self) -> Result<P, LedgerError> {
        P::deserialize(&self.plan).map_err(|error| LedgerError::Damaged {
            place: "the plan".into(),
            found: error.to_string(),
        })
    }

    /// Whether operations follow from a plan here by the law that this one was carried out by.
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

    /// Whether a target can hold what this ledger is about.
    ///
    /// # Errors
    /// If its sectors do not divide the blocks.
    pub fn fits(&self, logical_block_bytes: u64) -> Result<(), LedgerError> {
        if logical_block_bytes == 0 || !self.block_bytes.is_multiple_of(logical_block_bytes) {
            let (found, expected) = (logical_block_bytes, self.block_bytes);
            return Err(LedgerError::SectorMismatch { found, expected });
        }
        Ok(())
    }
}

/// How far a job has come. Operations are counted from the beginning of its stream.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Progress {
    /// No operation from this one on has been handed over.
    pub submitted: u64,
    /// Every operation before this one was answered, well or not.
    pub acked: u64,
    /// Every operation before this one was answered before a flush that succeeded.
    pub durable: u64,
    /// Nothing follows, and nothing is in flight.
    pub ended: bool,
}

impl Progress {
    /// All of a job's operations were answered, and so many of them made durable.
    pub fn ended(ops: u64, durable: u64) -> Progress {
        Progress { submitted: ops, acked: ops, durable, ended: true }
    }

    /// Whether the counts can be true together.
    fn is_sound(&self) -> bool {
        let ordered = self.durable <= self.acked && self.acked <= self.submitted;
        ordered && (!self.ended || self.acked == self.submitted)
    }

    /// Whether this can come after that.
    fn follows(&self, earlier: &Progress) -> bool {
        !earlier.ended
            && self.submitted >= earlier.submitted
            && self.acked >= earlier.acked
            && self.durable >= earlier.durable
    }
}

#[cfg(test)]
mod tests;
