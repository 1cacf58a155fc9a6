//! Writes a ledger: the whole file before the first operation, then one small write per note.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::format::{Failure, Layout, Note, Preamble};
use super::{FAILURES, LedgerHeader, Progress};
use crate::content::block::crc32c;
use crate::record::export::directory_of;
use crate::record::store::create_new;

/// A ledger that is being written. Each job writes its own part.
#[derive(Debug)]
pub struct LedgerWriter {
    shared: Arc<Shared>,
}

/// State shared by the jobs, which is not written while there are no errors.
#[derive(Debug)]
struct Shared {
    file: File,
    layout: Layout,
    run_low: u64,
    synced: bool,
    /// Index of the first free entry of the failures.
    failures: AtomicU32,
    /// Ends of the parts of jobs that have stopped.
    tails: Mutex<Vec<Tail>>,
}

impl Shared {
    fn tails(&self) -> MutexGuard<'_, Vec<Tail>> {
        // A panic elsewhere leaves the list intact: a push is complete or did not happen.
        self.tails.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// End of a job's part of the ledger.
#[derive(Clone, Copy, Debug)]
struct Tail {
    job: u32,
    /// Number of the last note.
    sequence: u64,
    last: Progress,
    /// Number of failures entered.
    failures: u32,
}

impl Tail {
    /// Writes the next note.
    fn put(mut self, shared: &Shared, progress: Progress) -> io::Result<Tail> {
        if !(progress.is_sound() && progress.follows(&self.last)) {
            let words = format!("found {progress:?} after {:?}", self.last);
            return Err(refused(format!("the counts of a job contradict each other: {words}")));
        }
        (self.sequence, self.last) = (self.sequence + 1, progress);
        let Tail { job, sequence, failures, .. } = self;
        let note = Note { job, sequence, progress, failures, run_low: shared.run_low };
        shared.file.write_all_at(&note.encode(), shared.layout.note_at(job, sequence))?;
        Ok(self)
    }
}

impl LedgerWriter {
    /// Creates the file, complete and durable, with one part per job of the header. The name must
    /// be unused.
    ///
    /// # Errors
    /// If the name is taken, even by a link that leads nowhere; if the header contradicts itself or
    /// cannot be read back as it is; if the file cannot be written.
    pub fn create(
        path: &Path,
        header: &LedgerHeader,
    ) -> io::Result<(LedgerWriter, Vec<JobLedger>)> {
        LedgerWriter::create_with_room(path, header, FAILURES)
    }

    pub(super) fn create_with_room(
        path: &Path,
        header: &LedgerHeader,
        failures: u32,
    ) -> io::Result<(LedgerWriter, Vec<JobLedger>)> {
        let json = header.to_json()?.into_bytes();
        let header_bytes = u32::try_from(json.len()).unwrap_or(u32::MAX);
        let layout = Layout { header_bytes, jobs: header.jobs, failures };
        // This never follows a link and never opens an existing file.
        let file = create_new(path)?;
        let run_low = header.run_id.0 as u64;
        let shared = Arc::new(Shared {
            file,
            layout,
            run_low,
            synced: header.synced,
            failures: AtomicU32::new(0),
            tails: Mutex::default(),
        });
        let filled = fill(&shared, &json).and_then(|jobs| {
            shared.file.sync_all()?;
            sync_directory_of(path)?;
            Ok(jobs)
        });
        if filled.is_err() {
            // The file is ours and holds nothing yet. The first error is the one to report.
            let _ = fs::remove_file(path);
        }
        Ok((LedgerWriter { shared }, filled?))
    }

    /// Notes that every job has ended, with nothing in flight, and makes the file durable. From
    /// then on the ledger is exact on any machine. Without this, its jobs count as killed.
    ///
    /// # Errors
    /// If a job's [`JobLedger`] still exists, if an end is missing, if a count contradicts an
    /// earlier one, or if the file cannot be written.
    pub fn finish(self, ends: &[Progress]) -> io::Result<()> {
        let tails = std::mem::take(&mut *self.shared.tails());
        if tails.len() != ends.len() || ends.len() != self.shared.layout.jobs as usize {
            let found = format!("{} of {} jobs", tails.len(), self.shared.layout.jobs);
            return Err(refused(format!("the ledger cannot be ended: {found} have ended")));
        }
        for tail in tails {
            let end = Progress { ended: true, ..ends[tail.job as usize] };
            tail.put(&self.shared, end)?;
        }
        self.shared.file.sync_all()
    }
}

/// Writes preamble, header and two initial notes per job, so that an empty note means damage.
fn fill(shared: &Arc<Shared>, json: &[u8]) -> io::Result<Vec<JobLedger>> {
    let Shared { file, layout, run_low, .. } = &**shared;
    file.set_len(layout.file_bytes())?;
    let preamble = Preamble { layout: *layout, header_crc: crc32c(json), run_low: *run_low };
    let mut head = preamble.encode().to_vec();
    head.extend_from_slice(json);
    file.write_all_at(&head, 0)?;
    (0..layout.jobs)
        .map(|job| {
            let tail = Tail { job, sequence: 0, last: Progress::default(), failures: 0 };
            let tail = tail.put(shared, tail.last)?.put(shared, tail.last)?;
            Ok(JobLedger { shared: Arc::clone(shared), tail })
        })
        .collect()
}

fn refused(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, words)
}

/// Makes a file's name durable: syncs its directory.
pub(in crate::record) fn sync_directory_of(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

/// The part of a ledger that one job writes, from any thread.
#[derive(Debug)]
pub struct JobLedger {
    shared: Arc<Shared>,
    tail: Tail,
}

impl JobLedger {
    /// Notes the progress of the job and what it is about to submit: one write of 64 bytes, without
    /// allocation. Call it before the operations are submitted. `submitted` may be rounded up and
    /// the other counts down, for fewer notes and a laxer check of the last operations.
    ///
    /// # Errors
    /// If it cannot be written, or the counts contradict each other or an earlier note. The
    /// announced operations must then not be submitted.
    pub fn note(&mut self, progress: Progress) -> io::Result<()> {
        self.tail = self.tail.put(&self.shared, progress)?;
        if self.shared.synced { self.shared.file.sync_data() } else { Ok(()) }
    }

    /// Notes that an operation failed, and waits until the note is on storage. Call it before the
    /// note that counts the operation as answered.
    ///
    /// # Errors
    /// If it cannot be written, or there are too many failures.
    pub fn failed(&mut self, op: u64) -> io::Result<()> {
        let last = self.tail.last;
        if op >= last.submitted {
            // An operation that changes nothing may not have been announced.
            self.tail = self
                .tail
                .put(&self.shared, Progress { submitted: op.saturating_add(1), ..last })?;
        }
        let Shared { file, layout, run_low, failures, .. } = &*self.shared;
        let index = failures.fetch_add(1, Ordering::Relaxed);
        if index >= layout.failures {
            // Keeps the counter from overflowing.
            failures.store(layout.failures, Ordering::Relaxed);
            let words = format!("too many operations failed, the ledger holds {}", layout.failures);
            return Err(io::Error::other(words));
        }
        let failure = Failure { job: self.tail.job, op, run_low: *run_low };
        file.write_all_at(&failure.encode(), layout.failure_at(index))?;
        self.tail.failures += 1;
        file.sync_data()
    }

    /// Progress of the job at the last note.
    pub fn noted(&self) -> Progress {
        self.tail.last
    }
}

impl Drop for JobLedger {
    /// Stores the end of this part, for [`LedgerWriter::finish`].
    fn drop(&mut self) {
        self.shared.tails().push(self.tail);
    }
}
