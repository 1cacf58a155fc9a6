//! Rotational disks: seeks, zones and rotation.

use super::words::{self, Times, nothing};
use super::{Answer, Measure, Point, StageFacts, gate};
use iosonde_model::units::{bytes, count, duration};
use iosonde_stats::least_squares::solve;

/// Relative difference of two rates within which they count as equal: no zones.
const SAME_RATE: f64 = 0.05;
/// Ratio of the latency over the widest span to the narrowest above which a disk seeks.
const SEEKS_FROM: f64 = 1.25;
/// Minimum number of spans for a fit of a fixed part and a growing part.
const FEWEST_SPANS: usize = 4;
/// Share of the same sector's rewrite time below which another sector's shows a revolution.
const SHORTER: f64 = 0.9;

fn along<'a>(facts: &'a StageFacts, axis: &str, measure: Measure) -> Vec<(f64, f64, &'a Point)> {
    let usable = facts.points.iter().filter(|point| point.is_usable());
    let mut all: Vec<(f64, f64, &Point)> =
        usable.filter_map(|p| Some((p.at(axis)?, p.mean(measure)?, p))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// Fits latency over the span of random reads: a fixed part plus one proportional to its root.
pub(super) fn seek(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let points = along(facts, "span", Measure::Mean);
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return nothing("No span fits this target, so there is no seek curve.");
    };
    let mut answer = Answer::default();
    answer.find("narrow_ns", first.1);
    answer.find("wide_ns", last.1);
    answer.say(format!(
        "A random read takes {} within {} and {} within {}.",
        first.2.formatted(Measure::Mean),
        bytes::exact(first.0 as u64),
        last.2.formatted(Measure::Mean),
        bytes::exact(last.0 as u64)
    ));
    let rows: Vec<([f64; 2], f64, f64)> =
        points.iter().map(|(span, ns, _)| ([1.0, (span / last.0).sqrt()], *ns, 1.0)).collect();
    let fitted = if rows.len() < FEWEST_SPANS { None } else { solve(&rows) };
    let Some(times) = Times::of(last.2, first.2, Measure::Mean) else { return answer };
    let figures = format!("{} as long over the widest", times.formatted());
    let withheld = gate::withheld(&[first.2, last.2]);
    match (withheld, gate::side(&times, SEEKS_FROM, SEEKS_FROM), fitted) {
        (Some(why), ..) => answer.say(format!("Whether it seeks is {why}: {figures}.")),
        (_, Some(gate::Side::Above), Some([fixed, seek])) if seek > 0.0 => {
            answer.find("fixed_ns", fixed);
            answer.find("seek_ns", seek);
            answer.say(format!(
                "Latency grows with the span ({figures}). About {} do not depend on the distance \
                 (half a revolution and the transfer); seeks over the whole span add about {} on \
                 average, and proportionally to the square root for smaller spans.",
                duration::latency(fixed.max(0.0)),
                duration::latency(seek)
            ));
        }
        (_, Some(gate::Side::Above), _) => {
            answer.say(format!("Latency grows with the span ({figures})."));
        }
        (_, Some(gate::Side::Below), _) => answer.say(format!(
            "Latency hardly depends on the span ({figures}): there is no mechanical seek."
        )),
        _ => answer.say(format!("Whether it seeks is not decidable yet: {figures}.")),
    }
    super::sweep::left_out(&mut answer, facts);
    answer
}

/// Compares the bandwidth at the first and the last position.
pub(super) fn zones(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let points = along(facts, "offset", Measure::Bandwidth);
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return nothing("No position could be read, so nothing is known about zones.");
    };
    if points.len() < 2 {
        return nothing("Only one position fits this target; measure the whole disk to see zones.");
    }
    let mut answer = Answer::default();
    let times = first.1 / last.1;
    answer.find("outer-bytes-per-s", first.1);
    answer.find("inner-bytes-per-s", last.1);
    answer.find("outer-over-inner", times);
    let figures = format!(
        "at {} it reads {}, at {} {}",
        words::size(first.0),
        first.2.formatted(Measure::Bandwidth),
        words::size(last.0),
        last.2.formatted(Measure::Bandwidth)
    );
    if let Some(why) = gate::withheld(&[first.2, last.2]) {
        answer.say(format!("Whether it has zones is {why}: {figures}."));
        return answer;
    }
    let Some(shown) = Times::of(first.2, last.2, Measure::Bandwidth) else { return answer };
    let (low, high) = (1.0 - SAME_RATE, 1.0 + SAME_RATE);
    answer.say(match gate::side(&shown, low, high) {
        _ if times > high && shown.differ() => format!(
            "The outer tracks do {} the rate of the inner ones: {figures}. Put sequentially read \
             data at the beginning.",
            shown.formatted()
        ),
        Some(gate::Side::Within) => format!(
            "It reads at the same rate at both ends, within {}: no zones are visible ({figures}).",
            count::percent(SAME_RATE)
        ),
        _ => format!(
            "Whether it has zones is not decidable yet: the outer tracks do {} the rate of the \
             inner ones.",
            shown.formatted()
        ),
    });
    answer
}

/// Reports the time of a revolution, from durable rewrites of one sector.
pub(super) fn rotation(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let named = |name: &str| {
        let has = |point: &&Point| point.levels.iter().any(|level| level.label == name);
        facts.points.iter().filter(|point| point.is_usable()).find(has)
    };
    let same = named("same sector");
    let turn = same.and_then(|point| Some((point, point.mean(Measure::Mean)?)));
    let Some((same, turn)) = turn else {
        return nothing("The same sector could not be rewritten: no revolution was timed.");
    };
    let mut answer = Answer::default();
    let per_minute = 60e9 / turn;
    // Disks rotate at 4,200 to 15,000 rpm.
    if !(3_600.0..=16_500.0).contains(&per_minute) {
        answer.say(format!(
            "A durable rewrite of one sector takes {}, which is not the revolution time of a \
             disk: a cache acknowledges it, or a write takes several revolutions (journal, \
             barriers).",
            duration::latency(turn)
        ));
        return answer;
    }
    let shorter = facts.points.iter().filter(|point| point.is_usable());
    let shorter = shorter.filter_map(|point| Some((point, point.mean(Measure::Mean)?)));
    let Some((point, ns)) = shorter.min_by(|a, b| a.1.total_cmp(&b.1)) else { return answer };
    let Some(share) = Times::of(point, same, Measure::Mean) else { return answer };
    let figures = format!("at gap {} it is {} that", point.name(), share.formatted());
    if let Some(why) = gate::withheld(&[same, point]) {
        answer.say(format!(
            "A durable rewrite of one sector takes {}; whether it waits for a revolution is {why}: \
             {figures}.",
            same.formatted(Measure::Mean)
        ));
        return answer;
    }
    if gate::side(&share, SHORTER, SHORTER) != Some(gate::Side::Below) {
        answer.say(format!(
            "A durable rewrite of one sector takes {}; that it waits for a revolution is not \
             shown, because another sector is not shown to wait for less of one ({figures}).",
            same.formatted(Measure::Mean)
        ));
        return answer;
    }
    answer.find("turn_ns", turn);
    answer.find("turns_per_minute", per_minute);
    answer.say(format!(
        "A durable rewrite of one sector takes {}: one full revolution, so about {} rpm. A random \
         access waits half a revolution on average.",
        same.with_interval(Measure::Mean),
        count::significant_or_whole(per_minute)
    ));
    answer.say(format!("The shortest wait is {}: {figures}.", duration::latency(ns)));
    answer
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{at, facts, stage};
    use iosonde_fixtures::Load;

    #[test]
    fn seeks_zones_and_turns_of_a_known_disk() {
        let load = |seconds: f64| Load { depth: 1, iops: 1.0 / seconds, ..Load::default() };
        let disk = facts(&stage("seek-curve", "seek-curve"), |cell, _| {
            load(5e-3 + 8e-3 * (at(cell, "span") / 17_592_186_044_416.0).sqrt())
        });
        let seek = disk.found("seek_ns").unwrap();
        assert!((seek / 8e6 - 1.0).abs() < 0.1, "{seek}");
        let flash = facts(&stage("seek-curve", "seek-curve"), |_, _| load(1e-3));
        assert_eq!(flash.found("seek_ns"), None);
        let zones = facts(&stage("zones", "zones"), |cell, _| Load {
            depth: 4,
            iops: if at(cell, "offset") > 1e13 { 100.0 } else { 200.0 },
            ..Load::default()
        });
        assert!((zones.found("outer-over-inner").unwrap() - 2.0).abs() < 0.1);
        // The same sector returns after one revolution, another sector earlier.
        let turning = |share: f64| {
            facts(&stage("rotation", "rotation"), move |cell, _| {
                let is_same = cell.levels.iter().any(|level| level.label == "same sector");
                let turns = if is_same { 1.0 } else { share };
                Load { read_percent: 0, ..load(turns * 60.0 / 7_200.0) }
            })
        };
        let turns = turning(0.6).found("turns_per_minute").unwrap();
        assert!((turns / 7_200.0 - 1.0).abs() < 0.03, "{turns}");
        assert_eq!(turning(1.0).found("turns_per_minute"), None);
        let cached =
            facts(&stage("rotation", "rotation"), |_, _| Load { read_percent: 0, ..load(50e-6) });
        assert_eq!(cached.found("turns_per_minute"), None);
    }
}
