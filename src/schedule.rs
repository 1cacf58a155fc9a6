//! Runs an ordered list of cells, with an event as each one starts, progresses and finishes. This
//! is the only loop over runs in the program.
//!
//! The schedule samples the host while the engine runs, and converts the engine's measurements into
//! a record.

pub mod cross_check;
pub mod experiment;
pub mod ladder;
mod recent;
pub mod selftest;
pub mod verify;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use recent::LastEnd;

use iosonde_engine::engine::waits::Wait;
use iosonde_sys::Clock;
use iosonde_sys::clock::monotonic_ns;
use serde_json::Value;

use iosonde_engine::backend::QueueFacts;
use iosonde_engine::engine::floor::{self, ToolOverhead};
use iosonde_engine::engine::{self, Control, EngineError, Medium, Observer, Progress, Unwatched};
use iosonde_engine::host::neighbours::Census;
use iosonde_engine::host::telemetry::Sampler;
use iosonde_engine::host::{Root, device_counters, nvme_health, smart};
use iosonde_engine::target::held::drop_cache;
use iosonde_engine::target::{Held, truth};
use iosonde_model::plan::Plan;
use iosonde_model::record::Run;
use iosonde_model::record::facts::{
    DeviceCounters, Neighbour, SmartPair, TargetFacts, TelemetrySample,
};
use iosonde_model::record::run::{BackendFacts, Outcome, SCHEMA};

/// The context shared by all cells of a schedule.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// The machine.
    pub root: Root,
    /// The clock of every run.
    pub clock: Clock,
    /// The open target; `None` for the null and the simulated one.
    pub held: Option<Held>,
    /// The I/O engine.
    pub medium: Medium,
    /// External control (stop requests).
    pub control: Arc<Control>,
    /// Facts about the machine, read at the end of the last run.
    pub last_end: Arc<LastEnd>,
    /// Whether the page cache is kept before a run.
    pub keeps_cache: bool,
    /// Other hosts or MPI ranks that run the same plans at the same time.
    pub peers: Option<Arc<dyn Peers>>,
}

impl RunContext {
    /// The same context for work of this host alone.
    fn alone(&self) -> RunContext {
        RunContext { peers: None, ..self.clone() }
    }
}

/// Other hosts or MPI ranks that run the same plans at the same time.
pub trait Peers: std::fmt::Debug + Send + Sync {
    /// All jobs of a run are ready here. Returns the time until they start everywhere, ns, or
    /// `None` if they must not start.
    fn starts_in(&self, plan: &Plan) -> Option<u64>;
    /// Its measured window opened here `ago_ns` ago.
    fn opened(&self, ago_ns: u64);
    /// The run progresses here.
    fn moved(&self, progress: &Progress);
    /// The run has ended here.
    fn finished(&self, run: &Run);
}

/// Events of a schedule.
#[derive(Debug)]
pub enum Event<'a> {
    /// A cell starts.
    Started {
        /// Its index in the list.
        index: usize,
        /// Its plan.
        plan: &'a Plan,
    },
    /// A cell progresses.
    Moved {
        /// Its index in the list.
        index: usize,
        /// Its plan.
        plan: &'a Plan,
        /// Its progress.
        progress: &'a Progress,
    },
    /// A cell has ended, successfully or not.
    Finished {
        /// Its index in the list.
        index: usize,
        /// Its record.
        run: &'a Run,
    },
}

/// Runs the cells in order. Ends early on a signal; a failed cell does not prevent the others from
/// running.
///
/// # Errors
/// If nothing can be measured: no queue, no thread.
pub fn execute(
    cells: &[Plan],
    context: &RunContext,
    on_event: &mut dyn FnMut(&Event<'_>),
) -> Result<(), EngineError> {
    let mut health = Health::before(context);
    for (index, plan) in cells.iter().enumerate() {
        on_event(&Event::Started { index, plan });
        let run = execute_one(plan, context, &mut health, &mut |progress| {
            on_event(&Event::Moved { index, plan, progress });
        })?;
        on_event(&Event::Finished { index, run: &run });
        if let Some(peers) = &context.peers {
            peers.finished(&run);
        }
        if matches!(run.outcome, Outcome::Interrupted { .. }) {
            break;
        }
    }
    context.last_end.health.put(monotonic_ns(), health);
    Ok(())
}

/// Runs one plan as [`execute`] does, and returns its record.
///
/// # Errors
/// If nothing can be measured: no queue, no thread.
pub fn execute_single(
    plan: &Plan,
    context: &RunContext,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Run, EngineError> {
    let mut health = Health::before(context);
    let run = execute_one(plan, context, &mut health, on_progress)?;
    if let Some(peers) = &context.peers {
        peers.finished(&run);
    }
    context.last_end.health.put(monotonic_ns(), health);
    Ok(run)
}

/// The drive's SMART report at one time, or why there is none.
#[derive(Debug)]
struct Health(Result<Value, String>);

impl Health {
    fn before(context: &RunContext) -> Health {
        let last = context.last_end.health.take(monotonic_ns());
        last.unwrap_or_else(|| Health::now(context))
    }

    fn now(context: &RunContext) -> Health {
        let held = context.held.as_ref();
        // An NVMe drive is queried directly: that needs no other program.
        if let Some(Ok(report)) = held.map(|held| nvme_health(held.file.as_fd())) {
            return Health(Ok(report));
        }
        let device = held.and_then(|held| held.device(&context.root));
        Health(match device {
            Some(device) if device.is_virtual == Some(true) => {
                Err("a virtual disk has no SMART data".into())
            }
            Some(device) => smart(&device.name),
            None => Err("no block device visible".into()),
        })
    }

    fn until(&self, after: &Health) -> SmartPair {
        let missing = self.0.as_ref().err().or(after.0.as_ref().err()).cloned();
        SmartPair { before: self.0.clone().ok(), after: after.0.clone().ok(), missing }
    }
}

/// Runs one plan and records it. `health` is the drive's before the run, afterwards that after it.
fn execute_one(
    plan: &Plan,
    context: &RunContext,
    health: &mut Health,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Run, EngineError> {
    let inspecting = Wait::begin("inspecting", plan.target().path.as_str());
    let mut target = target_facts(plan, context);
    drop(inspecting);
    let overhead = floor::tool_overhead(plan, context.clock)?;
    let mut beside = Beside::new(context, plan, &target, on_progress);
    let control = Arc::new(Control::new(Arc::clone(&context.control.signal)));
    let measured = engine::run(plan, &context.medium, context.clock, &control, &mut beside)?;
    forget_cache(&context.medium);
    let Seen { device, telemetry, neighbours } = beside.into_seen();
    let after = match measured.outcome {
        // A drive that does not respond would block storing the result.
        Outcome::Interrupted { .. } => Health(Err("the run was interrupted".into())),
        _ => Health::now(context),
    };
    target.smart = Some(health.until(&after));
    *health = after;
    Ok(Run {
        schema: SCHEMA.into(),
        program: env!("CARGO_PKG_VERSION").into(),
        plan: plan.clone(),
        started_unix_ns: measured.started_unix_ns,
        outcome: measured.outcome,
        measured_ns: measured.measured_ns,
        measured_boottime_ns: measured.boottime_ns,
        backend: backend_facts(plan, context.clock, measured.queue, overhead),
        target,
        jobs: measured.jobs,
        process: measured.process,
        hiccups: measured.hiccups,
        device,
        telemetry,
        neighbours,
        final_sync: measured.final_sync,
        controlled: measured.controlled,
        precision: measured.precision,
        layers: None,
    })
}

/// The facts about the I/O engine and the clock.
fn backend_facts(
    plan: &Plan,
    clock: Clock,
    queue: QueueFacts,
    overhead: ToolOverhead,
) -> BackendFacts {
    BackendFacts {
        engine: plan.engine.kind.name().into(),
        features: queue.features,
        missing: queue.missing,
        clock: clock_word(plan, clock).into(),
        clock_cost_ps: clock.cost_ps(),
        clock_drift_ppb: clock.drift_ppb(),
        tool_overhead_ps: overhead.all_ps,
        tool_overhead_data_ps: overhead.data_ps,
        buffer_page_bytes: queue.buffer_page_bytes,
        buffer_bytes: plan.buffer_bytes(),
    }
}

/// Target facts directly before the run, after its page cache is dropped.
fn target_facts(plan: &Plan, context: &RunContext) -> TargetFacts {
    match &context.held {
        Some(held) => {
            if !context.keeps_cache {
                context.medium.files().into_iter().for_each(|file| drop_cache(file));
            }
            let facts = held.describe(&context.root);
            if plan.targets.len() == 1 { facts } else { of_several(plan, context, facts) }
        }
        None => TargetFacts {
            path: plan.target().path.clone(),
            kind: match context.medium {
                Medium::Sim(_) => "simulated",
                Medium::Vhost(_) => "vhost-user-blk device",
                Medium::Files(_) | Medium::Nvme(_) | Medium::Null(_) => "null",
            }
            .into(),
            bytes: Some(plan.target().bytes),
            // A page cache, if any, is in the server.
            direct: matches!(context.medium, Medium::Vhost(_)),
            ..TargetFacts::default()
        },
    }
}

/// Drops the page cache of a block device, stale after writes by NVMe commands.
fn forget_cache(medium: &Medium) {
    if let Medium::Nvme(_) = medium {
        medium.files().into_iter().for_each(|file| drop_cache(file));
    }
}

/// Sums the facts of several targets. The device is omitted: the targets may be on several, and no
/// single device's counters cover the whole load.
fn of_several(plan: &Plan, context: &RunContext, first: TargetFacts) -> TargetFacts {
    let files = context.medium.files().into_iter().zip(&plan.targets).skip(1);
    let others = files.map(|(file, target)| {
        truth::describe(&context.root, Path::new(&target.path), file.as_fd(), target.bytes)
    });
    let all: Vec<TargetFacts> = std::iter::once(first.clone()).chain(others).collect();
    let sum = |of: fn(&TargetFacts) -> Option<u64>| all.iter().map(of).sum::<Option<u64>>();
    let samples = all.iter().map(|facts| facts.cached_samples).try_fold((0, 0), |sum, each| {
        each.map(|(cached, sampled)| (sum.0 + cached, sum.1 + sampled))
    });
    TargetFacts {
        hole_bytes: sum(|facts| facts.hole_bytes),
        unwritten_bytes: sum(|facts| facts.unwritten_bytes),
        shared_bytes: sum(|facts| facts.shared_bytes),
        extents: sum(|facts| facts.extents),
        cached_samples: samples,
        device: None,
        ..first
    }
}

fn clock_word(plan: &Plan, clock: Clock) -> &'static str {
    match plan.engine.kind {
        iosonde_model::plan::EngineKind::Sim => "virtual",
        _ if clock.is_tsc() => "tsc",
        _ => "clock_monotonic",
    }
}

/// Samples the machine while the engine runs: counters at the window's edges, telemetry once a
/// second.
struct Beside<'a> {
    root: &'a Root,
    clock: Clock,
    device: Option<String>,
    sampler: Option<Sampler>,
    /// Taken before the run: during it, reading `/proc` would take CPU time from the load.
    census: Option<Census>,
    last_end: &'a LastEnd,
    opened_ns: u64,
    next_sample_ns: u64,
    counters: (Option<DeviceCounters>, Option<DeviceCounters>),
    samples: Vec<(u64, TelemetrySample)>,
    on_progress: &'a mut dyn FnMut(&Progress),
    plan: &'a Plan,
    peers: Option<&'a dyn Peers>,
}

/// What was sampled during the run.
struct Seen {
    device: Option<(DeviceCounters, DeviceCounters)>,
    telemetry: Vec<TelemetrySample>,
    neighbours: Vec<Neighbour>,
}

/// One sample a second.
const SAMPLE_EVERY_NS: u64 = 1_000_000_000;
/// After this many samples the sampling rate is halved, after twice as many reduced to a third, and
/// so on.
const MAX_SAMPLES: usize = 4096;

impl<'a> Beside<'a> {
    fn new(
        context: &'a RunContext,
        plan: &'a Plan,
        target: &TargetFacts,
        on_progress: &'a mut dyn FnMut(&Progress),
    ) -> Beside<'a> {
        let device = target.device.as_ref();
        let is_real = context.held.is_some() || matches!(context.medium, Medium::Vhost(_));
        Beside {
            root: &context.root,
            clock: context.clock,
            // NVMe commands bypass the block layer: its counters would show only other I/O.
            device: device
                .filter(|_| !matches!(context.medium, Medium::Nvme(_)))
                .map(|device| device.name.clone()),
            // A simulated run takes no real time, and does not depend on this machine.
            sampler: is_real.then(|| Sampler::new(&context.root, device)),
            census: is_real.then(|| {
                context
                    .last_end
                    .census
                    .take(monotonic_ns())
                    .unwrap_or_else(|| Census::take(&context.root))
            }),
            last_end: &context.last_end,
            opened_ns: 0,
            next_sample_ns: 0,
            counters: (None, None),
            samples: Vec::new(),
            on_progress,
            plan,
            peers: context.peers.as_deref(),
        }
    }

    fn device_counters(&self) -> Option<DeviceCounters> {
        self.device.as_ref().and_then(|name| device_counters(self.root, name))
    }

    fn sample(&mut self) {
        let now_ns = self.clock.now_ns();
        let Some(sampler) = &mut self.sampler else { return };
        if now_ns < self.next_sample_ns {
            return;
        }
        let stride = 1 + (self.samples.len() / MAX_SAMPLES) as u64;
        self.next_sample_ns = now_ns + SAMPLE_EVERY_NS * stride;
        self.samples.push((now_ns, sampler.sample()));
    }

    fn into_seen(self) -> Seen {
        let neighbours = self.census.as_ref().map(|before| {
            let after = Census::take(self.root);
            let neighbours = after.since(before, self.root);
            self.last_end.census.put(monotonic_ns(), after);
            neighbours
        });
        let opened_ns = self.opened_ns as i64;
        let samples = self
            .samples
            .into_iter()
            .map(|(at_ns, sample)| TelemetrySample { at_ns: at_ns as i64 - opened_ns, ..sample })
            .collect();
        Seen {
            device: self.counters.0.zip(self.counters.1),
            telemetry: samples,
            neighbours: neighbours.unwrap_or_default(),
        }
    }
}

impl Observer for Beside<'_> {
    fn wants_roles(&self) -> bool {
        true
    }

    fn starts_in(&mut self) -> Option<u64> {
        match self.peers {
            Some(peers) => peers.starts_in(self.plan),
            None => Unwatched.starts_in(),
        }
    }

    fn opened(&mut self, ago_ns: u64) {
        self.opened_ns = self.clock.now_ns();
        self.counters.0 = self.device_counters();
        if let Some(peers) = self.peers {
            peers.opened(ago_ns);
        }
    }

    fn tick(&mut self, progress: &Progress) {
        self.sample();
        if let Some(peers) = self.peers {
            peers.moved(progress);
        }
        (self.on_progress)(progress);
    }

    fn closed(&mut self) {
        self.counters.1 = self.device_counters();
        self.next_sample_ns = 0;
        self.sample();
    }
}

/// Runs `count` tasks in any order and returns their results in order.
pub(crate) fn in_parallel<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let worker = || -> Vec<(usize, T)> {
        let next = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < count);
        std::iter::from_fn(next).map(|index| (index, work(index))).collect()
    };
    let all: BTreeMap<usize, T> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(worker)).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| match worker.join() {
            Ok(done) => done,
            // A panic of a worker is not ignored.
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().flat_map(join).collect()
    });
    all.into_values().collect()
}
