//! Byte format of a ledger file. All numbers are little-endian. A structure with a checksum has it
//! in its last four bytes.

use super::{LEDGER_SCHEMA, MAX_HEADER_BYTES, MAX_JOBS, Progress};
use crate::content::block::{crc32c, le32, le64};

/// Length of the preamble, bytes.
pub(super) const PREAMBLE_BYTES: usize = 64;
/// Length of the schema name at the beginning, its line feed and the zeros after it, bytes.
pub(super) const WORD_BYTES: usize = 24;
/// Length of a job's note, bytes.
pub(super) const NOTE_BYTES: usize = 64;
/// Length of an entry of the failures, bytes.
pub(super) const FAILURE_BYTES: usize = 32;
/// Length of the sector that each of a job's two notes has, bytes.
pub(super) const SECTOR_BYTES: u64 = 512;
/// Most entries of failures.
const MAX_FAILURES: u32 = 1 << 16;

const NOTE_MAGIC: u32 = u32::from_le_bytes(*b"IOln");
const FAILURE_MAGIC: u32 = u32::from_le_bytes(*b"IOlf");
const ENDED: u32 = 1;

/// Schema name of a ledger without its version.
pub(super) const FAMILY: &str = "iosonde.ledger/";

/// Layout of the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Layout {
    /// Length of the JSON.
    pub(super) header_bytes: u32,
    pub(super) jobs: u32,
    /// Room for failures, entries.
    pub(super) failures: u32,
}

impl Layout {
    /// Whether it stays within all limits.
    pub(super) fn is_bounded(&self) -> bool {
        (1..=MAX_HEADER_BYTES).contains(&self.header_bytes)
            && (1..=MAX_JOBS).contains(&self.jobs)
            && self.failures <= MAX_FAILURES
    }

    /// End of the JSON.
    pub(super) fn header_end(&self) -> u64 {
        PREAMBLE_BYTES as u64 + u64::from(self.header_bytes)
    }

    /// Offset of a job's note with this sequence number.
    pub(super) fn note_at(&self, job: u32, sequence: u64) -> u64 {
        let place = 2 * u64::from(job) + sequence % 2;
        self.header_end().next_multiple_of(SECTOR_BYTES) + place * SECTOR_BYTES
    }

    /// Offset of an entry of the failures.
    pub(super) fn failure_at(&self, index: u32) -> u64 {
        self.note_at(self.jobs, 0) + u64::from(index) * FAILURE_BYTES as u64
    }

    /// Length of the file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.failure_at(self.failures)
    }
}

/// The preamble.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Preamble {
    pub(super) layout: Layout,
    /// Checksum of the JSON.
    pub(super) header_crc: u32,
    /// Low half of the run's identity.
    pub(super) run_low: u64,
}

impl Preamble {
    pub(super) fn encode(&self) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        bytes[..LEDGER_SCHEMA.len()].copy_from_slice(LEDGER_SCHEMA.as_bytes());
        bytes[LEDGER_SCHEMA.len()] = b'\n';
        put_u32(&mut bytes, 24, self.layout.header_bytes);
        put_u32(&mut bytes, 28, self.header_crc);
        put_u32(&mut bytes, 32, self.layout.jobs);
        put_u32(&mut bytes, 36, self.layout.failures);
        put_u64(&mut bytes, 40, self.run_low);
        seal(bytes)
    }

    /// `None` if it is damaged. The caller checks the schema name.
    pub(super) fn decode(bytes: &[u8; PREAMBLE_BYTES]) -> Option<Preamble> {
        let layout = Layout {
            header_bytes: le32(bytes, 24),
            jobs: le32(bytes, 32),
            failures: le32(bytes, 36),
        };
        let (header_crc, run_low) = (le32(bytes, 28), le64(bytes, 40));
        let found = Preamble { layout, header_crc, run_low };
        // This compares the unused zeros too.
        (found.encode() == *bytes && layout.is_bounded()).then_some(found)
    }
}

/// A job's note.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Note {
    pub(super) job: u32,
    /// Number of the note, from 1; determines its place.
    pub(super) sequence: u64,
    pub(super) progress: Progress,
    /// Failures that the job entered before this note.
    pub(super) failures: u32,
    pub(super) run_low: u64,
}

impl Note {
    pub(super) fn encode(&self) -> [u8; NOTE_BYTES] {
        let mut bytes = [0; NOTE_BYTES];
        put_u32(&mut bytes, 0, NOTE_MAGIC);
        put_u32(&mut bytes, 4, self.job);
        put_u64(&mut bytes, 8, self.sequence);
        put_u64(&mut bytes, 16, self.progress.submitted);
        put_u64(&mut bytes, 24, self.progress.acked);
        put_u64(&mut bytes, 32, self.progress.durable);
        put_u32(&mut bytes, 40, self.failures);
        put_u32(&mut bytes, 44, if self.progress.ended { ENDED } else { 0 });
        put_u64(&mut bytes, 48, self.run_low);
        seal(bytes)
    }

    /// `None` if it is damaged, was torn, or is something else.
    pub(super) fn decode(bytes: &[u8; NOTE_BYTES]) -> Option<Note> {
        let progress = Progress {
            submitted: le64(bytes, 16),
            acked: le64(bytes, 24),
            durable: le64(bytes, 32),
            ended: le32(bytes, 44) == ENDED,
        };
        let found = Note {
            job: le32(bytes, 4),
            sequence: le64(bytes, 8),
            progress,
            failures: le32(bytes, 40),
            run_low: le64(bytes, 48),
        };
        (found.encode() == *bytes).then_some(found)
    }
}

/// An operation that failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Failure {
    pub(super) job: u32,
    pub(super) op: u64,
    pub(super) run_low: u64,
}

impl Failure {
    pub(super) fn encode(&self) -> [u8; FAILURE_BYTES] {
        let mut bytes = [0; FAILURE_BYTES];
        put_u32(&mut bytes, 0, FAILURE_MAGIC);
        put_u32(&mut bytes, 4, self.job);
        put_u64(&mut bytes, 8, self.op);
        put_u64(&mut bytes, 16, self.run_low);
        seal(bytes)
    }

    pub(super) fn decode(bytes: &[u8; FAILURE_BYTES]) -> Option<Failure> {
        let found = Failure { job: le32(bytes, 4), op: le64(bytes, 8), run_low: le64(bytes, 16) };
        (found.encode() == *bytes).then_some(found)
    }
}

/// Stores the checksum of the bytes before in the last four.
fn seal<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    let crc = crc32c(&bytes[..N - 4]);
    put_u32(&mut bytes, N - 4, crc);
    bytes
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
