//! How often do the 95 % intervals of a run hold the truth? Simulated devices in virtual time.
//!
//! `cargo run --release -p iosonde-engine --example coverage -- 300` prints the tables of
//! `docs/coverage.md`: that of so many cells of 10 repeats per line (and all that fit of 3 and 5),
//! and that of all their runs; a further word chooses lines by their name.
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
use iosonde_stats::quantile::ranks;
use scene::Scene;

/// What a line of the table is about.
struct Case {
    name: &'static str,
    device: &'static str,
    /// Poisson arrivals per second; `None` for 32 in flight.
    per_s: Option<f64>,
    seconds: u64,
}

/// Figures of the table.
const FIGURES: [&str; 5] = ["IOPS", "mean", "p50", "p99", "p99.9"];
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];
/// Repeats of a cell of an experiment.
const REPEATS: [usize; 3] = [3, 5, 10];
/// Warm-up of every run, as by default.
const WARM_UP_NS: u64 = 3_000_000_000;
/// The truth comes from so many runs of so many lengths, after a warm-up of one. Its error is a
/// tenth of that of a cell of ten runs.
const TRUTH_RUNS: u64 = 100;
const TRUTH_LENGTHS: u64 = 10;

fn cases() -> Vec<Case> {
    let case = |name, device, per_s, seconds| Case { name, device, per_s, seconds };
    let memoryless = "servers=4,read=exp:1ms";
    let single = "servers=1,read=exp:1ms";
    let constant = "servers=1,read=250us";
    let slow = "servers=1,read=2ms";
    let bucket = "servers=32,read=exp:1ms,rate=2000,burst=100";
    vec![
        case("M/M/4, 32 in flight, 10 s", memoryless, None, 10),
        case("M/M/4, 32 in flight, 60 s", memoryless, None, 60),
        case("token bucket, 32 in flight, 10 s", bucket, None, 10),
        case("M/M/4 at 80 %, 10 s", memoryless, Some(3_200.0), 10),
        case("M/M/4 at 80 %, 60 s", memoryless, Some(3_200.0), 60),
        case("M/M/4 at 95 %, 10 s", memoryless, Some(3_800.0), 10),
        case("M/M/4 at 95 %, 60 s", memoryless, Some(3_800.0), 60),
        case("M/M/1 at 80 %, 10 s", single, Some(800.0), 10),
        case("M/M/1 at 95 %, 10 s", single, Some(950.0), 10),
        case("M/D/1 at 90 %, 450/s, 10 s", slow, Some(450.0), 10),
        case("M/D/1 at 95 %, 10 s", constant, Some(3_800.0), 10),
        case("M/D/1 at 95 %, 60 s", constant, Some(3_800.0), 60),
        case("token bucket at 95 %, 60 s", bucket, Some(1_900.0), 60),
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
        lines[1].push(row(of_cells(&all, truth)));
        eprintln!("{} is done", case.name);
    }
    for lines in lines {
        println!("| load | {} |", FIGURES.join(" | "));
        println!("| --- |{}", " ---: |".repeat(FIGURES.len()));
        println!("{}\n", lines.join("\n"));
    }
    Ok(())
}

/// Cells of each size, of all runs: no run is in two of a size.
fn of_cells(runs: &[Figures], truth: [f64; FIGURES.len()]) -> Vec<String> {
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
            count.add(&Seen { figure, interval, independent: None }, truth);
        }
        count
    };
    let cell = |(figure, measure): (usize, Measure)| {
        let counts = REPEATS.map(|repeats| (repeats, of_size(figure, measure, repeats)));
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
    let Case { device, per_s, .. } = *case;
    let per_s = per_s.map(|per_s| (per_s, Arrivals::Poisson));
    Scene { device, writes: false, iodepth: 32, per_s, warmup_ns, seconds }.run(seed)
}

/// The figures of very long runs, in the order of [`FIGURES`].
fn truth(case: &Case) -> Result<[f64; FIGURES.len()], Box<dyn Error>> {
    let mut all = Histogram::new();
    let (mut ops, mut ns) = (0, 0);
    for seed in 1..=TRUTH_RUNS {
        let seconds = TRUTH_LENGTHS * case.seconds;
        let run = simulate(case, 1_000_000 + seed, seconds, case.seconds * 1_000_000_000)?;
        let read = &run.jobs[0].read;
        all.merge(if case.per_s.is_some() { &read.response } else { &read.latency });
        (ops, ns) = (ops + read.ops, ns + run.measured_ns);
    }
    let [p50, p99, p999] = QUANTILES.map(|q| all.quantile(q).unwrap_or(0) as f64);
    Ok([ops as f64 * 1e9 / ns as f64, all.mean().unwrap_or(0.0), p50, p99, p999])
}

/// A figure of a run: which one, its interval, and the interval of independent operations.
struct Seen {
    figure: usize,
    interval: Option<(f64, f64)>,
    independent: Option<(f64, f64)>,
}

fn seen(run: &Run, figures: &Figures) -> Vec<Seen> {
    let total: &DirectionFigures = &figures.all.total;
    let read = &run.jobs[0].read;
    let histogram = if read.response.count() > 0 { &read.response } else { &read.latency };
    let mut all = vec![
        Seen { figure: 0, interval: total.iops_interval.and_then(Result::ok), independent: None },
        Seen { figure: 1, interval: total.latency.mean_interval_ns.ok(), independent: None },
    ];
    for (at, q) in QUANTILES.into_iter().enumerate() {
        let interval = total.latency.quantile(q).and_then(|each| each.interval()?.ok());
        let independent = ranks(histogram.count(), q).and_then(|(low, high)| {
            Some((histogram.rank(low)?.0 as f64, histogram.rank(high)?.1 as f64))
        });
        let interval = interval.map(|(low, high)| (low as f64, high as f64));
        all.push(Seen { figure: 2 + at, interval, independent });
    }
    all
}

/// Runs that gave an interval, and how many held the truth.
#[derive(Clone, Copy, Default)]
struct Count {
    given: u64,
    held: u64,
    /// As if operations were independent.
    independent: Option<u64>,
}

impl Count {
    fn add(&mut self, seen: &Seen, truth: [f64; FIGURES.len()]) {
        let holds = |(low, high): (f64, f64)| (low..=high).contains(&truth[seen.figure]);
        self.given += u64::from(seen.interval.is_some());
        self.held += u64::from(seen.interval.is_some_and(holds));
        if let Some(interval) = seen.independent {
            *self.independent.get_or_insert(0) += u64::from(holds(interval));
        }
    }

    /// `95 %, n/a in 2 % (42 %)`: of the intervals, of the runs, as if independent.
    fn cell(self, runs: u64) -> String {
        let percent = |part: u64, of: u64| format!("{:.0} %", 100.0 * part as f64 / of as f64);
        let was =
            self.independent.map_or(String::new(), |held| format!(" ({})", percent(held, runs)));
        // The share of so few says nothing.
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
