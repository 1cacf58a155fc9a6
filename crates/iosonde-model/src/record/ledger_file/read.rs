//! Reads a ledger of limited length and checks every byte; unknown values are stated as unknown.

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use super::format::{
    FAILURE_BYTES, FAMILY, Failure, Layout, NOTE_BYTES, Note, PREAMBLE_BYTES, Preamble,
    SECTOR_BYTES, WORD_BYTES,
};
use super::{LEDGER_SCHEMA, LedgerHeader, OTHER_BLOCKS, Progress};
use crate::content::block::crc32c;
use crate::content::ledger::{Ledger, Survival};
use crate::content::outcomes::Outcomes;
use crate::content::replay::{Known, replay};
use crate::plan::VerifyPlan;
use crate::record::given::{self, GivenError};

/// Longest ledger, bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Why a ledger cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file is missing or cannot be read.
    #[error(transparent)]
    Given(#[from] GivenError),
    /// The file is not a ledger.
    #[error("found a file that begins with `{found}`, expected a ledger (`{LEDGER_SCHEMA}`)")]
    NotALedger {
        /// Its first bytes, escaped.
        found: String,
    },
    /// It is too long for a ledger.
    #[error("found {found} bytes, expected {expected} at most: this is not a ledger")]
    TooLong {
        /// Its length, bytes.
        found: u64,
        /// The longest ledger, bytes.
        expected: u64,
    },
    /// Its end is missing.
    #[error(
        "the ledger is cut off: found {found} bytes, expected {expected}; use a complete copy; \
         nothing can be checked without it"
    )]
    Truncated {
        /// Its length, bytes.
        found: u64,
        /// Its full length, as far as known, bytes.
        expected: u64,
    },
    /// Written by a newer program.
    #[error(
        "the ledger is of version {found}, this program reads version {known}; check with the \
         program that wrote it, or a newer one"
    )]
    NewerVersion {
        found: u64,
        /// Version that this program reads.
        known: u64,
    },
    /// Written by an older program.
    #[error("the ledger is of version {found}, this program reads version {known}; {OTHER_BLOCKS}")]
    OlderVersion {
        found: u64,
        /// Version that this program reads.
        known: u64,
    },
    /// Its operations follow from the plan by another algorithm.
    #[error(
        "the operations of this ledger follow from its plan by algorithm {found}, this program has \
         algorithm {known}; check with {program}, which wrote it"
    )]
    OtherStream {
        /// Version of its algorithm.
        found: u32,
        /// Version of this program's algorithm.
        known: u32,
        /// The program that wrote it.
        program: String,
    },
    /// The ledger is damaged.
    #[error("the ledger is damaged in {place}: {found}; use another copy, or write again")]
    Damaged {
        place: String,
        /// What is wrong there.
        found: String,
    },
    /// The blocks of the ledger are not whole sectors of the target.
    #[error(
        "the target has sectors of {found} bytes, which do not divide the ledger's blocks of \
         {expected}; check where the sectors are as small as when it was written"
    )]
    SectorMismatch {
        /// Sector of the target, bytes.
        found: u64,
        /// Block of the ledger, bytes.
        expected: u64,
    },
}

/// Properties of the program that reads a ledger, and of its machine.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// Version of the algorithm by which this program derives operations from a plan.
    pub stream_version: u32,
    /// Identity of this boot. If the ledger has another one, unsynced notes may be lost.
    pub boot_id: Option<&'a str>,
}

/// Progress of a job according to the ledger.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct JobProgress {
    /// At least the operations before this one were made durable.
    pub durable: u64,
    /// At least the operations before this one were answered.
    pub acked: u64,
    /// No operation from this one on was submitted; `None` if unknown. Data on the target can then
    /// be found to be too old, but never too new.
    pub submitted: Option<u64>,
    /// Whether the job ended in order, with nothing in flight.
    pub ended: bool,
    /// Its failed operations, in order; their changes may or may not be present.
    pub failed: Vec<u64>,
}

/// A ledger that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerFile {
    pub header: LedgerHeader,
    /// One per job.
    pub jobs: Vec<JobProgress>,
    /// Why a check with this ledger is weaker than usual, for the report. A check that passes has
    /// to state this too.
    pub notes: Vec<String>,
}

impl JobProgress {
    /// Minimum progress of the job.
    fn known(&self) -> Known {
        Known {
            submitted: self.submitted.unwrap_or(self.acked),
            acked: self.acked,
            durable: self.durable,
            failed: self.failed.clone(),
        }
    }

    /// Permitted and required content of this job's part of the target.
    pub fn ledger(&self, plan: &VerifyPlan, job: usize) -> Ledger {
        replay(plan, job, &self.known(), self.submitted.is_some())
    }
}

impl LedgerFile {
    /// Permitted and required content of a region that all jobs write concurrently.
    pub fn outcomes(&self, plan: &VerifyPlan, survival: Survival) -> Outcomes {
        let each = self.jobs.iter().map(|job| (job.known(), job.submitted.is_some()));
        Outcomes::replay(plan, &each.collect::<Vec<_>>(), survival)
    }

    /// Reads a ledger.
    ///
    /// # Errors
    /// If it is missing, not a ledger, cut off, damaged, or of another version or algorithm.
    pub fn read(path: &Path, reader: &Reader<'_>) -> Result<LedgerFile, LedgerError> {
        let (file, length) = given::open(path)?;
        let too_long = |found| LedgerError::TooLong { found, expected: MAX_FILE_BYTES };
        if length > MAX_FILE_BYTES {
            return Err(too_long(length));
        }
        let mut bytes = Vec::new();
        // The file may grow meanwhile.
        let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(GivenError::System)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(too_long(bytes.len() as u64));
        }
        LedgerFile::parse(&bytes, reader)
    }

    /// The same from bytes in memory.
    ///
    /// # Errors
    /// As [`read`](LedgerFile::read), except those of opening.
    pub fn parse(bytes: &[u8], reader: &Reader<'_>) -> Result<LedgerFile, LedgerError> {
        let preamble = preamble(bytes)?;
        let (layout, run_low) = (preamble.layout, preamble.run_low);
        let (found, expected) = (bytes.len() as u64, layout.file_bytes());
        if found < expected {
            return Err(LedgerError::Truncated { found, expected });
        }
        if found > expected {
            return Err(damaged("its end", format!("{} bytes too many", found - expected)));
        }
        let header = header(bytes, &preamble)?;
        header.follows_law(reader.stream_version)?;
        let mut ledger = LedgerFile { header, jobs: Vec::new(), notes: Vec::new() };
        let mut failures = failures(bytes, &layout, run_low)?;
        for (job, failed) in (0..layout.jobs).zip(&mut failures) {
            let notes = [note(bytes, &layout, job, 0)?, note(bytes, &layout, job, 1)?];
            let progress = ledger.judge(job, notes, run_low, std::mem::take(failed))?;
            ledger.jobs.push(progress);
        }
        ledger.weigh_the_crash(reader);
        ledger.check_failures()?;
        Ok(ledger)
    }

    /// Whether every job ended in order.
    pub fn ended(&self) -> bool {
        self.jobs.iter().all(|job| job.ended)
    }

    /// Derives the progress of a job from its two notes.
    fn judge(
        &mut self,
        job: u32,
        [even, odd]: [Option<Note>; 2],
        run_low: u64,
        failed: Vec<u64>,
    ) -> Result<JobProgress, LedgerError> {
        let place = || format!("what job {job} noted");
        let (newest, other) = match (even, odd) {
            (Some(a), Some(b)) if a.sequence > b.sequence => (a, Some(b)),
            (Some(a), Some(b)) => (b, Some(a)),
            (Some(only), None) | (None, Some(only)) => (only, None),
            (None, None) => return Err(damaged(place(), "neither of its two notes is whole")),
        };
        for (note, parity) in [(even, 0), (odd, 1)] {
            let Some(note) = note else { continue };
            if note.run_low != run_low || note.job != job || note.sequence % 2 != parity {
                let found = "a note of another run, of another job, or in the wrong place";
                return Err(damaged(place(), found));
            }
            if !note.progress.is_sound() {
                return Err(damaged(place(), format!("{:?}", note.progress)));
            }
        }
        if let Some(older) = other {
            let next = newest.sequence - older.sequence == 1
                && newest.progress.follows(&older.progress)
                && newest.failures >= older.failures;
            if !next {
                return Err(damaged(place(), "its two notes do not follow each other"));
            }
        } else if newest.progress.ended {
            // This is the job's last note; the damaged one was before it.
            self.notes.push(format!("job {job}: the note before its last is damaged"));
        } else {
            self.notes.push(format!(
                "job {job}: one of its two notes is torn or damaged; how far it had submitted is \
                 not known, so that data too new for this ledger look like data in flight"
            ));
        }
        if (failed.len() as u64) < u64::from(newest.failures) {
            let found = format!("{} of {} of job {job}", failed.len(), newest.failures);
            return Err(damaged("the failed operations", found));
        }
        let Progress { submitted, acked, durable, ended } = newest.progress;
        let submitted = (other.is_some() || ended).then_some(submitted);
        Ok(JobProgress { durable, acked, submitted, ended, failed })
    }

    /// Drops the upper bounds if unsynced notes may be lost with the memory of the machine.
    fn weigh_the_crash(&mut self, reader: &Reader<'_>) {
        let same_boot = self.header.boot_id.is_some()
            && self.header.boot_id.as_deref() == reader.boot_id.filter(|id| !id.is_empty());
        if self.ended() || same_boot || self.header.synced {
            return;
        }
        for job in self.jobs.iter_mut().filter(|job| !job.ended) {
            job.submitted = None;
        }
        self.notes.push(
            "the machine was rebooted (or this is another one) before the run had ended, and \
             the ledger was not synced: its last entries may be lost, so data too new for it \
             cannot be distinguished from data in flight"
                .into(),
        );
    }

    /// Checks that failed operations were announced before.
    fn check_failures(&self) -> Result<(), LedgerError> {
        for (number, job) in self.jobs.iter().enumerate() {
            let bound = job.submitted.unwrap_or(u64::MAX);
            // The list is sorted: the last is the highest.
            if let Some(op) = job.failed.last().filter(|op| **op >= bound) {
                let found = format!("number {op} of job {number}, which sent {bound}");
                return Err(damaged("the failed operations", found));
            }
        }
        Ok(())
    }
}

/// Reads the preamble, or returns what the file is instead.
fn preamble(bytes: &[u8]) -> Result<Preamble, LedgerError> {
    let truncated =
        LedgerError::Truncated { found: bytes.len() as u64, expected: PREAMBLE_BYTES as u64 };
    let mut word = [0; WORD_BYTES];
    word[..LEDGER_SCHEMA.len()].copy_from_slice(LEDGER_SCHEMA.as_bytes());
    word[LEDGER_SCHEMA.len()] = b'\n';
    if word.starts_with(&bytes[..bytes.len().min(WORD_BYTES)]) {
        let first = bytes.first_chunk().ok_or(truncated)?;
        return Preamble::decode(first).ok_or_else(|| {
            damaged(format!("its first {PREAMBLE_BYTES} bytes"), "their checksum does not fit")
        });
    }
    match version(bytes).zip(version(&word)) {
        Some((found, known)) if found > known => {
            return Err(LedgerError::NewerVersion { found, known });
        }
        Some((found, known)) if (1..known).contains(&found) => {
            return Err(LedgerError::OlderVersion { found, known });
        }
        _ => {}
    }
    Err(LedgerError::NotALedger { found: bytes[..bytes.len().min(16)].escape_ascii().to_string() })
}

/// The version after the schema name.
fn version(bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(FAMILY.as_bytes())?;
    let line = rest.iter().take(WORD_BYTES).position(|byte| *byte == b'\n')?;
    std::str::from_utf8(&rest[..line]).ok()?.parse().ok()
}

/// Reads the header, and checks for zeros after it.
fn header(bytes: &[u8], preamble: &Preamble) -> Result<LedgerHeader, LedgerError> {
    let place = "its header";
    let layout = &preamble.layout;
    let json = &bytes[range(PREAMBLE_BYTES as u64, layout.header_end())];
    if crc32c(json) != preamble.header_crc {
        return Err(damaged(place, "its checksum does not fit"));
    }
    let header = LedgerHeader::from_json(json).map_err(|found| damaged(place, found))?;
    if header.jobs != layout.jobs || header.run_id.0 as u64 != preamble.run_low {
        return Err(damaged(place, "it belongs to another ledger"));
    }
    all_zero(bytes, layout.header_end()..layout.note_at(0, 0), place)?;
    Ok(header)
}

/// Reads the note in this place; `None` if it is torn or damaged.
fn note(bytes: &[u8], layout: &Layout, job: u32, parity: u64) -> Result<Option<Note>, LedgerError> {
    let at = layout.note_at(job, parity);
    let end = at + NOTE_BYTES as u64;
    all_zero(bytes, end..at + SECTOR_BYTES, "what jobs noted")?;
    Ok(bytes[range(at, end)].first_chunk().and_then(Note::decode))
}

/// Failed operations per job, in order. An entry may be free: the job that reserved it died before.
fn failures(bytes: &[u8], layout: &Layout, run_low: u64) -> Result<Vec<Vec<u64>>, LedgerError> {
    let mut jobs = vec![Vec::new(); layout.jobs as usize];
    let all = &bytes[range(layout.failure_at(0), layout.file_bytes())];
    let (entries, _) = all.as_chunks::<FAILURE_BYTES>();
    for (index, entry) in entries.iter().enumerate() {
        if *entry == [0; FAILURE_BYTES] {
            continue;
        }
        let found = Failure::decode(entry).filter(|found| found.run_low == run_low);
        let list = found.and_then(|found| jobs.get_mut(found.job as usize).zip(Some(found)));
        let Some((list, Failure { op, .. })) = list else {
            return Err(damaged("the failed operations", format!("entry {index} is none")));
        };
        list.push(op);
    }
    jobs.iter_mut().for_each(|list| list.sort_unstable());
    Ok(jobs)
}

fn all_zero(bytes: &[u8], place: Range<u64>, words: &str) -> Result<(), LedgerError> {
    let rest = &bytes[range(place.start, place.end)];
    match rest.iter().position(|byte| *byte != 0) {
        Some(at) => Err(damaged(words, format!("byte {} is not zero", place.start + at as u64))),
        None => Ok(()),
    }
}

/// Converts a range; files are short enough for `usize`.
fn range(start: u64, end: u64) -> Range<usize> {
    start as usize..end as usize
}

fn damaged(place: impl Into<String>, found: impl Into<String>) -> LedgerError {
    LedgerError::Damaged { place: place.into(), found: found.into() }
}
