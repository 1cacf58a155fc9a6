//! A latency target on simulated devices whose right depth is known.

use std::sync::Arc;

use iosonde_engine::backend::sim::Model;
use iosonde_engine::engine::{Control, Measured, Medium, Unwatched, run};
use iosonde_model::plan::{
    Engine, EngineKind, OnError, Plan, Pursuit, Setting, Stop, Target, resolve,
};
use iosonde_model::record::controlled::{Bound, Pursued};
use iosonde_model::record::run::Outcome;
use iosonde_model::spec::{LatencyTarget, Role, Rw, Threads, Workload};
use iosonde_sys::Clock;

const SECOND_NS: u64 = 1_000_000_000;

/// A device and a target to pursue.
#[derive(Clone, Copy)]
struct Case {
    device: &'static str,
    target: &'static str,
    pursuit: Pursuit,
    threads: u32,
    iodepth: u32,
    length_ns: u64,
}

impl Case {
    fn plan(&self, seed: u64) -> Plan {
        let role = Role { threads: Threads::Count(self.threads), ..Role::new("job", Rw::RandRead) };
        let workload = Workload {
            name: "test".into(),
            title: "Test".into(),
            pattern: "test".into(),
            models: String::new(),
            block_size: 4096,
            read_percent: 100,
            roles: vec![role],
        };
        let setting = Setting {
            engine: Engine::of(EngineKind::Sim),
            targets: vec![Target {
                path: "sim".into(),
                bytes: 1 << 30,
                direct: false,
                align_bytes: 1,
            }],
            offset_bytes: 0,
            cpus: 1,
            iodepth: self.iodepth,
            seed,
            warmup_ns: 0,
            stop: Stop::AfterNs(self.length_ns),
            on_error: OnError::Stop,
            final_sync: false,
            buffer_limit_bytes: 1 << 30,
        };
        let patience_ns = match self.pursuit {
            Pursuit::Search => 30 * SECOND_NS,
            Pursuit::Hold => 60 * SECOND_NS,
        };
        let target = LatencyTarget::parse(self.target).unwrap();
        resolve(&workload, &setting).unwrap().pursuing(target, self.pursuit, patience_ns).unwrap()
    }

    fn run(&self, seed: u64) -> Measured {
        let plan = self.plan(seed);
        let medium = Medium::Sim(Model::parse(self.device).unwrap());
        let control = Arc::new(Control::default());
        let clock = Clock::monotonic();
        let measured = run(&plan, &medium, clock, &control, &mut Unwatched).unwrap();
        assert_eq!(measured.outcome, Outcome::Complete);
        measured
    }

    /// Number of seeds out of a hundred that end as `ended` at this depth or a neighbour.
    fn right(&self, depth: u32, ended: Pursued) -> usize {
        let is_right = |seed: u64| {
            let found = self.run(seed * 7_919).controlled.unwrap();
            let right = found.ended == ended && found.depth.abs_diff(depth) <= 1;
            if !right {
                eprintln!("seed {seed}: {:?} at depth {}", found.ended, found.depth);
            }
            right
        };
        std::thread::scope(|scope| {
            let halves = [0, 50].map(|from: u64| {
                scope.spawn(move || (from..from + 50).filter(|seed| is_right(*seed)).count())
            });
            halves.map(|half| half.join().unwrap()).iter().sum()
        })
    }
}

const SEARCH: Case = Case {
    device: "",
    target: "",
    pursuit: Pursuit::Search,
    threads: 1,
    iodepth: 64,
    length_ns: SECOND_NS / 10,
};
const MET: Pursued = Pursued::Met { bound: Bound::Target };

/// Probability that the latency exceeds `limit` with `n` customers without think time and `c`
/// exponential servers of mean `mean`. A returning customer waits for `n - c` departures before its
/// service, so the latency is Erlang(n - c, c / mean) plus Exponential(mean).
fn beyond(n: u32, c: u32, mean: f64, limit: f64) -> f64 {
    let (rate, t) = (f64::from(c) / mean, limit);
    // Integrates over the waiting time by the trapezoidal rule.
    let k = n.saturating_sub(c);
    if k == 0 {
        return (-t / mean).exp();
    }
    let log_factorial: f64 = (1..k).map(|i| f64::from(i).ln()).sum();
    let density = |w: f64| {
        if w == 0.0 {
            return if k == 1 { rate } else { 0.0 };
        }
        let log = f64::from(k) * rate.ln() + f64::from(k - 1) * w.ln() - rate * w - log_factorial;
        log.exp()
    };
    // The integral beyond this end is negligible.
    let (steps, end) = (40_000, 3.0 * t);
    let width = end / f64::from(steps);
    (0..=steps)
        .map(|step| {
            let w = f64::from(step) * width;
            let weight = if step == 0 || step == steps { 0.5 } else { 1.0 };
            let longer = if w >= t { 1.0 } else { (-(t - w) / mean).exp() };
            weight * density(w) * longer * width
        })
        .sum()
}

/// The largest depth at which at most 1 % exceed the limit.
fn truth(c: u32, mean: f64, limit: f64) -> u32 {
    (1..200).take_while(|n| beyond(*n, c, mean, limit) <= 0.01).last().unwrap_or(0)
}

#[test]
fn search_finds_the_depth_of_parallel_servers() {
    // Four servers of 1 ms: p99 of one is 4.6 ms.
    let depth = truth(4, 1.0, 7.0);
    assert_eq!(depth, 12);
    let case = Case { device: "servers=4,read=exp:1ms", target: "p99<=7ms", ..SEARCH };
    assert!(case.right(depth, MET) >= 95, "depth {depth}");
}

#[test]
fn a_target_that_binds_is_found_to_bind_whatever_the_throughput_below() {
    // Throughput is flat from depth 4; depth 16, two doublings later, just misses the target.
    let depth = truth(4, 1.0, 8.0);
    assert_eq!(depth, 15);
    let case = Case { device: "servers=4,read=exp:1ms", target: "p99<=8ms", ..SEARCH };
    assert!(case.right(depth, MET) >= 90, "depth {depth}");
}

#[test]
fn search_finds_where_a_token_bucket_queues() {
    // 5,000 per second, 1 ms each: n requests take n / 5 ms, so ten of them take 2 ms.
    let device = "servers=64,read=1ms,rate=5000,burst=1";
    let case = Case { device, target: "p99<=2.1ms", ..SEARCH };
    assert!(case.right(10, MET) >= 95);
    // The bucket's initial burst must not be taken for its sustained rate.
    let device = "servers=64,read=1ms,rate=5000,burst=20000";
    let case = Case { device, target: "p99<=2.1ms", ..SEARCH };
    assert!(case.right(10, MET) >= 95);
}

#[test]
fn search_finds_the_depth_of_a_disk() {
    // One server of 6.67 ms, 150 IOPS: n requests take Erlang(n), whose p99 is 44 ms for two and 56
    // ms for three.
    let case = Case { device: "read=exp:6667us", target: "p99<=50ms", ..SEARCH };
    assert!(case.right(2, MET) >= 95);
}

#[test]
fn search_says_what_keeps_the_depth_from_being_larger() {
    // The disk delivers 150 IOPS at any depth, and the target is far away.
    let ended = Pursued::Met { bound: Bound::Device };
    let case = Case { device: "read=exp:6667us", target: "p99<=2000ms", ..SEARCH };
    assert!(case.right(1, ended) >= 95);
    // Eight servers are saturated from depth 8: no more throughput at 16 and 32.
    let case = Case { device: "servers=8,read=1ms", target: "p99<=100ms", ..SEARCH };
    assert!(case.right(8, ended) >= 95);
    // Sixteen requests never queue at 64 servers.
    let ended = Pursued::Met { bound: Bound::MaxDepth };
    let device = "servers=64,read=exp:100us";
    let case = Case { device, target: "p99<=2ms", iodepth: 16, ..SEARCH };
    assert!(case.right(16, ended) >= 95);
    let case = Case { threads: 3, iodepth: 5, ..case };
    assert!(case.right(15, ended) >= 95);
}

#[test]
fn search_says_that_a_target_cannot_be_met() {
    let case = Case { device: "read=exp:6667us", target: "p99<=2ms", ..SEARCH };
    assert!(case.right(1, Pursued::Infeasible) >= 95);
    let case =
        Case { device: "servers=32,read=bimodal:0.95:100us:9ms", target: "p99<=2ms", ..SEARCH };
    assert!(case.right(1, Pursued::Infeasible) >= 95);
}

#[test]
fn search_says_that_it_could_not_decide() {
    // Thirty seconds at 150 IOPS are 4,500 operations, and p99.9 needs 6,477 for a pass.
    let case = Case { device: "read=6667us", target: "p99.9<=20ms", ..SEARCH };
    let found = case.run(1).controlled.unwrap();
    assert_eq!((found.ended, found.depth), (Pursued::Undecided, 1));
}

/// At least 19 of 20 runs must hold nearly this depth and end as `ended`.
fn holds(case: Case, depth: u32, ended: Pursued) {
    let mut right = 0;
    for seed in 0..20 {
        let measured = case.run(seed * 104_729);
        let found = measured.controlled.unwrap();
        let ok = found.ended == ended && found.depth.abs_diff(depth) <= (depth / 5).max(2);
        right += u32::from(ok);
        if !ok {
            let after_s = found.pursued_ns as f64 / 1e9;
            eprintln!("seed {seed}: {:?} at {} after {after_s} s", found.ended, found.depth);
        }
    }
    assert!(right >= 19, "{right} of 20");
}

const HOLD: Case = Case { pursuit: Pursuit::Hold, iodepth: 128, length_ns: SECOND_NS, ..SEARCH };

#[test]
fn hold_converges_on_a_slow_disk() {
    // 150 IOPS: fifteen requests take 100 ms.
    let device = "servers=128,read=1ms,rate=150,burst=1";
    let slow = Case { device, target: "p99<=101ms", length_ns: 5 * SECOND_NS, ..HOLD };
    holds(slow, 15, MET);
    // The same rate with exponential service times: p99 of Erlang(2) is 44 ms.
    let slow = Case { device: "read=exp:6667us", target: "p99<=50ms", ..slow };
    holds(slow, 2, MET);
    holds(Case { target: "p99<=2ms", ..slow }, 1, Pursued::Infeasible);
}

#[test]
fn hold_converges_on_a_fast_device() {
    // Fifty servers of 100 us: 500,000 IOPS.
    let device = "servers=50,read=exp:100us";
    holds(Case { device, target: "p99<=520us", ..HOLD }, truth(50, 0.1, 0.52), MET);
    // With constant service times, the fifty-first waits for a whole round of the others.
    let device = "servers=50,read=100us";
    holds(Case { device, target: "p99<=151us", ..HOLD }, 50, MET);
    let max = Pursued::Met { bound: Bound::MaxDepth };
    holds(Case { device, target: "p99<=10ms", iodepth: 64, ..HOLD }, 64, max);
}

#[test]
fn hold_stays_near_the_truth_under_chance() {
    let depth = truth(4, 1.0, 7.0);
    let device = "servers=4,read=exp:1ms";
    holds(Case { device, target: "p99<=7ms", ..HOLD }, depth, MET);
}

#[test]
fn the_same_seed_finds_the_same_depth_by_the_same_way() {
    let case = Case { device: "servers=4,read=exp:1ms", target: "p99<=7ms", ..SEARCH };
    for case in [case, Case { threads: 3, iodepth: 9, pursuit: Pursuit::Hold, ..case }] {
        assert_eq!(case.run(5).controlled, case.run(5).controlled);
    }
}

#[test]
fn jobs_share_one_depth() {
    // Three threads, and a target that permits two requests in total.
    let device = "read=exp:6667us";
    let case = Case { device, target: "p99<=50ms", threads: 3, iodepth: 8, ..SEARCH };
    let measured = case.run(1);
    assert_eq!(measured.controlled.as_ref().unwrap().depth, 2);
    let ops: Vec<u64> = measured.jobs.iter().map(|job| job.read.ops).collect();
    assert_eq!(ops[2], 0, "{ops:?}");
    let area_ns: u64 = measured.jobs.iter().map(|job| job.in_flight_area_ns).sum();
    let seen = area_ns as f64 / measured.measured_ns as f64;
    assert!((seen - 2.0).abs() < 0.05, "{seen}");
}
