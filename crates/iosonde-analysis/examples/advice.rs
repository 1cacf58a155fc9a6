//! Measures how often the advice of a noisy sweep is right, wrong or withheld, in sweeps over the
//! queue depth of devices with a known truth.
//!
//! `cargo run --release -p iosonde-analysis --features testing --example advice -- 240` prints the
//! table of `docs/advice.md` with 240 sweeps per line.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "the table is its output")]

use iosonde_analysis::experiment::StageFacts;
use iosonde_analysis::experiment::testing::{at, facts, noise, stage_of};
use iosonde_fixtures::Load;

/// A device, defined by its rate as a function of depth.
struct Device {
    name: &'static str,
    rate: fn(f64) -> f64,
}

const DEVICES: [Device; 5] = [
    Device { name: "8 servers", rate: |n| 2_000.0 * n.min(8.0) },
    Device { name: "16 dies hit at random", rate: |n| 32_000.0 * n / (n + 15.0) },
    Device {
        name: "falls beyond its peak at 16",
        rate: |n| 2_000.0 * n / (1.0 + 0.03 * (n - 1.0) + 0.0035 * n * (n - 1.0)),
    },
    Device { name: "flat", rate: |_| 4_000.0 },
    Device { name: "still rising", rate: |n| 100.0 * n },
];
const NOISES: [f64; 3] = [0.02, 0.05, 0.15];
const REPEATS: [u32; 2] = [3, 5];
const DEPTHS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
/// A level with this share of the best rate counts as equally good.
const AS_GOOD: f64 = 0.95;
/// A knee is right if its throughput over latency is at least this share of the best.
const NEAR_KNEE: f64 = 0.80;

/// How often a sentence was right, wrong or absent.
#[derive(Clone, Copy, Default)]
struct Count {
    right: u32,
    wrong: u32,
    silent: u32,
}

impl Count {
    fn add(&mut self, is_right: Option<bool>) {
        match is_right {
            Some(true) => self.right += 1,
            Some(false) => self.wrong += 1,
            None => self.silent += 1,
        }
    }

    fn cell(self) -> String {
        let all = f64::from(self.right + self.wrong + self.silent);
        let percent = |count: u32| format!("{:.1} %", 100.0 * f64::from(count) / all);
        format!("{} / {}", percent(self.right), percent(self.wrong))
    }
}

fn quiet(device: &Device, repeats: u32) -> StageFacts {
    let levels = DEPTHS.map(|depth| format!("{depth}")).join(", ");
    let stage = stage_of(&format!(
        "repeats = {repeats}\nset = {{ numjobs = 1 }}\nanalysis = [\"knee\"]\n\
         [[stage.axis]]\nname = \"iodepth\"\nvalues = [{levels}]\n"
    ));
    facts(&stage, |cell, _| {
        let depth = at(cell, "iodepth");
        Load { depth: depth as u32, iops: (device.rate)(depth), noise: 0.0, ..Load::default() }
    })
}

/// The sweep with noise between runs.
fn sweep(quiet: &StageFacts, scatter: f64, seed: u64) -> StageFacts {
    let mut noise = noise(seed, scatter);
    let mut trials = quiet.trials.clone();
    for trial in &mut trials {
        let factor = noise().max(0.05);
        let all = &mut trial.figures.all;
        for of in [&mut all.total, &mut all.read] {
            of.iops *= factor;
            of.bytes_per_s *= factor;
            of.latency.mean_ns = of.latency.mean_ns.map(|ns| ns / factor);
        }
    }
    StageFacts::of(&quiet.stage, quiet.laid_out.clone(), trials, &[])
}

/// Whether each sentence is right; `None` if it is absent.
fn judged(device: &Device, facts: &StageFacts) -> [Option<bool>; 4] {
    let rate = |depth: f64| (device.rate)(depth);
    let most = DEPTHS.map(rate).into_iter().fold(0.0, f64::max);
    let power = |depth: f64| rate(depth).powi(2) / depth;
    let knee = DEPTHS.map(power).into_iter().fold(0.0, f64::max);
    let said = facts.answers[0].1.sentences.join("\n");
    let last = DEPTHS[DEPTHS.len() - 1];
    let saturated = rate(last) / rate(last / 2.0) < 1.05;
    let grows = ["it is not yet saturated", "throughput still grows at"];
    let unsaturated = grows.iter().any(|words| said.contains(words)).then_some(!saturated);
    [
        facts.found("advised").map(|depth| power(depth) >= NEAR_KNEE * knee),
        facts.found("best_at").map(|depth| rate(depth) >= AS_GOOD * most && most > rate(1.0)),
        facts.found("saturation").map(|depth| rate(depth) >= 0.93 * most),
        unsaturated,
    ]
}

fn main() {
    let sweeps: u64 = std::env::args().nth(1).map_or(240, |text| text.parse().unwrap());
    println!(
        "| device | noise | repeats | set the knee | most at | lowest with 95 % | not saturated |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for device in &DEVICES {
        for repeats in REPEATS {
            let quiet = quiet(device, repeats);
            for scatter in NOISES {
                let mut counts = [Count::default(); 4];
                for seed in 1..=sweeps {
                    let facts = sweep(&quiet, scatter, seed);
                    for (count, is_right) in counts.iter_mut().zip(judged(device, &facts)) {
                        count.add(is_right);
                    }
                }
                let cells = counts.map(Count::cell).join(" | ");
                println!("| {} | {} % | {repeats} | {cells} |", device.name, scatter * 100.0);
            }
        }
    }
}
