//! For tests: stages with known figures, built by the same functions as measured ones.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use iosonde_analysis::experiment::{Answer, StageFacts, Standing, TrialFigures};
use iosonde_fixtures::{Load, run_of};
use iosonde_model::plan::design::{self, Cell, Found};
use iosonde_model::record::experiment::{StageRun, TrialRun};
use iosonde_model::spec::Experiment;
use iosonde_stats::Histogram;

/// An experiment with one stage, given as text.
pub(super) fn experiment(stage: &str) -> Experiment {
    toml::from_str(&format!("name = \"x\"\nquestion = \"?\"\n[[stage]]\nseconds = 10.0\n{stage}"))
        .unwrap()
}

/// A stage whose runs have the figures of `load`; cells without a load were not run.
pub(super) fn stage(text: &str, load: impl Fn(&Cell, u32) -> Option<Load>) -> StageFacts {
    let stage = experiment(text).stages.remove(0);
    let cells = design::cells(&stage, &Found::new(), None).unwrap();
    let mut trials = Vec::new();
    for repeat in 0..stage.most_repeats() {
        for cell in &cells {
            let Some(load) = load(cell, repeat) else { continue };
            trials.push(trial(cell, repeat, trials.len() as u32, load));
        }
    }
    let laid_out = StageRun {
        schema: String::new(),
        stage: stage.name.clone(),
        cells,
        order_seed: 1,
        found: Found::new(),
        left_out: Vec::new(),
        skipped: String::new(),
        ended_early: String::new(),
        prepared: Vec::new(),
        purges: Vec::new(),
        write_cache: None,
        waits: 0,
        waited_ms: 0,
    };
    StageFacts::of(&stage, laid_out, trials, &[])
}

fn trial(cell: &Cell, repeat: u32, position: u32, load: Load) -> TrialFigures {
    let seed = u64::from(repeat) * 1_000 + cell.index as u64 + 1;
    // Runs differ by more than the noise within a run.
    let factor = 1.0 + 0.03 * lot(seed);
    let load = Load { seed, iops: load.iops * factor, ..load };
    let run = TrialRun {
        schema: String::new(),
        experiment: "x".into(),
        stage: "s".into(),
        cell: cell.index,
        levels: cell.levels.clone(),
        repeat,
        position,
        cache: String::new(),
        run: run_of(&[load]),
    };
    let figures = TrialFigures::of(&run, "file.json", None);
    let latency = tailed(&figures.latency, seed);
    TrialFigures { standing: Standing::Good, latency, ..figures }
}

/// Adds a tail: every fiftieth request is slower, following a power law.
fn tailed(latency: &Histogram, seed: u64) -> Histogram {
    let mut tailed = latency.clone();
    let slow = latency.count() / 50;
    let mean = latency.mean().unwrap_or(1.0);
    for index in 0..slow {
        let share = (index as f64 + 0.5) / slow as f64;
        let factor = share.powf(-0.5) * (1.0 + 0.2 * lot(seed + index));
        tailed.record((mean * 1.5 * factor) as u64);
    }
    tailed
}

/// A reproducible pseudo-random number in `-1..1`.
fn lot(seed: u64) -> f64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as f64 / u64::MAX as f64 * 2.0 - 1.0
}

/// Adds results as if an analysis had found them.
pub(super) fn found(facts: &mut StageFacts, figures: &[(&str, f64)]) {
    let found = figures.iter().map(|(name, value)| ((*name).to_owned(), *value));
    let found: BTreeMap<String, f64> = found.collect();
    facts.answers.push(("invented".into(), Answer { found, ..Answer::default() }));
}

/// The same stage with the standing of one cell replaced.
pub(super) fn spoilt(facts: StageFacts, cell: usize, standing: &Standing) -> StageFacts {
    let mut trials = facts.trials;
    for trial in trials.iter_mut().filter(|trial| trial.cell == cell) {
        trial.standing = standing.clone();
    }
    let answers = facts.answers;
    let spoilt = StageFacts::of(&facts.stage, facts.laid_out, trials, &[]);
    StageFacts { answers, ..spoilt }
}

/// Operations per second of a device that saturates at 95,000.
pub(super) fn iops(depth: f64) -> f64 {
    let linear = depth * 1e9 / 82e3;
    1.0 / ((1.0 / linear).powi(4) + (1.0 / 95e3_f64).powi(4)).powf(0.25)
}

/// A sweep of depths with a low-confidence level, a failed level, a level that was not reached, and
/// a knee.
pub(super) fn depths(figures: &str) -> StageFacts {
    let text = format!(
        "name = \"queue-depth\"\ntitle = \"Queue depth\"\nrepeats = 3\n[[stage.axis]]\n\
         name = \"iodepth\"\npowers-of-two = {{ from = 1, to = 256 }}\n{figures}"
    );
    let facts = stage(&text, |cell, _| {
        let depth = cell.levels[0].value.unwrap();
        let load = Load { depth: depth as u32, iops: iops(depth), ..Load::default() };
        (depth < 256.0).then_some(load)
    });
    let facts = spoilt(facts, 2, &Standing::LowConfidence("hot device".into()));
    let mut facts = spoilt(facts, 6, &Standing::Failed("it failed: EIO".into()));
    facts.laid_out.left_out.push((8, "two levels in a row were worse".into()));
    found(&mut facts, &[("knee", 8.0), ("knee_low", 6.0), ("knee_high", 13.0)]);
    facts
}

/// Sequential and random reads over block size.
pub(super) fn sizes(figures: &str) -> StageFacts {
    let text = format!(
        "name = \"block-size\"\ntitle = \"Block size and pattern\"\nrepeats = 5\n\
         [[stage.axis]]\nname = \"block-size\"\npowers-of-two = {{ from = \"4k\", to = \"1m\" }}\n\
         [[stage.axis]]\nname = \"pattern\"\ncases = [{{ name = \"sequential read\", rw = \"read\" \
         }}, {{ name = \"random read\", rw = \"randread\" }}]\n{figures}"
    );
    let mut facts = stage(&text, |cell, _| {
        let block = cell.levels[0].value.unwrap();
        let fixed_ns = if cell.levels[1].label == "random read" { 100e3 } else { 40e3 };
        let iops = 8e9 / (fixed_ns + block * 2.0) / 4.0;
        Some(Load { depth: 8, block_bytes: block as u64, iops, ..Load::default() })
    });
    found(
        &mut facts,
        &[
            ("crossover-sequential-read", 20_000.0),
            ("crossover-sequential-read_low", 17_000.0),
            ("crossover-sequential-read_high", 24_000.0),
            ("crossover-random-read", 50_000.0),
        ],
    );
    facts
}

/// Mixtures from writes only to reads only.
pub(super) fn mixture(figures: &str) -> StageFacts {
    let text = format!(
        "name = \"read-write-mix\"\ntitle = \"Read/write mix\"\nrepeats = 3\n[[stage.axis]]\n\
         name = \"read-percent\"\nvalues = [100, 70, 50, 25, 0]\n{figures}"
    );
    stage(&text, |cell, _| {
        let reads = cell.levels[0].value.unwrap();
        let iops = 20e3 + 300.0 * reads + if reads == 100.0 { 20e3 } else { 0.0 };
        Some(Load { depth: 8, read_percent: reads as u8, iops, ..Load::default() })
    })
}

/// Every combination of depth and block size; one failed and one was not run.
pub(super) fn surface(figures: &str) -> StageFacts {
    let text = format!(
        "name = \"surface\"\ntitle = \"Depth and block size\"\nrepeats = 3\n[[stage.axis]]\n\
         name = \"iodepth\"\npowers-of-two = {{ from = 1, to = 64 }}\n[[stage.axis]]\n\
         name = \"block-size\"\nvalues = [\"4k\", \"16k\", \"64k\", \"256k\", \"1m\"]\n{figures}"
    );
    let facts = stage(&text, |cell, _| {
        let (depth, block) = (cell.levels[0].value.unwrap(), cell.levels[1].value.unwrap());
        let iops = iops(depth).min(3e9 / block);
        let load = Load { depth: depth as u32, block_bytes: block as u64, iops, ..Load::default() };
        (cell.index != 34).then_some(load)
    });
    spoilt(facts, 33, &Standing::Failed("it failed: ENOSPC".into()))
}

/// Two loads over time, one of which has a sudden drop.
pub(super) fn cliff(figures: &str) -> StageFacts {
    let text = format!(
        "name = \"cache-size\"\ntitle = \"Size of the write cache\"\nrepeats = 2\n\
         analysis = [\"cliff\"]\n\
         [[stage.axis]]\nname = \"load\"\ncases = [{{ name = \"1 MiB sequential write\", rw = \
         \"write\" }}, {{ name = \"4 KiB random write\", rw = \"randwrite\" }}]\n{figures}"
    );
    stage(&text, |cell, _| {
        let falls = |time: f64| if time < 0.4 { 1.0 } else { 0.3 };
        let shape: fn(f64) -> f64 = if cell.index == 0 { falls } else { |_| 1.0 };
        let (block_bytes, iops) = if cell.index == 0 { (1 << 20, 2_000.0) } else { (4096, 30e3) };
        Some(Load { read_percent: 0, block_bytes, iops, shape, noise: 0.05, ..Load::default() })
    })
}

/// Four loads with one request at a time.
pub(super) fn qd1_baseline(figures: &str) -> StageFacts {
    let text = format!(
        "name = \"zero-queue\"\ntitle = \"One request at a time\"\nrepeats = 3\n[[stage.axis]]\n\
         name = \"access\"\ncases = [{{ name = \"4 KiB random read\", rw = \"randread\" }}, \
         {{ name = \"4 KiB random write\", rw = \"randwrite\" }}, {{ name = \"128 KiB sequential \
         read\", rw = \"read\" }}, {{ name = \"128 KiB sequential write\", rw = \"write\" }}]\n\
         {figures}"
    );
    let facts = stage(&text, |cell, _| {
        let latency_ns = [90e3, 30e3, 160e3, 240e3][cell.index];
        let block_bytes = if cell.index < 2 { 4096 } else { 131_072 };
        let read_percent = if cell.index % 2 == 0 { 100 } else { 0 };
        let iops = 1e9 / latency_ns;
        Some(Load { depth: 1, read_percent, block_bytes, iops, ..Load::default() })
    });
    spoilt(facts, 1, &Standing::LowConfidence("physics".into()))
}

/// Random writes that become steady within some rounds, and reads that are steady at once.
pub(super) fn settling(figures: &str) -> StageFacts {
    let text = format!(
        "name = \"iops\"\ntitle = \"IOPS\"\norder = \"given\"\nrepeats = 1\n\
         rounds = {{ max = 12, track = [{{ cell = {{ read-percent = 0 }} }}, \
         {{ metric = \"mean\", cell = {{ read-percent = 100 }} }}] }}\n\
         [[stage.axis]]\nname = \"read-percent\"\nvalues = [100, 0]\n{figures}"
    );
    stage(&text, |cell, round| {
        let reads = cell.levels[0].value.unwrap();
        let settled = 20e3 * (1.0 + 3.0 / f64::from(1 + round * round));
        let iops = if reads == 0.0 { settled } else { 60e3 };
        (round < 8).then(|| Load { depth: 8, read_percent: reads as u8, iops, ..Load::default() })
    })
}
