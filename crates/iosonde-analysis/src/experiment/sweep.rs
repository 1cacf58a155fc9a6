//! Analyses common to throughput sweeps: the best level with its interval, the lowest sufficient
//! level, cliffs, and levels that were not applied.

use super::gate::{self, Ranking};
use super::words::{self, Times, slug};
use super::{Answer, Measure, Point, StageFacts};
use crate::finding::{Severity, Strength};
use crate::grouped::grouped;
use iosonde_model::plan::chance::mix;
use iosonde_model::spec::experiment::Parameter;
use iosonde_model::units::count;
use iosonde_stats::bootstrap::log_t_p;
use iosonde_stats::cheapest::{Setting, cheapest};
use iosonde_stats::holm::holm;

/// Share of the best that a lower level may lack.
const ENOUGH_WITHIN: f64 = 0.05;
/// Maximum p value, corrected for all pairs, at which a difference is significant.
const SHOWN: f64 = 0.05;
/// Loss of throughput between neighbouring levels above which it counts as a cliff.
const CLIFF_FROM: f64 = 0.25;

/// Reports the best level of a line, the lowest sufficient one, and any cliff between neighbours.
pub(super) fn line(
    answer: &mut Answer,
    facts: &StageFacts,
    axis: &str,
    name: &str,
    points: &[&Point],
) {
    let Some((_, highest)) = gate::highest(points, Measure::Bandwidth) else { return };
    let label =
        |point: &Point| point.level(axis).map_or(String::new(), |level| level.label.clone());
    let key = |word: &str| format!("{word}-{}", slug(name));
    if let Some(spread) = highest.figure(Measure::Bandwidth) {
        answer.find_spread(&key("best-bytes-per-s"), &spread);
    }
    let enough = enough(facts, axis, points).map_or(String::new(), |point| {
        answer.find(&key("enough"), point.at(axis).unwrap_or_default());
        format!("; {} is already within {} of it", label(point), count::percent(ENOUGH_WITHIN))
    });
    let rate = highest.with_interval(Measure::Bandwidth);
    let words = match gate::ranking(points, Measure::Bandwidth) {
        Some(Ranking::Best(best)) => {
            if let Some(at) = best.at(axis) {
                answer.find(&key("best"), at);
            }
            format!("{name}: maximum at {}: {rate}{enough}.", label(best))
        }
        Some(Ranking::Ties { points: ties, others, more }) if others > 0 => format!(
            "{name}: maximum at {} (not shown to differ): {rate} at {}{enough}{}.",
            gate::listed(points, &ties, &label),
            label(highest),
            gate::advice(more)
        ),
        Some(Ranking::Ties { more, .. }) => format!(
            "{name}: no level is shown to differ from another; {rate} at most{}.",
            gate::advice(more)
        ),
        Some(Ranking::Undecided(why)) => {
            format!(
                "{name}: which level is the maximum is {why}; the highest mean so far is {rate} at \
                 {}.",
                label(highest)
            )
        }
        None => format!("{name}: {rate} at {}.", label(highest)),
    };
    answer.say(words);
    cliff(answer, name, points, &label);
}

/// The lowest level shown to be within 5 % of the best; `None` if it is the best.
fn enough<'a>(facts: &StageFacts, axis: &str, points: &[&'a Point]) -> Option<&'a Point> {
    if gate::withheld(points).is_some() {
        return None;
    }
    let setting = |point: &&Point| {
        let values = point.per_run(Measure::Bandwidth);
        let cost = point.at(axis)?;
        (!values.is_empty()).then_some(Setting { cost, values })
    };
    let settings: Vec<Setting> = points.iter().filter_map(setting).collect();
    let enough = cheapest(&settings, ENOUGH_WITHIN, mix(facts.laid_out.order_seed))?;
    let is_cheaper = enough.cost < enough.best_cost;
    points.iter().copied().find(|point| is_cheaper && point.at(axis) == Some(enough.cost))
}

/// Reports the largest significant drop from a level to the next.
fn cliff(answer: &mut Answer, name: &str, points: &[&Point], label: &dyn Fn(&Point) -> String) {
    let rates = |point: &Point| point.per_run(Measure::Bandwidth);
    let pairs = points.windows(2).map(|pair| log_t_p(&rates(pair[1]), &rates(pair[0])));
    let corrected = holm(&pairs.collect::<Vec<f64>>());
    let falls = points.windows(2).zip(corrected).filter_map(|(pair, p)| {
        let times = Times::of(pair[1], pair[0], Measure::Bandwidth)?;
        let shown = p <= SHOWN && gate::withheld(pair).is_none();
        (shown && times.times < 1.0 - CLIFF_FROM).then_some((pair[0], pair[1], times))
    });
    let Some((before, after, times)) = falls.min_by(|a, b| a.2.times.total_cmp(&b.2.times)) else {
        return;
    };
    answer.find(&format!("cliff-share-{}", slug(name)), 1.0 - times.times);
    answer.say(format!(
        "{name}: throughput falls from {} at {} to {} at {}: {}.",
        before.formatted(Measure::Bandwidth),
        label(before),
        after.formatted(Measure::Bandwidth),
        label(after),
        times.formatted()
    ));
}

/// Compares cells that differ only in this axis: each level with the first.
pub(super) fn compare(answer: &mut Answer, facts: &StageFacts, axis: &str) {
    let Some(of) = facts.stage.axes.iter().find(|each| each.name == axis) else { return };
    let pairs = pairs(facts, axis);
    for (second, own) in grouped(pairs.iter().map(|pair| (&pair.second, pair))) {
        let mut ratios: Vec<f64> = own.iter().map(|pair| pair.times).collect();
        ratios.sort_by(f64::total_cmp);
        let (Some(low), Some(high)) = (ratios.first(), ratios.last()) else { continue };
        let middle = ratios[ratios.len() / 2];
        let first = own.first().map_or("", |pair| pair.first.as_str());
        let shown = own.iter().filter(|pair| pair.p <= SHOWN).count();
        answer.find(&format!("{}-over-{}", slug(second), slug(first)), middle);
        let [low, high, middle] = [low, high, &middle].map(|v| count::significant(*v));
        let heading = of.heading();
        let count = own.len();
        if shown == 0 {
            answer.say(format!(
                "{heading}: {second} is not shown to differ from {first} in any of {count} pairs \
                 ({low} to {high} times the throughput; Holm over {} pairs).",
                pairs.len(),
            ));
            continue;
        }
        answer.say(format!(
            "{heading}: {second} does {middle} times the throughput of {first} in the middle of \
             {count} pairs ({low} to {high}); in {shown} of them the difference is significant \
             (Holm over {} pairs).",
            pairs.len(),
        ));
    }
}

/// Two cells that differ only in one axis.
struct Pair {
    first: String,
    second: String,
    /// Ratio of the second to the first.
    times: f64,
    /// p value of the difference, corrected for all pairs.
    p: f64,
}

/// Pairs of a cell with the first level of an axis and a cell that differs only in this axis.
fn pairs(facts: &StageFacts, axis: &str) -> Vec<Pair> {
    let mut found = Vec::new();
    for (_, points) in facts.lines(axis) {
        let Some((first, others)) = points.split_first() else { continue };
        for other in others {
            let label = |point: &Point| point.level(axis).map(|level| level.label.clone());
            let times = Times::of(other, first, Measure::Bandwidth);
            if let (Some(a), Some(b), Some(times)) = (label(first), label(other), times) {
                let rates = |point: &Point| point.per_run(Measure::Bandwidth);
                let p = log_t_p(&rates(other), &rates(first));
                found.push(Pair { first: a, second: b, times: times.times, p });
            }
        }
    }
    let corrected = holm(&found.iter().map(|pair| pair.p).collect::<Vec<f64>>());
    found.iter_mut().zip(corrected).for_each(|(pair, p)| pair.p = p);
    found.sort_by(|a, b| a.second.cmp(&b.second));
    found
}

/// Warns if a run's transfers do not have the size requested by its cell: a level that never
/// reached the engine still produces a curve.
pub(super) fn as_planned(answer: &mut Answer, facts: &StageFacts) {
    let mut wrong = Vec::new();
    for point in &facts.points {
        let requested = facts.number(point, Parameter::BlockSize);
        for figures in &point.runs {
            let seen = figures.all.total.bytes as f64 / figures.all.total.ops.max(1) as f64;
            // The tolerance allows for short transfers at the end of a region.
            if let Some(requested) = requested
                && (seen / requested - 1.0).abs() > 0.01
            {
                wrong.push(format!("{} ({} per operation)", point.name(), words::size(seen)));
            }
        }
    }
    wrong.dedup();
    if !wrong.is_empty() {
        let words =
            format!("The requested size differs from the transferred size: {}.", wrong.join("; "));
        let subject = "levels that did not reach the engine";
        answer.mind("level_not_applied", subject, Strength::Proven, Severity::LowConfidence, words);
    }
}

/// Reports the cells that were left out, with each reason once.
pub(super) fn left_out(answer: &mut Answer, facts: &StageFacts) {
    let reasons = facts.laid_out.left_out.iter().map(|(cell, reason)| (reason, cell));
    for (reason, cells) in grouped(reasons) {
        let were = if cells.len() == 1 { "cell was" } else { "cells were" };
        answer.say(format!("{} {were} left out: {reason}.", cells.len()));
    }
}
