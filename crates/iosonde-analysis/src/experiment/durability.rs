//! What does it cost to make writes durable?
//!
//! With a sync after every N writes, a write takes t + s / N: its own time plus its share of a
//! sync.

use super::gate;
use super::words::{self, Times, nothing};
use super::{Answer, Measure, Point, StageFacts};
use crate::finding::{Severity, Strength};
use iosonde_model::spec::Direction;
use iosonde_model::units::{count, duration};
use iosonde_stats::least_squares::solve;

/// The axis of writes per sync.
const AXIS: &str = "sync-every";
/// Share of the rate without syncs at or above which a group is large enough.
const ENOUGH: f64 = 0.90;
/// Mean time of a sync below which it cannot have reached the medium.
const TOO_FAST_NS: f64 = 30_000.0;

/// Reports the cost of a sync and how many writes should share one.
pub(super) fn analyse(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let usable: Vec<&Point> = facts.points.iter().filter(|point| point.is_usable()).collect();
    if usable.is_empty() {
        return nothing("No run can be used, so nothing is known about durability.");
    }
    let mut answer = Answer::default();
    let groups = facts.usable_by(AXIS);
    if groups.is_empty() {
        promises(&mut answer, &usable);
        return answer;
    }
    let free = groups.iter().find(|(every, _)| *every == 0.0);
    let free = free.map(|(_, point)| *point);
    price(&mut answer, &groups);
    if let Some(free) = free {
        groups_enough(&mut answer, &groups, free);
    }
    sync_itself(&mut answer, &groups);
    answer
}

fn price(answer: &mut Answer, groups: &[(f64, &Point)]) {
    let rows: Vec<([f64; 2], f64, f64)> = groups
        .iter()
        .filter(|(every, _)| *every > 0.0)
        .filter_map(|(every, point)| {
            let seconds = point.mean(Measure::Iops)?.recip();
            Some(([1.0, every.recip()], seconds, seconds.powi(-2)))
        })
        .collect();
    let fitted = if rows.len() < 3 { None } else { solve(&rows) };
    let Some([write, sync]) = fitted.filter(|fitted| fitted.iter().all(|each| *each > 0.0)) else {
        answer.say("Syncs have no visible effect on the write rate.");
        return;
    };
    let residual =
        rows.iter().map(|([_, share], seconds, _)| (seconds / (write + sync * share) - 1.0).abs());
    let residual = residual.fold(0.0, f64::max);
    answer.find("write_ns", write * 1e9);
    answer.find("sync_ns", sync * 1e9);
    answer.find("largest_residual", residual);
    answer.say(format!(
        "A write takes {} and a sync {}, amortized over the writes before it: with one sync per \
         write, at most {} durable writes per second (largest residual {}).",
        duration::latency(write * 1e9),
        duration::latency(sync * 1e9),
        count::significant_or_whole((write + sync).recip()),
        words::percent(residual)
    ));
}

fn groups_enough(answer: &mut Answer, groups: &[(f64, &Point)], free: &Point) {
    let Some(rate_free) = free.mean(Measure::Iops) else { return };
    let each = groups.iter().find(|(every, _)| *every == 1.0);
    if let Some((_, point)) = each
        && let Some(rate) = point.mean(Measure::Iops)
    {
        answer.find("durable-share", rate / rate_free);
        answer.say(format!(
            "With a sync after each write the rate is {} IOPS, without syncs {}: {}.",
            point.formatted(Measure::Iops),
            count::significant_or_whole(rate_free),
            words::percent(rate / rate_free)
        ));
    }
    let all: Vec<&Point> = groups.iter().map(|(_, point)| *point).collect();
    let of = words::percent(ENOUGH);
    if let Some(why) = gate::withheld(&all) {
        answer.say(format!("How many writes per sync are enough for {of} of the rate is {why}."));
        return;
    }
    let own = groups.iter().filter(|(every, _)| *every > 0.0);
    let sides: Vec<(f64, Times, Option<gate::Side>)> = own
        .filter_map(|(every, point)| {
            let times = Times::of(point, free, Measure::Iops)?;
            Some((*every, times, gate::side(&times, ENOUGH, f64::INFINITY)))
        })
        .collect();
    let enough = sides.iter().find(|(.., side)| *side == Some(gate::Side::Within));
    let words = match enough {
        Some((every, times, _)) => {
            let figure = *every;
            let words = format!(
                "{} writes per sync are enough for {of} of the rate without syncs: {} it.",
                count::significant(figure),
                times.formatted()
            );
            answer.find("enough", figure);
            words
        }
        None if sides.iter().all(|(.., side)| *side == Some(gate::Side::Below)) => {
            format!("No measured number of writes per sync reaches {of} of the rate without syncs.")
        }
        None => format!(
            "How many writes per sync are enough for {of} of the rate without syncs is not \
             decidable yet; more repeats needed."
        ),
    };
    answer.say(words);
}

/// Whether the time of a sync grows with the amount of data that it makes durable.
fn sync_itself(answer: &mut Answer, groups: &[(f64, &Point)]) {
    let of = |(every, point): &(f64, &Point)| Some((*every, point.mean(Measure::SyncMean)?));
    let times: Vec<(f64, f64)> = groups.iter().filter_map(of).collect();
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return };
    answer.find("sync_mean_ns_first", first.1);
    answer.say(format!(
        "The sync itself takes {} after {} writes and {} after {} writes.",
        duration::latency(first.1),
        count::significant(first.0),
        duration::latency(last.1),
        count::significant(last.0)
    ));
    if times.iter().all(|(_, ns)| *ns < TOO_FAST_NS) {
        answer.mind(
            "fsync_suspicious",
            "syncs that return immediately",
            Strength::ConsistentWith,
            Severity::LowConfidence,
            format!(
                "Every sync returns within {} regardless of the amount of data: either \
                 acknowledged writes survive a power loss, or syncs are ignored. This measurement \
                 cannot distinguish the two.",
                duration::latency(TOO_FAST_NS)
            ),
        );
    }
}

/// Levels of durability of each write.
fn promises(answer: &mut Answer, points: &[&Point]) {
    let base = points.first().and_then(|point| point.spread(Measure::Mean, Direction::Write));
    for point in points {
        let Some(mean) = point.spread(Measure::Mean, Direction::Write) else { continue };
        answer.find(&format!("{}_mean_ns", words::slug(&point.name())), mean.mean);
        let times = base.as_ref().map(|base| mean.mean / base.mean).unwrap_or(1.0);
        answer.say(format!(
            "{}: {} per write ({}), {} times the first.",
            point.name(),
            mean.formatted(Measure::Mean),
            mean.basis(),
            count::significant(times)
        ));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{at, facts, stage};
    use super::*;
    use iosonde_fixtures::Load;

    fn sweep(sync_s: f64) -> StageFacts {
        facts(&stage("durability", "durability"), |cell, _| {
            let every = at(cell, AXIS);
            let each = if every > 0.0 { sync_s / every } else { 0.0 };
            let iops = (50e-6 + each).recip();
            Load { read_percent: 0, depth: 1, iops, noise: 0.0, ..Load::default() }
        })
    }

    #[test]
    fn the_price_of_a_sync_is_found() {
        let facts = sweep(1e-3);
        assert!((facts.found("sync_ns").unwrap() / 1e6 - 1.0).abs() < 0.03);
        assert!((facts.found("write_ns").unwrap() / 50e3 - 1.0).abs() < 0.03);
        // 1 ms / N is a ninth of 50 µs from N = 180 on.
        assert_eq!(facts.found("enough"), Some(256.0));
        let free = sweep(0.0);
        assert_eq!(free.found("enough"), Some(1.0));
        assert!(free.found("sync_ns").is_none_or(|ns| ns < 2_000.0));
    }
}
