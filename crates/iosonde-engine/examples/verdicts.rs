//! Measures whether following the advice of `compare` leads to a verdict on every figure, in runs
//! of simulated devices in virtual time. B is equal or slower, and all runs scatter.
//!
//! `cargo run --release -p iosonde-engine --example verdicts -- 200` prints a table of
//! `docs/compare.md` with 200 comparisons per line. A second word selects lines by what they
//! compare.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the table is its output")]

#[path = "simulation/scene.rs"]
mod scene;

use std::error::Error;
use std::ops::Range;

use iosonde_analysis::comparison::contrast::TOLERANCE;
use iosonde_analysis::comparison::{Comparison, Kind, Observation, Request, Side, compare};
use iosonde_stats::chance::Chance;
use scene::Scene;

/// Devices: how much slower B is, the noise between runs, and the models of A and B.
const DEVICES: [(&str, &str, [&str; 2]); 5] = [
    ("0 %", "2 %", ["read=exp:1000us,run-noise=2", "read=exp:1000us,run-noise=2"]),
    ("3 %", "2 %", ["read=exp:1000us,run-noise=2", "read=exp:1031us,run-noise=2"]),
    ("8 %", "2 %", ["read=exp:1000us,run-noise=2", "read=exp:1087us,run-noise=2"]),
    ("0 %", "5 %", ["read=exp:1000us,run-noise=5", "read=exp:1000us,run-noise=5"]),
    ("8 %", "5 %", ["read=exp:1000us,run-noise=5", "read=exp:1087us,run-noise=5"]),
];
/// Runs of each device from which comparisons draw.
const POOL: u64 = 2_000;

type Pool<'a> = Vec<&'a Observation>;

/// Settings of a comparison.
struct Way {
    metrics: &'static str,
    in_rounds: bool,
    runs: usize,
}

impl Way {
    fn name(&self) -> String {
        let within = if self.in_rounds { " in rounds" } else { "" };
        let what = if self.metrics.is_empty() { "all figures" } else { self.metrics };
        format!("{what}{within}")
    }
}

const WAYS: [Way; 6] = [
    Way { metrics: "iops", in_rounds: false, runs: 5 },
    Way { metrics: "iops", in_rounds: false, runs: 10 },
    Way { metrics: "iops", in_rounds: true, runs: 10 },
    Way { metrics: "", in_rounds: false, runs: 6 },
    Way { metrics: "", in_rounds: false, runs: 10 },
    Way { metrics: "", in_rounds: true, runs: 10 },
];

fn main() -> Result<(), Box<dyn Error>> {
    let comparisons: u64 = std::env::args().nth(1).map_or(Ok(200), |text| text.parse())?;
    let only = std::env::args().nth(2).unwrap_or_default();
    println!(
        "| B slower by | noise | compared | runs | at once | no advice | runs in all | then \
         decided |"
    );
    println!("| ---: | ---: | --- |{}", " ---: |".repeat(5));
    for (slower, noise, devices) in DEVICES {
        let runs = [pool(devices[0], 0)?, pool(devices[1], POOL)?];
        let pools = runs.each_ref().map(|runs| runs.iter().collect());
        for way in WAYS.iter().filter(|way| way.name().contains(&only)) {
            let mut count = Count::default();
            for seed in 1..=comparisons {
                count.add(way, &pools, seed)?;
            }
            println!("| {slower} | {noise} | {} | {} | {}", way.name(), way.runs, count.row());
        }
        eprintln!("{slower} at {noise} is done");
    }
    Ok(())
}

fn pool(device: &'static str, first: u64) -> Result<Vec<Observation>, Box<dyn Error>> {
    let scene = Scene { device, writes: false, iodepth: 4, per_s: None, warmup_ns: 0, seconds: 2 };
    (first..first + POOL).map(|seed| Ok(Observation::of(&scene.run(seed)?, "", None))).collect()
}

/// Comparisons of one line.
#[derive(Default)]
struct Count {
    all: u32,
    /// Decided without more runs.
    decided: u32,
    /// Undecided, with a figure that no number of runs would decide.
    hopeless: u32,
    /// Advised to make more runs; their sum per side; and those decided after these runs.
    advised: u32,
    runs: u64,
    followed: u32,
}

impl Count {
    /// Compares and follows the advice: adds runs to both sides, or repeats all rounds.
    fn add(&mut self, way: &Way, pools: &[Pool; 2], seed: u64) -> Result<(), Box<dyn Error>> {
        let mut draws = Chance::new(seed);
        let mut shuffled = pools.clone();
        shuffled.iter_mut().for_each(|pool| draws.shuffle(pool));
        let open = compared(way, &shuffled, 0..way.runs, seed)?.open();
        self.all += 1;
        if open.is_empty() {
            self.decided += 1;
            return Ok(());
        }
        let Some(more) = open.iter().map(|(_, more)| *more).collect::<Option<Vec<u64>>>() else {
            self.hopeless += 1;
            return Ok(());
        };
        let all = way.runs + more.into_iter().max().unwrap_or(0) as usize;
        let runs = if way.in_rounds { way.runs..way.runs + all } else { 0..all };
        self.advised += 1;
        self.runs += all as u64;
        self.followed += u32::from(compared(way, &shuffled, runs, seed)?.open().is_empty());
        Ok(())
    }

    fn row(&self) -> String {
        let percent = |count: u32, of: u32| match of {
            0 => "-".to_owned(),
            _ => format!("{:.1} %", 100.0 * f64::from(count) / f64::from(of)),
        };
        let mean = match self.advised {
            0 => "-".to_owned(),
            advised => format!("{:.0}", self.runs as f64 / f64::from(advised)),
        };
        let [decided, hopeless] =
            [self.decided, self.hopeless].map(|count| percent(count, self.all));
        format!("{decided} | {hopeless} | {mean} | {} |", percent(self.followed, self.advised))
    }
}

fn compared(
    way: &Way,
    pools: &[Pool; 2],
    runs: Range<usize>,
    seed: u64,
) -> Result<Comparison, Box<dyn Error>> {
    let side = |pool: &Pool| Side {
        name: String::new(),
        runs: pool[runs.clone()].iter().map(|run| (**run).clone()).collect(),
    };
    let [a, b] = pools.each_ref().map(side);
    let metrics = way.metrics.split(',').filter(|word| !word.is_empty()).map(str::to_owned);
    let requested = Request {
        tolerance: TOLERANCE,
        seed,
        allow: Kind::ALL.to_vec(),
        metrics: metrics.collect(),
        in_rounds: way.in_rounds,
        ..Request::default()
    };
    Ok(compare(&a, &b, &requested)?)
}
