//! The work of rendering an experiment is linear in its runs, as a counting allocator shows.
//!
//! One test only, because the count covers the whole process.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use iosonde_analysis::experiment::{StageFacts, Study, TrialFigures};
use iosonde_model::record::experiment::{ExperimentRun, StageRun, TrialRun};
use iosonde_report::{experiment_report, html};
use iosonde_sys::counting::CountingAllocator;
use serde::de::DeserializeOwned;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/experiment-1").join(name)
}

fn read<T: DeserializeOwned>(path: &Path) -> T {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Allocations of analysis, report and page for `copies` copies of the stored runs, and the number
/// of runs.
fn allocations(copies: u32) -> (u64, usize) {
    let mut run: ExperimentRun = read(&fixture("experiment.json"));
    let laid_out: StageRun = read(&fixture("stage-depth.json"));
    let mut paths: Vec<PathBuf> =
        fs::read_dir(fixture("trials")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let kept: Vec<TrialRun> = paths.iter().map(|path| read(path)).collect();
    let repeats = kept.iter().map(|trial| trial.repeat).max().unwrap() + 1;
    run.experiment.stages[0].repeats = repeats * copies;
    let all: Vec<TrialRun> = (0..copies)
        .flat_map(|copy| kept.iter().map(move |trial| (copy, trial)))
        .enumerate()
        .map(|(position, (copy, trial))| TrialRun {
            repeat: copy * repeats + trial.repeat,
            position: position as u32,
            ..trial.clone()
        })
        .collect();
    let before = CountingAllocator::allocations();
    let figures = all.iter().map(|trial| TrialFigures::of(trial, "trial.json", None)).collect();
    let stage = run.experiment.stages[0].clone();
    let stages = vec![StageFacts::of(&stage, laid_out, figures, &[])];
    let mut study = Study { run, host: None, target: None, stages, conclusions: Vec::new() };
    study.conclude();
    let page = html(&experiment_report::experiment_report(&study, &[], true, 0)).unwrap();
    assert!(page.contains("</html>"));
    (CountingAllocator::allocations() - before, all.len())
}

#[test]
fn twice_the_runs_are_twice_the_work() {
    // Allocations that occur once per process.
    allocations(1);
    let [(few, runs), (more, _), (most, all)] = [5, 10, 20].map(allocations);
    assert!(runs >= 60 && all >= 200, "{runs} and {all} runs");
    assert!(few > 1_000 && more > few, "the counter counts");
    // The second step adds twice the runs of the first; quadratic work would be four times as much.
    let ratio = (most - more) as f64 / (more - few) as f64;
    assert!(ratio < 2.6, "{few}, {more} and {most} allocations for {runs} to {all} runs: {ratio}");
}
