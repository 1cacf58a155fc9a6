//! QD1 baseline: how long does a request take without queueing?
//!
//! With one request in flight, latency is service time plus the path to the device; every
//! concurrency ceiling is compared with it.

use super::gate;
use super::words::{Times, nothing, slug};
use super::{Answer, Measure, Point, StageFacts};
use crate::finding::{Severity, Strength};
use iosonde_model::spec::Direction;
use iosonde_model::units::{bytes, duration};

const MEASURES: [Measure; 5] = [
    Measure::Mean,
    Measure::Quantile(0.5),
    Measure::Quantile(0.95),
    Measure::Quantile(0.99),
    Measure::Quantile(0.999),
];
/// Ratio of p99 to the mean at or above which a few slow requests are reported.
const LONG_TAIL_FROM: f64 = 3.0;
/// Mean queue depth above which requests queued.
const ONE_IN_FLIGHT: f64 = 1.05;

/// Reports each load with its tail, and the effect of size and direction.
pub(super) fn analyse(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let points: Vec<&Point> = facts.points.iter().filter(|point| point.is_usable()).collect();
    if points.is_empty() {
        return nothing("No run can be used, so there is no baseline.");
    }
    let mut answer = Answer::default();
    for point in &points {
        one(&mut answer, point);
    }
    compare(&mut answer, &points);
    let row = |point: &&Point| {
        let formatted = MEASURES.iter().map(|measure| point.formatted(*measure));
        std::iter::once(point.name()).chain(formatted).collect()
    };
    let mut columns = vec!["load"];
    columns.extend(MEASURES.iter().map(|measure| measure.title()));
    answer.table("Latency at queue depth 1", &columns, points.iter().map(row).collect());
    answer
}

fn one(answer: &mut Answer, point: &Point) {
    let Some(mean) = point.spread(Measure::Mean, Direction::Total) else { return };
    let (name, key) = (point.name(), slug(&point.name()));
    let tail = [Measure::Quantile(0.95), Measure::Quantile(0.99)];
    let tail = tail.map(|measure| format!("{} {}", measure.title(), point.formatted(measure)));
    answer.say(format!(
        "{name}: {} on average, {} ({}).",
        mean.formatted(Measure::Mean),
        tail.join(", "),
        mean.basis()
    ));
    answer.find(&format!("{key}_mean_ns"), mean.mean);
    for (measure, word) in [(Measure::Quantile(0.95), "p95"), (Measure::Quantile(0.99), "p99")] {
        if let Some(value) = point.mean(measure) {
            answer.find(&format!("{key}_{word}_ns"), value);
            if measure == Measure::Quantile(0.99) && value > LONG_TAIL_FROM * mean.mean {
                answer.say(format!(
                    "{name}: 1 % of the requests take {} times the mean or longer; a few slow \
                     requests cause the tail.",
                    iosonde_model::units::count::significant(value / mean.mean)
                ));
            }
        }
    }
    if let Some(depth) = point.mean(Measure::Depth)
        && depth > ONE_IN_FLIGHT
    {
        answer.mind(
            "not_qd1",
            "queue depth above 1",
            Strength::Proven,
            Severity::Warning,
            format!(
                "{name}: the mean queue depth was {}, so this is not a QD1 baseline.",
                iosonde_model::units::count::significant(depth)
            ),
        );
    }
}

/// Size of a point's requests, and whether it reads; `None` for mixes.
fn kind(point: &Point) -> Option<(u64, bool)> {
    let all = &point.runs.first()?.all;
    let (reads, writes) = (all.read.ops > 0, all.write.ops > 0);
    (reads != writes).then_some((all.block_bytes?, reads))
}

fn compare(answer: &mut Answer, points: &[&Point]) {
    let kinds: Vec<(&Point, u64, bool)> = points
        .iter()
        .filter_map(|point| kind(point).map(|(bytes, reads)| (*point, bytes, reads)))
        .collect();
    for (read, size, _) in kinds.iter().filter(|(_, _, reads)| *reads) {
        let write = kinds.iter().find(|(_, other, reads)| other == size && !reads);
        if let Some((write, ..)) = write {
            asymmetry(answer, read, write, *size);
        }
    }
    for reads in [true, false] {
        let own = kinds.iter().filter(|(_, _, each)| *each == reads);
        let small = own.clone().min_by_key(|(_, size, _)| *size);
        let large = own.max_by_key(|(_, size, _)| *size);
        if let (Some(small), Some(large)) = (small, large)
            && large.1 > small.1
        {
            growth(answer, (small.0, small.1), (large.0, large.1), reads);
        }
    }
}

fn asymmetry(answer: &mut Answer, read: &Point, write: &Point, size: u64) {
    let Some(times) = Times::of(write, read, Measure::Mean) else { return };
    let size = bytes::exact(size);
    answer.find(&format!("{}_write_over_read", slug(&size)), times.times);
    if let Some(why) = gate::withheld(&[read, write]) {
        answer.say(format!("At {size} whether writes take longer than reads is {why}."));
        return;
    }
    let words = match times.differ() {
        false => format!(
            "At {size} no difference between writes and reads could be shown: {}.",
            times.formatted()
        ),
        true if times.times < 1.0 => format!(
            "At {size} a write is acknowledged in {} the time of a read: a cache in front of the \
             medium accepts it, and it is not durable yet.",
            times.formatted()
        ),
        true => format!("At {size} a write takes {} the time of a read.", times.formatted()),
    };
    answer.say(words);
}

/// The additional time of the larger request, as a transfer rate and the remaining fixed cost.
fn growth(answer: &mut Answer, small: (&Point, u64), large: (&Point, u64), reads: bool) {
    let means = (small.0.mean(Measure::Mean), large.0.mean(Measure::Mean));
    let (Some(short), Some(long)) = means else { return };
    let what = if reads { "Reads" } else { "Writes" };
    let sizes = [small.1, large.1].map(bytes::exact);
    let key = if reads { "read" } else { "write" };
    if long <= short {
        answer.say(format!("{what} of {} take no longer than {what} of {}.", sizes[1], sizes[0]));
        return;
    }
    let per_second = (large.1 - small.1) as f64 / (long - short) * 1e9;
    let fixed_ns = short - small.1 as f64 / per_second * 1e9;
    answer.find(&format!("{key}_fixed_ns"), fixed_ns.max(0.0));
    answer.find(&format!("{key}_bytes_per_s"), per_second);
    let fixed = if fixed_ns > 0.0 {
        format!("the fixed cost of a request is about {}", duration::latency(fixed_ns))
    } else {
        "no fixed cost remains".into()
    };
    answer.say(format!(
        "{what} of {} take {} times as long as those of {}: the difference is {}, and {fixed} \
         (from two sizes; the block-size experiment fits more sizes).",
        sizes[1],
        iosonde_model::units::count::significant(long / short),
        sizes[0],
        bytes::per_second(per_second),
    ));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{facts, noise, stage};
    use iosonde_fixtures::Load;

    #[test]
    fn four_loads_are_reported_and_compared() {
        let mut noise = noise(2, 0.01);
        // Reads: 100 µs and 500 MB/s; writes: the same at 4 KiB, twice at 128 KiB.
        let seconds = [108.192e-6, 108.192e-6, 362.144e-6, 724.288e-6];
        let facts = facts(&stage("qd1-baseline", "qd1-baseline"), |cell, _| Load {
            depth: 1,
            block_bytes: if cell.index < 2 { 4096 } else { 131_072 },
            read_percent: if cell.index % 2 == 0 { 100 } else { 0 },
            iops: noise() / seconds[cell.index],
            ..Load::default()
        });
        let mean = facts.found("4-kib-random-read_mean_ns").unwrap();
        assert!((mean / 108_192.0 - 1.0).abs() < 0.05, "{mean}");
        let said = facts.answers[0].1.sentences.join("\n");
        assert!(said.contains("(mean ± sd of 3)"), "{said}");
        assert!(said.contains("At 4 KiB no difference between writes and reads"), "{said}");
        assert!(said.contains("At 128 KiB a write takes"), "{said}");
        let bandwidth = facts.found("read_bytes_per_s").unwrap();
        assert!((bandwidth / 500e6 - 1.0).abs() < 0.1, "{bandwidth}");
        assert_eq!(facts.answers[0].1.tables[0].rows.len(), 4);
        assert_eq!(facts.answers[0].1.warnings, Vec::new());
    }
}
