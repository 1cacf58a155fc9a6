//! The cost of writes mixed with reads.
//!
//! Percentiles of a mix come from one histogram of all its requests; the larger of two percentiles
//! is not a percentile.

use super::words::{Times, nothing};
use super::{Answer, Measure, Point, StageFacts, gate};
use iosonde_model::spec::Direction;
use iosonde_model::units::{count, duration};

/// The axis of the mix.
const AXIS: &str = "read-percent";
/// Minimum relative difference between a mix and alternating reads and writes.
const MIXING_COSTS_FROM: f64 = 0.10;

/// Reports reads and writes alone and mixed, and their effect on each other.
pub(super) fn analyse(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let points = facts.usable_by(AXIS);
    if points.is_empty() {
        return nothing("No run can be used, so nothing is known about the mix.");
    }
    let mut answer = Answer::default();
    let end = |share: f64| points.iter().find(|(at, _)| *at == share).map(|(_, point)| *point);
    let (writes, reads) = (end(0.0), end(100.0));
    if let Some(limit) = limit(&points) {
        answer.say(limit);
    } else if let (Some(writes), Some(reads)) = (writes, reads) {
        asymmetry(&mut answer, reads, writes);
        sum_of_parts(&mut answer, &points, reads, writes);
        reads_among_writes(&mut answer, &points, reads);
    }
    for (share, point) in &points {
        each(&mut answer, *share, point);
    }
    table(&mut answer, &points);
    answer
}

/// The sentence if a limit may have set a rate, which then does not show the storage.
fn limit(points: &[(f64, &Point)]) -> Option<String> {
    let is_limit = |(_, point): &&(f64, &Point)| gate::may_have_limited_rate(point);
    let limited: Vec<&(f64, &Point)> = points.iter().filter(is_limit).collect();
    let rate = |(share, point): &&(f64, &Point)| {
        format!("{} IOPS at {share} % reads", point.formatted(Measure::Iops))
    };
    let rates = limited.iter().map(rate).collect::<Vec<String>>().join(", ");
    (!limited.is_empty()).then(|| {
        format!(
            "What mixing costs is not decidable yet, as a rate may be limited: {rates}, the same \
             in all runs although latencies scatter, as of a rate limiter or a link, or of servers \
             of constant speed."
        )
    })
}

fn asymmetry(answer: &mut Answer, reads: &Point, writes: &Point) {
    let rates = Times::of(reads, writes, Measure::Iops);
    let means = Times::of(writes, reads, Measure::Mean);
    let (Some(rates), Some(means)) = (rates, means) else { return };
    answer.find_between("read_over_write_iops", rates.times, rates.interval);
    let formatted = format!(
        "reads alone do {} IOPS at {}, writes alone {} at {}",
        reads.formatted(Measure::Iops),
        reads.formatted(Measure::Mean),
        writes.formatted(Measure::Iops),
        writes.formatted(Measure::Mean)
    );
    if let Some(why) = gate::withheld(&[reads, writes]) {
        answer.say(format!("Whether reads or writes are faster is {why}: {formatted}."));
        return;
    }
    answer.say(match rates.differ() {
        false => format!(
            "No difference between reads and writes could be shown: {formatted}, {}.",
            rates.formatted()
        ),
        true if rates.times >= 1.0 => format!(
            "Reads are faster: {formatted}, so {} the rate; a write takes {} as long.",
            rates.formatted(),
            means.formatted()
        ),
        true => format!(
            "Writes are faster: {formatted}. A cache may acknowledge them before they are durable: \
             the durability experiment shows the rate with syncs."
        ),
    });
}

/// Compares each mix with the rate of alternating reads and writes: 1 / X = r / Xr + w / Xw.
fn sum_of_parts(answer: &mut Answer, points: &[(f64, &Point)], reads: &Point, writes: &Point) {
    let rates = |point: &Point| point.per_run(Measure::Iops);
    let between = points.iter().filter(|(share, _)| *share > 0.0 && *share < 100.0);
    let gaps = between.filter_map(|(share, point)| {
        let of_reads = share / 100.0;
        let expected = rates(reads).into_iter().zip(rates(writes));
        let expected = expected.map(|(r, w)| (of_reads / r + (1.0 - of_reads) / w).recip());
        let times = Times::of_values(&rates(point), &expected.collect::<Vec<f64>>())?;
        Some((*share, *point, times))
    });
    let far = |times: &Times| times.times.ln().abs();
    let gaps: Vec<(f64, &Point, Times)> = gaps.collect();
    let largest = gaps.iter().max_by(|a, b| far(&a.2).total_cmp(&far(&b.2)));
    let Some((share, _, times)) = largest else { return };
    answer.find("mixing_gap", times.times - 1.0);
    let all: Vec<&Point> = gaps.iter().map(|gap| gap.1).chain([reads, writes]).collect();
    if gate::withheld(&all).is_some() {
        return;
    }
    let (low, high) = (1.0 - MIXING_COSTS_FROM, 1.0 + MIXING_COSTS_FROM);
    let sides: Vec<Option<gate::Side>> =
        gaps.iter().map(|gap| gate::side(&gap.2, low, high)).collect();
    let figures = format!("at {share} % reads the rate is {} that of", times.formatted());
    let differs = gate::differs_among(times, &gaps.iter().map(|gap| &gap.2).collect::<Vec<_>>());
    answer.say(if times.times < low && differs {
        format!("Mixing has a cost of its own: {figures} alternating reads and writes.")
    } else if times.times > high && differs {
        format!("Reads and writes proceed in parallel: {figures} alternating reads and writes.")
    } else if sides.iter().all(|side| *side == Some(gate::Side::Within)) {
        format!(
            "A mix does what alternating reads and writes do, within {}: {figures} these.",
            count::percent(MIXING_COSTS_FROM)
        )
    } else {
        format!(
            "Whether mixing has a cost of its own is not decidable yet: {figures} alternating \
             reads and writes; more repeats needed."
        )
    });
}

fn reads_among_writes(answer: &mut Answer, points: &[(f64, &Point)], alone: &Point) {
    let means = |point: &Point| point.values(Measure::Mean, Direction::Read);
    let slowed = points.iter().filter(|(share, _)| *share > 0.0 && *share < 100.0);
    let slowed = slowed.filter_map(|(share, point)| {
        Some((*share, *point, Times::of_values(&means(point), &means(alone))?))
    });
    let slowed: Vec<(f64, &Point, Times)> = slowed.collect();
    let worst = slowed.iter().max_by(|a, b| a.2.times.total_cmp(&b.2.times));
    let Some((share, point, times)) = worst else { return };
    let mean = |point: &Point| point.spread(Measure::Mean, Direction::Read).map(|s| s.mean);
    let (Some(among), Some(without)) = (mean(point), mean(alone)) else { return };
    answer.find("read_mean_among_writes_ns", among);
    answer.find("read_slowdown", times.times);
    let all: Vec<&Point> = slowed.iter().map(|each| each.1).chain([alone]).collect();
    if gate::withheld(&all).is_some() {
        return;
    }
    let high = 1.0 + MIXING_COSTS_FROM;
    let not_above = |times: &Times| times.interval.is_some_and(|interval| interval.high <= high);
    let figures = format!(
        "at {share} % reads a read takes {} on average, {} its latency without writes ({})",
        duration::latency(among),
        times.formatted(),
        duration::latency(without)
    );
    let differs = gate::differs_among(times, &slowed.iter().map(|one| &one.2).collect::<Vec<_>>());
    answer.say(if times.times > high && differs {
        format!("Writes slow reads down: {figures}.")
    } else if slowed.iter().all(|each| not_above(&each.2)) {
        format!("Writes do not slow reads down by more than a tenth: {figures}.")
    } else {
        format!("Whether writes slow reads down is not decidable yet: {figures}.")
    });
}

fn each(answer: &mut Answer, share: f64, point: &Point) {
    let key = count::significant(share);
    for (measure, word) in [(Measure::Iops, "iops"), (Measure::Mean, "mean_ns")] {
        if let Some(value) = point.mean(measure) {
            answer.find(&format!("r{key}_{word}"), value);
        }
    }
}

fn table(answer: &mut Answer, points: &[(f64, &Point)]) {
    let of = |point: &Point, measure: Measure, direction| {
        point.spread(measure, direction).map_or("-".into(), |spread| spread.formatted(measure))
    };
    let rows = points.iter().map(|(share, point)| {
        vec![
            format!("{share} %"),
            point.formatted(Measure::Iops),
            point.formatted(Measure::Mean),
            of(point, Measure::Mean, Direction::Read),
            of(point, Measure::Mean, Direction::Write),
            point.formatted(Measure::Quantile(0.95)),
            point.formatted(Measure::Quantile(0.99)),
        ]
    });
    let columns = ["reads", "IOPS", "mean", "mean read", "mean write", "p95 of all", "p99 of all"];
    answer.table("From 100 % writes to 100 % reads", &columns, rows.collect());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{at, facts, noise, stage};
    use super::*;
    use iosonde_fixtures::Load;

    fn sweep(rate: fn(f64) -> f64) -> StageFacts {
        let mut noise = noise(5, 0.01);
        facts(&stage("read-write-mix", "read-write-mix"), |cell, _| {
            let share = at(cell, AXIS);
            let (read_percent, iops) = (share as u8, rate(share / 100.0) * noise());
            Load { depth: 8, read_percent, iops, ..Load::default() }
        })
    }

    #[test]
    fn asymmetry_and_taking_turns_are_seen() {
        // 20,000 reads or 5,000 writes per second, alternating.
        let facts = sweep(|reads| (reads / 20_000.0 + (1.0 - reads) / 5_000.0).recip());
        assert!((facts.found("read_over_write_iops").unwrap() / 4.0 - 1.0).abs() < 0.03);
        assert!(facts.found("mixing_gap").unwrap().abs() < 0.05);
        let said = facts.answers[0].1.sentences.join("\n");
        assert!(said.contains("A mix does what alternating reads and writes do"), "{said}");
        assert!(said.contains("Writes slow reads down"), "{said}");
        let rows = &facts.answers[0].1.tables[0].rows;
        assert_eq!((rows[0][0].as_str(), rows[4][0].as_str()), ("0 %", "100 %"));
        assert_eq!(rows[0][3], "-", "no reads among writes alone");
    }

    #[test]
    fn a_rate_that_is_a_limit_hides_what_mixing_costs() {
        let sweep = |scatter: f64| {
            let mut noise = noise(5, 0.01);
            facts(&stage("read-write-mix", "read-write-mix"), |cell, repeat| {
                let reads = at(cell, AXIS) / 100.0;
                let own = (reads / 20_000.0 + (1.0 - reads) / 2_000.0).recip() * noise();
                let limit = 5_000.0 + scatter * f64::from(repeat);
                let read_percent = (100.0 * reads) as u8;
                let iops = own.min(limit);
                Load { depth: 8, read_percent, iops, noise: 0.0, ..Load::default() }
            })
        };
        let said = |facts: &StageFacts| facts.answers[0].1.sentences.join("\n");
        let limited = sweep(0.2);
        let words = said(&limited);
        assert!(words.contains("a rate may be limited: 5,000 ± "), "{words}");
        assert!(words.contains("at 100 % reads, the same"), "{words}");
        for wrong in ["proceed in parallel", "slow reads down", "Reads are faster"] {
            assert!(!words.contains(wrong), "{wrong}: {words}");
        }
        let free = said(&sweep(60.0));
        assert!(free.contains("Reads are faster") && !free.contains("limited"), "{free}");
        // Servers of constant speed also have one rate, but one latency.
        let mut constant = limited;
        let runs = constant.points.iter_mut().flat_map(|point| &mut point.runs);
        runs.for_each(|run| run.all.total.latency.std_dev_ns = Some(0.0));
        let words = analyse(&constant, &[]).sentences.join("\n");
        assert!(words.contains("Reads are faster") && !words.contains("limited"), "{words}");
    }

    #[test]
    fn where_nothing_differs_nothing_is_claimed() {
        let facts = sweep(|_| 6_000.0);
        let said = facts.answers[0].1.sentences.join("\n");
        assert!(said.contains("No difference between reads and writes could be shown"), "{said}");
        assert!(said.contains("Writes do not slow reads down"), "{said}");
    }
}
