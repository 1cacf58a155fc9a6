//! How long does a load take to recover its rate after another load?
//!
//! The recovery of the SNIA PTS cross stimulus test: the time until the rate is within 10 % of the
//! level of the first stage with the same load. That level is the median over the last half of its
//! run, when a burst at its beginning is over.

use super::words::nothing;
use super::{Answer, Measure, StageFacts, TrialFigures};
use iosonde_model::units::{bytes, duration};
use iosonde_stats::ratio::median;

/// Share of the level at or above which the rate has recovered.
const BACK_FROM: f64 = 0.90;
/// Reciprocal of the share of the run over which the median must stay recovered: one fast interval
/// is no recovery.
const STAYS_FOR: usize = 20;
/// Minimum number of intervals of a run that can show a recovery.
const FEWEST: usize = 20;

/// Compares a stage with the first one of the same load.
pub(super) fn analyse(facts: &StageFacts, before: &[StageFacts]) -> Answer {
    let same = before.iter().position(|stage| stage.stage.set == facts.stage.set);
    let Some(first) = same else {
        return nothing("No earlier stage has the same load, so there is nothing to return to.");
    };
    let (Some(reference), Some(own)) = (rates(&before[first]), rates(facts)) else {
        return nothing("A run cannot be used or is too short, so the recovery is not known.");
    };
    let (Some(level), Some(left)) = (level(&reference.1), level(&own.1)) else {
        return nothing("Nothing was transferred, so the recovery is not known.");
    };
    let mut answer = Answer::default();
    let back = returned(&own.1, BACK_FROM * level).map(|index| index as f64 * own.0);
    answer.find("level-bytes-per-s", level);
    answer.find("last-bytes-per-s", left);
    let of_level = bytes::per_second(level);
    match back {
        Some(after_s) => {
            answer.find("returned-after-s", after_s);
            let after = match after_s {
                0.0 => "from the beginning".to_owned(),
                after_s => format!("after {}", duration::latency(after_s * 1e9)),
            };
            answer.say(format!("It recovers to 90 % of {of_level}, its rate before, {after}."));
        }
        None => answer.say(format!(
            "It did not return to 90 % of {of_level}, its rate before, within {}: its last half \
             does {}.",
            duration::latency(own.1.len() as f64 * own.0 * 1e9),
            bytes::per_second(left)
        )),
    }
    let row = |stage: &StageFacts, back: String| {
        let [mean, max] = [Measure::Mean, Measure::Max].map(|measure| {
            let value = stage.points.first().and_then(|point| point.mean(measure));
            value.map_or("n/a".into(), |value| measure.formatted(value))
        });
        let own = rates(stage).and_then(|(_, rates)| self::level(&rates));
        let rate = own.map_or("n/a".into(), bytes::per_second);
        vec![stage.stage.heading().to_owned(), rate, mean, max, back]
    };
    let back = back.map_or("not within the run".into(), |after_s| duration::latency(after_s * 1e9));
    let between = before[first..].iter().map(|stage| row(stage, "-".into()));
    let caption = "Rate over the last half of each stage, response times, and the time until 90 % \
                   of the first rate is back";
    let columns = ["stage", "rate", "mean", "maximum", "back after"];
    answer.table(caption, &columns, between.chain([row(facts, back)]).collect());
    answer
}

/// Length of an interval in seconds, and the rates of the first usable run.
fn rates(facts: &StageFacts) -> Option<(f64, Vec<f64>)> {
    let usable: &TrialFigures = facts.trials.iter().find(|trial| trial.is_usable())?;
    let rates = usable.series.bytes_per_s();
    (rates.len() >= FEWEST).then(|| (usable.series.width_ns as f64 / 1e9, rates))
}

/// The median over the last half.
fn level(rates: &[f64]) -> Option<f64> {
    median(&rates[rates.len() / 2..]).filter(|level| *level > 0.0)
}

/// The first interval from which the rate has recovered and stays so.
fn returned(rates: &[f64], from: f64) -> Option<usize> {
    let stays = (rates.len() / STAYS_FOR).max(3);
    let mut windows = rates.windows(stays).enumerate();
    let back = windows.find(|(_, window)| {
        window[0] >= from && median(window).is_some_and(|median| median >= from)
    });
    back.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{of_runs, stage};
    use super::*;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::plan::design::Found;

    /// The three groups of the cross stimulus test; the rate of the last has this shape.
    fn groups(last: fn(f64) -> f64, seed: u64) -> StageFacts {
        let mut before: Vec<StageFacts> = Vec::new();
        let shapes: [fn(f64) -> f64; 3] =
            [|time| if time < 0.3 { 4.0 } else { 1.0 }, |_| 0.2, last];
        for (number, shape) in shapes.into_iter().enumerate() {
            let own = stage("pts-cross-stimulus", &format!("group-{}", number + 1));
            let load = Load {
                read_percent: 0,
                block_bytes: 1 << 20,
                iops: 300.0,
                shape,
                noise: 0.1,
                seed: seed * 3 + number as u64,
                ..Load::default()
            };
            let done = of_runs(&own, &Found::new(), &before, |_, _| run_of(&[load]));
            before.push(done);
        }
        before.pop().unwrap()
    }

    /// Length of the last run, seconds.
    fn length_s(facts: &StageFacts) -> f64 {
        let (width_s, rates) = rates(facts).unwrap();
        width_s * rates.len() as f64
    }

    #[test]
    fn the_time_of_recovery_is_found_with_noise() {
        for seed in 0..50 {
            let facts = groups(|time| if time < 0.4 { 0.5 } else { 1.0 }, seed);
            let after_s = facts.found("returned-after-s").unwrap();
            let expected_s = 0.4 * length_s(&facts);
            assert!((after_s / expected_s - 1.0).abs() < 0.05, "{seed}: {after_s}, {expected_s}");
            assert!(
                (facts.found("level-bytes-per-s").unwrap() / (300.0 * 1048576.0) - 1.0).abs()
                    < 0.05
            );
        }
    }

    #[test]
    fn who_never_left_is_back_at_once_and_who_stays_low_is_not_back() {
        for seed in 0..50 {
            let at_once = groups(|_| 1.0, seed);
            assert!(at_once.found("returned-after-s").unwrap() < 0.03 * length_s(&at_once));
            // A few fast intervals are no recovery.
            let low = groups(|time| if (0.50..0.51).contains(&time) { 2.0 } else { 0.7 }, seed);
            assert_eq!(low.found("returned-after-s"), None, "{seed}");
            let answer = &low.answers.iter().find(|(name, _)| name == "recovery").unwrap().1;
            assert!(answer.sentences[0].contains("did not return to 90 %"));
            assert_eq!(answer.tables[0].rows.len(), 3);
            assert_eq!(answer.tables[0].rows[2][4], "not within the run");
        }
    }

    #[test]
    fn without_an_earlier_stage_of_the_same_load_nothing_is_compared() {
        let own = stage("pts-cross-stimulus", "group-3");
        let facts = of_runs(&own, &Found::new(), &[], |_, _| run_of(&[Load::default()]));
        assert_eq!(facts.found("level-bytes-per-s"), None);
    }
}
