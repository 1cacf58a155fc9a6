//! Writing a ledger: made whole before the first operation, then one small write per note.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::format::{Failure, Layout, Note, Preamble};
use super::{FAILURES, LedgerHeader, Progress};
use crate::content::block::crc32c;

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
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let run_low = header.run_id.0 as u64;
        let shared = Arc::new(Shared {
            file,
            layout,
            run_low,
            synced: header.synced,
            failures: AtomicU32::new(0),
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

    /// Makes everything durable that the jobs have noted. Which of them have ended, each has noted
    /// itself.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> io::Result<()> {
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
            let mut ledger = JobLedger {
                shared: Arc::clone(shared),
                job,
                sequence: 0,
                last: Progress::default(),
                failures: 0,
            };
            ledger.put(Progress::default())?;
            ledger.put(Progress::default())?;
            Ok(ledger)
        })
        .collect()
}

fn refused(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, words)
}

/// A name is durable only with its directory.
pub(in crate::record) fn sync_directory_of(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// The part of a ledger that one job writes, from whichever thread it runs on.
#[derive(Debug)]
pub struct JobLedger {
    shared: Arc<Shared>,
    job: u32,
    sequence: u64,
    last: Progress,
    failures: u32,
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
        self.put(progress)?;
        if self.shared.synced { self.sync() } else { Ok(()) }
    }

    /// The same, and waits until it has reached storage.
    ///
    /// # Errors
    /// As [`note`](JobLedger::note).
    pub fn note_durable(&mut self, progress: Progress) -> io::Result<()> {
        self.put(progress)?;
        self.sync()
    }

    /// Notes that operations were answered with an error, `ops` from `first_op` on, and waits until
    /// that has reached storage. To be called before the note that counts them as answered.
    ///
    /// # Errors
    /// If it cannot be written, or there have been too many.
    pub fn failed(&mut self, first_op: u64, ops: u32) -> io::Result<()> {
        let Shared { file, layout, run_low, failures, .. } = &*self.shared;
        if first_op.checked_add(u64::from(ops)).is_none_or(|end| end > self.last.submitted) {
            return Err(refused("an operation failed that was never announced".into()));
        }
        let index = failures.fetch_add(1, Ordering::Relaxed);
        if index >= layout.failures {
            // Stays full however often it is asked.
            failures.store(layout.failures, Ordering::Relaxed);
            let words = format!("too many operations failed, the ledger holds {}", layout.failures);
            return Err(io::Error::other(words));
        }
        let failure = Failure { job: self.job, first_op, ops, run_low: *run_low };
        file.write_all_at(&failure.encode(), layout.failure_at(index))?;
        self.failures += 1;
        self.sync()
    }

    /// Notes that the job has ended in order: everything was answered.
    ///
    /// # Errors
    /// As [`note`](JobLedger::note), and if something is still in flight.
    pub fn finish(mut self, progress: Progress) -> io::Result<()> {
        self.note(Progress { ended: true, ..progress })
    }

    /// How far the job had come at the last note.
    pub fn noted(&self) -> Progress {
        self.last
    }

    fn put(&mut self, progress: Progress) -> io::Result<()> {
        if !(progress.is_sound() && progress.follows(&self.last)) {
            let words = format!("found {progress:?} after {:?}", self.last);
            return Err(refused(format!("the counts of a job contradict each other: {words}")));
        }
        let Shared { file, layout, run_low, .. } = &*self.shared;
        let sequence = self.sequence + 1;
        let (job, failures) = (self.job, self.failures);
        let note = Note { job, sequence, progress, failures, run_low: *run_low };
        file.write_all_at(&note.encode(), layout.note_at(job, sequence))?;
        (self.sequence, self.last) = (sequence, progress);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.shared.file.sync_data()
    }
}
