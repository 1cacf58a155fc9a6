//! Throughput over I/O size, over the gap, and at random offsets: the micro-benchmarks.

use super::sweep::{as_planned, compare, left_out, line};
use super::words::{self, Times, lines, nothing};
use super::{Answer, Measure, Point, StageFacts, gate};
use crate::finding::{Severity, Strength};
use iosonde_model::units::count;

/// The axis of sizes.
const SIZE: &str = "block-size";
/// The axis of gaps.
const GAP: &str = "gap";
/// Share of cached pages from which a cache counts as warm, and up to which it counts as cold.
const WARM_FROM: f64 = 0.95;
const COLD_TO: f64 = 0.05;
/// Coefficient of variation between runs above which a level is reported as unsteady.
const SCATTER_FROM: f64 = 0.10;

/// Reports throughput over the I/O size.
pub(super) fn analyse(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    over(facts, SIZE)
}

/// Reports throughput at random offsets over the I/O size, compared with sequential I/O of the same
/// sizes if measured.
pub(super) fn random(facts: &StageFacts, before: &[StageFacts]) -> Answer {
    let mut answer = over(facts, SIZE);
    if let Some(ordered) = before.iter().find(|stage| stage.stage.name == "io-size") {
        against_order(&mut answer, facts, ordered);
    }
    answer
}

/// Reports throughput over the gap, for each I/O size.
pub(super) fn stride(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let mut answer = over(facts, GAP);
    let least = lines(facts, GAP).into_iter().filter_map(|(name, points)| {
        let without = points.iter().find(|point| point.at(GAP) == Some(0.0))?;
        let gaps = points.iter().filter(|point| point.at(GAP) > Some(0.0));
        let times = gaps.filter_map(|point| Times::of(point, without, Measure::Bandwidth));
        Some((name, times.min_by(|a, b| a.times.total_cmp(&b.times))?))
    });
    let worst = least.min_by(|(_, a), (_, b)| a.times.total_cmp(&b.times));
    let all = facts.usable();
    if let Some((name, times)) = worst {
        answer.find("least-kept", times.times);
        let is_shown = times.times < 1.0 && times.differ() && gate::withheld(&all).is_none();
        answer.say(match is_shown {
            true => format!(
                "The gap costs most at {name}: at its worst gap it does {} the throughput without \
                 a gap.",
                times.formatted()
            ),
            false => format!(
                "No gap is shown to cost throughput; at the lowest, {name} does {} the throughput \
                 without a gap.",
                times.formatted()
            ),
        });
    }
    answer
}

fn over(facts: &StageFacts, axis: &str) -> Answer {
    let lines = lines(facts, axis);
    if lines.is_empty() {
        return nothing("No run can be used, so there is no curve.");
    }
    let mut answer = Answer::default();
    for (name, points) in &lines {
        line(&mut answer, facts, axis, name, points);
    }
    for other in facts.stage.axes.iter().filter(|each| each.name != axis && each.name != SIZE) {
        compare(&mut answer, facts, &other.name);
    }
    scatter(&mut answer, facts);
    cache(&mut answer, facts);
    as_planned(&mut answer, facts);
    left_out(&mut answer, facts);
    answer
}

/// Reports levels whose runs differ considerably.
fn scatter(answer: &mut Answer, facts: &StageFacts) {
    let unsteady = facts.points.iter().filter_map(|point| {
        let spread = point.figure(Measure::Bandwidth)?;
        let cv = spread.std_dev? / spread.mean;
        (cv > SCATTER_FROM).then_some((point, cv))
    });
    let unsteady: Vec<(&Point, f64)> = unsteady.collect();
    let Some((worst, cv)) = unsteady.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else { return };
    answer.say(format!(
        "Runs of the same level vary by more than {} at {} of {} levels, most at {} ({}): use the \
         intervals there.",
        count::percent(SCATTER_FROM),
        unsteady.len(),
        facts.points.len(),
        worst.name(),
        count::percent(*cv)
    ));
}

/// Reports whether the cache state matched its label.
fn cache(answer: &mut Answer, facts: &StageFacts) {
    for (label, holds) in [("warm", true), ("cold", false)] {
        let reads = |trial: &&super::TrialFigures| trial.figures.all.read.ops > 0;
        let own = facts.trials.iter().filter(|trial| trial.cache == label).filter(reads);
        let shares: Vec<f64> = own.filter_map(|trial| trial.cached_share).collect();
        if shares.is_empty() {
            continue;
        }
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let (low, high) = shares.iter().fold((1.0f64, 0.0f64), |(l, h), s| (l.min(*s), h.max(*s)));
        let proven = if holds { low >= WARM_FROM } else { high <= COLD_TO };
        let formatted = format!(
            "Before the {} read runs with a {label} cache, {} of the sampled pages were cached",
            shares.len(),
            count::percent(mean)
        );
        if proven {
            answer.say(format!("{formatted}: the cache was {label}, as labelled."));
        } else {
            let words =
                format!("{formatted}: it was not {label}, so do not read those curves as {label}.");
            let subject = "a cache state that differs from its label";
            answer.mind("cache_label", subject, Strength::Proven, Severity::LowConfidence, words);
        }
    }
}

/// Compares random offsets with sequential I/O of the same size.
fn against_order(answer: &mut Answer, facts: &StageFacts, ordered: &StageFacts) {
    for direction in ["read", "write"] {
        let is_own = |point: &&Point| {
            let at = |axis: &str| point.level(axis).map(|level| level.label.as_str());
            at("direction") == Some(direction) && at("alignment") == Some("aligned")
        };
        let ratio = |point: &'_ Point| {
            let size = point.at(SIZE)?;
            let same = |other: &&Point| other.at(SIZE) == Some(size);
            let other = ordered.points.iter().filter(is_own).find(same)?;
            let times = Times::of(point, other, Measure::Bandwidth)?;
            gate::withheld(&[point, other]).is_none().then_some((size, times))
        };
        let ratios: Vec<(f64, Times)> =
            facts.points.iter().filter(is_own).filter_map(ratio).collect();
        if let (Some(first), Some(last)) = (ratios.first(), ratios.last()) {
            answer.find(&format!("random-over-ordered-{direction}"), first.1.times);
            answer.say(format!(
                "Random {direction}s do {} the throughput of sequential ones at {}, {} at {}.",
                first.1.formatted(),
                words::size(first.0),
                last.1.formatted(),
                words::size(last.0)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{at, facts, noise, stage};
    use iosonde_fixtures::Load;

    fn load(bytes: f64, seconds: f64, reads: bool) -> Load {
        let read_percent = if reads { 100 } else { 0 };
        let iops = 1.0 / seconds;
        Load { depth: 1, block_bytes: bytes as u64, read_percent, iops, ..Load::default() }
    }

    #[test]
    fn the_best_size_and_a_cliff_are_reported_and_neither_is_invented() {
        let mut noise = noise(8, 0.002);
        let random = facts(&stage("random", "random"), |cell, _| {
            let size = at(cell, "block-size");
            let reads = cell.levels[1].label == "read";
            // From 1 MiB on, reads take ten times as long.
            let slow = if reads && size >= 1048576.0 { 10.0 } else { 1.0 };
            load(size, noise() * slow * (50e-6 + size / 1e9), reads)
        });
        assert_eq!(random.found("best-read-aligned"), Some(524_288.0));
        assert!((random.found("cliff-share-read-aligned").unwrap() - 0.9).abs() < 0.05);
        assert_eq!(random.found("cliff-share-write-aligned"), None);
        assert_eq!(random.found("best-write-aligned"), Some(4_194_304.0));
        let same = random.found("512-b-off-over-aligned").unwrap();
        assert!((same - 1.0).abs() < 0.05, "{same}");
    }

    #[test]
    fn a_frozen_level_is_found_out() {
        let stage = stage("stride", "stride");
        let frozen = facts(&stage, |cell, _| load(4096.0, 1e-4 + at(cell, "gap") / 1e12, true));
        let warnings = &frozen.answers[0].1.warnings;
        assert_eq!(warnings[0].code, "level_not_applied");
        let right = facts(&stage, |cell, _| load(at(cell, "block-size"), 1e-3, true));
        assert_eq!(right.answers[0].1.warnings, Vec::new());
        assert!((right.found("least-kept").unwrap() - 1.0).abs() < 0.05);
    }
}
