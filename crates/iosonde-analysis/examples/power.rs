//! Measures how often a comparison finds a difference of known size, in runs with normal noise. The
//! engine's example `verdicts` shows whether advice to make more runs leads to a verdict.
//!
//! `cargo run --release -p iosonde-analysis --example power -- 300` prints two tables with 300
//! comparisons per line. A second number selects lines by their noise in percent.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "the table is its output")]

use iosonde_analysis::comparison::contrast::{FEWEST_ROUNDS, TOLERANCE};
use iosonde_analysis::comparison::{Better, Contrast, Verdict};
use iosonde_stats::chance::Chance;

/// Share by which B is slower.
const SLOWER: [f64; 5] = [0.0, 0.03, 0.05, 0.08, 0.15];
const RUNS: [usize; 3] = [5, 10, 20];
/// Relative noise between runs.
const NOISES: [f64; 2] = [0.02, 0.05];

/// The two sides of a comparison, and their noise.
struct Pair {
    level: f64,
    noise: f64,
    in_rounds: bool,
    seed: u64,
    draws: Chance,
    sides: [Vec<f64>; 2],
}

impl Pair {
    fn new(level: f64, noise: f64, in_rounds: bool, seed: u64) -> Pair {
        let draws = Chance::new(seed ^ level.to_bits() ^ noise.to_bits().rotate_left(17));
        Pair { level, noise, in_rounds, seed, draws, sides: [Vec::new(), Vec::new()] }
    }

    /// Adds runs to both sides.
    fn measure(&mut self, runs: usize) {
        for _ in 0..runs {
            for (side, level) in [100.0, 100.0 * self.level].into_iter().enumerate() {
                let value = level * (1.0 + self.noise * self.draws.normal());
                self.sides[side].push(value.max(1.0));
            }
        }
    }

    fn verdict(&self) -> Verdict {
        let [a, b] = &self.sides;
        let of = if self.in_rounds { Contrast::of_rounds } else { Contrast::of_sides };
        let contrast = of(a, b, self.seed).unwrap();
        contrast.verdict(Better::Higher, contrast.p, TOLERANCE, 1)
    }
}

/// Verdicts of many comparisons.
#[derive(Default)]
struct Count {
    slower: u32,
    faster: u32,
    below: u32,
    same: u32,
    inconclusive: u32,
}

impl Count {
    fn add(&mut self, verdict: Verdict) {
        *match verdict {
            Verdict::Slower => &mut self.slower,
            Verdict::Faster => &mut self.faster,
            Verdict::BelowTolerance { .. } => &mut self.below,
            Verdict::Same { .. } => &mut self.same,
            Verdict::Inconclusive { .. } | Verdict::TooFew => &mut self.inconclusive,
        } += 1;
    }

    fn row(&self) -> String {
        let all = self.slower + self.faster + self.below + self.same + self.inconclusive;
        let verdicts = [self.slower, self.faster, self.below, self.same, self.inconclusive];
        let percent = |count| format!("{:.1} %", 100.0 * f64::from(count) / f64::from(all));
        format!("{} |", verdicts.map(percent).join(" | "))
    }
}

fn main() {
    let pairs: u64 = std::env::args().nth(1).map_or(300, |text| text.parse().unwrap());
    let only: Option<f64> = std::env::args().nth(2).map(|text| text.parse().unwrap());
    let is_chosen = |noise: &f64| only.is_none_or(|only| (noise * 100.0 - only).abs() < 1e-9);
    for in_rounds in [false, true] {
        println!("{}:\n", if in_rounds { "Compared within rounds" } else { "Two sets of runs" });
        println!(
            "| B slower by | noise | runs | slower | faster | below tolerance | same | \
             inconclusive |"
        );
        println!("| ---: | ---: |{}", " ---: |".repeat(6));
        for slower in SLOWER {
            for noise in NOISES.into_iter().filter(is_chosen) {
                for runs in RUNS {
                    let runs = if in_rounds { runs.max(FEWEST_ROUNDS) } else { runs };
                    let mut count = Count::default();
                    for seed in 1..=pairs {
                        let mut pair = Pair::new(1.0 - slower, noise, in_rounds, seed);
                        pair.measure(runs);
                        count.add(pair.verdict());
                    }
                    let (slower, noise) = (slower * 100.0, noise * 100.0);
                    println!("| {slower:.0} % | {noise:.0} % | {runs} | {}", count.row());
                }
            }
        }
        println!();
    }
}
