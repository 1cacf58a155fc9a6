//! The hot loop allocates nothing, as a counting allocator proves.
//!
//! One test only, because the count covers the whole process.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests; a skipped part says why")]

use std::sync::Arc;

use iosonde_engine::engine::verify::{RunInputs, verify};
use iosonde_engine::engine::{Control, Measured, Medium, Observer, Progress, Unwatched, run};
use iosonde_model::plan::{Engine, EngineKind, OnError, Plan, Setting, Stop, Target, resolve};
use iosonde_model::plan::{RunId, VerifyMode, VerifyPlan, VerifySetting};
use iosonde_model::record::Outcome;
use iosonde_model::spec::{Role, Rw, Threads, Workload};
use iosonde_rig::skip_part;
use iosonde_sys::Clock;
use iosonde_sys::counting::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const TARGET_BYTES: u64 = 64 << 20;
const MS: u64 = 1_000_000;

fn plan(kind: EngineKind, rw: Rw, iodepth: u32, stop: Stop) -> Plan {
    let role = Role { threads: Threads::Count(1), ..Role::new("job", rw) };
    let workload = Workload {
        name: "test".into(),
        title: "Test".into(),
        pattern: "test".into(),
        models: String::new(),
        block_size: 4096,
        read_percent: 50,
        roles: vec![role],
    };
    let setting = Setting {
        engine: Engine::of(kind),
        targets: vec![Target {
            path: "t".into(),
            bytes: TARGET_BYTES,
            direct: false,
            align_bytes: 1,
        }],
        offset_bytes: 0,
        cpus: 1,
        iodepth,
        seed: 1,
        warmup_ns: 0,
        stop,
        on_error: OnError::Stop,
        final_sync: false,
        buffer_limit_bytes: 1 << 30,
    };
    resolve(&workload, &setting).unwrap()
}

/// Counts allocations from the second tick to the last.
#[derive(Default)]
struct Watch {
    ticks: u32,
    first: u64,
    last: u64,
}

impl Observer for Watch {
    fn tick(&mut self, progress: &Progress) {
        // At the edges of the run, threads are created and the record is assembled.
        let settled = 300 * MS..progress.planned_ns.saturating_sub(100 * MS);
        if settled.contains(&progress.elapsed_ns) {
            self.last = CountingAllocator::allocations();
            if self.ticks == 0 {
                self.first = self.last;
            }
            self.ticks += 1;
        }
    }
}

fn measure(plan: &Plan, medium: &Medium, observer: &mut dyn Observer) -> Option<Measured> {
    let control = Arc::new(Control::default());
    let measured = run(plan, medium, Clock::monotonic(), &control, observer);
    let engine = plan.engine.kind.name();
    let measured = measured.map_err(|error| skip_part(engine, error)).ok()?;
    assert_eq!(measured.outcome, Outcome::Complete);
    Some(measured)
}

/// Allocations of a whole run of `ops` operations on the null backend.
fn allocations_of(rw: Rw, ops: u64) -> u64 {
    let mut plan = plan(EngineKind::Null, rw, 32, Stop::AfterOps(ops));
    // A single interval on any machine, so that the record always has the same size.
    plan.interval_ns = 3600 * 1000 * MS;
    let before = CountingAllocator::allocations();
    measure(&plan, &Medium::Null(None), &mut Unwatched).unwrap();
    CountingAllocator::allocations() - before
}

/// Allocations within a timed run whose intervals change so often that they are merged.
fn allocations_within(kind: EngineKind, rw: Rw, iodepth: u32, medium: &Medium) -> Option<u64> {
    let mut plan = plan(kind, rw, iodepth, Stop::AfterNs(1500 * MS));
    plan.interval_ns = MS / 4;
    plan.intervals_per_histogram = 2;
    let mut watch = Watch::default();
    let measured = measure(&plan, medium, &mut watch)?;
    let job = &measured.jobs[0];
    let width_ns = job.read.latencies.width_ns.max(job.write.latencies.width_ns);
    assert!(width_ns > MS / 2, "neighbours were merged: {width_ns} ns");
    assert!(watch.ticks > 1, "looked twice at least");
    Some(watch.last - watch.first)
}

/// Allocations and operations of a whole verifier run that writes all blocks, flushes and reads
/// them back without a failure. A failed block is examined, which allocates.
fn allocations_of_verify(kind: EngineKind, iodepth: u32, medium: &Medium) -> Option<(u64, u64)> {
    let setting = VerifySetting {
        mode: VerifyMode::Flush,
        // A new ID each time, so that the blocks of an earlier run are not taken for its own.
        run: RunId(u128::from(CountingAllocator::allocations())),
        engine: Engine::of(kind),
        target: Target { path: "t".into(), bytes: TARGET_BYTES, direct: false, align_bytes: 1 },
        offset_bytes: 0,
        overlap: false,
        jobs: 1,
        iodepth,
        block_bytes: 4096,
        sector_bytes: 512,
        blocks: (1, 4),
        read_percent: 0,
        trim_percent: 0,
        flush_every: 0,
        passes: 1,
        ops: u64::MAX,
        only_job: None,
        length_ns: u64::MAX,
        written_bytes: u64::MAX,
        delay_ns: 0,
        trims_make_zeros: false,
        begins_as_zeros: false,
        seed: 1,
        cpus: 1,
        memory_limit_bytes: 1 << 30,
    };
    let plan = VerifyPlan::resolve(&setting).unwrap();
    let control = Arc::new(Control::default());
    let before = CountingAllocator::allocations();
    let clock = Clock::monotonic();
    let measured = verify(&plan, medium, RunInputs::default(), clock, &control, &mut Unwatched);
    let after = CountingAllocator::allocations();
    let measured = measured.map_err(|error| skip_part(kind.name(), error)).ok()?;
    assert_eq!(measured.outcome, Outcome::Complete);
    let job = &measured.jobs[0];
    assert_eq!((job.written_bytes, job.read_bytes), (TARGET_BYTES, TARGET_BYTES));
    assert_eq!((job.failed_blocks.len(), job.checked), (0, TARGET_BYTES / 4096));
    Some((after - before, job.ops))
}

#[test]
fn the_loop_of_a_job_allocates_nothing() {
    // Allocations that occur once per process.
    allocations_of(Rw::RandRw, 1000);
    for rw in [Rw::RandRead, Rw::RandRw, Rw::Write] {
        let (few, many) = (allocations_of(rw, 500_000), allocations_of(rw, 2_000_000));
        assert!(few > 10, "the counter counts");
        // The watcher may run once more in a longer run. An allocation per thousand operations
        // would give far more.
        let more = many.saturating_sub(few);
        assert!(more <= 2, "{rw}: {few} of 500,000 operations, {many} of 2,000,000");
    }
    let file = tempfile::tempfile().unwrap();
    file.set_len(TARGET_BYTES).unwrap();
    let file = Medium::Files(vec![Arc::new(file.into())]);
    let depth = |kind: EngineKind| if kind.is_synchronous() { 1 } else { 16 };
    let of_files = EngineKind::of_files().map(|kind| (kind, depth(kind), &file));
    let null = (EngineKind::Null, 128, &Medium::Null(None));
    for (kind, iodepth, medium) in of_files.chain([null]) {
        if let Some(found) = allocations_within(kind, Rw::RandRw, iodepth, medium) {
            assert_eq!(found, 0, "{} allocates while it measures", kind.name());
        }
    }
    for kind in EngineKind::of_files() {
        let iodepth = depth(kind);
        // Allocations that occur once per engine.
        allocations_of_verify(kind, iodepth, &file);
        let Some((found, ops)) = allocations_of_verify(kind, iodepth, &file) else { continue };
        let kind = kind.name();
        // The supervisor allocates over time and per stall: some hundred times on a busy machine.
        let is_rare = found * 10 < ops && ops > 5000;
        assert!(is_rare, "verify {kind}: {found}, {ops} writes and their reads");
    }
}
