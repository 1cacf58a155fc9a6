//! Measures how often a detector reports where it must, and where it must not, on simulated devices
//! in virtual time.
//!
//! `cargo run --release -p iosonde-engine --example detectors -- 200` prints the tables of
//! `docs/detectors.md` with 200 runs per line. A second word selects lines by name or by detector.
#![allow(clippy::print_stdout, reason = "the table is its output")]

#[path = "simulation/facts.rs"]
mod facts;
#[path = "simulation/scene.rs"]
mod scene;

use std::collections::BTreeMap;
use std::error::Error;

use iosonde_analysis::assess;
use iosonde_analysis::finding::{DETECTORS, Finding, Severity};
use iosonde_model::plan::{Arrivals, Engine, EngineKind};
use iosonde_model::record::Run;
use iosonde_model::record::facts::{DeviceCounters, TelemetrySample};
use iosonde_model::spec::Bursts;
use scene::Scene;

/// A line of the table.
struct Case {
    name: &'static str,
    /// Findings that must be reported; empty for a look-alike, in which none may be.
    finds: &'static [&'static str],
    scene: Scene,
    /// Adds facts from the kernel to the record of the run.
    beside: fn(&mut Run),
}

/// The device read this percentage more than the run did, as if the device were real.
fn others(run: &mut Run, percent: u64) {
    run.plan.engine = Engine::of(EngineKind::Psync);
    let ours: u64 = run.jobs.iter().map(|job| job.read.bytes).sum();
    let end = DeviceCounters {
        reads: ours / 4096,
        read_sectors: ours / 512 + ours / 51_200 * percent,
        ..DeviceCounters::default()
    };
    run.device = Some((DeviceCounters::default(), end));
}

/// The hypervisor stole this share of the CPU time.
fn stolen(run: &mut Run, per_mille: u64) {
    let look = |ticks: u64| TelemetrySample {
        cpu_ticks: Some([
            ticks * 300,
            ticks * 100,
            ticks * (600 - per_mille),
            0,
            ticks * per_mille,
        ]),
        ..TelemetrySample::default()
    };
    run.telemetry = vec![look(0), look(1)];
}

fn cases() -> Vec<Case> {
    let closed = |name, device, iodepth, finds: &'static [&'static str]| Case {
        name,
        finds,
        beside: |_| {},
        scene: Scene {
            device,
            writes: false,
            iodepth,
            per_s: None,
            warmup_ns: 3_000_000_000,
            seconds: 10,
        },
    };
    let arriving = |case: Case, per_s, arrivals| Case {
        scene: Scene { per_s: Some((per_s, arrivals)), ..case.scene },
        ..case
    };
    let open = |name, device, per_s, finds: &'static [&'static str]| {
        arriving(closed(name, device, 1, finds), per_s, Arrivals::Poisson)
    };
    let even = |name, device, per_s, finds: &'static [&'static str]| {
        arriving(closed(name, device, 1, finds), per_s, Arrivals::Constant)
    };
    let bursts = |name, device, per_s| {
        let requests = vec![(1, 98.0), (400, 2.0)];
        let between = vec![(1_000_000, 50.0), (9_000_000, 50.0)];
        let bursts = Bursts { requests, within: vec![(2_000, 100.0)], between };
        arriving(closed(name, device, 1, &[]), per_s, Arrivals::Bursts(bursts))
    };
    let unwarmed = |case: Case| Case { scene: Scene { warmup_ns: 0, ..case.scene }, ..case };
    let brief = |case: Case| Case { scene: Scene { seconds: 1, ..case.scene }, ..case };
    let writes = |case: Case| Case { scene: Scene { writes: true, ..case.scene }, ..case };
    let beside =
        |name, finds, beside| Case { beside, ..closed(name, "servers=4,read=exp:1ms", 8, finds) };
    let freeze = "servers=4,read=exp:1ms,stall-every=8s,stall-for=1s";
    let slow = "servers=4,read=exp:1ms,slow-every=7s,slow-for=2s,slow-by=10";
    let short = "servers=4,read=exp:1ms,stall-every=1s,stall-for=50ms";
    let third = "servers=4,read=exp:1ms,slow-every=3s,slow-for=700ms,slow-by=3";
    let half_second = "servers=4,read=exp:1ms,stall-every=2s,stall-for=500ms";
    let sliced = "servers=4,read=exp:1ms,stall-every=100ms,stall-for=30ms";
    let rare = "servers=1,read=exp:8ms,stall-every=8s,stall-for=1s";
    let memoryless = "servers=4,read=exp:1ms";
    let single = "servers=1,read=exp:1ms";
    let constant = "servers=1,read=250us";
    let constant_frozen = "servers=1,read=2ms,stall-every=8s,stall-for=1s";
    let light = "servers=8,read=exp:300us";
    let at_the_end = "servers=8,read=exp:300us,stall-every=9300ms,stall-for=700ms";
    let twice = "servers=8,read=exp:300us,stall-every=4s,stall-for=1s";
    let fifths = "servers=8,read=exp:300us,stall-every=2s,stall-for=200ms";
    let slowed = "servers=8,read=exp:300us,slow-every=5s,slow-for=2s,slow-by=10";
    let overloaded = "servers=8,read=exp:300us,stall-every=8s,stall-for=1s";
    let long = |case: Case, seconds| Case { scene: Scene { seconds, ..case.scene }, ..case };
    let alternates = "servers=4,read=exp:1ms,slow-every=4s,slow-for=2s,slow-by=3";
    let fivefold = "servers=4,read=exp:1ms,slow-every=6s,slow-for=2s,slow-by=5";
    let seldom = "servers=4,read=exp:1ms,slow-every=40s,slow-for=10s,slow-by=10";
    let rarely = "servers=4,read=exp:1ms,slow-every=15s,slow-for=800ms,slow-by=5";
    let slow_at_the_end = "servers=4,read=exp:1ms,slow-every=6s,slow-for=2s,slow-by=3";
    let two_even = "servers=2,read=1ms";
    let one_slow = "servers=1,read=bimodal:0.9:200us:8200us";
    let two_slow = "servers=2,read=bimodal:0.9:200us:8200us";
    let one_slow_frozen = "servers=1,read=bimodal:0.9:200us:8200us,stall-every=1s,stall-for=100ms";
    let forty = "servers=4,read=exp:1ms,stall-every=1s,stall-for=40ms";
    let half = "servers=4,read=exp:1ms,slow-every=7s,slow-for=3s,slow-by=2";
    let mostly_slow = "servers=4,read=exp:1ms,slow-every=6s,slow-for=4s,slow-by=3";
    let late = "servers=4,read=exp:1ms,slow-every=7s,slow-for=3s,slow-by=5";
    let mostly_frozen = "servers=8,read=exp:500us,stall-every=1s,stall-for=600ms";
    let nearly_always_frozen = "servers=8,read=exp:500us,stall-every=3s,stall-for=2900ms";
    let fast = "servers=8,read=exp:500us,slow-every=900ms,slow-for=300ms,slow-by=3";
    let fast_tenth = "servers=8,read=exp:500us,slow-every=1s,slow-for=600ms,slow-by=10";
    let bucket = "servers=16,read=exp:500us,rate=5000,burst=50";
    let small_bucket = "servers=16,read=exp:500us,rate=1000,burst=20";
    let doubles = closed(
        "the rate doubles after 5 s of 8",
        "servers=4,read=exp:1ms,slow-every=8s,slow-for=5s,slow-by=2",
        8,
        &["level_change"],
    );
    let eight = Scene { warmup_ns: 8_000_000_000, seconds: 8, ..doubles.scene };
    let doubles = Case { scene: eight, ..doubles };
    vec![
        closed("frozen for 1 s of 10, depth 1", freeze, 1, &["stall"]),
        closed("frozen for 1 s of 10, depth 8", freeze, 8, &["stall"]),
        open("frozen for 1 s of 10, 2,000/s in open loop", freeze, 2_000.0, &["stall"]),
        closed("frozen for 1 s of 10, 125 IOPS", rare, 1, &["stall"]),
        closed(
            "frozen for 2 s of 9, 100 IOPS, depth 4",
            "servers=2,read=exp:20ms,stall-every=9s,stall-for=2s",
            4,
            &["stall"],
        ),
        closed("100 IOPS, depth 4", "servers=2,read=exp:20ms", 4, &[]),
        closed("ten times slower for 2 s of 10, depth 8", slow, 8, &["stall"]),
        closed("a third for 0.7 s of each 3 s, depth 8", third, 8, &["level_change"]),
        closed("50 ms each second, depth 1", short, 1, &["stall"]),
        closed("50 ms each second, depth 8", short, 8, &["stall"]),
        closed("500 ms of each 2 s, depth 8", half_second, 8, &["stall"]),
        closed("500 ms of each 2 s, depth 1", half_second, 1, &["stall"]),
        closed("30 ms of each 100 ms, depth 8", sliced, 8, &["stall"]),
        closed("600 ms of each second, depth 8", mostly_frozen, 8, &["stall"]),
        closed("2.9 s of each 3 s, depth 8", nearly_always_frozen, 8, &["stall"]),
        open("600 ms of each second, 2,000/s", mostly_frozen, 2_000.0, &["stall"]),
        closed("a third for 300 ms of each 900 ms, depth 8", fast, 8, &["level_change"]),
        closed("a tenth for 600 ms of each second, depth 8", fast_tenth, 8, &["level_change"]),
        bursts("bursts of 400 in 2 % of 2,000/s, 32 servers", "servers=32,read=exp:1ms", 2_000.0),
        bursts("bursts of 400 in 2 % of 2,000/s, 4 servers", "servers=4,read=exp:1ms", 2_000.0),
        unwarmed(closed("frozen for the last 0.7 s, depth 8", at_the_end, 8, &["stall"])),
        unwarmed(open("frozen for the last 0.7 s, 2,000/s", at_the_end, 2_000.0, &["stall"])),
        unwarmed(open("frozen for 1 s of each 4 s, 16,000/s", twice, 16_000.0, &["stall"])),
        unwarmed(open("200 ms of each 2 s, 2,000/s", fifths, 2_000.0, &["stall"])),
        unwarmed(open("frozen for 1 s of 10, 75 % load", overloaded, 20_000.0, &["stall"])),
        unwarmed(open("112 % load, no freeze", light, 30_000.0, &["unsustainable"])),
        unwarmed(open("frozen for 1 s, 112 % load", overloaded, 30_000.0, &["unsustainable"])),
        long(
            unwarmed(open(
                "112 % load, recurring slow times",
                slow_at_the_end,
                3_500.0,
                &["unsustainable"],
            )),
            20,
        ),
        long(
            unwarmed(open(
                "96 % load, ends in a slow time",
                slow_at_the_end,
                3_000.0,
                &["level_change"],
            )),
            20,
        ),
        unwarmed(open("ten times slower for 2 s, 19 % load", slowed, 5_000.0, &["stall"])),
        unwarmed(open(
            "five times slower for 2 s of 6, 400/s",
            fivefold,
            400.0,
            &["latency_change"],
        )),
        unwarmed(open("three times slower, 800/s", slow_at_the_end, 800.0, &["latency_change"])),
        long(open("60 s: half as fast for 3 s of 7, 900/s", half, 900.0, &["latency_change"]), 60),
        long(
            open("60 s: half as fast for 3 s of 7, 1,800/s", half, 1_800.0, &["latency_change"]),
            60,
        ),
        open("three times slower for 4 s of 6, 1,200/s", mostly_slow, 1_200.0, &["latency_change"]),
        long(open("60 s: M/M/1 at 90 %, 900/s", single, 900.0, &[]), 60),
        long(
            unwarmed(open("five times slower for 0.8 s of 15", rarely, 400.0, &["latency_change"])),
            60,
        ),
        long(
            unwarmed(open("ten times slower for 10 s of 40", seldom, 200.0, &["latency_change"])),
            60,
        ),
        open(
            "1 % of requests take 5 ms, 1,000/s",
            "servers=16,read=bimodal:0.99:300us:5ms",
            1e3,
            &[],
        ),
        unwarmed(open("200/s in open loop, 8 servers", light, 200.0, &[])),
        open("10/s in open loop, 4 servers", memoryless, 10.0, &[]),
        closed("M/M/4, depth 1", memoryless, 1, &[]),
        closed("M/M/4, depth 32", memoryless, 32, &[]),
        closed("125 IOPS, depth 1", "servers=1,read=exp:8ms", 1, &[]),
        closed("20 IOPS, depth 1", "servers=1,read=exp:50ms", 1, &[]),
        closed("1 % of requests take 5 ms", "servers=16,read=bimodal:0.99:300us:5ms", 8, &[]),
        even("a tenth takes 8 ms on one server, even 600/s", one_slow, 600.0, &[]),
        even("a tenth takes 8 ms on one server, even 300/s", one_slow, 300.0, &[]),
        even("a tenth takes 8 ms on two servers, even 1,200/s", two_slow, 1_200.0, &[]),
        even("D/M/1 at 70 %, 100/s", "servers=1,read=exp:7ms", 100.0, &[]),
        even("the first of these, 100 ms each second", one_slow_frozen, 600.0, &["stall"]),
        open("40 ms each second, 1,200/s", forty, 1_200.0, &["stall"]),
        open("M/M/4 at 80 %, open loop", memoryless, 3_200.0, &[]),
        open("M/M/4 at 95 %, open loop", memoryless, 3_800.0, &[]),
        open("M/D/1 at 95 %, open loop", constant, 3_800.0, &[]),
        long(open("20 s: token bucket of 50 at 97 %, 4,850/s", bucket, 4_850.0, &[]), 20),
        long(open("30 s: token bucket of 20 at 95 %, 950/s", small_bucket, 950.0, &[]), 30),
        open("token bucket of 50 at 80 %, 4,000/s", bucket, 4_000.0, &[]),
        open("M/D/1 at 90 %, 450/s", "servers=1,read=2ms", 450.0, &[]),
        open("M/D/1 at 90 %, 90/s", "servers=1,read=10ms", 90.0, &[]),
        open("M/D/4 at 90 %, 360/s", "servers=4,read=10ms", 360.0, &[]),
        open("frozen for 1 s of 10, M/D/1 at 70 %, 350/s", constant_frozen, 350.0, &["stall"]),
        unwarmed(open("M/M/4 at 80 %, no warm-up", memoryless, 3_200.0, &[])),
        unwarmed(open("M/M/4 at 97 %, no warm-up", memoryless, 3_880.0, &["began_empty"])),
        unwarmed(open("M/M/1 at 95 %, no warm-up", single, 950.0, &["began_empty"])),
        unwarmed(open("M/M/1 at 98 %, no warm-up", single, 980.0, &["began_empty"])),
        open("M/M/1 at 95 %, 950/s", single, 950.0, &[]),
        open("M/M/1 at 110 %, 1,100/s", single, 1_100.0, &["unsustainable"]),
        unwarmed(open("overload for the last 3 s of 10", late, 2_000.0, &["unsustainable"])),
        long(
            even(
                "60 s: 100 ms each second, even 1,000/s, 8 servers",
                "servers=8,read=exp:300us,stall-every=1s,stall-for=100ms",
                1_000.0,
                &["stall"],
            ),
            60,
        ),
        unwarmed(open("each takes 100 ms, 500/s, no warm-up", "servers=99,read=100ms", 500.0, &[])),
        long(
            unwarmed(open(
                "136 % load, ten times slower for half of the time",
                "servers=4,read=exp:5ms,slow-every=4s,slow-for=2s,slow-by=10",
                600.0,
                &["unsustainable"],
            )),
            30,
        ),
        even("D/D/2 at 100.25 %", two_even, 2_005.0, &["unsustainable"]),
        even("D/D/2 at 99.5 %", two_even, 1_990.0, &[]),
        unwarmed(open("M/M/64 at 50 %, no warm-up", "servers=64,read=exp:8ms", 4_000.0, &[])),
        closed(
            "three tenths of the rate from 7 s on",
            "servers=4,read=exp:1ms,slow-every=10s,slow-for=10s,slow-by=3",
            8,
            &["level_drop"],
        ),
        unwarmed(closed(
            "a twelfth of the rate from 7 s on",
            "servers=4,read=exp:1ms,slow-every=7s,slow-for=7s,slow-by=12",
            8,
            &["level_drop"],
        )),
        unwarmed(closed(
            "a quarter of the rate for the last 0.7 s",
            "servers=8,read=exp:300us,slow-every=9300ms,slow-for=9300ms,slow-by=4",
            8,
            &["level_drop"],
        )),
        unwarmed(closed(
            "a third of the rate for the last 4 s of 5",
            "servers=4,read=exp:1ms,slow-every=5s,slow-for=4s,slow-by=3",
            8,
            &["level_change"],
        )),
        unwarmed(closed(
            "a bucket of 20,000 at the head, 5,000/s",
            "servers=8,read=exp:90us,rate=5000,burst=20000",
            32,
            &["level_change"],
        )),
        closed(
            "a third of the rate for 3 s of 6",
            "servers=4,read=exp:1ms,slow-every=6s,slow-for=3s,slow-by=3",
            8,
            &["level_change"],
        ),
        doubles,
        long(
            closed("60 s: a third of the rate for 2 s of 4", alternates, 8, &["level_change"]),
            60,
        ),
        long(closed("60 s: M/M/4, depth 8", memoryless, 8, &[]), 60),
        long(open("60 s: M/M/4 at 80 %, open loop", memoryless, 3_200.0, &[]), 60),
        long(open("60 s: M/M/4 at 95 %, open loop", memoryless, 3_800.0, &[]), 60),
        unwarmed(closed(
            "a burst in the first 4 %",
            "servers=32,read=exp:1ms,rate=1000,burst=8000",
            32,
            &["level_change"],
        )),
        brief(unwarmed(closed(
            "1 s: a bucket of 20,000 at the head, 20,000/s",
            "servers=8,read=exp:90us,rate=20000,burst=20000",
            8,
            &["level_drop"],
        ))),
        brief(closed(
            "1 s: half of the rate from 0.4 s on",
            "servers=4,read=exp:1ms,slow-every=3400ms,slow-for=3s,slow-by=2",
            8,
            &["level_drop"],
        )),
        brief(closed("1 s: M/M/4, depth 1", memoryless, 1, &[])),
        brief(closed("1 s: M/M/4, depth 32", memoryless, 32, &[])),
        brief(closed("1 s: 8 servers, depth 256", light, 256, &[])),
        brief(unwarmed(closed("1 s: 8 servers, depth 256, no warm-up", light, 256, &[]))),
        brief(closed("1 s: 125 IOPS, depth 1", "servers=1,read=exp:8ms", 1, &[])),
        brief(closed(
            "1 s: 1 % of requests take 5 ms",
            "servers=16,read=bimodal:0.99:300us:5ms",
            8,
            &[],
        )),
        brief(unwarmed(open("1 s: M/M/4 at 80 %, no warm-up", memoryless, 3_200.0, &[]))),
        brief(closed(
            "1 s: a steady neighbour, 20 %",
            "servers=4,read=exp:1ms,neighbour=800",
            8,
            &[],
        )),
        closed(
            "token bucket empty after 5 s, 137/s",
            "servers=4,read=1ms,rate=137,burst=30000",
            8,
            &["token_bucket", "level_drop"],
        ),
        writes(closed(
            "write cache full after 5 s, smooth drain",
            "servers=4,write=2ms,cache=200m,cache-latency=1ms",
            8,
            &["level_drop"],
        )),
        closed("noise of 10 % from run to run", "servers=4,read=exp:1ms,run-noise=10", 8, &[]),
        closed("a steady neighbour, 20 %", "servers=4,read=exp:1ms,neighbour=800", 8, &[]),
        closed("28 % of the CPU time stolen in slices", "servers=4,read=exp:1ms,steal=28", 8, &[]),
        beside("others read 1 % more", &[], |run| others(run, 1)),
        beside("others read 5 % more", &["noisy_neighbour"], |run| others(run, 5)),
        beside("others read 20 % more", &["noisy_neighbour"], |run| others(run, 20)),
        beside("others read 50 % more", &["noisy_neighbour"], |run| others(run, 50)),
        beside("CPU steal 0.5 %", &[], |run| stolen(run, 5)),
        beside("CPU steal 28 %", &["client_sched"], |run| stolen(run, 280)),
        writes(closed(
            "write cache full after 5 s",
            "servers=4,write=exp:2ms,cache=200m,cache-latency=1ms",
            8,
            &["level_drop"],
        )),
    ]
}

/// Codes that a line must report: stated findings, and notes.
type Must<'a> = (&'a [&'static str], &'a [&'static str]);

/// A row of a table: over these seeds, how often the required findings and others were reported.
fn row(
    name: &str,
    (finds, notes): Must<'_>,
    runs: u64,
    found: impl Fn(u64) -> Result<Vec<Finding>, Box<dyn Error>>,
) -> Result<String, Box<dyn Error>> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let codes = [finds, notes].concat();
    let (mut all, mut stated) = (0, 0);
    for seed in 1..=runs {
        let found = found(seed)?;
        let are = |codes: &[&str], least: Severity| {
            let is =
                |code: &&str| found.iter().any(|one| one.code == *code && one.severity >= least);
            u64::from(codes.iter().all(is))
        };
        all += are(&codes, Severity::Fact);
        // A note that does not change the confidence is only in the JSON.
        stated += are(finds, Severity::Warning);
        found.iter().for_each(|finding| *counts.entry(finding.code).or_default() += 1);
    }
    let percent = |count: u64| format!("{:.1} %", 100.0 * count as f64 / runs as f64);
    let beside = counts.iter().filter(|(code, _)| !codes.contains(code));
    let beside: Vec<String> =
        beside.map(|(code, count)| format!("`{code}` {}", percent(*count))).collect();
    let must = match codes.is_empty() {
        true => "nothing".to_owned(),
        false => format!("`{}`", codes.join("`, `")),
    };
    let all = if codes.is_empty() { String::new() } else { percent(all) };
    let stated = if finds.is_empty() { String::new() } else { percent(stated) };
    Ok(format!("| {name} | {must} | {all} | {stated} | {} |", beside.join(", ")))
}

/// Detectors without a line in which they must report, or without a look-alike. A line of the first
/// table without required findings is a look-alike for all detectors of that table.
pub(crate) fn without_line() -> Vec<String> {
    let (cases, lines) = (cases(), facts::lines());
    let of_rates = |code| cases.iter().any(|case| case.finds.contains(&code));
    let any_is_quiet = cases.iter().any(|case| case.finds.is_empty());
    let missing = |code: &'static str| {
        let own = || lines.iter().filter(|line| line.about == code);
        let speaks = of_rates(code) || own().any(|line| line.finds.contains(&code));
        let is_silent = of_rates(code) && any_is_quiet
            || own().any(|line| !line.finds.contains(&code) && !line.notes.contains(&code));
        match (speaks, is_silent) {
            (true, true) => None,
            (false, _) => Some(format!("{code}: no line in which it must speak")),
            (true, false) => Some(format!("{code}: no look-alike")),
        }
    };
    DETECTORS.iter().filter_map(|detector| missing(detector.code)).collect()
}

/// Lines of the second table that do not report all required findings with this seed.
#[allow(dead_code, reason = "for the tests, which have the lines from here")]
pub(crate) fn lacking(seed: u64) -> Result<Vec<&'static str>, Box<dyn Error>> {
    let mut lacking = Vec::new();
    for line in facts::lines() {
        let seen = line.run(seed)?;
        let found = assess(&seen.run, Some(&seen.host)).findings;
        let has = |code: &&str| found.iter().any(|finding| finding.code == *code);
        let is_heeded = line.finds.contains(&line.about) || !has(&line.about);
        if !line.finds.iter().chain(&line.notes).all(has) || !is_heeded {
            lacking.push(line.name);
        }
    }
    Ok(lacking)
}

fn print_head(first: &str) {
    println!("| {first} | must be found | found | stated | beside it |");
    println!("| --- | --- | ---: | ---: | --- |");
}

fn main() -> Result<(), Box<dyn Error>> {
    let runs: u64 = std::env::args().nth(1).map_or(Ok(200), |text| text.parse())?;
    let only = std::env::args().nth(2).unwrap_or_default();
    print_head("device and load");
    for case in cases().into_iter().filter(|case| case.name.contains(&only)) {
        let found = |seed| {
            let mut run = case.scene.run(seed)?;
            (case.beside)(&mut run);
            Ok(assess(&run, None).findings)
        };
        println!("{}", row(case.name, (case.finds, &[]), runs, found)?);
    }
    println!();
    print_head("what is known");
    let lines = facts::lines().into_iter();
    for line in lines.filter(|line| line.name.contains(&only) || line.about == only) {
        let found = |seed| {
            let seen = line.run(seed)?;
            Ok(assess(&seen.run, Some(&seen.host)).findings)
        };
        println!("{}", row(line.name, (&line.finds, &line.notes), runs, found)?);
    }
    match without_line().as_slice() {
        [] => Ok(()),
        missing => Err(missing.join("; ").into()),
    }
}
