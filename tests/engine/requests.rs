//! Requests other than plain reads and writes: syncs, trims, durable writes, vectors, several
//! targets, and buffers in requested places.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use iosonde_engine::backend::files::FileQueue;
use iosonde_engine::backend::{OpenError, Queue, QueueFacts, Transfer};
use iosonde_model::plan::{EachWrite, Engine, EngineKind, IoKind, Job, SyncCall};
use iosonde_rig::guard::LoopDevice;
use iosonde_rig::{ScratchDir, skip, skip_part};
use iosonde_sys::{Clock, ring};

const BLOCK: u64 = 4096;
const SECOND_NS: u64 = 1_000_000_000;

fn job(iodepth: u32) -> Job {
    Job { iodepth, batch: iodepth, read_percent: 50, region_bytes: 1 << 20, ..Job::default() }
}

/// A file without zero bytes, for direct I/O.
struct Target {
    dir: ScratchDir,
}

impl Target {
    fn new() -> Target {
        let dir = ScratchDir::new().unwrap();
        let mut file = File::create(dir.path().join("file")).unwrap();
        file.write_all(&vec![0x5a; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        Target { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("file")
    }

    fn open(&self) -> OwnedFd {
        let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
        let mut options = File::options();
        options.read(true).write(true).custom_flags(flags).open(self.path()).unwrap().into()
    }
}

/// The queue of a file engine.
struct AnyQueue {
    queue: FileQueue,
    depth: usize,
}

impl AnyQueue {
    fn open(engine: &Engine, job: &Job, files: Vec<OwnedFd>) -> Result<AnyQueue, OpenError> {
        let queue = FileQueue::open(job, engine, files, Clock::monotonic())?;
        Ok(AnyQueue { queue, depth: job.iodepth as usize })
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.queue.buffer(slot)
    }

    fn facts(&self) -> QueueFacts {
        self.queue.facts()
    }

    /// Executes these requests, one slot each, and returns their results.
    fn execute(&mut self, transfers: &[Transfer]) -> Vec<i32> {
        let at_once = transfers.chunks(self.depth);
        at_once.flat_map(|transfers| execute(&mut self.queue, transfers)).collect()
    }
}

fn execute<Q: Queue>(queue: &mut Q, transfers: &[Transfer]) -> Vec<i32> {
    for (slot, transfer) in transfers.iter().enumerate() {
        queue.push(slot, *transfer);
    }
    let mut results = BTreeMap::new();
    for _ in 0..1000 {
        queue.enter(1, SECOND_NS).unwrap();
        queue.reap(|slot, result| assert_eq!(results.insert(slot, result), None));
        if results.len() == transfers.len() {
            return results.into_values().collect();
        }
    }
    panic!("{} of {} came back", results.len(), transfers.len());
}

/// The available engines whose requests are system calls on files.
fn engines() -> Vec<Engine> {
    let uring = ring::probe();
    if let Err(reason) = &uring {
        skip_part("io_uring", reason);
    }
    let calls = |kind: &EngineKind| !kind.calls().is_empty() && (uring.is_ok() || !kind.is_uring());
    EngineKind::of_files().filter(calls).map(Engine::of).collect()
}

fn transfer(way: IoKind, target: u16, offset: u64, bytes: u64) -> Transfer {
    Transfer { way, target, offset, skip: 0, bytes: bytes as u32 }
}

fn depth(engine: &Engine) -> u32 {
    if engine.kind.is_synchronous() { 1 } else { 8 }
}

#[test]
fn a_sync_gives_0() {
    let target = Target::new();
    for engine in engines() {
        for call in [SyncCall::Fdatasync, SyncCall::Fsync] {
            let mut job = job(depth(&engine));
            (job.sync.every_writes, job.sync.call) = (1, call);
            let mut queue = AnyQueue::open(&engine, &job, vec![target.open()]).unwrap();
            let results = queue.execute(&[
                transfer(IoKind::Write, 0, 0, BLOCK),
                transfer(IoKind::Sync, 0, 0, 0),
                transfer(IoKind::Write, 0, BLOCK, BLOCK),
                transfer(IoKind::Sync, 0, 0, 0),
            ]);
            assert_eq!(results, [4096, 0, 4096, 0], "{} {call:?}", engine.kind.name());
        }
    }
}

#[test]
fn each_write_can_be_durable() {
    let target = Target::new();
    for mut engine in engines() {
        for each_write in [EachWrite::Dsync, EachWrite::Sync] {
            for vectored in [false, true] {
                engine.vectored = vectored;
                let mut job = job(depth(&engine));
                job.sync.each_write = each_write;
                let mut queue = AnyQueue::open(&engine, &job, vec![target.open()]).unwrap();
                queue.buffer(0).fill(7);
                let write = transfer(IoKind::Write, 0, 8 * BLOCK, BLOCK);
                assert_eq!(queue.execute(&[write]), [4096], "{}", engine.kind.name());
                queue.buffer(0).fill(0);
                let read = transfer(IoKind::Read, 0, 8 * BLOCK, BLOCK);
                assert_eq!(queue.execute(&[read]), [4096]);
                assert!(queue.buffer(0)[..4096].iter().all(|byte| *byte == 7));
            }
        }
    }
}

/// Offset of the first hole.
fn first_hole(path: &PathBuf) -> u64 {
    rustix::fs::seek(File::open(path).unwrap(), rustix::fs::SeekFrom::Hole(0)).unwrap()
}

#[test]
fn a_trim_punches_a_hole_and_keeps_the_size() {
    for engine in engines() {
        let target = Target::new();
        let job = Job { trims: true, ..job(depth(&engine)) };
        let opened = AnyQueue::open(&engine, &job, vec![target.open()]);
        if engine.kind == EngineKind::Libaio {
            let refused = opened.err().unwrap().to_string();
            assert!(refused.contains("libaio has no trim"), "{refused}");
            continue;
        }
        let mut queue = match opened {
            Ok(queue) => queue,
            Err(reason) => {
                skip_part(engine.kind.name(), reason);
                continue;
            }
        };
        assert_eq!(first_hole(&target.path()), 1 << 20, "nothing is trimmed to find out");
        let results = queue.execute(&[
            transfer(IoKind::Trim, 0, 16 * BLOCK, 4 * BLOCK),
            transfer(IoKind::Trim, 0, 64 * BLOCK, BLOCK),
            transfer(IoKind::Read, 0, 0, BLOCK),
        ]);
        assert_eq!(results, [16384, 4096, 4096], "{}", engine.kind.name());
        assert_eq!(first_hole(&target.path()), 16 * BLOCK);
        let after = std::fs::read(target.path()).unwrap();
        assert_eq!(after.len(), 1 << 20);
        for (block, bytes) in after.chunks(4096).enumerate() {
            let expected = if (16..20).contains(&block) || block == 64 { 0 } else { 0x5a };
            assert!(bytes.iter().all(|byte| *byte == expected), "block {block}");
        }
    }
}

#[test]
fn a_trim_of_a_block_device_discards() {
    for engine in engines() {
        if engine.kind == EngineKind::Libaio {
            continue;
        }
        let dir = ScratchDir::new().unwrap();
        let device = match LoopDevice::new(&dir.path().join("image"), 16 << 20) {
            Ok(device) => device,
            Err(reason) => return skip(reason),
        };
        let mut options = File::options();
        let options = options.read(true).write(true);
        let file = || OwnedFd::from(options.open(device.path()).unwrap());
        let job = Job { trims: true, ..job(depth(&engine)) };
        let mut queue = match AnyQueue::open(&engine, &job, vec![file()]) {
            Ok(queue) => queue,
            Err(reason) => {
                skip_part(engine.kind.name(), reason);
                continue;
            }
        };
        queue.buffer(0).fill(9);
        assert_eq!(queue.execute(&[transfer(IoKind::Write, 0, 0, BLOCK)]), [4096]);
        assert_eq!(queue.execute(&[transfer(IoKind::Sync, 0, 0, 0)]), [0]);
        assert_eq!(queue.execute(&[transfer(IoKind::Trim, 0, 0, BLOCK)]), [4096]);
        assert_eq!(queue.execute(&[transfer(IoKind::Read, 0, 0, BLOCK)]), [4096]);
        assert!(queue.buffer(0)[..4096].iter().all(|byte| *byte == 0), "a loop device punches");
        // A trim beyond the end of the device fails like any other request.
        let beyond = queue.execute(&[transfer(IoKind::Trim, 0, 1 << 40, BLOCK)]);
        assert_eq!(beyond, [-22], "{}", engine.kind.name());
    }
}

#[test]
fn vectors_and_what_is_not_registered_move_the_same_bytes() {
    let target = Target::new();
    for kind in engines() {
        for (registered_files, fixed_buffers, vectored) in
            [(true, true, false), (false, true, false), (true, false, false), (false, false, true)]
        {
            let engine = Engine { registered_files, fixed_buffers, vectored, ..kind.clone() };
            let depth = depth(&engine) as usize;
            let mut queue =
                AnyQueue::open(&engine, &job(depth as u32), vec![target.open()]).unwrap();
            for slot in 0..depth {
                queue.buffer(slot).fill(slot as u8 + 1);
            }
            let both = |way| -> Vec<Transfer> {
                (0..depth as u64).map(|slot| transfer(way, 0, slot * BLOCK, BLOCK)).collect()
            };
            assert_eq!(queue.execute(&both(IoKind::Write)), vec![4096; depth]);
            (0..depth).for_each(|slot| queue.buffer(slot).fill(0));
            assert_eq!(queue.execute(&both(IoKind::Read)), vec![4096; depth]);
            for slot in 0..depth {
                assert!(queue.buffer(slot)[..4096].iter().all(|byte| *byte == slot as u8 + 1));
            }
            if engine.kind == EngineKind::IoUring {
                let features = queue.facts().features;
                let has = |name: &str| features.iter().any(|feature| feature == name);
                assert_eq!(has("registered_file"), registered_files, "{features:?}");
                assert_eq!(has("registered_buffers"), fixed_buffers && !vectored, "{features:?}");
                assert_eq!(has("vectored"), vectored, "{features:?}");
            }
        }
    }
}

#[test]
fn each_request_reaches_its_own_target() {
    for engine in engines() {
        let targets = [Target::new(), Target::new(), Target::new()];
        let files = targets.iter().map(Target::open).collect();
        let job = Job { targets: vec![0, 1, 2], ..job(depth(&engine)) };
        let mut queue = AnyQueue::open(&engine, &job, files).unwrap();
        for target in 0..3u16 {
            queue.buffer(0).fill(target as u8 + 1);
            let write = transfer(IoKind::Write, target, u64::from(target) * BLOCK, BLOCK);
            assert_eq!(queue.execute(&[write]), [4096]);
        }
        for (target, file) in targets.iter().enumerate() {
            let bytes = std::fs::read(file.path()).unwrap();
            for (block, bytes) in bytes.chunks(4096).enumerate() {
                let expected = if block == target { target as u8 + 1 } else { 0x5a };
                assert!(bytes.iter().all(|byte| *byte == expected), "{target} {block}");
            }
        }
    }
}

#[test]
fn buffers_are_in_huge_pages_or_the_job_is_refused() {
    let target = Target::new();
    for engine in engines() {
        let mut job = job(depth(&engine));
        job.place.huge_pages = true;
        match AnyQueue::open(&engine, &job, vec![target.open()]) {
            Ok(queue) => assert_eq!(queue.facts().buffer_page_bytes, 2 << 20),
            Err(reason) => {
                let said = reason.to_string();
                assert!(matches!(reason, OpenError::HugePages { pages: 1, .. }), "{said}");
                assert!(said.contains("vm.nr_hugepages"), "{said}");
                skip_part(engine.kind.name(), said);
            }
        }
    }
}

#[test]
fn buffers_are_on_the_node_asked_for_or_the_job_is_refused() {
    let target = Target::new();
    for engine in engines() {
        let mut job = job(depth(&engine));
        job.place.numa_node = Some(0);
        match AnyQueue::open(&engine, &job, vec![target.open()]) {
            Ok(mut queue) => {
                assert_eq!(queue.execute(&[transfer(IoKind::Read, 0, 0, BLOCK)]), [4096]);
            }
            Err(reason) => skip_part(engine.kind.name(), reason),
        }
        job.place.numa_node = Some(99);
        let refused = AnyQueue::open(&engine, &job, vec![target.open()]).err().unwrap();
        assert!(refused.to_string().contains("NUMA node 99"), "{refused}");
    }
}

#[test]
fn what_cannot_be_trimmed_is_refused_before_the_first_request() {
    for engine in engines() {
        let target = Target::new();
        let job = Job { trims: true, ..job(depth(&engine)) };
        let read_only = OwnedFd::from(File::open(target.path()).unwrap());
        let refused = AnyQueue::open(&engine, &job, vec![read_only]).err().unwrap();
        assert!(refused.to_string().contains("trim"), "{refused}");
        let full = File::options().read(true).write(true).open("/dev/null").unwrap();
        assert!(AnyQueue::open(&engine, &job, vec![full.into()]).is_err());
        assert_eq!(first_hole(&target.path()), 1 << 20);
    }
}
