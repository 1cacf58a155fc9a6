//! What does it cost to make writes durable?
//!
//! With a sync after every N writes, a write takes t + s / N: its own time plus its share of a
//! sync.

use super::words::{self, Times, nothing};
use super::{Answer, Measure, Point, Spread, StageFacts, gate};
use crate::finding::{Severity, Strength};
use iosonde_model::spec::Direction;
use iosonde_model::units::{count, duration};
use iosonde_stats::least_squares::solve;

/// The axis of writes per sync.
const AXIS: &str = "sync-every";
/// Minimum number of settings of writes per sync: two for the fitted times, one for a residual.
const FEWEST_GROUPS: usize = 3;
/// A time whose interval is wider than this factor is not stated.
const WIDEST: f64 = 10.0;
/// Share of the rate without syncs at or above which a group is large enough.
const ENOUGH: f64 = 0.90;
/// Mean time of a sync below which it cannot have reached the medium.
const TOO_FAST_NS: f64 = 30_000.0;

/// Reports the cost of a sync and how many writes should share one.
pub(super) fn analyse(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let usable = facts.usable();
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

/// Reports the times of a write and of a sync. They are fitted to each repeat, so that their
/// intervals show the variation between repeats.
fn price(answer: &mut Answer, groups: &[(f64, &Point)]) {
    let synced = groups.iter().filter(|(every, _)| *every > 0.0);
    let synced: Vec<(f64, Vec<f64>)> =
        synced.map(|(every, point)| (every.recip(), point.per_run(Measure::Iops))).collect();
    let repeats = synced.iter().map(|(_, rates)| rates.len()).min().unwrap_or(0);
    if synced.len() < FEWEST_GROUPS || repeats == 0 {
        return;
    }
    let fit = |repeat: usize| {
        let row = |(share, rates): &(f64, Vec<f64>)| {
            let seconds = rates[repeat].recip();
            ([1.0, *share], seconds, seconds.powi(-2))
        };
        let fitted = solve(&synced.iter().map(row).collect::<Vec<_>>());
        fitted.filter(|fitted| fitted.iter().all(|each| *each > 0.0))
    };
    let fits: Vec<[f64; 2]> = (0..repeats).filter_map(fit).collect();
    let of = |at: usize| Spread::of(fits.iter().map(|fit| fit[at] * 1e9).collect());
    let (Some(write), Some(sync)) = (of(0), of(1)) else {
        answer.say("Syncs have no visible effect on the write rate.");
        return;
    };
    if fits.len() < repeats {
        answer.say(format!(
            "What a sync costs is not decidable yet: {} of {repeats} repeats show no effect of it \
             on the write rate; more repeats needed.",
            repeats - fits.len()
        ));
        return;
    }
    let is_vague = |of: &Spread| of.interval.is_some_and(|(low, high)| high > low * WIDEST);
    if let Some(what) = [(&write, "write"), (&sync, "sync")].iter().find(|each| is_vague(each.0)) {
        answer.say(format!(
            "What a {} costs is not decidable yet: its interval is wider than a factor of \
             {WIDEST}; more repeats needed.",
            what.1
        ));
        return;
    }
    let residual = |(share, rates): &(f64, Vec<f64>)| {
        let seconds = rates.iter().map(|rate| rate.recip()).sum::<f64>() / rates.len() as f64;
        (seconds * 1e9 / (write.mean + sync.mean * share) - 1.0).abs()
    };
    let residual = synced.iter().map(residual).fold(0.0, f64::max);
    answer.find("write_ns", write.mean);
    answer.find("sync_ns", sync.mean);
    answer.find("largest_residual", residual);
    answer.say(format!(
        "A write takes {} and a sync {}, amortized over the writes before it (largest residual \
         {}).",
        write.with_interval(Measure::Mean),
        sync.with_interval(Measure::Mean),
        count::percent(residual)
    ));
}

fn groups_enough(answer: &mut Answer, groups: &[(f64, &Point)], free: &Point) {
    let each = groups.iter().find(|(every, _)| *every == 1.0);
    if let Some((_, point)) = each
        && let Some(share) = Times::of(point, free, Measure::Iops)
    {
        answer.find_between("durable-share", share.times, share.interval);
        answer.say(format!(
            "With a sync after each write the rate is {} IOPS, without syncs {}: {} it.",
            point.formatted(Measure::Iops),
            free.formatted(Measure::Iops),
            share.formatted()
        ));
    }
    let all: Vec<&Point> = groups.iter().map(|(_, point)| *point).collect();
    let of = count::percent(ENOUGH);
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
                "{} per sync {} enough for {of} of the rate without syncs: {} it.",
                count::of(figure as u64, "write"),
                if figure == 1.0 { "is" } else { "are" },
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

/// Reports the time of a sync after the fewest and after the most writes.
fn sync_itself(answer: &mut Answer, groups: &[(f64, &Point)]) {
    let of = |(every, point): &(f64, &Point)| Some((*every, point.figure(Measure::SyncMean)?));
    let times: Vec<(f64, Spread)> = groups.iter().filter_map(of).collect();
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return };
    answer.find("sync_mean_ns_first", first.1.mean);
    answer.say(format!(
        "The sync itself takes {} after {} and {} after {}.",
        first.1.with_interval(Measure::SyncMean),
        count::of(first.0 as u64, "write"),
        last.1.with_interval(Measure::SyncMean),
        count::of(last.0 as u64, "write")
    ));
    if times.iter().all(|(_, sync)| sync.mean < TOO_FAST_NS) {
        let words = format!(
            "Every sync returns within {} regardless of the amount of data: either \
             acknowledged writes survive a power loss, or syncs are ignored. This measurement \
             cannot distinguish the two.",
            duration::latency(TOO_FAST_NS)
        );
        let (strength, severity) = (Strength::ConsistentWith, Severity::LowConfidence);
        answer.mind("fsync_suspicious", "syncs that return immediately", strength, severity, words);
    }
}

/// Reports the time of a write at each level of durability.
fn promises(answer: &mut Answer, points: &[&Point]) {
    let mut base: Option<Spread> = None;
    for point in points {
        let Some(mean) = point.spread(Measure::Mean, Direction::Write) else { continue };
        answer.find(&format!("{}_mean_ns", words::slug(&point.name())), mean.mean);
        let times = base.as_ref().and_then(|base| Times::of_values(&mean.values, &base.values));
        let times = times.map_or(String::new(), |of| format!(", {} the first", of.formatted()));
        let (name, basis) = (point.name(), mean.basis());
        answer
            .say(format!("{name}: {} per write ({basis}){times}.", mean.formatted(Measure::Mean)));
        base.get_or_insert(mean);
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
        let said = |facts: &StageFacts| facts.answers[0].1.sentences.join("\n");
        assert!(said(&facts).contains("256 writes per sync are enough"), "{}", said(&facts));
        let free = sweep(0.0);
        assert!(said(&free).contains("1 write per sync is enough"), "{}", said(&free));
        assert_eq!(free.found("enough"), Some(1.0));
        assert!(free.found("sync_ns").is_none_or(|ns| ns < 2_000.0));
    }

    #[test]
    fn a_price_that_is_hardly_known_is_not_stated() {
        let mut facts = sweep(1e-3);
        let slowest = facts.points.iter_mut().find(|point| point.at(AXIS) == Some(1.0)).unwrap();
        slowest.runs[0].all.total.iops *= 8.0;
        let mut answer = Answer::default();
        price(&mut answer, &facts.usable_by(AXIS));
        let words = &answer.sentences[0];
        assert!(words.starts_with("What a sync costs is not decidable yet"), "{words}");
        assert!(answer.found.is_empty());
    }

    #[test]
    fn numbers_of_writes_are_counts() {
        let mut facts = sweep(1e-3);
        let synced = facts.points.iter_mut().filter(|point| point.at(AXIS) > Some(0.0));
        for run in synced.flat_map(|point| &mut point.runs) {
            run.all.sync.latency.mean_ns = Some(1e6);
        }
        let mut answer = Answer::default();
        sync_itself(&mut answer, &facts.usable_by(AXIS));
        let words = &answer.sentences[0];
        assert!(
            words.contains(" after 1 write and ") && words.contains(" after 1,024 writes."),
            "{words}"
        );
    }
}
