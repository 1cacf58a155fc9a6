//! QD1 baseline: how long does a request take without queueing?
//!
//! With one request in flight, latency is service time plus the path to the device; every
//! concurrency ceiling is compared with it.

use super::words::{Times, nothing, slug};
use super::{Answer, Measure, Point, Spread, StageFacts, gate};
use crate::finding::{Severity, Strength};
use iosonde_model::units::{bytes, count, duration};
use iosonde_stats::bootstrap::sum_of_means;

const MEASURES: [Measure; 5] = [
    Measure::Mean,
    Measure::Quantile(0.5),
    Measure::Quantile(0.95),
    Measure::Quantile(0.99),
    Measure::Quantile(0.999),
];
/// Ratio of p99 to the mean of exponential times: ln 100.
const EXPONENTIAL: f64 = 4.605;
/// Share above [`EXPONENTIAL`] beyond which a tail counts as longer.
const LONGER_FROM: f64 = 0.10;
/// Maximum share by which a larger request may take longer and count as taking no longer.
const NO_LONGER_WITHIN: f64 = 0.05;
/// Mean queue depth above which requests queued.
const ONE_IN_FLIGHT: f64 = 1.05;

/// Reports each load with its tail, and the effect of size and direction.
pub(super) fn analyse(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let points = facts.usable();
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
    let Some(mean) = point.figure(Measure::Mean) else { return };
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
        }
    }
    long_tail(answer, point);
    if let Some(depth) = point.mean(Measure::Depth)
        && depth > ONE_IN_FLIGHT
    {
        let words = format!(
            "{name}: the mean queue depth was {}, so this is not a QD1 baseline.",
            count::significant(depth)
        );
        answer.mind("not_qd1", "queue depth above 1", Strength::Proven, Severity::Warning, words);
    }
}

/// Reports a tail that is shown to be longer than that of exponential times, of which 1 % exceed
/// 4.6 times the mean.
fn long_tail(answer: &mut Answer, point: &Point) {
    let tail = Measure::Quantile(0.99);
    // Without an interval, there are too few runs, or too few requests for the percentile.
    let of = |measure| point.figure(measure).filter(|s| s.interval.is_some());
    let (Some(tail), Some(mean)) = (of(tail), of(Measure::Mean)) else { return };
    let over = tail.values.iter().zip(&mean.values).map(|(tail, mean)| tail / mean).collect();
    let Some(over) = Spread::of(over).filter(|_| gate::withheld(&[point]).is_none()) else {
        return;
    };
    if !is_long(&over) {
        return;
    }
    let (low, high) = over.interval.unwrap_or((over.mean, over.mean));
    let [mean, low, high] = [over.mean, low, high].map(count::significant);
    answer.say(format!(
        "{}: 1 % of the requests take {mean} times the mean (95 % {low} to {high}, n = {}) or \
         longer, where exponential times have 4.6: a few slow requests cause the tail.",
        point.name(),
        over.values.len()
    ));
}

/// Whether the ratio of p99 to the mean is shown to exceed that of exponential times.
fn is_long(over: &Spread) -> bool {
    over.interval.is_some_and(|(low, _)| low > EXPONENTIAL * (1.0 + LONGER_FROM))
}

/// Size of a point's requests, and whether it reads; `None` for mixes.
fn kind(point: &Point) -> Option<(u64, bool)> {
    let all = &point.runs.first()?.all;
    let (reads, writes) = (all.read.ops > 0, all.write.ops > 0);
    (reads != writes).then_some((all.block_bytes?, reads))
}

fn compare(answer: &mut Answer, points: &[&Point]) {
    let kinds = points.iter().map(|point| kind(point).map(|(bytes, reads)| (*point, bytes, reads)));
    let kinds: Vec<(&Point, u64, bool)> = kinds.flatten().collect();
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
            "At {size} a write is acknowledged in {} the time of a read: a cache may accept it \
             before it is durable.",
            times.formatted()
        ),
        true => format!("At {size} a write takes {} the time of a read.", times.formatted()),
    };
    answer.say(words);
}

/// Reports the additional time of the larger request, as a transfer rate and a fixed cost.
fn growth(answer: &mut Answer, small: (&Point, u64), large: (&Point, u64), reads: bool) {
    let what = if reads { "Reads" } else { "Writes" };
    let sizes = [small.1, large.1].map(bytes::exact);
    let Some(times) = Times::of(large.0, small.0, Measure::Mean) else { return };
    if let Some(why) = gate::withheld(&[small.0, large.0]) {
        let ([small, large], what) = (sizes, what.to_lowercase());
        answer
            .say(format!("Whether {what} of {large} take longer than those of {small} is {why}."));
        return;
    }
    let figures = times.formatted();
    if times.times <= 1.0 || !times.differ() {
        let no_longer = 1.0 + NO_LONGER_WITHIN;
        let is_shown = times.interval.is_some_and(|interval| interval.high <= no_longer);
        let words =
            if is_shown { "take no longer than" } else { "are not shown to take longer than" };
        answer.say(format!("{what} of {} {words} those of {}: {figures}.", sizes[1], sizes[0]));
        return;
    }
    let parts = Parts::of(small, large).map_or(String::new(), |parts| {
        parts.find(answer, if reads { "read" } else { "write" });
        format!(
            ": a transfer at {}, and {} (from two sizes; the block-size experiment fits more)",
            parts.between(parts.rate, bytes::per_second),
            parts.fixed()
        )
    });
    answer.say(format!(
        "{what} of {} take {figures} as long as those of {}{parts}.",
        sizes[1], sizes[0]
    ));
}

/// The time of a request as transfer and fixed cost, with intervals, from the means of two sizes.
struct Parts {
    runs: usize,
    /// Bytes per second.
    rate: (f64, (f64, f64)),
    fixed_ns: (f64, (f64, f64)),
}

impl Parts {
    /// `None` if the larger request is not shown to take longer.
    fn of(small: (&Point, u64), large: (&Point, u64)) -> Option<Parts> {
        let values = |point: &Point| point.per_run(Measure::Mean);
        let (short, long) = (values(small.0), values(large.0));
        let of = |of_short: f64, of_long: f64| -> Option<(f64, (f64, f64))> {
            let mean = of_short * Spread::of(short.clone())?.mean
                + of_long * Spread::of(long.clone())?.mean;
            Some((mean, sum_of_means(&[(of_short, &short), (of_long, &long)])?))
        };
        let (more_ns, (low, high)) = of(-1.0, 1.0).filter(|(_, (low, _))| *low > 0.0)?;
        let more_bytes = (large.1 - small.1) as f64;
        let rate = |ns: f64| more_bytes / ns * 1e9;
        let share = small.1 as f64 / more_bytes;
        Some(Parts {
            runs: short.len().min(long.len()),
            rate: (rate(more_ns), (rate(high), rate(low))),
            fixed_ns: of(1.0 + share, -share)?,
        })
    }

    fn find(&self, answer: &mut Answer, key: &str) {
        for (word, (value, (low, high))) in
            [("fixed_ns", self.fixed_ns), ("bytes_per_s", self.rate)]
        {
            answer.find(&format!("{key}_{word}"), value.max(0.0));
            answer.find(&format!("{key}_{word}_low"), low.max(0.0));
            answer.find(&format!("{key}_{word}_high"), high.max(0.0));
        }
    }

    fn fixed(&self) -> String {
        match self.fixed_ns.1 {
            (low, _) if low > 0.0 => {
                format!("a fixed cost of {}", self.between(self.fixed_ns, duration::latency))
            }
            (_, high) if high > 0.0 => {
                format!("a fixed cost that is not shown, of {} at most", duration::latency(high))
            }
            _ => "no fixed cost".into(),
        }
    }

    /// `500 MB/s (95 % 490 MB/s to 510 MB/s, n = 3)`.
    fn between(
        &self,
        (value, (low, high)): (f64, (f64, f64)),
        formatted: fn(f64) -> String,
    ) -> String {
        let [value, low, high] = [value, low, high].map(formatted);
        format!("{value} (95 % {low} to {high}, n = {})", self.runs)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::point::Spread;
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
        assert!(said.contains("Reads of 128 KiB take 3.") && said.contains("(95 % "), "{said}");
        assert!(said.contains("a fixed cost of 10"), "{said}");
        assert_eq!(facts.answers[0].1.tables[0].rows.len(), 4);
        assert_eq!(facts.answers[0].1.warnings, Vec::new());
    }

    /// The sentences about loads with this time at 128 KiB and 10 % noise between runs.
    fn said(seed: u64, large_s: f64) -> String {
        let mut noise = noise(seed, 0.1);
        let facts = facts(&stage("qd1-baseline", "qd1-baseline"), |cell, _| Load {
            depth: 1,
            block_bytes: if cell.index < 2 { 4096 } else { 131_072 },
            read_percent: if cell.index % 2 == 0 { 100 } else { 0 },
            iops: noise() / if cell.index < 2 { 100e-6 } else { large_s },
            ..Load::default()
        });
        facts.answers[0].1.sentences.join("\n")
    }

    #[test]
    fn noise_is_no_growth_with_the_size_and_none_is_claimed_without_an_interval() {
        let of_equal: Vec<String> = (0..100).map(|seed| said(seed, 100e-6)).collect();
        // Two directions each; about 2.5 % of intervals lie above 1.
        let wrong = of_equal.iter().map(|said| said.matches(" as long as those").count());
        let wrong: usize = wrong.sum();
        assert!(wrong <= 12, "{wrong} of 200");
        let bare = of_equal.iter().filter(|said| said.contains("take no longer than"));
        let bare = bare.filter(|said| !said.contains("those of 4 KiB: ")).count();
        assert_eq!(bare, 0);
        assert!(said(1, 500e-6).contains("Writes of 128 KiB take "), "{}", said(1, 500e-6));
    }

    #[test]
    fn the_tail_of_exponential_times_is_not_that_of_a_few_slow_requests() {
        let is_long = |values: [f64; 3]| super::is_long(&Spread::of(values.to_vec()).unwrap());
        assert!(!is_long([4.55, 4.62, 4.66]), "exponential");
        assert!(!is_long([9.5, 4.2, 12.0]), "not shown");
        // 3 % of the requests take 20 times as long.
        assert!(is_long([13.9, 14.1, 14.3]));
    }
}
