//! How often is the verdict on rounds right? The true loop over rounds, on simulated drives in
//! virtual time.
//!
//! `cargo run --release --example steady_state -- 200` prints the table of `docs/steady-state.md`,
//! of so many seeds per line; a further word chooses lines by their name.
#![allow(clippy::print_stdout, reason = "the table is its output")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use iosonde::schedule::RunContext;
use iosonde::schedule::experiment::{StageJob, execute_stage};
use iosonde_analysis::experiment::{Measure, Steadiness, TrialFigures};
use iosonde_engine::backend::sim::Model;
use iosonde_engine::engine::{Control, Medium};
use iosonde_engine::host::Root;
use iosonde_model::plan::design::{self, Found};
use iosonde_model::plan::{Engine, EngineKind, OnError, Setting, Stop, Target};
use iosonde_model::record::experiment::{STAGE_SCHEMA, StageRun};
use iosonde_model::spec::experiment::Stage;
use iosonde_model::spec::{Direction, Experiment};
use iosonde_sys::Clock;

/// Runs whose last ones give the true rate of a drive.
const LONG: u32 = 120;
/// Runs at the end of these that are averaged.
const LAST: usize = 20;
/// A window is of the true state if its mean is this near to the true rate.
const NEAR: f64 = 0.10;

/// Drift per round that the rule itself allows.
const ALLOWED_DRIFT: f64 = 0.025;

/// The verdict that is right.
#[derive(Clone, Copy, PartialEq)]
enum Truth {
    /// Steady, at the rate at which the drive ends.
    Steady,
    /// Not steady in any of the rounds.
    Never,
    /// Steady at first, and left in the held rounds.
    Left,
}

/// A line of the table.
struct Case {
    name: &'static str,
    device: &'static str,
    /// Noise from round to round, percent.
    noise: u32,
    /// Length of a round, seconds.
    seconds: f64,
    /// Preconditioning, as in a file; empty for none.
    precondition: &'static str,
    /// Rounds held after the window.
    hold: u32,
    truth: Truth,
}

const PLAIN: &str = "servers=8,write=exp:1ms,size=64M";
const FALLS_2: &str = "servers=8,write=exp:1ms,size=64M,run-drift=2";
const FALLS_3: &str = "servers=8,write=exp:1ms,size=64M,run-drift=3";
const FALLS_5: &str = "servers=8,write=exp:1ms,size=64M,run-drift=5";
const FALLS_10: &str = "servers=8,write=exp:1ms,size=64M,run-drift=10";
/// Its garbage collection is in balance after a few fills of the drive.
const FLASH: &str = "servers=32,read=20us,write=5us,size=64M,flash=8,flash-block=256k,program=20us";
/// Four times as fast until the fast region is full, in the fourth or in the eighth round.
const CLIFF_4: &str =
    "servers=32,write=5us,size=256M,flash=28,program=100us,slc=27M,slc-program=25us";
const CLIFF_8: &str =
    "servers=32,write=5us,size=256M,flash=28,program=100us,slc=58M,slc-program=25us";
const FILLED: &str = "precondition = { passes = 2, block-size = \"128k\", iodepth = 32 }\n";

fn cases() -> Vec<Case> {
    let case = |name, device, noise, truth| Case {
        name,
        device,
        noise,
        seconds: 0.3,
        precondition: "",
        hold: 0,
        truth,
    };
    let filled = |case: Case| Case { precondition: FILLED, seconds: 0.25, ..case };
    let cliff = |case: Case| Case { seconds: 0.05, ..case };
    let held = |case: Case| Case { hold: 5, ..case };
    let (steady, never, left) = (Truth::Steady, Truth::Never, Truth::Left);
    vec![
        case("one rate", PLAIN, 0, steady),
        case("one rate, noise of 2 %", PLAIN, 2, steady),
        case("one rate, noise of 5 %", PLAIN, 5, steady),
        case("one rate, noise of 10 %", PLAIN, 10, steady),
        filled(case("garbage collection begins, filled drive", FLASH, 0, steady)),
        filled(case("the same, noise of 3 %", FLASH, 3, steady)),
        cliff(case("fast region full in round 4", CLIFF_4, 0, steady)),
        cliff(case("the same, noise of 3 %", CLIFF_4, 3, steady)),
        case("falls 10 % a round, noise of 2 %", FALLS_10, 2, never),
        case("falls 5 % a round, noise of 2 %", FALLS_5, 2, never),
        case("falls 3 % a round, noise of 2 %", FALLS_3, 2, never),
        case("falls 2 % a round, noise of 2 %", FALLS_2, 2, never),
        case("noise of 40 %", PLAIN, 40, never),
        Case { seconds: 0.25, ..case("garbage collection begins, new drive", FLASH, 0, steady) },
        held(case("held: one rate, noise of 2 %", PLAIN, 2, steady)),
        held(case("held: one rate, noise of 5 %", PLAIN, 5, steady)),
        held(case("held: one rate, noise of 10 %", PLAIN, 10, steady)),
        held(cliff(case("held: fast region full in round 8", CLIFF_8, 0, left))),
        held(cliff(case("held: the same, noise of 5 %", CLIFF_8, 5, left))),
        held(Case {
            seconds: 0.25,
            ..case("held: garbage collection begins, new drive", FLASH, 0, left)
        }),
        held(case("held: falls 3 % a round, noise of 2 %", FALLS_3, 2, left)),
    ]
}

impl Case {
    /// A stage of random writes in rounds, or in so many runs.
    fn stage(&self, runs: Option<u32>) -> Result<Stage, Box<dyn Error>> {
        let rounds = format!("rounds = {{ max = 25, hold = {}, track = [{{}}] }}", self.hold);
        let (repeats, rounds) = runs.map_or((1, rounds), |runs| (runs, String::new()));
        let text = format!(
            "name = \"x\"\nquestion = \"?\"\n[[stage]]\nname = \"s\"\norder = \"given\"\n\
             repeats = {repeats}\nseconds = {}\nwarm-up-percent = 0\nset = {{ rw = \"randwrite\", \
             block-size = \"4k\", iodepth = 8 }}\n{}{rounds}\n",
            self.seconds, self.precondition,
        );
        let mut experiment: Experiment = toml::from_str(&text)?;
        Ok(experiment.stages.remove(0))
    }

    /// The rounds of a drive that is new.
    fn rounds(&self, seed: u64) -> Result<Steadiness, Box<dyn Error>> {
        let stage = self.stage(None)?;
        let (laid_out, trials) = self.carried_out(&stage, self.noise, seed)?;
        Steadiness::of(&stage, &laid_out, &trials).ok_or_else(|| "no rounds".into())
    }

    /// The rate at which the drive ends, of many runs without noise.
    fn true_rate(&self) -> Result<f64, Box<dyn Error>> {
        let (_, trials) = self.carried_out(&self.stage(Some(LONG))?, 0, 0)?;
        let rate = |trial: &TrialFigures| Measure::Iops.of(&trial.figures, Direction::Total);
        let last: Vec<f64> = trials.iter().rev().take(LAST).filter_map(rate).collect();
        Ok(last.iter().sum::<f64>() / last.len() as f64)
    }

    /// The runs of a stage on a drive that is new.
    fn carried_out(
        &self,
        stage: &Stage,
        noise: u32,
        seed: u64,
    ) -> Result<(StageRun, Vec<TrialFigures>), Box<dyn Error>> {
        let device = format!("{},run-noise={noise}", self.device);
        let model = Model::parse(&device)?;
        let bytes = model.bytes;
        let target = Target { path: "sim".into(), bytes, direct: false, align_bytes: 1 };
        let setting = Setting {
            engine: Engine::of(EngineKind::Sim),
            targets: vec![target],
            offset_bytes: 0,
            cpus: 2,
            iodepth: 1,
            seed,
            warmup_ns: 0,
            stop: Stop::AfterNs(1),
            on_error: OnError::Stop,
            final_sync: false,
            buffer_limit_bytes: 1 << 30,
        };
        let context = RunContext {
            root: Root::at("/nonexistent"),
            clock: Clock::monotonic(),
            held: None,
            medium: Medium::Sim(model),
            control: Arc::new(Control::default()),
            keeps_cache: false,
            last_end: Arc::default(),
            peers: None,
        };
        let laid_out = StageRun {
            schema: STAGE_SCHEMA.into(),
            stage: stage.name.clone(),
            cells: design::cells(stage, &Found::new(), None)?,
            order_seed: seed,
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
        let (written_bytes, is_lost) = (AtomicU64::new(0), AtomicBool::new(false));
        let job = StageJob {
            experiment: "x",
            stage,
            laid_out: &laid_out,
            shared: &design::shared(stage)?,
            setting: &setting,
            layout: None,
            seed,
            host: None,
            reads_only: None,
            write_limit_bytes: None,
            drive_written_before: None,
            max_temperature_c: None,
            written_bytes: &written_bytes,
            keeps_state: false,
            left: None,
            may_repeat: false,
            is_lost: &is_lost,
        };
        let mut trials: Vec<TrialFigures> = Vec::new();
        let end = execute_stage(&job, &context, &mut trials, &mut |_| {})?;
        let laid_out = StageRun { prepared: end.run.prepared, ..laid_out.clone() };
        Ok((laid_out, trials))
    }
}

/// Whether the report says that a drift above what the rule allows is not excluded.
fn is_warned(rounds: &Steadiness) -> bool {
    let drift = rounds.tracked[0].window.and_then(|window| window.drift());
    drift.is_some_and(|(low, high)| low.abs().max(high.abs()) > ALLOWED_DRIFT)
}

/// The verdict in a few words.
fn verdict(rounds: &Steadiness, true_rate: f64) -> &'static str {
    let near = |mean: f64| (mean / true_rate - 1.0).abs() <= NEAR;
    match (rounds.is_steady, rounds.left_in, rounds.tracked[0].window) {
        (_, Some(_), _) => "left",
        (true, _, Some(window)) if near(window.mean) => "steady",
        (true, _, _) => "steady at another rate",
        _ => "not steady",
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let seeds: u64 = std::env::args().nth(1).map_or(Ok(200), |text| text.parse())?;
    let only = std::env::args().nth(2).unwrap_or_default();
    println!("| drive | right | so judged | otherwise | drift in doubt | rounds |");
    println!("| --- | --- | ---: | --- | ---: | ---: |");
    for case in cases().into_iter().filter(|case| case.name.contains(&only)) {
        let true_rate = case.true_rate()?;
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        let (mut all_rounds, mut warned) = (0, 0);
        for seed in 1..=seeds {
            let rounds = case.rounds(seed)?;
            all_rounds += u64::from(rounds.rounds);
            warned += u64::from(rounds.is_steady && is_warned(&rounds));
            *counts.entry(verdict(&rounds, true_rate)).or_default() += 1;
        }
        let right = match case.truth {
            Truth::Steady => "steady",
            Truth::Never => "not steady",
            Truth::Left => "left",
        };
        let percent = |count: u64| format!("{:.1} %", 100.0 * count as f64 / seeds as f64);
        let hits = counts.remove(right).unwrap_or(0);
        let others: Vec<String> =
            counts.iter().map(|(word, count)| format!("{word} {}", percent(*count))).collect();
        println!(
            "| {} | {right} | {} | {} | {} | {:.1} |",
            case.name,
            percent(hits),
            others.join(", "),
            percent(warned),
            all_rounds as f64 / seeds as f64,
        );
    }
    Ok(())
}
