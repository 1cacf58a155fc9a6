//! The real engine on devices of known truth: the simulated and the null device.

use std::sync::Arc;

use iosonde_engine::backend::null::Counts;
use iosonde_engine::backend::sim::Model;
use iosonde_engine::engine::{Control, Measured, Medium, Unwatched, run};
use iosonde_model::plan::{Engine, EngineKind, OnError, Plan, Setting, Stop, Target, resolve};
use iosonde_model::record::run::{HistogramSeries, Outcome};
use iosonde_model::spec::{Region, Role, Rw, Threads, Workload};
use iosonde_stats::Histogram;
use iosonde_sys::Clock;

const SECOND_NS: u64 = 1_000_000_000;

struct Load {
    rw: Rw,
    threads: u32,
    iodepth: u32,
    block_bytes: u64,
    warmup_ns: u64,
    stop: Stop,
    on_error: OnError,
    region: Region,
}

impl Default for Load {
    fn default() -> Self {
        Load {
            rw: Rw::RandRead,
            threads: 1,
            iodepth: 1,
            block_bytes: 4096,
            warmup_ns: 0,
            stop: Stop::AfterNs(SECOND_NS),
            on_error: OnError::Stop,
            region: Region::Shared,
        }
    }
}

impl Load {
    fn plan(&self, kind: EngineKind) -> Plan {
        let role = Role {
            threads: Threads::Count(self.threads),
            region: self.region,
            ..Role::new("job", self.rw)
        };
        let workload = Workload {
            name: "test".into(),
            title: "Test".into(),
            pattern: "test".into(),
            models: String::new(),
            block_size: self.block_bytes,
            read_percent: 50,
            roles: vec![role],
        };
        let setting = Setting {
            engine: Engine::of(kind),
            targets: vec![Target {
                path: "t".into(),
                bytes: 64 << 20,
                direct: false,
                align_bytes: 1,
            }],
            offset_bytes: 0,
            cpus: 1,
            iodepth: self.iodepth,
            seed: 1,
            warmup_ns: self.warmup_ns,
            stop: self.stop,
            on_error: self.on_error,
            final_sync: false,
            buffer_limit_bytes: 1 << 30,
        };
        resolve(&workload, &setting).unwrap()
    }

    fn simulate(&self, device: &str) -> (Plan, Measured) {
        let plan = self.plan(EngineKind::Sim);
        let medium = Medium::Sim(Model::parse(device).unwrap());
        let control = Arc::new(Control::default());
        let measured = run(&plan, &medium, Clock::monotonic(), &control, &mut Unwatched).unwrap();
        (plan, measured)
    }
}

fn ops(measured: &Measured) -> u64 {
    measured.jobs.iter().map(|job| job.read.ops + job.write.ops).sum()
}

fn latency(measured: &Measured) -> Histogram {
    let mut all = Histogram::new();
    for job in &measured.jobs {
        all.merge(&job.read.latency);
        all.merge(&job.write.latency);
    }
    all
}

fn mean_depth(measured: &Measured) -> f64 {
    measured.jobs.iter().map(|job| job.in_flight_area_ns as f64 / job.measured_ns as f64).sum()
}

fn close(found: f64, expected: f64, tolerance: f64) -> bool {
    (found / expected - 1.0).abs() <= tolerance
}

#[test]
fn a_known_rate_is_reported_within_one_percent_for_any_length() {
    // T1: 1000 per second at depths 1 and 32, with and without warm-up, from 1 s to 60 s.
    for seconds in [1, 3, 10, 60] {
        for iodepth in [1, 32] {
            for warmup_ns in [0, 300_000_000] {
                let load = Load {
                    iodepth,
                    warmup_ns,
                    stop: Stop::AfterNs(seconds * SECOND_NS),
                    ..Load::default()
                };
                let (_, measured) = load.simulate("servers=1,read=1ms");
                let rate = ops(&measured) as f64 / (measured.measured_ns as f64 / 1e9);
                assert_eq!(measured.measured_ns, seconds * SECOND_NS);
                assert!(close(rate, 1000.0, 0.01), "{seconds} s, depth {iodepth}: {rate}");
            }
        }
    }
}

#[test]
fn the_depth_seen_is_the_depth_asked_and_little_agrees() {
    // T2: 8 servers of 1 ms, depth 32 in two jobs: 64 in flight, 8000 per second, 8 ms each.
    let load = Load { iodepth: 32, threads: 2, warmup_ns: SECOND_NS, ..Load::default() };
    let (_, measured) = load.simulate("servers=8,read=1ms");
    let depth = mean_depth(&measured);
    assert!(close(depth, 64.0, 0.05), "depth {depth}");
    let rate = ops(&measured) as f64;
    assert!(close(rate, 8000.0, 0.01), "rate {rate}");
    let mean_s = latency(&measured).mean().unwrap() / 1e9;
    assert!(close(rate * mean_s, depth, 0.01), "Little: {rate} x {mean_s} s, {depth} in flight");
}

#[test]
fn reads_and_writes_keep_their_own_latency() {
    // T13: 1 ms reads and 10 ms writes.
    let load = Load { rw: Rw::RandRw, stop: Stop::AfterNs(60 * SECOND_NS), ..Load::default() };
    let (_, measured) = load.simulate("read=1ms,write=10ms");
    let job = &measured.jobs[0];
    for (direction, expected) in [(&job.read, 1e6), (&job.write, 1e7)] {
        let p50 = direction.latency.quantile(0.5).unwrap() as f64;
        let p99 = direction.latency.quantile(0.99).unwrap() as f64;
        assert!(close(p50, expected, 0.004) && close(p99, expected, 0.004), "{p50} {p99}");
    }
}

#[test]
fn percentiles_of_a_bimodal_device_are_right() {
    let load = Load { stop: Stop::AfterNs(60 * SECOND_NS), ..Load::default() };
    let (_, measured) = load.simulate("read=bimodal:0.99:300us:5ms");
    let latency = latency(&measured);
    assert!(close(latency.quantile(0.5).unwrap() as f64, 300e3, 0.004));
    assert!(close(latency.quantile(0.98).unwrap() as f64, 300e3, 0.004));
    assert!(close(latency.quantile(0.995).unwrap() as f64, 5e6, 0.004));
}

#[test]
fn every_failing_request_is_counted_and_named() {
    // T5: every third request, and every request.
    for (device, share) in [("error-every=3", 1.0 / 3.0), ("error-every=1", 1.0)] {
        let load = Load { on_error: OnError::Continue, iodepth: 4, ..Load::default() };
        let (_, measured) = load.simulate(&format!("{device},read=100us"));
        let errors = measured.jobs[0].errors.get("read EIO").copied().unwrap_or(0);
        let total = errors + ops(&measured);
        assert!(close(errors as f64 / total as f64, share, 0.001), "{errors} of {total}");
        assert_eq!(measured.outcome, Outcome::Complete);
    }
    let (_, measured) = Load::default().simulate("error-every=1,error-after=100");
    let Outcome::Failed { error } = &measured.outcome else { panic!("{:?}", measured.outcome) };
    assert!(error.contains("EIO"), "{error}");
    assert_eq!(ops(&measured), 100);
}

#[test]
fn short_transfers_are_continued_and_refusals_repeated() {
    let load = Load { iodepth: 4, ..Load::default() };
    let (_, measured) = load.simulate("short-every=3,read=100us");
    let job = &measured.jobs[0];
    assert!(job.short_transfers > 1000, "{}", job.short_transfers);
    assert_eq!(job.read.bytes, job.read.ops * 4096);
    let (_, measured) = load.simulate("error-every=3,errno=11,read=100us");
    assert!(measured.jobs[0].retries > 1000);
    assert!(measured.jobs[0].errors.is_empty());
}

#[test]
fn counts_in_series_histogram_and_total_agree() {
    let load = Load { iodepth: 8, warmup_ns: 300_000_000, ..Load::default() };
    let load = Load { stop: Stop::AfterNs(3 * SECOND_NS), ..load };
    let (_, measured) = load.simulate("servers=4,read=exp:700us");
    let read = &measured.jobs[0].read;
    assert_eq!(read.latency.count() + read.carried_in, read.ops);
    assert_eq!(read.counters.ops.iter().sum::<u64>(), read.ops);
    assert_eq!(read.counters.bytes.iter().sum::<u64>(), read.bytes);
    let in_series: u64 = read.latencies.intervals.iter().flatten().map(|(_, count)| count).sum();
    assert_eq!(in_series, read.latency.count());
    assert_eq!((read.counters.ops.len(), read.latencies.intervals.len()), (300, 30));
    assert_eq!(read.responses, HistogramSeries::default(), "no open loop");
}

#[test]
fn a_pass_over_a_null_target_writes_each_block_once() {
    let load = Load {
        rw: Rw::Write,
        threads: 3,
        iodepth: 8,
        block_bytes: 64 << 10,
        stop: Stop::AfterOnePass,
        region: Region::Partitioned,
        ..Load::default()
    };
    let plan = load.plan(EngineKind::Null);
    let counts = Arc::new(Counts::new(64 << 20, 64 << 10));
    let control = Arc::new(Control::default());
    let medium = Medium::Null(Some(Arc::clone(&counts)));
    let measured = run(&plan, &medium, Clock::monotonic(), &control, &mut Unwatched).unwrap();
    assert_eq!(measured.outcome, Outcome::Complete);
    let bytes = counts.bytes();
    // 1024 blocks in three partitions of 341: no partition contains the last block.
    assert!(bytes[..1023].iter().all(|bytes| *bytes == 64 << 10));
    assert_eq!(bytes[1023], 0);
}

#[test]
fn a_signal_ends_the_run_early_and_keeps_what_was_counted() {
    let load = Load { stop: Stop::AfterNs(60 * SECOND_NS), ..Load::default() };
    let plan = load.plan(EngineKind::Null);
    let control = Arc::new(Control::default());
    let signal = Arc::clone(&control.signal);
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        signal.store(2, std::sync::atomic::Ordering::Relaxed);
    });
    let medium = Medium::Null(None);
    let measured = run(&plan, &medium, Clock::monotonic(), &control, &mut Unwatched).unwrap();
    assert_eq!(measured.outcome, Outcome::Interrupted { signal: 2 });
    assert!(ops(&measured) > 0);
    assert!(measured.measured_ns > SECOND_NS / 10 && measured.measured_ns < 5 * SECOND_NS);
}
