//! The vhost-user engine with qemu-storage-daemon: figures, contents, and faults of the server or
//! the socket.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use iosonde_engine::backend::vhost::Server as Device;
use iosonde_engine::engine::{Control, Medium, Unwatched, run};
use iosonde_model::content::{MAGIC, STAMP_EVERY};
use iosonde_model::plan::{Engine, EngineKind, OnError, Setting, Stop, Target, resolve};
use iosonde_model::record::run::Outcome;
use iosonde_model::spec::{Role, Rw, Sync, Threads, Workload};
use iosonde_rig::{CpuWait, ScratchDir, skip, skip_part};
use iosonde_sys::Clock;
use rustix::process::{Pid, Signal, kill_process};

use crate::request::{Ask, PATIENCE, ask, turn};

/// A device of 256 MiB without data.
pub(crate) const NULL: &str =
    r#"{"driver":"null-co","node-name":"n","size":268435456,"read-zeroes":true}"#;
/// The same with 2 ms per request.
const SLOW: &str = r#"{"driver":"null-co","node-name":"n","size":268435456,"latency-ns":2000000}"#;
/// A raw file.
const FILE: &str = r#"{"driver":"file","node-name":"n","filename":"DIR/image","discard":"unmap"}"#;
const MIB: u64 = 1 << 20;

/// A server with one device, killed on drop.
pub(crate) struct Server {
    child: Child,
    dir: ScratchDir,
}

impl Server {
    /// A device with this many queues; `None` without such a server here.
    pub(crate) fn new(device: &str, queues: u32) -> Option<Server> {
        Server::with(device, &format!("num-queues={queues},writable=on"), |_| ())
    }

    /// A device over a raw file of 16 MiB, zero except for `content` at its beginning.
    pub(crate) fn over_file(content: &[u8]) -> Option<Server> {
        Server::with(FILE, "writable=on", |dir| {
            let image = File::create(dir.join("image")).unwrap();
            image.set_len(16 * MIB).unwrap();
            image.write_all_at(content, 0).unwrap();
        })
    }

    pub(crate) fn with(device: &str, more: &str, prepare: impl FnOnce(&Path)) -> Option<Server> {
        let dir = ScratchDir::new().unwrap();
        prepare(dir.path());
        let device = device.replace("DIR", dir.path().to_str().unwrap());
        let socket = dir.path().join("sock");
        let export = "type=vhost-user-blk,id=e,node-name=n,addr.type=unix";
        let export = format!("{export},addr.path={},{more}", socket.display());
        let started = Command::new("qemu-storage-daemon")
            .args(["--blockdev", &device, "--export", &export])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = started else {
            skip("`qemu-storage-daemon` (qemu-system-common) is not installed");
            return None;
        };
        let server = Server { child, dir };
        let started = Instant::now();
        while !socket.metadata().is_ok_and(|facts| facts.file_type().is_socket()) {
            assert!(started.elapsed() < PATIENCE, "the server makes no socket");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(server)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("sock")
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn ask(&self, line: &str) -> Ask {
        ask(&format!("run --path {{}} {line}"), self.socket())
    }

    /// As [`Self::ask`], with the consent that a write needs.
    fn ask_writing(&self, line: &str) -> Ask {
        let id = self.socket().canonicalize().unwrap();
        self.ask(&format!("{line} --destroy-data={}", id.display()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_device_without_data_has_figures_that_agree() {
    let _turn = turn();
    let Some(server) = Server::new(NULL, 2) else { return };
    let line = "--rw randread --iodepth 32 --numjobs 2 --runtime 1";
    let answer = server.ask(line).answer().exits(0);
    assert!(answer.number("summary/read/ops") > 1_000.0);
    assert_eq!(answer.record()["backend"]["engine"], "virtio-blk-vhost-user");
    assert_eq!(answer.record()["jobs"][0]["inline_probed"], 0, "the server is another process");
    let features = answer.record()["backend"]["features"].to_string();
    for feature in ["VERSION_1", "BLK_F_MQ", "BLK_F_FLUSH"] {
        assert!(features.contains(feature), "{features}");
    }
    assert_eq!(answer.target("kind"), "vhost-user-blk device");
    assert_eq!(answer.target("bytes"), 256 * MIB);
    let consistency = answer.at("/cells/0/consistency").as_array().unwrap();
    // With two busy servers and two busy clients on few cores, the depth may not be reached.
    let broken =
        consistency.iter().filter(|entry| entry["ok"] == false && entry["code"] != "depth");
    assert_eq!(broken.count(), 0, "{}", answer.gist());
}

#[test]
fn two_milliseconds_are_two_milliseconds() {
    let _turn = turn();
    let Some(server) = Server::new(SLOW, 1) else { return };
    let mut quiet_ns = Vec::new();
    for depth in [1, 8, 1, 8, 1, 8] {
        let line = format!("--rw randread --iodepth {depth} --runtime 1");
        let wait = CpuWait::start();
        let answer = server.ask(&line).answer().exits(0);
        let waited = wait.share();
        let (least_ns, p50_ns) =
            (answer.latency_ns("read", "min"), answer.latency_ns("read", "p50"));
        assert!(least_ns >= 1_990_000.0, "depth {depth}: never sooner than it took: {least_ns}");
        eprintln!("depth {depth}: {least_ns} ns at least, p50 {p50_ns} ns, CPU wait {waited:?}");
        // Both ends need a CPU each, all the time.
        if waited.is_some_and(|share| share < 0.1) {
            quiet_ns.push(p50_ns);
        }
    }
    let Some(best_ns) = quiet_ns.into_iter().reduce(f64::min) else {
        return skip_part("no later than it took", "the machine was busy (/proc/pressure/cpu)");
    };
    assert!((1_990_000.0..2_300_000.0).contains(&best_ns), "{best_ns}");
}

#[test]
fn what_was_written_is_in_the_image_each_block_at_its_place() {
    let _turn = turn();
    let Some(server) = Server::over_file(b"") else { return };
    let line = "--rw randwrite --bs 16k --iodepth 8 --number-ios 1024";
    let answer = server.ask_writing(line).answer().exits(0);
    assert_eq!(answer.number("summary/write/ops"), 1024.0);
    let image = fs::read(server.image()).unwrap();
    assert_eq!(image.len() as u64, 16 * MIB);
    for (index, block) in image.chunks(STAMP_EVERY).enumerate() {
        assert!(block.starts_with(&MAGIC), "block {index}");
        let stamp = u64::from_le_bytes(block[16..24].try_into().unwrap());
        assert_eq!(stamp, (index * STAMP_EVERY) as u64, "a block in another's place");
    }
    assert_eq!(answer.record()["final_sync"]["error"], serde_json::Value::Null);
    assert!(answer.record()["final_sync"]["sync_ns"].as_u64().unwrap() > 0, "a flush ends the run");
    // Our own blocks may be read, overwritten and discarded.
    server.ask("--rw read --bs 1m --number-ios 16").answer().exits(0);
    let before = server.image().metadata().unwrap().blocks();
    let line = "--rw trim --bs 64k --iodepth 4 --number-ios 256";
    server.ask_writing(line).answer().exits(0);
    let after = server.image().metadata().unwrap().blocks();
    assert!(before >= 16 * MIB / 512 && after < before / 2, "{before} {after} sectors");
}

#[test]
fn writing_needs_consent_that_names_the_device_and_a_device_that_is_blank() {
    let _turn = turn();
    let Some(server) = Server::over_file(b"") else { return };
    let line = "--rw randwrite --number-ios 10";
    let refused = server.ask(line).answer().exits(5);
    let id = server.socket().canonicalize().unwrap();
    assert!(refused.stderr.contains(&format!("--destroy-data={}", id.display())));
    server.ask(&format!("{line} --destroy-data=sda")).answer().exits(5);
    assert!(fs::read(server.image()).unwrap().iter().all(|byte| *byte == 0));

    let mut held = vec![0; 2048];
    held[1080..1082].copy_from_slice(&[0x53, 0xef]);
    let Some(server) = Server::over_file(&held) else { return };
    let refused = server.ask_writing(line).answer().exits(5);
    assert!(refused.stderr.contains("did not write (at offset 1080: 53 ef"), "{}", refused.stderr);
    assert_eq!(fs::read(server.image()).unwrap()[..2048], held);
}

#[test]
fn a_read_only_device_is_read_and_not_written() {
    let _turn = turn();
    let Some(server) = Server::with(NULL, "writable=off", |_| ()) else { return };
    server.ask("--rw randread --number-ios 100").answer().exits(0);
    let refused = server.ask_writing("--rw randwrite --number-ios 100").answer().exits(2);
    assert!(refused.stderr.contains("the device is read-only"), "{}", refused.stderr);
}

#[test]
fn more_jobs_than_queues_and_more_depth_than_a_queue_are_refused() {
    let _turn = turn();
    let Some(server) = Server::new(NULL, 2) else { return };
    let refused = server.ask("--rw randread --numjobs 3").answer().exits(2);
    assert!(refused.stderr.contains("the server has 2; ask for --numjobs 2"));
    let refused = server.ask("--rw randread --iodepth 342").answer().exits(2);
    assert!(refused.stderr.contains("at most 341 requests"), "{}", refused.stderr);
    server.ask("--rw randread --iodepth 341 --number-ios 1000").answer().exits(0);
}

#[test]
fn what_cannot_be_asked_of_a_socket_is_refused() {
    let _turn = turn();
    let Some(server) = Server::new(NULL, 1) else { return };
    let refused = server.ask("--rw randread --direct 1").answer().exits(2);
    assert!(refused.stderr.contains("--direct has no effect"), "{}", refused.stderr);
    let refused = server.ask("--rw randread --bs 1000").answer().exits(2);
    assert!(refused.stderr.contains("multiples of 512 B"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("--direct 0"), "{}", refused.stderr);
    let refused = server.ask("--rw randread --size 1g").answer().exits(2);
    assert!(refused.stderr.contains("256 MiB"), "{}", refused.stderr);
}

#[test]
fn what_is_no_server_is_named() {
    let dir = ScratchDir::new().unwrap();
    let line = "run --ioengine virtio-blk-vhost-user --path {} --rw randread";
    let file = dir.path().join("file");
    File::create(&file).unwrap();
    let refused = ask(line, &file).answer().exits(2);
    assert!(refused.stderr.contains("is a file; expected the socket"), "{}", refused.stderr);
    let refused = ask(line, dir.path().join("nothing")).answer().exits(2);
    assert!(refused.stderr.contains("does not exist"), "{}", refused.stderr);

    let socket = dir.path().join("sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let silent = ask("run --path {} --rw randread", &socket).answer().exits(1);
    assert!(silent.stderr.contains("said nothing for 3 s"), "{}", silent.stderr);
    drop(listener);
    let left = ask("run --path {} --rw randread", &socket).answer().exits(1);
    assert!(left.stderr.contains("nobody listens"), "{}", left.stderr);
}

#[test]
fn a_second_client_is_refused_and_does_not_disturb_the_first() {
    let _turn = turn();
    let Some(server) = Server::new(NULL, 1) else { return };
    let first = server.ask("--rw randread --runtime 600").start_measuring();
    let second = server.ask("--rw randread --runtime 1").answer().exits(1);
    assert!(second.stderr.contains("serves another client already"), "{}", second.stderr);
    first.interrupt();
    first.wait().exits(130);
    // The server accepts the next client.
    server.ask("--rw randread --number-ios 100").answer().exits(0);
}

#[test]
fn a_server_that_is_killed_ends_the_run_and_what_was_measured_is_kept() {
    let _turn = turn();
    let timed = "--rw randread --iodepth 16 --numjobs 2 --runtime 600";
    let asleep = "--rw randread --wait event --number-ios 1000000000";
    for line in [timed, asleep] {
        let Some(server) = Server::new(NULL, 2) else { return };
        let asking = server.ask(line).start_measuring();
        server.signal(Signal::KILL);
        let killed = Instant::now();
        let answer = asking.wait().exits(1);
        // Otherwise it would have run for minutes.
        assert!(killed.elapsed() < Duration::from_secs(60), "{:?}", killed.elapsed());
        assert!(answer.gist().contains("is gone"), "{}", answer.gist());
        assert_eq!(answer.at("/complete"), false);
        assert_eq!(answer.record()["outcome"]["ended"], "failed");
        assert!(answer.number("summary/read/ops") > 0.0);
    }
}

#[test]
fn a_server_that_stands_still_is_slow_and_not_dead() {
    let _turn = turn();
    let Some(server) = Server::new(NULL, 1) else { return };
    let asking = server.ask("--rw randread --iodepth 4 --runtime 600").start_measuring();
    let stopping = Instant::now();
    server.signal(Signal::STOP);
    let stopped = Instant::now();
    std::thread::sleep(Duration::from_secs(3));
    let still = stopped.elapsed();
    server.signal(Signal::CONT);
    asking.until_reports(5);
    asking.interrupt();
    let (answer, at_most) = (asking.wait().exits(130), stopping.elapsed());
    let most_ns = answer.latency_ns("read", "max");
    let (least_ns, at_most_ns) = (0.97 * still.as_nanos() as f64, 1.03 * at_most.as_nanos() as f64);
    assert!((least_ns..at_most_ns).contains(&most_ns), "{most_ns}, stopped for {still:?}");
    // The earlier probe of the socket was closed and does not block a client.
    server.ask("--rw randread --number-ios 100").answer().exits(0);
}

#[test]
fn an_interrupt_keeps_the_partial_result() {
    let _turn = turn();
    let Some(server) = Server::new(SLOW, 1) else { return };
    let asking = server.ask("--rw randread --iodepth 4 --runtime 600").start_measuring();
    asking.interrupt();
    // Otherwise it would have run for longer than the test waits.
    let answer = asking.wait().exits(130);
    assert_eq!(answer.at("/cells/0/status"), "partial");
    assert!(answer.number("summary/read/ops") > 0.0);
}

#[test]
fn syncs_are_flushes_and_sleeping_is_a_way_to_wait() {
    let _turn = turn();
    let Some(server) = Server::over_file(b"") else { return };
    let device = Arc::new(Device::connect(&server.socket()).unwrap());
    let role = Role {
        threads: Threads::Count(1),
        sync: Sync { every_writes: 4, ..Sync::default() },
        ..Role::new("job", Rw::RandWrite)
    };
    let workload = Workload {
        name: "test".into(),
        title: "Test".into(),
        pattern: "test".into(),
        models: String::new(),
        block_size: 4096,
        read_percent: 0,
        roles: vec![role],
    };
    let target = Target { path: "t".into(), bytes: 16 * MIB, direct: true, align_bytes: 512 };
    let setting = Setting {
        engine: Engine::of(EngineKind::VhostUser),
        targets: vec![target],
        offset_bytes: 0,
        cpus: 1,
        iodepth: 8,
        seed: 1,
        warmup_ns: 0,
        stop: Stop::AfterOps(400),
        on_error: OnError::Stop,
        final_sync: true,
        buffer_limit_bytes: 1 << 30,
    };
    let plan = resolve(&workload, &setting).unwrap();
    let control = Arc::new(Control::default());
    let medium = Medium::Vhost(Arc::clone(&device));
    let go = || run(&plan, &medium, Clock::monotonic(), &control, &mut Unwatched).unwrap();
    // The second run reuses the queues of the first.
    for _ in 0..2 {
        let measured = go();
        assert_eq!(measured.outcome, Outcome::Complete);
        assert_eq!(measured.jobs[0].write.ops, 400);
        assert_eq!(measured.jobs[0].sync.ops, 100);
        assert_eq!(measured.final_sync.unwrap().error, None);
    }
}
