//! The analysis on simulated devices of known truth, driven by the real engine.

use std::sync::Arc;

use iosonde::schedule::{Event, RunContext, execute};
use iosonde_analysis::verdict::Kind;
use iosonde_analysis::{Assessment, assess, verdict};
use iosonde_engine::backend::sim::Model;
use iosonde_engine::engine::{Control, Medium};
use iosonde_engine::host::Root;
use iosonde_model::plan::{Engine, EngineKind, OnError, Setting, Stop, Target, resolve};
use iosonde_model::record::Run;
use iosonde_model::spec::{Role, Rw, Threads, Workload};
use iosonde_sys::Clock;

struct Load {
    rw: Rw,
    threads: u32,
    iodepth: u32,
    seconds: u64,
    on_error: OnError,
}

impl Default for Load {
    fn default() -> Self {
        Load { rw: Rw::RandRead, threads: 2, iodepth: 8, seconds: 10, on_error: OnError::Continue }
    }
}

/// Runs a load on a simulated device and judges the record.
fn judged(load: &Load, device: &str) -> (Run, Assessment) {
    let role = Role { threads: Threads::Count(load.threads), ..Role::new("job", load.rw) };
    let workload = Workload {
        name: "test".into(),
        title: "Test".into(),
        pattern: "test".into(),
        models: String::new(),
        block_size: 4096,
        read_percent: load.rw.read_percent(50),
        roles: vec![role],
    };
    let engine = Engine::of(EngineKind::Sim);
    let setting = Setting {
        engine,
        targets: vec![Target { path: "t".into(), bytes: 64 << 20, direct: false, align_bytes: 1 }],
        offset_bytes: 0,
        cpus: 2,
        iodepth: load.iodepth,
        seed: 1,
        warmup_ns: 1_000_000_000,
        stop: Stop::AfterNs(load.seconds * 1_000_000_000),
        on_error: load.on_error,
        final_sync: false,
        buffer_limit_bytes: 1 << 30,
    };
    let context = RunContext {
        root: Root::at("/nowhere"),
        clock: Clock::monotonic(),
        held: None,
        medium: Medium::Sim(Model::parse(device).unwrap()),
        control: Arc::new(Control::default()),
        keeps_cache: false,
        last_end: Arc::default(),
        peers: None,
    };
    let plan = resolve(&workload, &setting).unwrap();
    let mut record = None;
    execute(&[plan], &context, &mut |event| {
        if let Event::Finished { run, .. } = event {
            record = Some((*run).clone());
        }
    })
    .unwrap();
    let run = record.unwrap();
    let assessment = assess(&run, None);
    (run, assessment)
}

fn codes(assessment: &Assessment) -> Vec<&str> {
    assessment.findings.iter().map(|finding| finding.code).collect()
}

#[test]
fn consistency_checks_hold_on_every_healthy_device_and_nothing_is_found() {
    for device in [
        "servers=8,read=1ms,write=1ms",
        "servers=4,read=exp:300us,write=exp:300us",
        "servers=16,read=bimodal:0.99:300us:5ms,write=1ms",
        "servers=1,read=20ms,write=20ms",
    ] {
        for rw in [Rw::RandRead, Rw::RandWrite, Rw::RandRw, Rw::Read] {
            for iodepth in [1, 8, 32] {
                let (_, assessment) = judged(&Load { rw, iodepth, ..Load::default() }, device);
                let broken: Vec<_> = assessment.consistency.broken().collect();
                assert!(broken.is_empty(), "{device} {rw} {iodepth}: {broken:#?}");
                let verdict = verdict(&[assessment]);
                assert_eq!(verdict.kind, Kind::NoFaultSeen, "{device} {rw}: {verdict:#?}");
            }
        }
    }
}

#[test]
fn a_token_bucket_is_named_with_its_rate_and_size() {
    let load = Load { iodepth: 16, ..Load::default() };
    // 20,000 per second until 60,000 tokens are used up, then 3,000 per second.
    let (_, assessment) = judged(&load, "servers=20,read=1ms,rate=3000,burst=60000");
    let found = assessment.findings.iter().find(|finding| finding.code == "token_bucket");
    let subject = found.map(|finding| finding.subject.as_str()).unwrap_or_default();
    assert!(subject.starts_with("a rate limiter at 3,0"), "{:?}", codes(&assessment));
    // If a run contains the burst, its mean equals neither rate.
    let verdict = verdict(&[assessment]);
    assert_eq!(verdict.words, "low confidence: a drop during the run");
}

#[test]
fn a_steady_rate_limit_is_no_burst() {
    let (_, assessment) = judged(&Load::default(), "servers=20,read=1ms,rate=3000,burst=1");
    assert!(!codes(&assessment).contains(&"token_bucket"), "{:?}", codes(&assessment));
}

#[test]
fn errors_are_failing_whatever_else_is_true() {
    let (_, assessment) = judged(&Load::default(), "read=1ms,error-every=100");
    assert_eq!(codes(&assessment).first(), Some(&"errors"));
    assert_eq!(verdict(&[assessment]).kind, Kind::Failing);
}

#[test]
fn a_full_write_cache_is_a_drop_and_no_rate_limit() {
    let load = Load { rw: Rw::RandWrite, iodepth: 4, ..Load::default() };
    let device = "servers=4,write=exp:2ms,cache=1g,cache-latency=100us";
    let (_, assessment) = judged(&load, device);
    let drop = assessment.findings.iter().find(|finding| finding.code == "level_drop");
    assert!(drop.unwrap().words.contains("write cache"), "{drop:?}");
    assert!(!codes(&assessment).contains(&"token_bucket"));
    assert_eq!(verdict(&[assessment]).kind, Kind::LowConfidence);
}
