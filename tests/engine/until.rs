//! Runs that end when a figure is known precisely enough, on devices of known figures.

use std::sync::Arc;

use iosonde_engine::backend::sim::Model;
use iosonde_engine::engine::{Control, Measured, Medium, Unwatched, run};
use iosonde_model::plan::{
    Engine, EngineKind, OnError, Plan, Precision, Setting, Stop, Target, resolve,
};
use iosonde_model::record::Outcome;
use iosonde_model::spec::{Role, Rw, Threads, Workload};
use iosonde_sys::Clock;

const SECOND_NS: u64 = 1_000_000_000;

fn plan(until: &str, stop: Stop, threads: u32, seed: u64) -> Plan {
    let role = Role { threads: Threads::Count(threads), ..Role::new("job", Rw::RandRead) };
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
        targets: vec![Target { path: "t".into(), bytes: 1 << 30, direct: true, align_bytes: 1 }],
        offset_bytes: 0,
        cpus: 1,
        iodepth: 2,
        seed,
        warmup_ns: SECOND_NS,
        stop,
        on_error: OnError::Stop,
        final_sync: false,
        buffer_limit_bytes: 1 << 30,
    };
    let precision = Precision::parse(until).unwrap();
    resolve(&workload, &setting).unwrap().until(precision).unwrap()
}

fn measure(plan: &Plan, device: &str) -> Measured {
    let medium = Medium::Sim(Model::parse(device).unwrap());
    let control = Arc::new(Control::default());
    let measured = run(plan, &medium, Clock::monotonic(), &control, &mut Unwatched).unwrap();
    assert_eq!(measured.outcome, Outcome::Complete);
    measured
}

#[test]
fn it_ends_when_the_figure_is_known_and_the_interval_holds_the_truth() {
    // Four requests at four servers: the latency is the service time, exponential with mean 5 ms.
    let p99 = -(0.01f64.ln()) * 5e6;
    let (mut held, runs) = (0, 40);
    for seed in 1..=runs {
        let measured = measure(
            &plan("p99+-5%", Stop::AfterNs(600 * SECOND_NS), 2, seed),
            "servers=4,read=exp:5ms",
        );
        let record = measured.precision.unwrap();
        assert!(record.reached, "{record:?}");
        let last = record.looks.last().unwrap();
        // The window closed right after the last check.
        assert!(measured.measured_ns.abs_diff(last.at_ns) < SECOND_NS / 5, "{last:?}");
        assert!(last.half_width.unwrap() <= 0.05 / 1.05);
        assert_eq!(record.looks[0].at_ns, 10 * SECOND_NS, "ten looks' worth before the first");
        let (value, half) = (last.value.unwrap(), last.half_width.unwrap());
        held += u32::from((value - p99).abs() <= half * value);
    }
    assert!(held >= 35, "{held} of {runs}");
}

#[test]
fn the_same_seed_ends_at_the_same_time() {
    let plan = plan("iops+-1%", Stop::AfterNs(100 * SECOND_NS), 3, 9);
    let [a, b] = [0, 1].map(|_| measure(&plan, "servers=2,read=exp:1ms"));
    assert_eq!((a.measured_ns, a.precision), (b.measured_ns, b.precision.clone()));
    let rate = b.precision.unwrap().looks.last().unwrap().value.unwrap();
    assert!((rate / 2000.0 - 1.0).abs() < 0.02, "{rate}");
}

#[test]
fn a_limit_that_comes_first_ends_it_with_what_is_known() {
    let device = "servers=4,read=exp:5ms";
    let timed = measure(&plan("p99+-1%", Stop::AfterNs(20 * SECOND_NS), 2, 1), device);
    assert_eq!(timed.measured_ns, 20 * SECOND_NS);
    let record = timed.precision.unwrap();
    assert!(!record.reached && !record.looks.is_empty());
    assert!(record.looks.last().unwrap().half_width.unwrap() > 0.01);
    let stop = Stop::AfterNsOrBytes(600 * SECOND_NS, 4096 * 1000);
    let counted = measure(&plan("p99+-1%", stop, 1, 1), device);
    assert!(!counted.precision.unwrap().reached);
    assert!(counted.measured_ns < 10 * SECOND_NS);
}
