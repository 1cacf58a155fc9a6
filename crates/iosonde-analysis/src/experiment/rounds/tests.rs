//! Rounds that settle, fall, fail, or are of another state.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::super::testing::{at, facts, noise, stage_of};
use super::super::{StageFacts, Standing};
use super::*;
use iosonde_fixtures::Load;
use iosonde_model::record::experiment::Preparation;

const STAGE: &str = "order = \"given\"\nrepeats = 1\n\
    rounds = { max = MAX, track = [{ cell = { read-percent = 0 } }] }\n\
    [[stage.axis]]\nname = \"read-percent\"\nvalues = [100, 0]\n";

/// Rounds whose writes have this rate, and whose reads never settle.
fn rounds(max: u32, iops: impl Fn(u32) -> f64) -> StageFacts {
    let stage = stage_of(&STAGE.replace("MAX", &max.to_string()));
    facts(&stage, |cell, round| {
        let reads = at(cell, "read-percent");
        let wild = if round % 2 == 0 { 50e3 } else { 5e3 };
        let iops = if reads == 0.0 { iops(round) } else { wild };
        Load { read_percent: reads as u8, iops, ..Load::default() }
    })
}

fn of(facts: &StageFacts) -> &Steadiness {
    facts.steadiness.as_ref().unwrap()
}

#[test]
fn the_first_steady_window_gives_the_figures() {
    // The rate falls to 20k within six rounds and stays there.
    let facts = rounds(12, |round| 20e3 * (1.0 + 2.0 / f64::from(1 + round * round)));
    let steadiness = of(&facts);
    assert!(steadiness.is_steady, "{steadiness:?}");
    let start = steadiness.window_start.unwrap();
    let values: Vec<f64> = steadiness.tracked[0].values.iter().map(|v| v.unwrap()).collect();
    let steady =
        |start: usize| Window::of(&values[start..start + 5]).unwrap().is_steady(0.20, 0.10);
    assert_eq!((0..).find(|start| steady(*start)), Some(start as usize));
    assert!(start > 1 && !steady(start as usize - 1));
    // Both points, tracked and untracked, have only the five runs of the window.
    assert_eq!(facts.points[1].runs.len(), 5);
    assert_eq!(facts.points[0].runs.len(), 5);
    let mean = values[start as usize..start as usize + 5].iter().sum::<f64>() / 5.0;
    assert!((facts.points[1].mean(Measure::Iops).unwrap() / mean - 1.0).abs() < 1e-9);
    assert_eq!(facts.of_cell(1).len(), 5);
    assert_eq!(facts.found("steady"), Some(1.0));
    let verdict = format!("steady in rounds {} to {}", start + 1, start + 5);
    assert_eq!(steadiness.verdict(), verdict);
}

/// A fast region is full in the third of five rounds that are held after the window.
#[test]
fn a_steady_state_that_is_left_while_it_is_measured_is_reported() {
    let held = |hold: u32, iops: &dyn Fn(u32) -> f64| {
        let text = STAGE.replace("MAX", "15").replace("track", &format!("hold = {hold}, track"));
        let stage = stage_of(&text);
        facts(&stage, |cell, round| {
            let reads = at(cell, "read-percent") as u8;
            Load { read_percent: reads, iops: iops(round), ..Load::default() }
        })
    };
    let cliff = |round: u32| if round < 7 { 20e3 } else { 5e3 };
    let left = held(5, &cliff);
    let steadiness = of(&left);
    assert_eq!((steadiness.is_steady, steadiness.left_in), (false, Some(7)));
    assert_eq!(steadiness.verdict(), "steady from round 1, lost in round 8");
    assert!(left.answers[0].1.warnings.iter().any(|each| each.code == "steady_state_left"));
    assert!(matches!(left.points[0].standing, Standing::LowConfidence(_)));
    // The same window without a change after it.
    let kept = held(5, &|_| 20e3);
    let steadiness = of(&kept);
    assert_eq!((steadiness.is_steady, steadiness.left_in), (true, None));
    assert_eq!(steadiness.verdict(), "steady in rounds 1 to 10");
    assert_eq!(kept.points[1].runs.len(), 10, "window and held rounds are measured");
    // Without rounds to hold, nothing after the window counts.
    assert!(of(&held(0, &cliff)).is_steady);
}

#[test]
fn a_fall_that_goes_on_is_not_steady_and_its_figures_have_low_confidence() {
    let facts = rounds(8, |round| 50e3 * 0.9f64.powi(round as i32));
    let steadiness = of(&facts);
    assert_eq!(steadiness.verdict(), "not steady after 8 rounds");
    assert_eq!((steadiness.window_start, steadiness.window_rounds), (Some(3), 5));
    assert_eq!(
        facts.points[1].standing,
        Standing::LowConfidence("not steady after 8 rounds".into())
    );
    let answer = &facts.answers[0].1;
    assert!(answer.warnings.iter().any(|warning| warning.code == "not_steady"));
    assert_eq!(answer.tables[0].rows.len(), 8);
}

#[test]
fn rounds_of_another_state_and_rounds_that_are_incomplete_do_not_count() {
    let steady = rounds(9, |_| 20e3);
    assert_eq!(of(&steady).window_start, Some(0));
    let again = |first_round: u32, trials: usize| {
        let mut laid_out = steady.laid_out.clone();
        laid_out.prepared.push(Preparation {
            first_round,
            passes: 2,
            range_bytes: 1 << 30,
            written_bytes: 2 << 30,
            started_unix_ns: 0,
            ended_unix_ns: 1,
            purge: None,
            decision: String::new(),
        });
        let trials = steady.trials[..trials].to_vec();
        StageFacts::of(&steady.stage, laid_out, trials, &[])
    };
    let lost = again(3, 18);
    assert_eq!((of(&lost).window_start, of(&lost).is_steady), (Some(3), true));
    assert!(lost.answers[0].1.warnings.iter().any(|warning| warning.code == "state_lost"));
    // Seven and a half rounds: four of the present state.
    let short = again(3, 15);
    assert_eq!((of(&short).rounds, of(&short).is_steady), (7, false));
    assert_eq!((of(&short).window_start, of(&short).window_rounds), (Some(3), 4));
    let none = again(9, 18);
    assert_eq!((of(&none).window_start, of(&none).is_steady), (None, false));
    assert!(!none.points[1].is_usable());
}

#[test]
fn a_tracked_run_that_failed_is_in_no_steady_window() {
    let good = rounds(9, |_| 20e3);
    let mut trials = good.trials.clone();
    for trial in trials.iter_mut().filter(|trial| trial.cell == 1 && trial.repeat == 2) {
        trial.standing = Standing::Failed("it failed: EIO".into());
    }
    let facts = StageFacts::of(&good.stage, good.laid_out.clone(), trials, &[]);
    assert_eq!(of(&facts).window_start, Some(3), "the first window without round 3");
}

/// Hits and false alarms over 200 seeds: settling rates are found steady, falling ones are not.
#[test]
fn what_settles_is_found_and_what_falls_is_not() {
    let (mut settled, mut fell) = (0, 0);
    for seed in 0..200 {
        let mut noise = noise(seed, 0.02);
        let noises: Vec<f64> = (0..25).map(|_| noise()).collect();
        let judged = |shape: &dyn Fn(u32) -> f64| {
            let values: Vec<f64> = (0..25).map(|r| shape(r) * noises[r as usize]).collect();
            (0..=20)
                .find(|start| Window::of(&values[*start..start + 5]).unwrap().is_steady(0.20, 0.10))
        };
        // A fast cache for four rounds, and the sustained rate after it.
        let cliff = judged(&|round| if round < 4 { 90e3 } else { 20e3 });
        settled += usize::from(cliff == Some(4));
        fell += usize::from(judged(&|round| 90e3 * 0.95f64.powi(round as i32)).is_some());
    }
    assert!(settled >= 196, "{settled} of 200 cliffs");
    assert!(fell <= 10, "{fell} of 200 falls of 5 % per round");
}

/// The same for held rounds: noise alone is no change, but the end of a fast region is.
#[test]
fn held_rounds_find_a_change_and_take_no_noise_for_one() {
    let stage = stage_of(&STAGE.replace("MAX", "25").replace("track", "hold = 5, track"));
    let requested = stage.rounds.unwrap();
    let left = |seed: u64, shape: &dyn Fn(u32) -> f64| {
        let mut noise = noise(seed, 0.05);
        let values = (0..25).map(|round| Some(shape(round) * noise())).collect();
        let (name, measure) = (String::new(), Measure::Iops);
        let tracked = Tracked { cell: 0, name, measure, values, window: None, is_steady: false };
        Steadiness::judged(&requested, 25, 0, vec![tracked]).left_in.is_some()
    };
    let count = |shape: &dyn Fn(u32) -> f64| (0..200).filter(|seed| left(*seed, shape)).count();
    let (steady, cliff) = (count(&|_| 20e3), count(&|round| if round < 8 { 20e3 } else { 5e3 }));
    assert!(steady <= 8, "{steady} of 200 steady figures");
    assert!(cliff >= 190, "{cliff} of 200 cliffs");
}

#[test]
fn a_measure_that_does_not_exist_is_named_with_those_near_it() {
    let text = "name = \"x\"\nquestion = \"?\"\n[[stage]]\nname = \"s\"\n\
                rounds = { track = [{ metric = \"iop\" }] }";
    let experiment: Experiment = toml::from_str(text).unwrap();
    let said = invalid_tracks(&experiment);
    assert!(said[0].contains("did you mean `iops`"), "{said:?}");
}
