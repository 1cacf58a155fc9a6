//! Open loops, syncs, pauses and phases on the simulated device, compared with known results.

use std::sync::Arc;

use iosonde::schedule::{Event, RunContext, execute};
use iosonde_analysis::arrivals::{ArrivalFigures, ArrivalVerdict};
use iosonde_analysis::{Assessment, assess};
use iosonde_engine::backend::sim::Model;
use iosonde_engine::engine::{Control, Medium};
use iosonde_engine::host::Root;
use iosonde_model::plan::{
    Arrivals, Bursts, Commit, Engine, EngineKind, OnError, Pace, Phase, Rate, Setting, Stop, Sync,
    Target, Think, resolve,
};
use iosonde_model::record::Run;
use iosonde_model::spec::{Reap, Role, Rw, Workload};
use iosonde_stats::histogram::RELATIVE_ERROR;
use iosonde_sys::Clock;

const SECOND_NS: u64 = 1_000_000_000;
const MS: f64 = 1e6;

/// Runs one role on a simulated device for some seconds and judges the record.
fn judged(role: Role, iodepth: u32, seconds: u64, seed: u64, device: &str) -> (Run, Assessment) {
    judged_until(vec![role], iodepth, Stop::AfterNs(seconds * SECOND_NS), seed, device)
}

fn judged_until(
    roles: Vec<Role>,
    iodepth: u32,
    stop: Stop,
    seed: u64,
    device: &str,
) -> (Run, Assessment) {
    let workload = Workload {
        name: "test".into(),
        title: "Test".into(),
        pattern: "test".into(),
        models: String::new(),
        block_size: 4096,
        read_percent: roles[0].rw.read_percent(50),
        roles,
    };
    let setting = Setting {
        engine: Engine::of(EngineKind::Sim),
        targets: vec![Target { path: "t".into(), bytes: 64 << 20, direct: false, align_bytes: 1 }],
        offset_bytes: 0,
        cpus: 1,
        iodepth,
        seed,
        warmup_ns: if matches!(stop, Stop::AfterNs(_)) { SECOND_NS } else { 0 },
        stop,
        on_error: OnError::Continue,
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
    let run: Run = record.unwrap();
    let assessment = assess(&run, None);
    let broken: Vec<_> = assessment.consistency.broken().collect();
    assert!(broken.is_empty(), "{broken:#?}");
    (run, assessment)
}

fn at_rate(per_s: f64, arrivals: Arrivals) -> Role {
    let pace = Pace::Rate { rate: Rate::Ops(per_s), arrivals };
    Role { pace, ..Role::new("client", Rw::RandRead) }
}

fn open(assessment: &Assessment) -> &ArrivalFigures {
    assessment.figures.arrivals.as_ref().unwrap()
}

/// A percentile of the headline latency, ms.
fn percentile(assessment: &Assessment, q: f64) -> f64 {
    let latency = &assessment.figures.all.total.latency;
    latency.quantile(q).unwrap().value_ns().unwrap() as f64 / MS
}

fn close(found: f64, expected: f64, slack: f64) {
    let reach = expected * (RELATIVE_ERROR + 1e-9) + slack;
    assert!((found - expected).abs() <= reach, "found {found}, expected {expected} ± {reach}");
}

/// Nothing completes for 100 ms of every second. Of 1,000 arrivals per second, the one k ms after
/// the start of the stall waits 100 - k ms, so a share (100 - r) / 1000 waits longer than r ms.
const STALLING: &str = "servers=1,read=100us,stall-every=1s,stall-for=100ms";

#[test]
fn an_open_loop_shows_a_stall_as_its_users_feel_it_and_a_closed_one_does_not() {
    let (run, assessment) = judged(at_rate(1000.0, Arrivals::Constant), 256, 20, 3, STALLING);
    // The arrivals' grid is offset by up to 1 ms from the stall.
    close(percentile(&assessment, 0.99), 90.0, 1.0);
    close(percentile(&assessment, 0.95), 50.0, 1.0);
    close(percentile(&assessment, 0.5), 0.1, 0.0);
    assert_eq!(open(&assessment).verdict, ArrivalVerdict::Sustained);
    let read = &run.jobs[0].read;
    assert_eq!(read.response.count(), read.latency.count());
    let in_series: u64 = read.responses.intervals.iter().flatten().map(|(_, count)| count).sum();
    assert_eq!(in_series, read.response.count());
    assert_eq!(read.responses.width_ns, read.latencies.width_ns);

    let (_, closed) = judged(Role::new("client", Rw::RandRead), 1, 20, 3, STALLING);
    close(percentile(&closed, 0.99), 0.1, 0.0);
    close(percentile(&closed, 0.999), 0.1, 0.0);
}

#[test]
fn a_rate_limit_with_too_few_slots_shows_the_queueing_in_the_response_alone() {
    // T14: one slot. During the stall one request is in flight and 99 wait in the generator, where
    // their latency counts. Then they complete one after another, 0.1 ms each, while others arrive.
    let (run, assessment) = judged(at_rate(1000.0, Arrivals::Constant), 1, 20, 3, STALLING);
    // The k-th of the stall completes at 100 + 0.1 k ms, so it waits 100 - 0.9 k.
    close(percentile(&assessment, 0.99), 91.0, 1.0);
    close(percentile(&assessment, 0.95), 55.0, 1.0);
    let service = assessment.figures.all.total.service.as_ref().unwrap();
    close(service.quantile(0.99).unwrap().value_ns().unwrap() as f64 / MS, 0.1, 0.0);
    assert_eq!(open(&assessment).verdict, ArrivalVerdict::Sustained);
    let arrivals = &run.jobs[0].arrivals;
    assert!(arrivals.queued > 1500 && arrivals.late > 1500, "{arrivals:?}");
}

#[test]
fn poisson_arrivals_keep_rate_and_scatter_and_meet_the_queue_of_theory() {
    let mut alarms = 0;
    for seed in 0..6 {
        let role = at_rate(8000.0, Arrivals::Poisson);
        let (_, assessment) = judged(role, 512, 15, seed, "servers=1,read=exp:100us");
        let figures = open(&assessment);
        alarms += u32::from(figures.verdict != ArrivalVerdict::Sustained);
        assert!((figures.achieved_per_s / 8000.0 - 1.0).abs() < 0.01, "{figures:?}");
        assert!((figures.gap_cv.unwrap() - 1.0).abs() < 0.02, "{figures:?}");
        // M/M/1 at 80 %: responses are exponential with mean S / (1 - rho) = 500 µs. They are
        // autocorrelated, so 20 s determine the mean only to some percent.
        let mean = assessment.figures.all.total.latency.mean_ns.unwrap();
        assert!((mean / 500e3 - 1.0).abs() < 0.15, "seed {seed}: {mean}");
        assert!((percentile(&assessment, 0.5) / (0.5 * 2f64.ln()) - 1.0).abs() < 0.10);
    }
    assert!(alarms <= 1, "{alarms} of 6 sustained loops were called otherwise");
}

#[test]
fn a_tenth_too_much_is_unsustainable_and_has_no_percentiles() {
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        // The device serves 10,000 per second. The first depth holds the whole queue.
        for iodepth in [4096, 16] {
            let role = at_rate(11_000.0, arrivals.clone());
            let (_, assessment) = judged(role, iodepth, 10, 5, "servers=1,read=100us");
            let figures = open(&assessment);
            assert_eq!(figures.verdict, ArrivalVerdict::Unsustainable, "{figures:?}");
            let total = &assessment.figures.all.total;
            assert!(total.latency.quantiles.iter().all(|q| q.value_ns().is_none()));
            assert!(total.service.is_some());
            assert!(assessment.findings.iter().any(|finding| finding.code == "unsustainable"));
            // Each second brings 1.1 s of work, of which 1 s is served.
            let growth = figures.growth.unwrap();
            assert!((growth.per_s - 1.0 / 11.0).abs() < 0.02, "{iodepth}: {growth:?}");
        }
    }
    let sustained = judged(at_rate(9000.0, Arrivals::Constant), 16, 10, 5, "servers=1,read=100us");
    assert_eq!(open(&sustained.1).verdict, ArrivalVerdict::Sustained);
}

#[test]
fn a_recorded_schedule_is_kept_to_the_nanosecond() {
    // Two arrive together every 10 ms at one server: the first takes 1 ms, the second waits for it.
    let times = (0..2_000).map(|index| index / 2 * 10_000_000).collect();
    let role = Role { pace: Pace::Recorded(times), ..Role::new("client", Rw::RandRead) };
    let (run, _) = judged(role, 8, 9, 1, "servers=1,read=1ms");
    let read = &run.jobs[0].read;
    assert_eq!(read.response.min(), Some(1_000_000));
    assert_eq!(read.response.max(), Some(2_000_000));
    // The window covers 1 s to 10 s of a schedule of 10 s.
    assert_eq!(run.jobs[0].arrivals.due, 1800);
    assert_eq!(run.jobs[0].arrivals.dropped, 0);
}

#[test]
fn a_pause_and_an_idle_phase_lower_the_rate_as_they_must() {
    // Four at once take 1 ms, then a pause of 3 ms: 1,000 per second.
    let think = Think { ns: 3_000_000, every_ops: 4, ..Think::default() };
    let role = Role { think, ..Role::new("client", Rw::RandRead) };
    let (run, assessment) = judged(role, 4, 10, 1, "servers=4,read=1ms");
    assert!(run.jobs[0].read.ops.abs_diff(10_000) <= 4, "{}", run.jobs[0].read.ops);
    assert!(assessment.findings.is_empty(), "{:#?}", assessment.findings);

    // 1 s of reads, 1 s idle, 2 s of writes.
    let phase = |seconds, rate_percent, read_percent| Phase {
        ns: seconds * SECOND_NS,
        rate_percent,
        read_percent: Some(read_percent),
        ..Phase::default()
    };
    let phases = vec![phase(1, 100.0, 100), phase(1, 0.0, 0), phase(2, 100.0, 0)];
    let role = Role { phases, ..Role::new("client", Rw::RandRw) };
    let (run, assessment) = judged(role, 1, 8, 1, "servers=1,read=1ms,write=1ms");
    let (reads, writes) = (run.jobs[0].read.ops, run.jobs[0].write.ops);
    assert!(reads.abs_diff(2_000) <= 4 && writes.abs_diff(4_000) <= 4, "{reads} {writes}");
    assert!(assessment.findings.is_empty(), "{:#?}", assessment.findings);
}

#[test]
fn syncs_are_a_direction_of_their_own_and_a_group_commit_is_a_barrier() {
    let device = "servers=8,read=1ms,write=1ms";
    let sync = |barrier| Sync { every_writes: 4, barrier, ..Sync::default() };
    let role = Role { sync: sync(true), ..Role::new("log", Rw::RandWrite) };
    let (run, assessment) = judged(role, 8, 10, 1, device);
    // Four writes concurrently, 1 ms; then the sync alone, 1 ms.
    let job = &run.jobs[0];
    assert!(job.write.ops.abs_diff(20_000) <= 8 && job.sync.ops.abs_diff(5_000) <= 2, "{job:?}");
    assert_eq!(job.sync.bytes, 0);
    assert_eq!(job.sync.latency.min(), Some(1_000_000));
    assert_eq!(assessment.figures.all.total.ops, job.write.ops, "a sync moves nothing");

    let role = Role { sync: sync(false), ..Role::new("log", Rw::RandWrite) };
    let (run, _) = judged(role, 8, 10, 1, device);
    let job = &run.jobs[0];
    assert!(job.write.ops.abs_diff(4 * job.sync.ops) <= 8);
    assert!(job.write.ops > 60_000, "nothing waits: {}", job.write.ops);
}

#[test]
fn a_burst_counts_as_one_write_for_syncs_and_is_sent_at_once() {
    // Bursts of 1 or 7 requests, in the ratio 2 to 1: 3 on average, 100 bursts per second.
    let bursts = Bursts {
        requests: vec![(1, 200.0 / 3.0), (7, 100.0 / 3.0)],
        within: vec![(1000, 100.0)],
        between: vec![(10_000_000, 100.0)],
    };
    let sync = Sync { every_writes: 2, barrier: true, ..Sync::default() };
    let role = Role {
        rw: Rw::RandWrite,
        sync,
        batch: Some(8),
        ..at_rate(300.0, Arrivals::Bursts(bursts))
    };
    let (run, assessment) = judged(role, 8, 60, 1, "servers=8,write=1ms");
    let job = &run.jobs[0];
    assert!(job.write.ops.abs_diff(18_000) < 900, "{}", job.write.ops);
    assert!(job.sync.ops.abs_diff(3000) < 150, "{}", job.sync.ops);
    // Seven are served concurrently: none waits for another.
    close(percentile(&assessment, 0.99), 1.0, 0.02);
    assert_eq!(open(&assessment).verdict, ArrivalVerdict::Sustained);
}

#[test]
fn a_full_queue_waits_for_its_batch_with_syncs_and_rates_too() {
    let sync = Sync { every_writes: 4, ..Sync::default() };
    let rate = Pace::Rate { rate: Rate::Ops(20_000.0), arrivals: Arrivals::Constant };
    let free = Pace::default();
    for (sync, pace) in [(sync, free.clone()), (Sync::default(), rate)] {
        for (complete_min, least, most) in [(1, 0.0, 2.0), (4, 3.5, 5.0)] {
            let reap = Reap { complete_min, counts: true, ..Reap::default() };
            let pace = pace.clone();
            let role = Role { sync, pace, reap, ..Role::new("log", Rw::RandWrite) };
            let (run, _) = judged(role, 8, 5, 1, "servers=8,read=exp:1ms,write=exp:1ms");
            let job = &run.jobs[0];
            let returns: u64 = job.batches.completed.iter().sum();
            let each = (job.write.ops + job.sync.ops) as f64 / returns as f64;
            assert!(each > least && each < most, "{complete_min}: {each}");
        }
    }
}

#[test]
fn parts_of_the_latency_add_up_and_the_depth_is_reached() {
    let reap = Reap { complete_min: 2, complete_max: 3, slat: true, ..Reap::default() };
    let role = Role { reap, ..Role::new("client", Rw::RandRead) };
    let (run, assessment) = judged(role, 8, 5, 1, "servers=8,read=exp:1ms");
    let read = &run.jobs[0].read;
    assert_eq!(read.slat.sum() + read.clat.sum(), read.latency.sum());
    assert_eq!(read.slat.count(), read.latency.count());
    assert!(assessment.figures.all.depth_seen > 7.9);
}

#[test]
fn an_open_loop_that_ends_after_a_count_has_dropped_nothing() {
    let pace = Pace::Rate { rate: Rate::Ops(5000.0), arrivals: Arrivals::Constant };
    let role = Role { pace, ..Role::new("client", Rw::RandRead) };
    let device = "servers=2000,read=200ms";
    let (run, assessment) = judged_until(vec![role], 2048, Stop::AfterOps(10_000), 3, device);
    assert_eq!(run.jobs[0].arrivals.dropped, 0);
    assert_eq!(open(&assessment).verdict, ArrivalVerdict::Sustained);
}

#[test]
fn a_counted_run_syncs_its_last_writes_too() {
    for barrier in [false, true] {
        let sync = Sync { every_writes: 1, barrier, ..Sync::default() };
        let role = Role { sync, ..Role::new("log", Rw::RandWrite) };
        let (run, _) = judged_until(vec![role], 4, Stop::AfterOps(10), 1, "servers=8,write=1ms");
        assert_eq!((run.jobs[0].write.ops, run.jobs[0].sync.ops), (10, 10), "barrier {barrier}");
    }
}

/// A job that writes and syncs, and a journal that commits two writes for every second sync.
fn with_a_journal() -> Vec<Role> {
    let sync = Sync { every_writes: 1, barrier: true, ..Sync::default() };
    let waits = Commit::WaitsFor { role: "journal".into(), percent: 50.0 };
    let app = Role { sync, commit: Some(waits), ..Role::new("app", Rw::RandWrite) };
    let journal = Role { commit: Some(Commit::Writes(2.0)), ..Role::new("journal", Rw::Write) };
    vec![app, journal]
}

#[test]
fn a_commit_is_made_when_a_sync_waits_for_it() {
    let stop = Stop::AfterNs(10 * SECOND_NS);
    let (run, _) = judged_until(with_a_journal(), 1, stop, 1, "servers=4,write=1ms");
    let [app, journal] = &run.jobs[..] else { panic!("{} jobs", run.jobs.len()) };
    // Two writes and two syncs of the application and two writes of the journal, one after another
    // although the device has room for more.
    let cycles = app.write.ops / 2;
    assert!((1630..=1667).contains(&cycles), "{cycles}");
    assert!(app.sync.ops.abs_diff(app.write.ops) <= 1);
    assert!(journal.write.ops.abs_diff(app.write.ops) <= 3, "{}", journal.write.ops);
}

#[test]
fn the_time_of_a_sync_that_waits_at_the_end_is_known() {
    let mut roles = with_a_journal();
    // The current commit takes far longer than the run.
    roles[1].commit = Some(Commit::Writes(1e5));
    let (run, _) = judged_until(roles, 1, Stop::AfterNs(SECOND_NS), 1, "servers=4,write=1ms");
    let app = &run.jobs[0];
    assert_eq!((app.in_flight_area_ns, app.sync.crossing_ns), (SECOND_NS, SECOND_NS));
}

#[test]
fn a_journal_ends_with_those_that_wait_for_it() {
    let stop = Stop::AfterOps(100);
    let mut roles = with_a_journal();
    roles[1].commit = Some(Commit::Writes(1.0));
    let (run, _) = judged_until(roles, 1, stop, 1, "servers=4,write=1ms");
    assert_eq!([run.jobs[0].write.ops, run.jobs[1].write.ops], [100, 50]);
}
