//! One set of tests over every backend: the contract of `Queue`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use iosonde::schedule::{Event, RunContext, execute};
use iosonde_analysis::{assess, consistency, figures};
use iosonde_engine::backend::files::FileQueue;
use iosonde_engine::backend::null::NullQueue;
use iosonde_engine::backend::sim::{Model, SimQueue};
use iosonde_engine::backend::{Queue, Transfer};
use iosonde_engine::engine::{Control, Medium};
use iosonde_engine::host::Root;
use iosonde_model::plan::chance::Chance;
use iosonde_model::plan::{
    Engine, EngineKind, IoKind, Job, OnError, Order, Plan, Setting, Stop, Target, resolve,
};
use iosonde_model::record::Run;
use iosonde_model::record::run::Outcome;
use iosonde_model::spec::{Access, Region, Role, Rw, Threads, Workload, WorksOn};
use iosonde_rig::{ScratchDir, skip, skip_part};
use iosonde_sys::{Clock, ring};

const BLOCK: usize = 4096;
const FILE_BYTES: u64 = 4 << 20;
const SECOND_NS: u64 = 1_000_000_000;
const EINVAL: i32 = 22;

fn job(iodepth: u32) -> Job {
    Job {
        role: "test".into(),
        block_bytes: BLOCK as u64,
        read_percent: 50,
        order: Order::Uniform,
        region_start: 0,
        region_bytes: FILE_BYTES,
        iodepth,
        batch: iodepth.min(32),
        seed: 1,
        ..Job::default()
    }
}

fn engine(kind: EngineKind) -> Engine {
    Engine::of(kind)
}

/// A file of `bytes` bytes, for direct I/O or through the page cache.
struct TestFile {
    dir: ScratchDir,
}

impl TestFile {
    fn new(bytes: u64) -> TestFile {
        let dir = ScratchDir::new().unwrap();
        // Not a hole: reading a hole may not enforce the device's alignment.
        let mut file = File::create(dir.path().join("file")).unwrap();
        file.write_all(&vec![0x5a; bytes as usize]).unwrap();
        file.sync_all().unwrap();

        TestFile { dir }
    }

    fn open(&self, direct: bool) -> OwnedFd {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = if direct { rustix::fs::OFlags::DIRECT.bits() as i32 } else { 0 };
        let mut options = File::options();
        options.read(true).write(true).custom_flags(flags);
        options.open(self.dir.path().join("file")).unwrap().into()
    }
}

/// A test of the set, as a generic visitor, because queues are not trait objects.
trait Examination {
    /// `depth` is 1, or more if the backend is asynchronous.
    fn examine<Q: Queue>(&self, queue: Q, depth: usize);
}

/// The file engines available on this system.
fn of_files() -> Vec<EngineKind> {
    let uring = ring::probe();
    if let Err(reason) = &uring {
        skip_part("io_uring", reason);
    }
    EngineKind::of_files().filter(|kind| uring.is_ok() || !kind.is_uring()).collect()
}

/// Engines whose reads and writes are system calls: the kernel applies the file's end and open
/// flags.
fn that_call() -> Vec<EngineKind> {
    of_files().into_iter().filter(|kind| !kind.calls().is_empty()).collect()
}

/// A queue on this file; `None`, with the reason, if the system has no further libaio context.
fn queue_on(kind: EngineKind, depth: u32, file: OwnedFd) -> Option<FileQueue> {
    let queue = FileQueue::open(&job(depth), &engine(kind), vec![file], Clock::monotonic());
    match queue {
        Err(reason) if kind == EngineKind::Libaio => {
            skip_part("libaio", reason);
            None
        }
        queue => Some(queue.unwrap()),
    }
}

/// Tests queues of these engines, each on its own file.
fn over_files(
    kinds: Vec<EngineKind>,
    target_bytes: u64,
    direct: bool,
    examination: &impl Examination,
) {
    for kind in kinds {
        let depths: &[u32] = if kind.is_synchronous() { &[1] } else { &[1, 7, 32, 256] };
        for depth in depths {
            let target = TestFile::new(target_bytes);
            if let Some(queue) = queue_on(kind, *depth, target.open(direct)) {
                examination.examine(queue, *depth as usize);
            }
        }
    }
}

/// Tests all backends.
fn over_all(examination: &impl Examination) {
    for direct in [true, false] {
        over_files(of_files(), FILE_BYTES, direct, examination);
    }
    for depth in [1, 32] {
        let null = NullQueue::open(&job(depth), Clock::monotonic(), None).unwrap();
        examination.examine(null, depth as usize);
        let device = Model::parse("servers=4,read=exp:100us,write=50us").unwrap().build(1);
        let sim = SimQueue::open(&job(depth), Rc::new(RefCell::new(device)));
        examination.examine(sim, depth as usize);
    }
}

/// Submits staged requests and waits until `count` slots have completed. Returns their results.
fn collect<Q: Queue>(queue: &mut Q, count: usize) -> BTreeMap<usize, i32> {
    let mut results = BTreeMap::new();
    let mut rounds = 0;
    while results.len() < count {
        queue.enter(1, SECOND_NS).unwrap();
        queue.reap(|slot, result| {
            assert_eq!(results.insert(slot, result), None, "slot {slot} came back twice");
        });
        rounds += 1;
        assert!(rounds < 100_000, "{} of {count} came back", results.len());
    }
    results
}

fn transfer(way: IoKind, offset: u64) -> Transfer {
    Transfer { way, target: 0, offset, skip: 0, bytes: BLOCK as u32 }
}

/// Every slot pushed completes exactly once with its bytes; no other slot completes.
struct EachComesBackOnce;

impl Examination for EachComesBackOnce {
    fn examine<Q: Queue>(&self, mut queue: Q, depth: usize) {
        let mut chance = Chance::new(3);
        let mut free: Vec<usize> = (0..depth).collect();
        let mut in_flight = vec![false; depth];
        let (mut pushed, mut back) = (0u64, 0u64);
        let mut last_ns = queue.now_ns();
        while back < 2000 {
            for _ in 0..=chance.below(depth as u64) {
                let Some(slot) = free.pop().filter(|_| pushed < 2000) else { break };
                assert!(!std::mem::replace(&mut in_flight[slot], true));
                let way = if chance.below(2) == 0 { IoKind::Read } else { IoKind::Write };
                let offset = chance.below(FILE_BYTES / BLOCK as u64) * BLOCK as u64;
                queue.push(slot, transfer(way, offset));
                pushed += 1;
            }
            let outstanding = (pushed - back) as u32;
            queue.enter(outstanding.min(chance.below(2) as u32), SECOND_NS).unwrap();
            queue.reap(|slot, result| {
                assert!(std::mem::replace(&mut in_flight[slot], false), "slot {slot} unasked");
                assert_eq!(result, BLOCK as i32);
                free.push(slot);
                back += 1;
            });
            assert!(pushed - back <= depth as u64);
            let now_ns = queue.now_ns();
            assert!(now_ns >= last_ns, "the clock goes back");
            last_ns = now_ns;
        }
        queue.enter(0, 0).unwrap();
        queue.reap(|slot, _| panic!("slot {slot} came back unasked"));
        assert_eq!((pushed, back), (2000, 2000));
    }
}

#[test]
fn each_comes_back_once() {
    over_all(&EachComesBackOnce);
}

/// Reads return the bytes written through the same queue, in any slot.
struct ReadsGiveWhatWasWritten;

impl Examination for ReadsGiveWhatWasWritten {
    fn examine<Q: Queue>(&self, mut queue: Q, depth: usize) {
        let pattern = |round: usize, slot: usize| (round * 31 + slot * 7 + 1) as u8;
        for round in 0..4 {
            for slot in 0..depth {
                queue.buffer(slot).fill(pattern(round, slot));
                queue.push(slot, transfer(IoKind::Write, (slot * BLOCK) as u64));
            }
            let results = collect(&mut queue, depth);
            assert!(results.values().all(|result| *result == BLOCK as i32), "{results:?}");
            // Each slot reads the data that another one wrote.
            for slot in 0..depth {
                queue.buffer(slot).fill(0);
                let other = (slot + 1) % depth;
                queue.push(slot, transfer(IoKind::Read, (other * BLOCK) as u64));
            }
            let results = collect(&mut queue, depth);
            assert!(results.values().all(|result| *result == BLOCK as i32), "{results:?}");
            for slot in 0..depth {
                let expected = pattern(round, (slot + 1) % depth);
                assert!(queue.buffer(slot)[..BLOCK].iter().all(|byte| *byte == expected));
            }
        }
        // A part of a buffer, as when a short transfer is continued.
        queue.buffer(0).fill(9);
        queue.push(0, Transfer { way: IoKind::Read, target: 0, offset: 0, skip: 512, bytes: 512 });
        assert_eq!(collect(&mut queue, 1)[&0], 512);
        let first = pattern(3, 0);
        let buffer = queue.buffer(0);
        assert!(buffer[..512].iter().all(|byte| *byte == 9));
        assert!(buffer[512..1024].iter().all(|byte| *byte == first));
        assert!(buffer[1024..BLOCK].iter().all(|byte| *byte == 9));
    }
}

#[test]
fn reads_give_what_was_written() {
    for direct in [true, false] {
        over_files(of_files(), FILE_BYTES, direct, &ReadsGiveWhatWasWritten);
    }
}

/// A read at the end of the file is short, one beyond it is empty.
struct EndOfFile;

impl Examination for EndOfFile {
    fn examine<Q: Queue>(&self, mut queue: Q, _depth: usize) {
        for (offset, expected) in [(0, BLOCK as i32), (BLOCK as u64, 512), (2 * BLOCK as u64, 0)] {
            queue.push(0, transfer(IoKind::Read, offset));
            assert_eq!(collect(&mut queue, 1)[&0], expected, "at {offset}");
        }
    }
}

#[test]
fn a_read_across_the_end_is_short_and_beyond_it_empty() {
    for direct in [true, false] {
        over_files(that_call(), BLOCK as u64 + 512, direct, &EndOfFile);
    }
}

/// A request that the target rejects gives a result, not an error of the queue or a panic.
struct Misaligned;

impl Examination for Misaligned {
    fn examine<Q: Queue>(&self, mut queue: Q, depth: usize) {
        for (way, offset, bytes) in [(IoKind::Read, 100, 4096), (IoKind::Write, 0, 100)] {
            for slot in 0..depth {
                queue.push(slot, Transfer { way, target: 0, offset, skip: 0, bytes });
            }
            let results = collect(&mut queue, depth);
            assert!(results.values().all(|result| *result == -EINVAL), "{way:?} {results:?}");
        }
        // The queue still works.
        queue.push(0, transfer(IoKind::Read, 0));
        assert_eq!(collect(&mut queue, 1)[&0], BLOCK as i32);
    }
}

#[test]
fn misaligned_direct_requests_come_back_as_einval() {
    over_files(that_call(), FILE_BYTES, true, &Misaligned);
}

#[test]
fn a_write_without_the_right_to_write_comes_back_as_ebadf() {
    let target = TestFile::new(FILE_BYTES);
    for kind in that_call() {
        let read_only = OwnedFd::from(File::open(target.dir.path().join("file")).unwrap());
        let depth = if kind.is_synchronous() { 1 } else { 4 };
        let Some(mut queue) = queue_on(kind, depth, read_only) else { continue };
        for slot in 0..depth as usize {
            queue.push(slot, transfer(IoKind::Write, 0));
        }
        let results = collect(&mut queue, depth as usize);
        assert!(results.values().all(|result| *result == -9), "{}: {results:?}", kind.name());
    }
}

#[test]
fn an_enter_with_nothing_in_flight_returns() {
    struct Idle;
    impl Examination for Idle {
        fn examine<Q: Queue>(&self, mut queue: Q, _depth: usize) {
            for _ in 0..3 {
                queue.enter(0, 0).unwrap();
                queue.reap(|slot, _| panic!("slot {slot} came back unasked"));
            }
        }
    }
    over_all(&Idle);
}

/// Buffers are complete, writable, distinct, and aligned for any sector size.
#[test]
fn buffers_are_aligned_and_do_not_overlap() {
    struct Buffers;
    impl Examination for Buffers {
        fn examine<Q: Queue>(&self, mut queue: Q, depth: usize) {
            let mut starts = Vec::new();
            for slot in 0..depth {
                let buffer = queue.buffer(slot);
                assert!(buffer.len() >= BLOCK);
                assert!((buffer.as_ptr() as usize).is_multiple_of(BLOCK), "slot {slot}");
                starts.push(buffer.as_ptr() as usize);
            }
            starts.sort_unstable();
            assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= BLOCK));
        }
    }
    over_files(of_files(), FILE_BYTES, true, &Buffers);
}

// The real engine over each backend.

/// A load for the engine.
#[derive(Clone)]
struct Load {
    rw: Rw,
    iodepth: u32,
    threads: u32,
    block_bytes: u64,
    warmup_ns: u64,
    stop: Stop,
    access: Access,
    region: Region,
    offset_bytes: u64,
}

const LOAD: Load = Load {
    rw: Rw::RandRead,
    iodepth: 8,
    threads: 1,
    block_bytes: BLOCK as u64,
    warmup_ns: 0,
    stop: Stop::AfterNs(150_000_000),
    access: Access::Permutation,
    region: Region::Shared,
    offset_bytes: 0,
};

impl Load {
    fn plan(&self, kind: EngineKind) -> Plan {
        let role = Role {
            threads: Threads::Count(self.threads),
            region: self.region,
            access: self.access.clone(),
            ..Role::new("job", self.rw)
        };
        let workload = Workload {
            name: "test".into(),
            title: "Test".into(),
            pattern: "test".into(),
            models: String::new(),
            block_size: self.block_bytes,
            read_percent: self.rw.read_percent(50),
            roles: vec![role],
        };
        let is_file = kind.opens_files();
        let setting = Setting {
            engine: engine(kind),
            targets: vec![Target {
                path: "target".into(),
                bytes: FILE_BYTES,
                direct: is_file,
                align_bytes: 512,
            }],
            offset_bytes: self.offset_bytes,
            cpus: 2,
            iodepth: if kind.is_synchronous() { 1 } else { self.iodepth },
            seed: 5,
            warmup_ns: self.warmup_ns,
            stop: self.stop,
            on_error: OnError::Stop,
            final_sync: is_file,
            buffer_limit_bytes: 1 << 30,
        };
        resolve(&workload, &setting).unwrap()
    }

    fn execute(&self, kind: EngineKind) -> Run {
        let target = TestFile::new(FILE_BYTES);
        let medium = match kind.works_on() {
            WorksOn::Files => Medium::Files(vec![Arc::new(target.open(true))]),
            WorksOn::Server => unreachable!("needs a server of its own"),
            WorksOn::Namespaces => unreachable!("needs an NVMe drive: tests/vm has one"),
            WorksOn::Nothing => Medium::Null(None),
            WorksOn::Simulation => {
                Medium::Sim(Model::parse("servers=4,read=exp:300us,write=200us").unwrap())
            }
        };
        let context = RunContext {
            root: Root::system(),
            clock: Clock::monotonic(),
            held: None,
            medium,
            control: Arc::new(Control::default()),
            keeps_cache: false,
            last_end: Arc::default(),
            peers: None,
        };
        let mut record = None;
        execute(&[self.plan(kind)], &context, &mut |event| {
            if let Event::Finished { run, .. } = event {
                record = Some((*run).clone());
            }
        })
        .unwrap();
        record.unwrap()
    }
}

fn kinds() -> Vec<EngineKind> {
    [of_files(), vec![EngineKind::Null, EngineKind::Sim]].concat()
}

/// Checks the consistency of a run, and conditions that every run must meet.
fn examine(run: &Run, what: &str) {
    let assessment = assess(run, None);
    assert_eq!(run.outcome, Outcome::Complete, "{what}");
    let severe: Vec<_> = assessment
        .consistency
        .broken()
        .filter(|identity| identity.severity == consistency::Severity::Invalid)
        .collect();
    assert!(severe.is_empty(), "{what}: {severe:#?}");
    for (job, planned) in run.jobs.iter().zip(&run.plan.jobs) {
        assert!(job.read.ops + job.write.ops > 0, "{what}");
        assert!(job.in_flight_max <= planned.iodepth, "{what}: {}", job.in_flight_max);
        let (low, high) = job.touched.unwrap();
        assert!(low >= planned.region_start, "{what}: {low}");
        assert!(high <= planned.region_start + planned.region_bytes, "{what}: {high}");
        assert_eq!(job.read.ops == 0, planned.read_percent == 0, "{what}");
        assert_eq!(job.write.ops == 0, planned.read_percent == 100, "{what}");
        assert!(job.errors.is_empty() && job.abandoned == 0, "{what}");
    }
}

#[test]
fn consistency_checks_hold_for_every_load() {
    let rws = [Rw::Read, Rw::Write, Rw::RandRead, Rw::RandWrite, Rw::Rw, Rw::RandRw];
    for kind in kinds() {
        for rw in rws {
            for (words, load) in [
                ("timed", Load { rw, ..LOAD }),
                ("warm-up", Load { rw, warmup_ns: 50_000_000, ..LOAD }),
                ("counted", Load { rw, stop: Stop::AfterOps(300), ..LOAD }),
                ("one pass", Load { rw, stop: Stop::AfterOnePass, ..LOAD }),
            ] {
                examine(&load.execute(kind), &format!("{} {rw} {words}", kind.name()));
            }
        }
    }
}

#[test]
fn consistency_checks_hold_for_several_jobs_regions_and_sizes() {
    for kind in kinds() {
        for (words, load) in [
            ("shared", Load { threads: 3, ..LOAD }),
            ("partitioned", Load { threads: 3, region: Region::Partitioned, ..LOAD }),
            ("uniform", Load { access: Access::Uniform, rw: Rw::RandWrite, ..LOAD }),
            ("offset", Load { offset_bytes: 1 << 20, rw: Rw::Rw, ..LOAD }),
            ("large", Load { block_bytes: 512 << 10, rw: Rw::RandRw, ..LOAD }),
            ("small", Load { block_bytes: 512, ..LOAD }),
            ("deep", Load { iodepth: 256, ..LOAD }),
        ] {
            examine(&load.execute(kind), &format!("{} {words}", kind.name()));
        }
    }
}

#[test]
fn a_pass_and_a_count_give_exactly_that_many_operations() {
    for kind in kinds() {
        for threads in [1, 3] {
            let pass = Load { stop: Stop::AfterOnePass, threads, ..LOAD }.execute(kind);
            let ops: u64 = pass.jobs.iter().map(|job| job.read.ops).sum();
            assert_eq!(ops, FILE_BYTES / BLOCK as u64, "{} {threads}", kind.name());
            let counted = Load { stop: Stop::AfterOps(500), threads, ..LOAD }.execute(kind);
            assert!(counted.jobs.iter().all(|job| job.read.ops == 500), "{}", kind.name());
        }
    }
}

#[test]
fn the_depth_seen_is_the_depth_asked_where_requests_wait() {
    // A FUSE device of 2 ms: nothing completes inline, so 16 must be in flight.
    let script = iosonde_rig::Script::from_words(["read=const:2ms"]).unwrap();
    let mount = match iosonde_rig::FuseMount::new(script) {
        Ok(mount) => mount,
        Err(reason) => return skip(reason),
    };
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    let file = options.custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32);
    let file = file.open(mount.path().join("file")).unwrap();
    file.set_len(FILE_BYTES).unwrap();
    for kind in that_call() {
        let depth = if kind.is_synchronous() { 1 } else { 16 };
        let load = Load { iodepth: depth, stop: Stop::AfterNs(500_000_000), ..LOAD };
        let context = RunContext {
            root: Root::system(),
            clock: Clock::monotonic(),
            held: None,
            medium: Medium::Files(vec![Arc::new(file.try_clone().unwrap().into())]),
            control: Arc::new(Control::default()),
            keeps_cache: false,
            last_end: Arc::default(),
            peers: None,
        };
        let mut record = None;
        execute(&[load.plan(kind)], &context, &mut |event| {
            if let Event::Finished { run, .. } = event {
                record = Some((*run).clone());
            }
        })
        .unwrap();
        let run: Run = record.unwrap();
        examine(&run, kind.name());
        let seen = figures(&run).all.depth_seen;
        assert!((seen / f64::from(depth) - 1.0).abs() < 0.05, "{}: {seen}", kind.name());
        assert_eq!(run.jobs[0].in_flight_max, depth);
    }
}
