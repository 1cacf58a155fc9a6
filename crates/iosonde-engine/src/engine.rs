//! How I/O is driven and timed: one thread and one queue per job, nothing shared while measuring.
//!
//! The measured window does not depend on the drain or on observers, and the loop of a job
//! allocates nothing. Layout is a plan like any other. I/O errors are outcomes in the record; an
//! [`EngineError`] means that nothing could be measured.

mod arrivals;
mod closely;
mod commit;
mod control;
mod controller;
mod durable;
mod flow;
mod hiccups;
mod job;
mod least;
mod live;
mod observer;
mod pace;
mod paced;
mod priorities;
mod queues;
mod reading;
mod requests;
mod shared;
mod silence;
mod simulate;
mod steer;
mod sync;
mod tally;
mod timed;
mod until;
mod window;

pub mod floor;
pub mod ladder;
pub mod verify;
pub mod waits;

pub use live::RoleCounts;
pub use observer::{Observer, Progress, Unwatched};

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use iosonde_sys::{Clock, clock, thread};

use crate::backend::null::Counts;
use crate::backend::sim::Model;
use crate::backend::uring_cmd::CommandTarget;
use crate::backend::vhost::Server;
use crate::backend::{Driver, OpenError, Queue, QueueFacts};
use iosonde_model::plan::{EngineKind, Plan};
use iosonde_model::record::run::{Outcome, ProcessUse, SyncResult};
use iosonde_model::record::{ControlledRun, JobRun, PrecisionRun};
use iosonde_stats::Histogram;

pub use control::{Control, signal_in};
use controller::TICK_NS;
use queues::with_queues;
use reading::Reading;
use shared::Shared;
use silence::JobWaits;
use steer::{Lane, Pilot};
use until::Watcher;
use waits::Wait;
use window::Window;

/// What a run reads and writes.
#[derive(Clone, Debug)]
pub enum Medium {
    /// The plan's targets in order: files or devices, open with the access that the plan needs.
    Files(Vec<Arc<OwnedFd>>),
    /// No target; with counters, the bytes written to each block are counted.
    Null(Option<Arc<Counts>>),
    /// Namespaces of NVMe drives, in the order of the plan's targets.
    Nvme(Vec<CommandTarget>),
    /// A simulated device.
    Sim(Model),
    /// The device of a vhost-user server.
    Vhost(Arc<Server>),
}

impl Medium {
    /// The files and block devices of the plan's targets, which the page cache may hold.
    pub fn files(&self) -> Vec<&Arc<OwnedFd>> {
        match self {
            Medium::Files(files) => files.iter().collect(),
            Medium::Nvme(targets) => targets.iter().map(|target| &target.block).collect(),
            Medium::Null(_) | Medium::Sim(_) | Medium::Vhost(_) => Vec::new(),
        }
    }
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A queue could not be set up.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A thread could not be started.
    #[error("cannot start a thread for job {job}: {error}; ask for a smaller --numjobs")]
    Thread { job: usize, error: std::io::Error },
    /// The plan's engine needs another medium.
    #[error(
        "the {0} engine cannot run on this target; give another --ioengine, or a target for it \
         (`iosonde run --help`)"
    )]
    Medium(&'static str),
    /// The observer cancelled the run before it began.
    #[error("the run was cancelled before it began")]
    CalledOff,
}

/// What the engine measured: its part of a [`iosonde_model::record::Run`].
#[derive(Debug)]
pub struct Measured {
    /// How the run ended.
    pub outcome: Outcome,
    /// Wall-clock time at the opening of the window, ns since 1970.
    pub started_unix_ns: u64,
    /// Length of the measured window, ns.
    pub measured_ns: u64,
    /// Span of the process's readings by CLOCK_BOOTTIME, ns; compare with `process.span_ns`.
    pub boottime_ns: u64,
    /// One entry per job of the plan.
    pub jobs: Vec<JobRun>,
    /// CPU use of the process over the window.
    pub process: ProcessUse,
    /// Overshoot of sleeps of 25 ms, ns.
    pub hiccups: Histogram,
    /// Facts of the queue that was set up first.
    pub queue: QueueFacts,
    /// The timed fsync at the end.
    pub final_sync: Option<SyncResult>,
    /// What was done to meet the latency target, if there is one.
    pub controlled: Option<ControlledRun>,
    /// Precision of the figure that ends the run, if there is one.
    pub precision: Option<PrecisionRun>,
}

/// Carries out a plan.
///
/// # Errors
/// If a queue or a thread cannot be set up. I/O errors are part of the result.
pub fn run(
    plan: &Plan,
    medium: &Medium,
    clock: Clock,
    control: &Arc<Control>,
    observer: &mut dyn Observer,
) -> Result<Measured, EngineError> {
    let mut measured = match medium {
        Medium::Sim(model) if plan.engine.kind == EngineKind::Sim => {
            observer.starts_in().ok_or(EngineError::CalledOff)?;
            observer.opened(0);
            simulate::simulate(plan, model, control)
        }
        _ => with_queues(plan, medium, clock, Loading { plan, clock, control, observer })??,
    };
    durable::sync(&mut measured, medium, control, &plan.target().path);
    Ok(measured)
}

/// Drives the jobs of a plan.
struct Loading<'a> {
    plan: &'a Plan,
    clock: Clock,
    control: &'a Arc<Control>,
    observer: &'a mut dyn Observer,
}

impl Driver for Loading<'_> {
    type Result = Result<Measured, EngineError>;

    fn drive<Q, O>(self, open: O) -> Self::Result
    where
        Q: Queue + 'static,
        O: Fn(&iosonde_model::plan::Job) -> Result<Q, OpenError> + Clone + Send + 'static,
    {
        drive(self.plan, self.clock, self.control, self.observer, open)
    }
}

/// Message of a job that has ended: its number, its record, the bytes it wrote since the start.
type Ended = (usize, JobRun, u64);

/// Runs every job in a thread of its own, on real time.
fn drive<Q, O>(
    plan: &Plan,
    clock: Clock,
    control: &Arc<Control>,
    observer: &mut dyn Observer,
    open: O,
) -> Result<Measured, EngineError>
where
    Q: Queue,
    O: Fn(&iosonde_model::plan::Job) -> Result<Q, OpenError> + Clone + Send + 'static,
{
    let shared = Arc::new(Shared {
        plan: plan.clone(),
        control: Arc::clone(control),
        lanes: Lane::all(plan),
        start_ns: OnceLock::new(),
    });
    // Jobs that wait for the start end at this value.
    let call_off = || {
        let _ = shared.start_ns.set(u64::MAX);
    };
    let (ready_to, ready) = channel();
    let (ended_to, ended) = channel();
    let cpus = thread::allowed_cpus();
    for index in 0..plan.jobs.len() {
        let (work, open) = (Arc::clone(&shared), open.clone());
        let (ready_to, ended_to) = (ready_to.clone(), ended_to.clone());
        let cpu = (plan.pinned && !cpus.is_empty()).then(|| cpus[index % cpus.len()]);
        // The kernel keeps 15 bytes of the name.
        let spawned = std::thread::Builder::new()
            .name(format!("job {index} {}", plan.jobs[index].role))
            .spawn(move || work.work(index, cpu, &open, &ready_to, &ended_to));
        if let Err(error) = spawned {
            call_off();
            return Err(EngineError::Thread { job: index, error });
        }
    }
    drop((ready_to, ended_to));
    let queue = wait_ready(&ready, plan).inspect_err(|_| call_off())?;
    let Some(starts_in_ns) = observer.starts_in() else {
        call_off();
        return Err(EngineError::CalledOff);
    };
    let start_ns = clock.now_ns() + starts_in_ns;
    let _ = shared.start_ns.set(start_ns);
    let mut measured = supervise(&shared, start_ns, clock, &ended, observer);
    measured.queue = queue;
    Ok(measured)
}

/// Waits until every job has a queue; returns the facts of the first one.
fn wait_ready(
    ready: &Receiver<Result<QueueFacts, OpenError>>,
    plan: &Plan,
) -> Result<QueueFacts, OpenError> {
    let _setting_up = Wait::begin("setting up the queues", plan.target().path.clone());
    let mut first = None;
    for _ in &plan.jobs {
        if let Ok(answer) = ready.recv() {
            let facts = answer?;
            first.get_or_insert(facts);
        }
    }
    Ok(first.unwrap_or_default())
}

/// A run without a planned end fails after this long without a completion, ns.
const HANG_NS: u64 = 120_000_000_000;

/// Watches the run from the calling thread until every job has ended or given up.
fn supervise(
    shared: &Shared,
    start_ns: u64,
    clock: Clock,
    ended: &Receiver<Ended>,
    observer: &mut dyn Observer,
) -> Measured {
    let plan = &shared.plan;
    let mut window = Window::planned(plan, start_ns);
    let mut pilot = Pilot::new(plan, &shared.lanes, start_ns);
    let mut watcher = Watcher::new(plan, &shared.lanes, start_ns);
    let mut jobs: Vec<Option<JobRun>> = plan.jobs.iter().map(|_| None).collect();
    let mut written = 0;
    let (mut opened, mut closed): (Option<Reading>, Option<Reading>) = (None, None);
    let mut hiccups = None;
    let mut started_unix_ns = 0;
    let mut last_change = (0, start_ns);
    let mut next_read_ns = start_ns;
    let mut over_since_ns = None;
    let mut waits = JobWaits::new(plan.target().path.clone(), plan.jobs.len());
    loop {
        let now_ns = clock.now_ns();
        waits.look(&shared.lanes, &jobs, now_ns);
        if let Some(decided) = pilot.as_mut().and_then(|pilot| pilot.tick(now_ns, now_ns)) {
            window = decided;
        }
        if watcher.as_mut().is_some_and(|watcher| watcher.tick(now_ns)) {
            shared.control.finish();
        }
        let Window { open_ns, close_ns } = window;
        let planned_ns = if close_ns == u64::MAX { 0 } else { close_ns - start_ns };
        if opened.is_none() && now_ns >= open_ns {
            started_unix_ns = clock::realtime_ns() - (now_ns - open_ns);
            hiccups = Some(hiccups::HiccupRecorder::start());
            opened = Some(Reading::now(clock));
            observer.opened(clock.now_ns() - open_ns);
        }
        let all_ended = jobs.iter().all(Option::is_some);
        let over = all_ended || now_ns >= close_ns || shared.control.is_stopping();
        if over && opened.is_some() && closed.is_none() {
            closed = Some(Reading::now(clock));
            observer.closed();
        }
        if over && over_since_ns.is_none() {
            over_since_ns = Some(now_ns);
        }
        // A job gives up by itself, unless it is in a call that does not return.
        let grace_ns = shared.control.drain_grace_ns();
        let gives_up = |since_ns: u64| now_ns.saturating_sub(since_ns) >= 2 * grace_ns;
        if all_ended || over_since_ns.is_some_and(gives_up) {
            break;
        }
        let ops = shared.ops();
        if ops != last_change.0 {
            last_change = (ops, now_ns);
        } else if planned_ns == 0 && now_ns.saturating_sub(last_change.1) > HANG_NS {
            shared.control.fail("no request was completed for 120 s".into());
        }
        let roles = match now_ns >= next_read_ns && observer.wants_roles() {
            true => live::by_role(plan, &shared.lanes, start_ns, now_ns),
            false => Vec::new(),
        };
        if !roles.is_empty() {
            next_read_ns = now_ns + live::READ_NS;
        }
        let elapsed_ns = now_ns.saturating_sub(start_ns);
        let counted_ns = live::counted_ns(&shared.lanes, now_ns).saturating_sub(start_ns);
        observer.tick(&Progress { elapsed_ns, planned_ns, ops, counted_ns, roles });
        let mut pause_ns = if pilot.is_some() { TICK_NS } else { 50_000_000 };
        if let Some(watcher) = &watcher {
            pause_ns = pause_ns.min(watcher.pause_ns(now_ns));
        }
        for edge_ns in [open_ns, close_ns] {
            if edge_ns > now_ns {
                pause_ns = pause_ns.min(edge_ns - now_ns);
            }
        }
        match ended.recv_timeout(Duration::from_nanos(pause_ns)) {
            Ok((index, record, bytes)) => {
                steer::end_with(plan, index, &shared.lanes, &shared.control);
                jobs[index] = Some(record);
                written += bytes;
            }
            Err(RecvTimeoutError::Timeout) => {}
            // Threads that panicked send nothing; their jobs stay empty and count as abandoned.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let jobs: Vec<JobRun> = jobs
        .into_iter()
        .zip(&plan.jobs)
        .map(|(record, job)| {
            record.unwrap_or_else(|| JobRun { abandoned: job.iodepth, ..JobRun::default() })
        })
        .collect();
    let abandoned = jobs.iter().map(|job| u64::from(job.abandoned)).sum();
    let mut measured = Measured {
        outcome: shared.control.outcome(abandoned),
        started_unix_ns,
        measured_ns: jobs.iter().map(|job| job.measured_ns).max().unwrap_or(0),
        boottime_ns: 0,
        jobs,
        process: ProcessUse::default(),
        hiccups: hiccups.map(hiccups::HiccupRecorder::stop).unwrap_or_default(),
        queue: QueueFacts::default(),
        final_sync: plan.final_sync.then(|| SyncResult {
            since_window_ns: closed.map_or(0, |reading| reading.at_ns),
            sync_ns: 0,
            bytes_since_start: written,
            since_start_ns: start_ns,
            error: None,
        }),
        precision: watcher.map(Watcher::into_record),
        controlled: pilot.map(|pilot| pilot.into_record(window.close_ns.min(clock.now_ns()))),
    };
    if let (Some(opened), Some(closed)) = (opened, closed) {
        measured.boottime_ns = closed.boottime_ns - opened.boottime_ns;
        measured.process = opened.until(&closed);
    }
    // Turns two instants into times; the fsync that follows adds its own time to both.
    if let Some(sync) = &mut measured.final_sync {
        let now_ns = clock.now_ns();
        sync.since_window_ns = now_ns.saturating_sub(sync.since_window_ns);
        sync.since_start_ns = now_ns.saturating_sub(sync.since_start_ns);
    }
    measured
}
