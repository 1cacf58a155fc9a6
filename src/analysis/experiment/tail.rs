//! How long do the slowest requests take, and which percentiles have the right to exist?

use super::words::nothing;
use super::{Answer, Measure, Point, StageFacts};
use crate::analysis::figures::reason;
use crate::spec::Direction;
use crate::stats::{Histogram, Quantile};
use crate::units::{count, duration};

/// What is told of each level.
const TAIL: [f64; 5] = [0.5, 0.95, 0.99, 0.999, 0.9999];

/// A level with the latencies of all its runs in one histogram.
struct Level<'a> {
    point: &'a Point,
    label: String,
    at: f64,
    merged: Histogram,
}

/// Mean and percentiles by level, and how they grow.
pub(super) fn analyse(facts: &StageFacts, before: &[StageFacts]) -> Answer {
    let Some(axis) = facts.stage.axes.first() else {
        return nothing("Nothing is varied, so there is no growth of the tail to tell.");
    };
    let mut levels: Vec<Level> = facts
        .points
        .iter()
        .filter(|point| point.is_usable())
        .filter_map(|point| {
            let mut merged = Histogram::new();
            facts.of_cell(point.cell).iter().for_each(|trial| merged.merge(&trial.latency));
            let (at, label) = (point.at(&axis.name)?, point.level(&axis.name)?.label.clone());
            Some(Level { point, label: format!("{} {label}", axis.name), at, merged })
        })
        .collect();
    levels.sort_by(|a, b| a.at.total_cmp(&b.at));
    if levels.is_empty() {
        return nothing("No run can be used, so there is no tail to tell.");
    }
    let mut answer = Answer::default();
    for level in &levels {
        one(&mut answer, level);
    }
    if let [first, .., last] = levels.as_slice() {
        growth(&mut answer, first, last);
    }
    outside(&mut answer, &axis.from, before);
    table(&mut answer, &levels);
    answer
}

fn one(answer: &mut Answer, level: &Level<'_>) {
    let tail = [Measure::Quantile(0.95), Measure::Quantile(0.99), Measure::Quantile(0.999)];
    let tail = tail.map(|measure| format!("{} {}", measure.title(), level.point.told(measure)));
    let mean = level.point.spread(Measure::Mean, Direction::Total);
    let basis = mean.as_ref().map_or("n/a".into(), |spread| spread.basis());
    answer.say(format!(
        "{}: {} on average, {} ({basis}).",
        level.label,
        level.point.told(Measure::Mean),
        tail.join(", ")
    ));
    let key = super::words::slug(&level.label);
    if let Some(mean) = mean {
        answer.find(&format!("{key}_mean_ns"), mean.mean);
    }
    for q in TAIL {
        let quantile = Quantile::of(&level.merged, q);
        let word = Measure::Quantile(q).word();
        match (quantile.value_ns(), reason(&quantile)) {
            (Some(ns), _) => {
                answer.find(&format!("{key}_{word}_ns"), ns as f64);
                if let Some((low, _, high)) = quantile.bounds() {
                    answer.find(&format!("{key}_{word}_ns_low"), low as f64);
                    answer.find(&format!("{key}_{word}_ns_high"), high as f64);
                }
            }
            (None, Some(reason)) => answer.say(format!(
                "{}: {word} has no right to be told: it {reason} in all its runs together.",
                level.label
            )),
            (None, None) => {}
        }
    }
}

/// Which figure grows most from the lowest level to the highest.
fn growth(answer: &mut Answer, first: &Level<'_>, last: &Level<'_>) {
    let of = |level: &Level<'_>, q: f64| Quantile::of(&level.merged, q).value_ns();
    let means = (first.merged.mean(), last.merged.mean());
    let (Some(low), Some(high)) = means else { return };
    let mean = high / low;
    answer.find("mean_growth", mean);
    let mut parts = vec![format!("the mean {}", count::significant(mean))];
    let mut far: Option<(f64, f64)> = None;
    for q in TAIL {
        let (Some(low), Some(high)) = (of(first, q), of(last, q)) else { continue };
        let times = high as f64 / low.max(1) as f64;
        let word = Measure::Quantile(q).word();
        answer.find(&format!("{word}_growth"), times);
        parts.push(format!("{word} {}", count::significant(times)));
        far = Some((q, times));
    }
    let depth = count::setting(last.at / first.at);
    answer.say(format!(
        "From {} to {} ({depth} times the depth) latencies grow by these factors: {}.",
        first.label,
        last.label,
        parts.join(", ")
    ));
    let Some((q, times)) = far else { return };
    let word = Measure::Quantile(q).word();
    answer.say(if times > 1.25 * mean {
        format!(
            "The tail grows faster than the mean: whoever promises {word} has to stay below the \
             depth that the mean allows."
        )
    } else if times < 0.8 * mean {
        format!(
            "{word} grows less than the mean: its slowest requests were slow at low depth already, \
             for other reasons than queueing."
        )
    } else {
        format!("The tail grows with the mean: waiting in line, not rare stalls, makes {word}.")
    });
}

/// Says so where the depths stand on no knee.
fn outside(answer: &mut Answer, from: &str, before: &[StageFacts]) {
    let Some((stage, figure)) = from.split_once('.') else { return };
    let source = before.iter().find(|facts| facts.stage.name == stage);
    if source.and_then(|facts| facts.found(&format!("{figure}_outside"))).is_some() {
        answer.say(format!(
            "The depths stand on the end of the sweep of {stage}, for its knee lies outside it."
        ));
    }
}

fn table(answer: &mut Answer, levels: &[Level<'_>]) {
    let rows = levels.iter().map(|level| {
        let told = TAIL.iter().map(|q| {
            let quantile = Quantile::of(&level.merged, *q);
            let value = quantile.value_ns().map(|ns| duration::latency(ns as f64));
            value.or_else(|| reason(&quantile)).unwrap_or("n/a".into())
        });
        let count = count::thousands(level.merged.count());
        let mean = level.merged.mean().map_or("n/a".into(), duration::latency);
        let ahead = [level.label.clone(), count, mean];
        ahead.into_iter().chain(told).collect()
    });
    let columns = ["level", "I/Os", "mean", "p50", "p95", "p99", "p99.9", "p99.99"];
    answer.table("Latencies of all runs of a level together", &columns, rows.collect());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{at, of_runs, stage};
    use super::*;
    use crate::analysis::testing::{Load, run_of};
    use crate::plan::design::Found;

    fn levels(iops: f64) -> StageFacts {
        let found = Found::from([("queue-depth.knee".to_owned(), 8.0)]);
        of_runs(&stage("tail-latency", "tail-latency"), &found, &[], |cell, repeat| {
            let depth = at(cell, "iodepth") as u32;
            run_of(&[Load { depth, iops, seed: u64::from(repeat) + 1, ..Load::default() }])
        })
    }

    #[test]
    fn latencies_of_a_saturated_device_grow_with_the_depth() {
        let facts = levels(20_000.0);
        assert!((facts.found("mean_growth").unwrap() - 4.0).abs() < 0.2);
        assert!(facts.found("iodepth-16_p99.99_ns").is_some(), "600,000 I/Os have a p99.99");
        let said = facts.answers[0].1.sentences.join("\n");
        assert!(said.contains("From iodepth 4 to iodepth 16"), "{said}");
    }

    #[test]
    fn a_percentile_without_enough_requests_is_not_told() {
        let facts = levels(40.0);
        assert_eq!(facts.found("iodepth-4_p99.99_ns"), None);
        let said = facts.answers[0].1.sentences.join("\n");
        assert!(said.contains("p99.99 has no right to be told"), "{said}");
    }
}
