//! Verification of storage: every job writes, remembers and reads back its own part of the region;
//! then everything is read once more.
//!
//! The loop is that of a load (fill, submit, reap), but it knows what it wrote. All jobs finish
//! writing before any begins to read everything back, so that late misdirected writes are found,
//! too.

mod barrier;
mod check;
mod journal;
mod ring;
mod witness;
mod work;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use iosonde_sys::{Clock, clock, thread};

use super::queues::with_queues;
use super::reading::Reading;
use super::waits::Wait;
use super::{Control, EngineError, HANG_NS, Medium, Progress, wait_ready};
use crate::backend::any::AnyQueue;
use crate::backend::fault::{FaultLog, FaultQueue, Injection, Site};
use crate::backend::{Driver, OpenError, Queue, QueueFacts};
use iosonde_model::content::block::{All, Comparisons, forge};
use iosonde_model::content::ledger::{Ledger, Survival};
use iosonde_model::content::outcomes::Outcomes;
use iosonde_model::plan::chance::mix;
use iosonde_model::plan::{Job, VerifyPlan};
use iosonde_model::record::VerifyJobRun;
use iosonde_model::record::run::{Outcome, ProcessUse};

use barrier::Barrier;
use ring::Ends;
use work::{Step, VerifyLoop};

/// Records outside of the process how far a job is, before the operation is submitted.
pub trait Journal: Send {
    /// `submitted` operations are about to be submitted in all, the first `acked` of them are
    /// acknowledged, and the first `durable` of these are durable.
    ///
    /// # Errors
    /// If the note cannot be kept. This ends the run: nothing is written without a note.
    fn note(&mut self, submitted: u64, acked: u64, durable: u64) -> std::io::Result<()>;

    /// This operation failed; it may or may not have taken place.
    ///
    /// # Errors
    /// As [`Journal::note`].
    fn failed(&mut self, op: u64) -> std::io::Result<()>;
}

/// An observer that survives a power cut.
pub trait FlushObserver: Send + Sync {
    /// A flush is about to be sent, after `ops` acknowledged operations.
    ///
    /// # Errors
    /// Why the run must end.
    fn before_flush(&self, job: usize, flush: u64, ops: u64) -> Result<(), String>;

    /// That flush was acknowledged.
    ///
    /// # Errors
    /// Why the run must end.
    fn after_flush(&self, job: usize, flush: u64, ops: u64) -> Result<(), String>;
}

/// Inputs of a run in addition to its plan.
#[derive(Default)]
pub struct RunInputs {
    /// For a check: what each job's part must hold.
    pub ledgers: Vec<Ledger>,
    /// The same where all jobs wrote one region.
    pub outcomes: Option<Outcomes>,
    /// Which changes must be found.
    pub survival: Option<Survival>,
    /// One journal per job, or none.
    pub journals: Vec<Box<dyn Journal>>,
    /// Observer that is notified before and after every flush.
    pub flush_observer: Option<Arc<dyn FlushObserver>>,
    /// A fault to inject into every job's queue.
    pub fault: Option<(Injection, FaultLog)>,
}

/// Where faults strike in a run of this plan, in this job.
pub fn site(plan: &VerifyPlan, job: usize) -> Site {
    let jobs = &plan.plan.jobs;
    let region_start = jobs.first().map_or(0, |job| job.region_start);
    let region_end = jobs.last().map_or(0, |job| job.region_start + job.region_bytes);
    Site {
        region_start,
        region_bytes: region_end - region_start,
        block_bytes: plan.block_bytes.into(),
        sector_bytes: plan.sector_bytes.into(),
        seed: mix(jobs[job].seed),
        forge,
    }
}

/// Observes a run of the verifier.
pub trait VerifyObserver {
    /// Called about twenty times a second; the flag is set while everything is read back.
    fn tick(&mut self, _progress: &Progress, _sweeping: bool) {}
    /// Everything is written and flushed, and is read back next.
    fn before_sweep(&mut self) {}
}

impl VerifyObserver for super::Unwatched {}

/// What the verifier measured.
#[derive(Debug)]
pub struct VerifyMeasured {
    /// How the run ended.
    pub outcome: Outcome,
    /// Wall-clock time at the start, ns since 1970.
    pub started_unix_ns: u64,
    /// From the first operation to the last, ns.
    pub elapsed_ns: u64,
    /// One entry per job.
    pub jobs: Vec<VerifyJobRun>,
    /// CPU use of the process.
    pub process: ProcessUse,
    /// Facts of the queue that was set up first.
    pub queue: QueueFacts,
}

/// Carries out a plan on real storage.
///
/// # Errors
/// If a queue or a thread cannot be set up. I/O errors and damage are part of the result.
pub fn verify(
    plan: &VerifyPlan,
    medium: &Medium,
    inputs: RunInputs,
    clock: Clock,
    control: &Arc<Control>,
    observer: &mut dyn VerifyObserver,
) -> Result<VerifyMeasured, EngineError> {
    let proving = Proving { plan, inputs, clock, control, observer };
    with_queues(&plan.plan, medium, clock, proving)?
}

/// Drives the jobs of the verifier.
struct Proving<'a> {
    plan: &'a VerifyPlan,
    inputs: RunInputs,
    clock: Clock,
    control: &'a Arc<Control>,
    observer: &'a mut dyn VerifyObserver,
}

/// A counter on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Line(AtomicU64);

/// Data shared by the jobs of a run.
struct Shared {
    plan: VerifyPlan,
    control: Arc<Control>,
    survival: Survival,
    flush_observer: Option<Arc<dyn FlushObserver>>,
    /// Jobs that have finished writing and flushing.
    at_barrier: AtomicUsize,
    /// Whether reading back may begin.
    go: AtomicBool,
    /// A flush of any job failed: later ones prove nothing.
    flush_failed: AtomicBool,
    ops: Box<[Line]>,
    /// Offset from the clock of the queues to ns since 1970.
    unix_offset_ns: OnceLock<u64>,
    /// The barrier, where all jobs write one region.
    barrier: Option<Barrier>,
}

impl Shared {
    fn new(plan: &VerifyPlan, control: &Arc<Control>, inputs: &mut RunInputs) -> Shared {
        Shared {
            plan: plan.clone(),
            control: Arc::clone(control),
            survival: inputs.survival.unwrap_or(Survival::Acknowledged),
            flush_observer: inputs.flush_observer.take(),
            at_barrier: AtomicUsize::new(0),
            go: AtomicBool::new(false),
            flush_failed: AtomicBool::new(false),
            ops: plan.plan.jobs.iter().map(|_| Line::default()).collect(),
            unix_offset_ns: OnceLock::new(),
            barrier: Barrier::of(plan, inputs.outcomes.take()),
        }
    }

    fn all_written(&self) -> bool {
        self.at_barrier.load(Ordering::Acquire) >= self.plan.plan.jobs.len()
    }

    fn flush_failed(&self) -> bool {
        self.flush_failed.load(Ordering::Acquire)
    }
}

/// Inputs of one job.
struct JobInputs {
    ledger: Option<Ledger>,
    journal: Option<Box<dyn Journal>>,
    ends: Option<Ends>,
}

/// Inputs of each job, in order.
fn split_inputs(plan: &VerifyPlan, inputs: &mut RunInputs) -> Vec<JobInputs> {
    let jobs = plan.plan.jobs.len();
    let mut ledgers = std::mem::take(&mut inputs.ledgers).into_iter();
    let mut journals = std::mem::take(&mut inputs.journals).into_iter();
    let mut ends = ring::ring(plan).into_iter();
    (0..jobs)
        .map(|_| JobInputs { ledger: ledgers.next(), journal: journals.next(), ends: ends.next() })
        .collect()
}

type Ended = (usize, VerifyJobRun);

/// Opens the queue of a job, on the thread that uses it. It shares the target's file. The last
/// holder closes the file, which may block for ever, so nobody may wait for the holder's thread.
type Open = Box<dyn Fn(&Job) -> Result<AnyQueue, OpenError> + Send>;

impl Driver for Proving<'_> {
    type Result = Result<VerifyMeasured, EngineError>;

    fn drive<Q, O>(mut self, open: O) -> Self::Result
    where
        Q: Queue + 'static,
        O: Fn(&Job) -> Result<Q, OpenError> + Clone + Send + 'static,
    {
        let fault = self.inputs.fault.take();
        let opens = (0..self.plan.plan.jobs.len()).map(|job| {
            let (open, site) = (open.clone(), site(self.plan, job));
            let fault = fault.clone();
            let any: Open = Box::new(move |job| {
                let queue = AnyQueue::new(open(job)?);
                Ok(match &fault {
                    Some((injection, log)) => {
                        AnyQueue::new(FaultQueue::new(queue, *injection, site, log.clone()))
                    }
                    None => queue,
                })
            });
            any
        });
        let opens = opens.collect();
        self.prove(opens)
    }
}

impl Proving<'_> {
    fn prove(mut self, opens: Vec<Open>) -> Result<VerifyMeasured, EngineError> {
        let shared = Arc::new(Shared::new(self.plan, self.control, &mut self.inputs));
        let call_off = || {
            self.control.finish();
            let _ = shared.unix_offset_ns.set(0);
        };
        let (ready_to, ready) = channel();
        let (ended_to, ended) = channel();
        let cpus = thread::allowed_cpus();
        let pinned = self.plan.plan.pinned && !cpus.is_empty();
        let job_inputs = split_inputs(self.plan, &mut self.inputs);
        for (index, (job_inputs, open)) in job_inputs.into_iter().zip(opens).enumerate() {
            let theirs = Arc::clone(&shared);
            let (ready_to, ended_to) = (ready_to.clone(), ended_to.clone());
            let cpu = pinned.then(|| cpus[index % cpus.len()]);
            let work = move || theirs.work(index, cpu, job_inputs, open, ready_to, &ended_to);
            let spawned = std::thread::Builder::new().name(format!("job {index}")).spawn(work);
            if let Err(error) = spawned {
                call_off();
                return Err(EngineError::Thread { job: index, error });
            }
        }
        drop((ready_to, ended_to));
        let queue = wait_ready(&ready, &self.plan.plan).inspect_err(|_| call_off())?;
        let started = Reading::now(self.clock);
        let started_unix_ns = clock::realtime_ns();
        let _ = shared.unix_offset_ns.set(started_unix_ns.saturating_sub(started.at_ns));
        let jobs = supervise(&shared, started.at_ns, self.clock, &ended, self.observer);
        let over = Reading::now(self.clock);
        let abandoned = jobs.iter().map(|job| u64::from(job.abandoned)).sum();
        Ok(VerifyMeasured {
            outcome: self.control.outcome(abandoned),
            started_unix_ns,
            elapsed_ns: over.at_ns - started.at_ns,
            jobs,
            process: started.until(&over),
            queue,
        })
    }
}

impl Shared {
    /// Body of one job's thread.
    fn work(
        &self,
        index: usize,
        cpu: Option<u32>,
        job_inputs: JobInputs,
        open: Open,
        ready: Sender<Result<QueueFacts, OpenError>>,
        ended: &Sender<Ended>,
    ) {
        let _alarm = Alarm(&self.control);
        thread::wake_on_time();
        if let Some(cpu) = cpu {
            thread::pin_to(cpu);
        }
        // The queue stays on this thread. Without its own file table, a call costs a few ns more.
        thread::own_file_table();
        let queue = match open(&self.plan.plan.jobs[index]) {
            Ok(queue) => queue,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let facts = queue.facts();
        let mut work = VerifyLoop::<AnyQueue>::new(self, index, queue, job_inputs);
        let _ = ready.send(Ok(facts));
        // `wait_ready` ends when all senders are dropped, even if a thread has panicked.
        drop(ready);
        work.begin(*self.unix_offset_ns.wait());
        let before = thread::usage_of_thread();
        while work.step() == Step::More {}
        let used = thread::usage_of_thread();
        let (mut record, mut queue) = work.into_record();
        record.cpu_user_ns = used.user_ns - before.user_ns;
        record.cpu_system_ns = used.system_ns - before.system_ns;
        queue.give_back();
        let _ = ended.send((index, record));
        // Dropping a queue with requests in flight may block for ever, so the record goes first.
        drop(queue);
        drop(open);
    }
}

/// A run is short up to this length.
const SHORT_NS: u64 = 1_000_000_000;

/// Ends the run if its thread panics: the others would wait for it for ever.
struct Alarm<'a>(&'a Control);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("a job panicked, which is a fault of this program".into());
        }
    }
}

/// Watches from the calling thread until every job has ended or given up.
fn supervise(
    shared: &Shared,
    start_ns: u64,
    clock: Clock,
    ended: &Receiver<Ended>,
    observer: &mut dyn VerifyObserver,
) -> Vec<VerifyJobRun> {
    let plan = &shared.plan;
    let mut jobs: Vec<Option<VerifyJobRun>> = plan.plan.jobs.iter().map(|_| None).collect();
    let mut last_change = (0, start_ns);
    let mut over_since_ns = None;
    let mut wait = None;
    while jobs.iter().any(Option::is_none) {
        let now_ns = clock.now_ns();
        if shared.all_written() && !shared.go.load(Ordering::Relaxed) {
            // After an interrupt nothing is read back.
            if shared.control.signal.load(Ordering::Relaxed) == 0 {
                let path = plan.plan.target().path.as_str();
                let _syncing = Wait::begin("writing back the page cache", path);
                observer.before_sweep();
            }
            shared.go.store(true, Ordering::Release);
        }
        if shared.control.is_stopping() && over_since_ns.is_none() {
            over_since_ns = Some(now_ns);
        }
        let grace_ns = shared.control.drain_grace_ns();
        if over_since_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= 2 * grace_ns) {
            break;
        }
        let ops = shared.ops.iter().map(|ops| ops.0.load(Ordering::Relaxed)).sum();
        let waits = plan.delay_ns > 0 && shared.go.load(Ordering::Relaxed);
        if ops != last_change.0 || waits && now_ns < last_change.1 + plan.delay_ns {
            last_change = (ops, if ops != last_change.0 { now_ns } else { last_change.1 });
            wait = None;
        } else if wait.is_none() {
            wait = Some(Wait::begin(
                "reads and writes of the verifier",
                plan.plan.target().path.as_str(),
            ));
        } else if now_ns.saturating_sub(last_change.1) > HANG_NS {
            shared.control.fail("no request was completed for 120 s".into());
            last_change.1 = now_ns;
        }
        let planned_ns = if plan.length_ns == u64::MAX { 0 } else { plan.length_ns };
        let elapsed_ns = now_ns.saturating_sub(start_ns);
        let sweeping = shared.go.load(Ordering::Relaxed);
        let counted_ns = elapsed_ns;
        let progress = Progress { elapsed_ns, planned_ns, ops, counted_ns, roles: Vec::new() };
        observer.tick(&progress, sweeping);
        // A short run is polled often, so that reading back starts at once.
        let waits_for_go = shared.at_barrier.load(Ordering::Relaxed) > 0 && !sweeping;
        let pause_ms = if waits_for_go || elapsed_ns < SHORT_NS { 2 } else { 50 };
        match ended.recv_timeout(Duration::from_millis(pause_ms)) {
            Ok((index, record)) => jobs[index] = Some(record),
            Err(RecvTimeoutError::Timeout) => {}
            // A thread that panicked sends nothing; the others have ended.
            Err(RecvTimeoutError::Disconnected) => {
                shared.control.fail("a job did not end".into());
                break;
            }
        }
    }
    // The record of a thread that hangs is lost; its number of operations is not.
    let gone = |ops: &Line| {
        let ops = ops.0.load(Ordering::Relaxed);
        VerifyJobRun { ops, abandoned: 1, ..VerifyJobRun::default() }
    };
    jobs.into_iter().zip(&shared.ops).map(|(job, ops)| job.unwrap_or_else(|| gone(ops))).collect()
}

/// Carries out a plan in virtual time, on queues that share a simulated device: the same loop,
/// always stepping the job whose clock is furthest behind.
pub fn simulate<Q: Queue>(
    plan: &VerifyPlan,
    inputs: RunInputs,
    control: &Arc<Control>,
    open: impl FnMut(&Job, usize) -> Q,
) -> VerifyMeasured {
    simulate_comparing::<Q, All>(plan, inputs, control, open)
}

/// Like [`simulate`], with the comparisons that the type selects.
pub fn simulate_comparing<Q: Queue, C: Comparisons>(
    plan: &VerifyPlan,
    mut inputs: RunInputs,
    control: &Arc<Control>,
    mut open: impl FnMut(&Job, usize) -> Q,
) -> VerifyMeasured {
    let shared = Shared::new(plan, control, &mut inputs);
    let mut running: Vec<(usize, VerifyLoop<'_, Q, C>)> = split_inputs(plan, &mut inputs)
        .into_iter()
        .enumerate()
        .map(|(index, job_inputs)| {
            let queue = open(&plan.plan.jobs[index], index);
            let mut work = VerifyLoop::new(&shared, index, queue, job_inputs);
            work.begin(0);
            (index, work)
        })
        .collect();
    let mut jobs: Vec<VerifyJobRun> = plan.plan.jobs.iter().map(|_| Default::default()).collect();
    let mut elapsed_ns = 0;
    while let Some(next) = (0..running.len()).min_by_key(|index| running[*index].1.now_ns()) {
        if shared.all_written() {
            shared.go.store(true, Ordering::Relaxed);
        }
        if running[next].1.step() == Step::Ended {
            let (index, job) = running.swap_remove(next);
            elapsed_ns = elapsed_ns.max(job.now_ns());
            jobs[index] = job.into_record().0;
        }
    }
    let abandoned = jobs.iter().map(|job| u64::from(job.abandoned)).sum();
    VerifyMeasured {
        outcome: control.outcome(abandoned),
        started_unix_ns: 0,
        elapsed_ns,
        jobs,
        process: ProcessUse::default(),
        queue: QueueFacts::default(),
    }
}
