//! Writing a ledger: made whole before the first operation, then one small write per note.

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

/// What the jobs have in common: nothing that is written while all goes well.
#[derive(Debug)]
struct Shared {
    file: File,
    layout: Layout,
    run_low: u64,
    synced: bool,
    /// The first free place among the failures.
    failures: AtomicU32,
    /// Where the jobs stopped that write no more.
    tails: Mutex<Vec<Tail>>,
}

impl Shared {
    fn tails(&self) -> MutexGuard<'_, Vec<Tail>> {
        // A push is whole or was not made.
        self.tails.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a job's part of the ledger ends.
#[derive(Clone, Copy, Debug)]
struct Tail {
    job: u32,
    /// Number of the last note.
    sequence: u64,
    last: Progress,
    /// Entries among the failures.
    failures: u32,
}

impl Tail {
    /// The next note.
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
    /// Makes the file, complete and durable, with one part per job of the header. The name has to
    /// be free.
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
        // Never follows a link, and never opens what is there.
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
            // It is ours and holds nothing yet. The first error is the one to tell.
            let _ = fs::remove_file(path);
        }
        Ok((LedgerWriter { shared }, filled?))
    }

    /// Notes that every job came to its end, with nothing in flight, and makes all durable. From
    /// then on the ledger is exact on any machine. Without it, its jobs count as killed.
    ///
    /// # Errors
    /// If a job's own part still exists or is missing here, if a count contradicts an earlier one,
    /// or if it cannot be written.
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

/// Writes the beginning and two notes per job that say nothing, so that an empty place is damage.
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

/// A name is durable only with its directory.
pub(in crate::record) fn sync_directory_of(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

/// The part of a ledger that one job writes, from whichever thread it runs on.
#[derive(Debug)]
pub struct JobLedger {
    shared: Arc<Shared>,
    tail: Tail,
}

impl JobLedger {
    /// Notes how far the job has come and what it is about to submit: one write of 64 bytes, and
    /// no allocation. To be called before the operations are handed over. `submitted` may be
    /// rounded up and the other counts down, for fewer notes and a laxer check of the last ones.
    ///
    /// # Errors
    /// If it cannot be written, or the counts contradict each other or an earlier note. What was
    /// announced must then not be submitted.
    pub fn note(&mut self, progress: Progress) -> io::Result<()> {
        self.tail = self.tail.put(&self.shared, progress)?;
        if self.shared.synced { self.shared.file.sync_data() } else { Ok(()) }
    }

    /// Notes that an operation was answered with an error, and waits until that has reached
    /// storage. To be called before the note that counts it as answered.
    ///
    /// # Errors
    /// If it cannot be written, or there have been too many.
    pub fn failed(&mut self, op: u64) -> io::Result<()> {
        let last = self.tail.last;
        if op >= last.submitted {
            // One that changes nothing needs no announcement before.
            self.tail = self
                .tail
                .put(&self.shared, Progress { submitted: op.saturating_add(1), ..last })?;
        }
        let Shared { file, layout, run_low, failures, .. } = &*self.shared;
        let index = failures.fetch_add(1, Ordering::Relaxed);
        if index >= layout.failures {
            // Stays full however often it is asked.
            failures.store(layout.failures, Ordering::Relaxed);
            let words = format!("too many operations failed, the ledger holds {}", layout.failures);
            return Err(io::Error::other(words));
        }
        let failure = Failure { job: self.tail.job, op, run_low: *run_low };
        file.write_all_at(&failure.encode(), layout.failure_at(index))?;
        self.tail.failures += 1;
        file.sync_data()
    }

    /// How far the job had come at the last note.
    pub fn noted(&self) -> Progress {
        self.tail.last
    }
}

impl Drop for JobLedger {
    /// Leaves word of where it stopped, for [`LedgerWriter::finish`].
    fn drop(&mut self) {
        self.shared.tails().push(self.tail);
    }
}
