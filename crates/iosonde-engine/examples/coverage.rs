//! Measures how often the 95 % intervals of a run contain the truth, on simulated devices in
//! virtual time.
//!
//! `cargo run --release -p iosonde-engine --example coverage -- 300` prints the tables of
//! `docs/coverage.md`: of 300 cells with 10 repeats per line (and of all cells with 3 and 5 in
//! their runs), and of all runs. A second word selects lines by name.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the table is its output")]

#[path = "simulation/scene.rs"]
mod scene;

use std::error::Error;

use iosonde_analysis::Figures;
use iosonde_analysis::experiment::{Measure, Point, Standing};
use iosonde_analysis::figures::{DirectionFigures, figures};
use iosonde_model::plan::Arrivals;
use iosonde_model::record::Run;
use iosonde_model::spec::Direction;
use iosonde_stats::Histogram;
use iosonde_stats::dependent::{self, EffectiveSize};
use scene::Scene;

/// A line of the table.
struct Case {
    name: &'static str,
    device: &'static str,
    load: Load,
    seconds: u64,
}

#[derive(Clone, Copy)]
enum Load {
    /// A closed loop with this number of requests in flight.
    Closed(u32),
    /// An open loop with this number of Poisson arrivals per second.
    Open(f64),
}
use Load::{Closed, Open};

/// Figures of the table.
const FIGURES: [&str; 5] = ["IOPS", "mean", "p50", "p99", "p99.9"];
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];
/// Repeats of a cell of an experiment.
const REPEATS: [usize; 3] = [3, 5, 10];
/// Warm-up of every run, equal to the default.
const WARM_UP_NS: u64 = 3_000_000_000;
/// The truth comes from this number of runs, each this many times as long, after a warm-up of one
/// run length. Its error is a tenth of that of a cell of ten runs.
const TRUTH_RUNS: u64 = 100;
const TRUTH_LENGTHS: u64 = 10;

fn cases() -> Vec<Case> {
    let case = |name, device, load, seconds| Case { name, device, load, seconds };
    let memoryless = "servers=4,read=exp:1ms";
    let single = "servers=1,read=exp:1ms";
    let constant = "servers=1,read=250us";
    let slow = "servers=1,read=2ms";
    let bucket = "servers=32,read=exp:1ms,rate=2000,burst=100";
    let many = "servers=64,read=exp:8ms";
    let modes = "servers=1,read=bimodal:0.9:200us:8200us";
    let tail = "servers=16,read=bimodal:0.98:300us:5ms";
    let disk = "rpm=7200";
    let shared = "servers=4,read=exp:1ms,neighbour=30";
    let frozen = "servers=4,read=exp:1ms,stall-every=1s,stall-for=50ms";
    vec![
        case("M/M/4, depth 1, 10 s", memoryless, Closed(1), 10),
        case("M/M/4, depth 32, 10 s", memoryless, Closed(32), 10),
        case("M/M/4, depth 32, 60 s", memoryless, Closed(32), 60),
        case("M/M/1, depth 8, 10 s", single, Closed(8), 10),
        case("64 servers, depth 128, 10 s", many, Closed(128), 10),
        case("token bucket, depth 32, 10 s", bucket, Closed(32), 10),
        case("a tenth takes 8 ms, depth 8, 10 s", modes, Closed(8), 10),
        case("1 in 50 takes 5 ms, depth 8, 10 s", tail, Closed(8), 10),
        case("disk, depth 1, 10 s", disk, Closed(1), 10),
        case("disk, depth 8, 60 s", disk, Closed(8), 60),
        case("neighbour of 30 %, depth 8, 10 s", shared, Closed(8), 10),
        case("50 ms frozen per s, depth 8, 10 s", frozen, Closed(8), 10),
        case("M/M/4 at 50 %, 10 s", memoryless, Open(2_000.0), 10),
        case("M/M/4 at 80 %, 10 s", memoryless, Open(3_200.0), 10),
        case("M/M/4 at 80 %, 60 s", memoryless, Open(3_200.0), 60),
        case("M/M/4 at 95 %, 10 s", memoryless, Open(3_800.0), 10),
        case("M/M/4 at 95 %, 60 s", memoryless, Open(3_800.0), 60),
        case("M/M/1 at 80 %, 10 s", single, Open(800.0), 10),
        case("M/M/1 at 95 %, 10 s", single, Open(950.0), 10),
        case("M/D/1 at 90 %, 450/s, 10 s", slow, Open(450.0), 10),
        case("M/D/1 at 95 %, 10 s", constant, Open(3_800.0), 10),
        case("M/D/1 at 95 %, 60 s", constant, Open(3_800.0), 60),
        case("64 servers at 80 %, 10 s", many, Open(6_400.0), 10),
        case("token bucket at 95 %, 60 s", bucket, Open(1_900.0), 60),
        case("a tenth takes 8 ms, 60 %, 10 s", modes, Open(600.0), 10),
        case("1 in 50 takes 5 ms, 20,000/s, 10 s", tail, Open(20_000.0), 10),
        case("disk at 60/s, 60 s", disk, Open(60.0), 60),
        case("neighbour of 30 %, 1,600/s, 10 s", shared, Open(1_600.0), 10),
        case("50 ms frozen per s, 2,000/s, 10 s", frozen, Open(2_000.0), 10),
    ]
}

fn main() -> Result<(), Box<dyn Error>> {
    let cells: u64 = std::env::args().nth(1).map_or(Ok(300), |text| text.parse())?;
    let runs = cells * REPEATS[REPEATS.len() - 1] as u64;
    let only = std::env::args().nth(2).unwrap_or_default();
    let mut lines = [Vec::new(), Vec::new()];
    for case in cases().into_iter().filter(|case| case.name.contains(&only)) {
        let truth = truth(&case)?;
        let mut counts = [Count::default(); FIGURES.len()];
        let mut all = Vec::new();
        for seed in 1..=runs {
            let run = simulate(&case, seed, case.seconds, WARM_UP_NS)?;
            let figures = figures(&run);
            for (count, seen) in counts.iter_mut().zip(seen(&run, &figures)) {
                count.add(&seen, truth);
            }
            all.push(figures);
        }
        let row = |cells: Vec<String>| format!("| {} | {} |", case.name, cells.join(" | "));
        lines[0].push(row(counts.iter().map(|count| count.cell(runs)).collect()));
        lines[1].push(row(of_cells(&all, &counts, truth)));
        eprintln!("{} is done", case.name);
    }
    for lines in lines {
        println!("| load | {} |", FIGURES.join(" | "));
        println!("| --- |{}", " ---: |".repeat(FIGURES.len()));
        println!("{}\n", lines.join("\n"));
    }
    Ok(())
}

/// Coverage in disjoint cells of each size, formed from the runs; `known` counts single runs.
fn of_cells(
    runs: &[Figures],
    known: &[Count; FIGURES.len()],
    truth: [f64; FIGURES.len()],
) -> Vec<String> {
    let quantiles = QUANTILES.map(Measure::Quantile);
    let measures = [Measure::Iops, Measure::Mean].into_iter().chain(quantiles);
    let of_size = |figure: usize, measure: Measure, repeats: usize| {
        let mut count = Count::default();
        for cell in runs.chunks_exact(repeats) {
            let point = Point {
                cell: 0,
                levels: Vec::new(),
                runs: cell.to_vec(),
                standing: Standing::Good,
                failed: 0,
            };
            let interval = point.spread(measure, Direction::Total).and_then(|of| of.interval);
            count.add(&Seen { figure, value: None, interval, independent: None }, truth);
        }
        count
    };
    let cell = |(figure, measure): (usize, Measure)| {
        let counts = REPEATS.map(|repeats| (repeats, of_size(figure, measure, repeats)));
        if known[figure].is_constant() {
            return "constant".to_owned();
        }
        if counts.iter().all(|(_, count)| count.given == 0) {
            return "n/a".to_owned();
        }
        let of = |(repeats, count): (usize, Count)| count.cell((runs.len() / repeats) as u64);
        counts.map(of).join(" / ")
    };
    measures.enumerate().map(cell).collect()
}

/// One run on the simulated device.
fn simulate(case: &Case, seed: u64, seconds: u64, warmup_ns: u64) -> Result<Run, Box<dyn Error>> {
    let (iodepth, per_s) = match case.load {
        Closed(iodepth) => (iodepth, None),
        Open(per_s) => (1, Some((per_s, Arrivals::Poisson))),
    };
    // Varies the warm-up so that periodic behaviour falls elsewhere in each run.
    let warmup_ns = warmup_ns + seed * 617_000_000 % 1_000_000_000;
    Scene { device: case.device, writes: false, iodepth, per_s, warmup_ns, seconds }.run(seed)
}

/// The figures of very long runs, in the order of [`FIGURES`].
fn truth(case: &Case) -> Result<[f64; FIGURES.len()], Box<dyn Error>> {
    let mut all = Histogram::new();
    let (mut ops, mut ns) = (0, 0);
    for seed in 1..=TRUTH_RUNS {
        let seconds = TRUTH_LENGTHS * case.seconds;
        let run = simulate(case, 1_000_000 + seed, seconds, case.seconds * 1_000_000_000)?;
        let read = &run.jobs[0].read;
        all.merge(if matches!(case.load, Open(_)) { &read.response } else { &read.latency });
        (ops, ns) = (ops + read.ops, ns + run.measured_ns);
    }
    let [p50, p99, p999] = QUANTILES.map(|q| all.quantile(q).unwrap_or(0) as f64);
    Ok([ops as f64 * 1e9 / ns as f64, all.mean().unwrap_or(0.0), p50, p99, p999])
}

/// A figure of a run: index, value, interval, and interval if operations were independent.
struct Seen {
    figure: usize,
    /// The value, and the share by which it may be off equally in all runs.
    value: Option<(f64, f64)>,
    interval: Option<(f64, f64)>,
    independent: Option<(f64, f64)>,
}

fn seen(run: &Run, figures: &Figures) -> Vec<Seen> {
    let total: &DirectionFigures = &figures.all.total;
    let read = &run.jobs[0].read;
    let histogram = if read.response.count() > 0 { &read.response } else { &read.latency };
    // The window's edge cuts an operation. A bucket's width is 1/128 of its lower bound.
    let (cut, bucket) = (2.0 / total.ops as f64, 1.0 / 128.0);
    let mut all = vec![
        Seen {
            figure: 0,
            value: Some((total.iops, cut)),
            interval: total.iops_interval.and_then(Result::ok),
            independent: None,
        },
        Seen {
            figure: 1,
            value: total.latency.mean_ns.map(|mean_ns| (mean_ns, cut)),
            interval: total.latency.mean_interval_ns.ok(),
            independent: None,
        },
    ];
    for (at, q) in QUANTILES.into_iter().enumerate() {
        let quantile = total.latency.quantile(q);
        let size = EffectiveSize::of(histogram.count() as f64);
        let floats = |(low, high): (u64, u64)| (low as f64, high as f64);
        all.push(Seen {
            figure: 2 + at,
            value: quantile.and_then(|each| Some((each.value_ns()? as f64, bucket))),
            interval: quantile.and_then(|each| each.interval()?.ok()).map(floats),
            independent: dependent::quantile(histogram, size, q).map(floats),
        });
    }
    all
}

/// Runs that gave an interval, and those whose interval contained the truth.
#[derive(Clone, Copy, Default)]
struct Count {
    given: u64,
    held: u64,
    /// Intervals that contained the truth if operations are treated as independent.
    independent: Option<u64>,
    /// The least and the largest value, and the share by which each may be off.
    values: Option<(f64, f64, f64)>,
}

impl Count {
    fn add(&mut self, seen: &Seen, truth: [f64; FIGURES.len()]) {
        let holds = |(low, high): (f64, f64)| (low..=high).contains(&truth[seen.figure]);
        if let Some((value, error)) = seen.value {
            let (least, most, _) = self.values.unwrap_or((value, value, error));
            self.values = Some((least.min(value), most.max(value), error));
        }
        self.given += u64::from(seen.interval.is_some());
        self.held += u64::from(seen.interval.is_some_and(holds));
        if let Some(interval) = seen.independent {
            *self.independent.get_or_insert(0) += u64::from(holds(interval));
        }
    }

    /// Whether all values agree within their error.
    fn is_constant(self) -> bool {
        self.values.is_some_and(|(least, most, error)| most <= least * (1.0 + error))
    }

    /// `95 %, n/a in 2 % (42 %)`: coverage, runs without interval, coverage if independent.
    fn cell(self, runs: u64) -> String {
        let percent = |part: u64, of: u64| format!("{:.0} %", 100.0 * part as f64 / of as f64);
        let was =
            self.independent.map_or(String::new(), |held| format!(" ({})", percent(held, runs)));
        if self.given > 0 && self.given == self.held && self.is_constant() {
            return "constant".to_owned();
        }
        // The share of so few runs means nothing.
        if self.given * 20 < runs {
            return format!("n/a in {}{was}", percent(runs - self.given, runs));
        }
        let missing = match runs - self.given {
            0 => String::new(),
            missing => format!(", n/a in {}", percent(missing, runs)),
        };
        format!("{}{missing}{was}", percent(self.held, self.given))
    }
}
