//! A device of known latency: reported percentiles compared with those that the server recorded.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use iosonde_rig::{FuseMount, Truth, skip_part};

use crate::request::{Answer, ask, lay_out, served, turn};

/// Attempts: a noisy machine may spoil some of them, a wrong clock spoils all.
const LOOKS: usize = 3;

/// A file on a device of known latency.
struct Known {
    mount: FuseMount,
    file: PathBuf,
}

impl Known {
    fn new(words: &[&str]) -> Option<Self> {
        let mount = served(words)?;
        let file = mount.path().join("file");
        lay_out(&file, 16);
        Some(Self { mount, file })
    }

    /// The program's answer to a load, and the truth about it.
    fn measure(&self, load: &str) -> (Answer, Truth) {
        self.mount.restart();
        let answer = ask(&format!("run --path {{}} {load}"), &self.file).answer().exits(0);
        (answer, self.mount.truth())
    }

    /// Latencies of a bare loop of direct reads, one thread per request in flight. They measure the
    /// kernel's overhead on this machine at this time.
    fn witness(&self, depth: usize, length: Duration) -> Vec<u64> {
        let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(&self.file).unwrap();
        let begun = Instant::now();
        let waits = |from: u64| {
            let (mut waits, mut room) = (Vec::new(), vec![0; 8192]);
            // Direct I/O needs an aligned buffer.
            let skip = room.as_ptr().align_offset(4096);
            while begun.elapsed() < length {
                let start = Instant::now();
                file.read_exact_at(&mut room[skip..skip + 4096], from * 4096).unwrap();
                waits.push(start.elapsed().as_nanos() as u64);
            }
            waits
        };
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let waits = &waits;
            let threads: Vec<_> =
                (0..depth as u64).map(|at| scope.spawn(move || waits(at))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        all
    }
}

fn quantile(sorted: &[u64], q: f64) -> f64 {
    sorted[((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1] as f64
}

/// Not below the truth, and at most 25 us and 3 % above the truth or the witness.
fn is_fast(found_ns: f64, true_ns: f64, witness_ns: f64) -> bool {
    found_ns >= true_ns * 0.99 && found_ns <= witness_ns.max(true_ns) * 1.03 + 25_000.0
}

/// Within 5 %: far from the step between the modes.
fn is_slow(found_ns: f64, true_ns: f64, witness_ns: f64) -> bool {
    found_ns >= true_ns * 0.95 && found_ns <= witness_ns.max(true_ns) * 1.05
}

fn bimodal(load: &str, depth: usize) {
    let _turn = turn();
    let Some(device) = Known::new(&["read=bimodal:0.995:300us/5ms"]) else { return };
    // Beyond two requests per CPU, server and client compete for CPU time.
    let cpus = std::thread::available_parallelism().unwrap().get();
    let can_overlap = depth <= 2 * cpus;
    if !can_overlap {
        skip_part("the median", format!("depth {depth} needs {} CPUs, found {cpus}", depth / 2));
    }
    let mut reported = String::new();
    for _ in 0..LOOKS {
        let witness = device.witness(depth, Duration::from_secs(1));
        let (answer, truth) = device.measure(load);
        let of = |q| truth.read.response.quantile_ns(q).unwrap() as f64;
        let look = |name: &str, q| (answer.latency_ns("read", name), of(q), quantile(&witness, q));
        let (p50, p999) = (look("p50", 0.5), look("p99.9", 0.999));
        // Half a percent from the step, so p99 is only known to lie between the modes.
        let p99 = answer.latency_ns("read", "p99");
        assert!(p99 >= of(0.98), "{p99}");
        assert!(answer.latency_ns("read", "max") >= 5_000_000.0);
        let median = !can_overlap || is_fast(p50.0, p50.1, p50.2);
        if median && is_slow(p999.0, p999.1, p999.2) {
            return;
        }
        reported = format!("{reported}p50 {p50:?} p99.9 {p999:?} (found, true, witness)\n");
    }
    panic!("{load}: {reported}");
}

#[test]
fn two_modes_at_depth_1_by_psync() {
    bimodal("--rw randread --ioengine psync --runtime 4", 1);
}

#[test]
fn two_modes_at_depth_1() {
    bimodal("--rw randread --iodepth 1 --runtime 4", 1);
}

#[test]
fn two_modes_at_depth_4() {
    bimodal("--rw randread --iodepth 4 --runtime 4", 4);
}

#[test]
fn two_modes_at_depth_8() {
    bimodal("--rw randread --iodepth 8 --runtime 4", 8);
}

#[test]
fn reads_and_writes_are_kept_apart() {
    let _turn = turn();
    let Some(device) = Known::new(&["read=const:1ms", "write=const:10ms"]) else { return };
    let (answer, _) = device.measure("--rw randrw --rwmixread 50 --iodepth 4 --runtime 3");
    let (read, write) = (answer.latency_ns("read", "p50"), answer.latency_ns("write", "p50"));
    // If merged, both would be 1 ms or 10 ms.
    assert!((1e6..2e6).contains(&read), "{read}");
    assert!((10e6..11e6).contains(&write), "{write}");
    assert!(answer.latency_ns("read", "p90") < 5e6);
    assert!(answer.latency_ns("write", "min") >= 10e6);
}

#[test]
fn a_step_is_found_where_it_is() {
    let _turn = turn();
    let Some(device) = Known::new(&["read=step:500us/1500us@2s"]) else { return };
    let (answer, _) = device.measure("--rw randread --ioengine psync --runtime 5");
    // A single drop of the level also looks like an empty token bucket.
    let drop = answer.finding("level_drop").map(|found| &found["evidence"]["at_ns"]);
    let bucket = answer.finding("token_bucket").map(|found| &found["evidence"]["burst_ns"]);
    let at_ns = drop.or(bucket).and_then(serde_json::Value::as_f64).unwrap();
    assert!((1.6e9..=2.2e9).contains(&at_ns), "{at_ns}");
    // The series of the stored record shows it at the same time.
    let record = answer.record();
    let counters = &record["jobs"][0]["read"]["counters"];
    let ops: Vec<f64> =
        counters["ops"].as_array().unwrap().iter().map(|ops| ops.as_f64().unwrap()).collect();
    let width_ns = counters["width_ns"].as_f64().unwrap();
    let before = at_ns / width_ns - 2.0;
    let rates = |range: &[f64]| range.iter().sum::<f64>() / range.len() as f64 * 1e9 / width_ns;
    let (first, second) = (rates(&ops[..before as usize]), rates(&ops[before as usize + 4..]));
    assert!(first > 1_000.0 && first < 2_000.0 && second > 400.0 && second < 667.0, "{ops:?}");
}

#[test]
fn a_constant_has_no_step() {
    let _turn = turn();
    let Some(device) = Known::new(&["read=const:1500us"]) else { return };
    let (answer, _) = device.measure("--rw randread --ioengine psync --runtime 3");
    answer.finds_no("level_drop");
    answer.finds_no("token_bucket");
}

/// Requests that the kernel cannot start without blocking: it punts them to workers, one by one or
/// all at once. The wait there is part of their latency and is reported.
fn blocking(words: &[&str]) {
    let _turn = turn();
    let Some(device) = Known::new(words) else { return };
    let (answer, truth) = device.measure("--rw randread --iodepth 4 --runtime 2");
    let true_ns = truth.read.response.quantile_ns(0.5).unwrap() as f64;
    let found_ns = answer.latency_ns("read", "p50");
    assert!(found_ns >= true_ns && found_ns < 4.5 * true_ns, "{found_ns} {true_ns}");
    // By Little's law four are in flight for the program, whatever the device sees.
    let flow = answer.number("summary/read/iops") * answer.latency_ns("read", "mean") / 1e9;
    assert!((flow / 4.0 - 1.0).abs() < 0.05, "{flow}");
    answer.finds("punted", "proven");
}

#[test]
fn a_device_that_takes_direct_io_alone() {
    blocking(&["read=const:2ms", "direct_io=on"]);
}

#[test]
fn a_device_that_takes_one_request_at_a_time() {
    blocking(&["read=const:2ms", "async_dio=off"]);
}

#[test]
fn one_request_at_a_time_is_all_that_psync_claims() {
    let _turn = turn();
    let Some(device) = Known::new(&["read=const:2ms", "async_dio=off"]) else { return };
    let (answer, _) = device.measure("--rw randread --ioengine psync --runtime 1");
    assert_eq!(answer.number("figures/depth_asked"), 1.0);
    assert!(answer.number("figures/depth_seen") > 0.9);
    assert!(answer.latency_ns("read", "p50") >= 2e6);
    let line = "run --path {} --rw randread --ioengine psync --iodepth 4 --runtime 1";
    assert_eq!(ask(line, &device.file).answer().exit, Some(2));
}

#[test]
fn a_queue_of_one_shows_in_the_latency_and_not_in_the_depth() {
    let _turn = turn();
    let Some(device) = Known::new(&["read=const:2ms", "servers=1"]) else { return };
    let (answer, truth) = device.measure("--rw randread --iodepth 4 --runtime 2");
    let iops = answer.number("summary/read/iops");
    assert!((400.0..505.0).contains(&iops), "{iops}");
    let found_ns = answer.latency_ns("read", "p50");
    let true_ns = truth.read.response.quantile_ns(0.5).unwrap() as f64;
    assert!((found_ns / true_ns - 1.0).abs() < 0.05, "{found_ns} {true_ns}");
    assert!(answer.number("figures/depth_seen") > 3.9);
}
