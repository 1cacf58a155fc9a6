//! Stalls: short times in which far less was done than usual.
//!
//! Counts of equal intervals are compared with their median. An interval is low if it is below half
//! the median, or more than 4.5 standard deviations below it, whichever limit is lower. Intervals
//! are joined until the spread of the usual ones is 25 % of the median or less; if no width up to a
//! second is that even, the width of least spread is used. Then only a tenth of the median or less
//! is low, and from a spread of 30 % on only a standstill of three intervals counts. Wider
//! intervals, so even that the limit is half the median, are used if they show at least a quarter
//! more lost time: slow times. A stall lasts as long as intervals stay nearer to the limit than to
//! the median.
//!
//! The spread is that of the upper half and of the ranks just below the median, so that stalls do
//! not widen it. Intervals in which nearly nothing was done are excluded from the spread and the
//! median, if they are the minority. The spread is at least half an operation, because counts are
//! whole numbers. In an open loop ([`Due`]) an interval counts at most what is due in it, and the
//! spread is at least that of the arrivals: a server that is always busy does the same in each
//! interval, but is idle when nothing is due. Counts of an open loop are even although requests
//! scatter: a slow request delays those behind it, and all are made up for. The cost of such a
//! delay has an exponential tail, so a stall must cost more than the largest of that many others
//! may.
//!
//! A low rate at the beginning or the end of the series is a level, not a stall, unless it is a
//! [standstill](is_standstill). A low rate for more than a third of the series, in one piece or
//! two, is a level too.

use super::ratio::{median, sorted};
use super::summary::Summary;

/// Fewest intervals of a series.
const FEWEST: usize = 20;
/// Widest interval, ns.
const WIDEST_NS: u64 = 1_000_000_000;
/// Largest share of the median below which an interval is low.
const FAR_BELOW: f64 = 0.5;
/// Fewest standard deviations of the usual intervals below the median at which an interval is low.
const DEVIATIONS: f64 = 4.5;
/// Largest spread of an even width, as a share of the median: that of 16 independent operations,
/// which fall to a tenth as rarely as normal values fall by 4.5 deviations.
const EVEN: f64 = 0.25;
/// Time lost in wide intervals, over that in narrow ones, above which narrow ones saw only a part.
const SEEN_IN_PART: f64 = 1.25;
/// Spread from which only a standstill of some intervals counts, and from which nothing does.
const UNEVEN: f64 = 0.3;
const TOO_UNEVEN: f64 = 0.6;
/// Fewest intervals of such a standstill.
const STANDSTILL_FROM: usize = 3;
/// Share of the median up to which nearly nothing was done; noise does not explain it.
const NOTHING: f64 = 0.1;
/// Share of the usual count below which the median of a standstill is.
const STANDSTILL: f64 = 0.02;
/// Share of the upper quartile below which intervals are excluded from the usual rate.
const FROZEN: f64 = 0.2;
/// Share of the intervals that must remain.
const REMAIN: f64 = 0.5;
/// Share of the series above which low intervals in fewer than `PIECES` pieces are a level.
const LEVEL_FROM: f64 = 1.0 / 3.0;
const PIECES: usize = 3;
/// Fewest times below the usual count for an estimate of their mean cost; and -ln(0.05).
const FEWEST_TIMES: usize = 20;
const IN_95_OF_100: f64 = 3.0;
/// Coefficient of variation below which costs are alike: that of as many exponential values is
/// lower in one of a hundred series.
const ALIKE: f64 = 0.5;
/// Fewest operations that a freeze costs; a slow request costs a few.
const FREEZE: f64 = 10.0;
/// Standard deviations from the 30th percentile of a normal distribution to its median.
const NORMAL_30: f64 = 0.524;

/// The stalls of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stalls {
    /// Number of stalls, at least 1.
    pub count: usize,
    /// Time lost, ns: the missing operations at the usual rate.
    pub lost_ns: f64,
    /// Length of the longest, ns, to within one width.
    pub longest_ns: u64,
    /// Start of the first, ns since the series began, to within one width.
    pub first_ns: u64,
    /// Width of the intervals used, ns.
    pub width_ns: u64,
    /// Median per second.
    pub usual: f64,
    /// Mean per second of all intervals.
    pub with: f64,
    /// Mean per second outside the stalls.
    pub without: f64,
}

/// Arrivals of an open loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Due {
    /// Mean per second.
    pub per_s: f64,
    /// Variance of the arrivals in an interval, as a multiple of their mean: 0 for equal distances,
    /// 1 for a Poisson process.
    pub dispersion: f64,
}

impl Due {
    /// Mean number in an interval.
    fn within(self, width_ns: u64) -> f64 {
        self.per_s * width_ns as f64 / 1e9
    }
}

/// Finds stalls in counts of intervals of `width_ns`; `None` if there are none, or if the series is
/// too short or too uneven at every width. With the arrivals `due`, catching up after a stall does
/// not count.
pub fn stalls(counts: &[u64], width_ns: u64, due: Option<Due>) -> Option<Stalls> {
    let narrow = of(counts, width_ns, due, EVEN);
    let wide = of(counts, width_ns, due, (1.0 - FAR_BELOW) / DEVIATIONS);
    let seen_ns = narrow.map_or(0.0, |narrow| narrow.lost_ns);
    wide.filter(|wide| wide.lost_ns > SEEN_IN_PART * seen_ns).or(narrow)
}

fn of(counts: &[u64], width_ns: u64, due: Option<Due>, enough: f64) -> Option<Stalls> {
    let (counts, width_ns, spread) = even(counts, width_ns, due, enough)?;
    let usual = median(&usual_ones(&counts))?;
    let limit = usual * FAR_BELOW.min(1.0 - DEVIATIONS * spread).max(NOTHING);
    let is_even = spread < UNEVEN;
    let near = if is_even { (usual + limit) / 2.0 } else { limit };
    let below = usual * (1.0 - spread);
    let by_scatter = due.map_or(0.0, |_| most_by_scatter(&counts, below));
    let low: Vec<(usize, usize)> = segments(&counts, limit, near)
        .into_iter()
        .filter(|(start, end)| lost(&counts[*start..*end], below) > by_scatter)
        .filter(|(start, end)| {
            let is_inside = *start > 0 && *end < counts.len();
            let stands = is_standstill(&counts[*start..*end], usual);
            if is_even { is_inside || stands } else { stands && end - start >= STANDSTILL_FROM }
        })
        .collect();
    if low.is_empty() {
        return None;
    }
    let share =
        low.iter().map(|(start, end)| end - start).sum::<usize>() as f64 / counts.len() as f64;
    if share > REMAIN || (share > LEVEL_FROM && low.len() < PIECES) {
        return None;
    }
    Some(summed(&counts, width_ns, &low, usual))
}

/// Finds repeated freezes that fill more than a third of the series, so that the median does not
/// show the rate between them: times of at least `shortest_ns` in which nearly nothing was done.
/// With the arrivals `due`, catching up does not count.
pub fn freezes(
    counts: &[u64],
    width_ns: u64,
    due: Option<Due>,
    shortest_ns: u64,
) -> Option<Stalls> {
    let most = due.map_or(f64::INFINITY, |due| due.within(width_ns).ceil());
    let counts: Vec<f64> = counts.iter().map(|count| (*count as f64).min(most)).collect();
    let busy: Vec<f64> = counts.iter().copied().filter(|count| *count > 0.0).collect();
    let usual = median(&busy)?;
    let nothing = NOTHING * usual;
    let is_long = |(start, end): &(usize, usize)| (end - start) as u64 * width_ns >= shortest_ns;
    let low: Vec<(usize, usize)> =
        segments(&counts, nothing, nothing).into_iter().filter(is_long).collect();
    let frozen: usize = low.iter().map(|(start, end)| end - start).sum();
    // At a slow rate, only a few operations separate empty times.
    let between = busy.iter().sum::<f64>() / low.len().max(1) as f64;
    let returns = low.len() > 1 && between >= FREEZE;
    let fills = frozen as f64 > LEVEL_FROM * counts.len() as f64;
    (returns && fills).then(|| summed(&counts, width_ns, &low, usual))
}

/// Figures of these stalls.
fn summed(counts: &[f64], width_ns: u64, low: &[(usize, usize)], usual: f64) -> Stalls {
    let longest = low.iter().map(|(start, end)| end - start).max().unwrap_or(0);
    // A stall begins and ends within an interval, so its neighbours are included.
    let mut is_part = vec![false; counts.len()];
    for (start, end) in low {
        is_part[start.saturating_sub(1)..(end + 1).min(counts.len())].fill(true);
    }
    let (mut lost, mut rest, mut rest_count) = (0.0, 0.0, 0usize);
    for (count, is_part) in counts.iter().zip(&is_part) {
        if *is_part {
            lost += usual - count;
        } else {
            rest += count;
            rest_count += 1;
        }
    }
    let per_second = |sum: f64, n: usize| sum * 1e9 / (n.max(1) as f64 * width_ns as f64);
    Stalls {
        count: low.len(),
        lost_ns: (lost / usual * width_ns as f64).max(0.0),
        longest_ns: longest as u64 * width_ns,
        first_ns: low.first().map_or(0, |(start, _)| *start as u64 * width_ns),
        width_ns,
        usual: per_second(usual, 1),
        with: per_second(counts.iter().sum(), counts.len()),
        without: if rest_count > 0 { per_second(rest, rest_count) } else { per_second(usual, 1) },
    }
}

/// Operations missing from these counts at `usual` each.
fn lost(counts: &[f64], usual: f64) -> f64 {
    counts.iter().map(|count| usual - count).sum()
}

/// Largest cost, in operations, that the scatter of requests explains, from all times with counts
/// below `usual`: the largest of `n` exponential values of mean `m` is below `m (ln n + 3)` in 95
/// of 100 series. The mean is that of the lower costs; up to four fifths of the times may exceed
/// the limit. With fewer than 20 times the mean is taken as one operation. If no cost exceeds the
/// limit, it is infinite, or 0 for large and similar costs such as freezes of one length.
fn most_by_scatter(counts: &[f64], usual: f64) -> f64 {
    let times = counts.chunk_by(|one, other| (*one < usual) == (*other < usual));
    let costs = times.filter(|time| time[0] < usual).map(|time| lost(time, usual));
    // A cost of up to one operation is rounding.
    let costs = sorted(costs.filter(|cost| *cost > 1.0));
    let reach = (costs.len().max(1) as f64).ln() + IN_95_OF_100;
    if costs.len() < FEWEST_TIMES {
        return reach;
    }
    let mut sum = 0.0;
    for (at, cost) in costs.iter().enumerate() {
        let most = sum / at.max(1) as f64 * reach;
        if at >= costs.len() / 5 && *cost > most {
            return most;
        }
        sum += cost;
    }
    let beyond: Vec<f64> = costs.iter().map(|cost| cost - 1.0).collect();
    let are_freezes =
        Summary::of(&beyond).is_some_and(|of| of.mean >= FREEZE && of.std_dev < ALIKE * of.mean);
    if are_freezes { 0.0 } else { f64::INFINITY }
}

/// Whether these counts are a standstill: the median is below 2 % of `usual`. Operations submitted
/// before may still end.
pub fn is_standstill(counts: &[f64], usual: f64) -> bool {
    median(counts).is_some_and(|middle| middle < STANDSTILL * usual)
}

/// The series at the narrowest width of a spread up to `enough`, or else of least spread; the
/// width, and the spread as a share of the median.
fn even(
    counts: &[u64],
    width_ns: u64,
    due: Option<Due>,
    enough: f64,
) -> Option<(Vec<f64>, u64, f64)> {
    let mut best: Option<(Vec<f64>, u64, f64)> = None;
    let mut joined = 1;
    while width_ns > 0
        && counts.len() / joined >= FEWEST
        && (joined == 1 || joined as u64 * width_ns <= WIDEST_NS)
    {
        let parts = counts.chunks_exact(joined);
        let width_ns = joined as u64 * width_ns;
        let due_here = due.map(|due| due.within(width_ns));
        let most = due_here.map_or(f64::INFINITY, f64::ceil);
        let sums = parts.map(|part| (part.iter().sum::<u64>() as f64).min(most));
        let sums: Vec<f64> = sums.collect();
        let least = due_here.zip(due).map_or(0.0, |(here, due)| (here * due.dispersion).sqrt());
        if let Some(spread) = spread(&sums, least) {
            if spread <= enough {
                return Some((sums, width_ns, spread));
            }
            if best.as_ref().is_none_or(|(_, _, least)| spread < *least) {
                best = Some((sums, width_ns, spread));
            }
        }
        joined *= 2;
    }
    best.filter(|(_, _, spread)| *spread < TOO_UNEVEN)
}

/// All values, ascending, except those in which nearly nothing was done, if these are the minority.
fn usual_ones(values: &[f64]) -> Vec<f64> {
    let mut sorted = sorted(values.iter().copied());
    let frozen = FROZEN * ranked(&sorted, 0.75);
    let first = sorted.partition_point(|value| *value < frozen);
    if first as f64 <= (1.0 - REMAIN) * sorted.len() as f64 {
        sorted.drain(..first);
    }
    sorted
}

/// The value of this rank, as a share, among ascending values.
fn ranked(sorted: &[f64], share: f64) -> f64 {
    sorted[(sorted.len().saturating_sub(1) as f64 * share).round() as usize]
}

/// Standard deviation of the usual values, at least `least`, as a share of their median; `None` for
/// a median of 0.
fn spread(values: &[f64], least: f64) -> Option<f64> {
    let sorted = usual_ones(values);
    let median = ranked(&sorted, 0.5);
    let (above, below) = (ranked(&sorted, 0.84) - median, median - ranked(&sorted, 0.3));
    let deviation = above.max(below / NORMAL_30).max(least).max(0.5);
    (median > 0.0).then(|| deviation / median)
}

/// Ranges of neighbours below `near`, with at least one below `limit`.
fn segments(values: &[f64], limit: f64, near: f64) -> Vec<(usize, usize)> {
    let mut all: Vec<(usize, usize)> = Vec::new();
    for (at, _) in values.iter().enumerate().filter(|(_, value)| **value < near) {
        match all.last_mut() {
            Some((_, end)) if *end == at => *end += 1,
            _ => all.push((at, at + 1)),
        }
    }
    all.retain(|(start, end)| values[*start..*end].iter().any(|value| *value < limit));
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::chance::Chance;

    const TEN_MS: u64 = 10_000_000;

    /// Ten seconds of 40 operations per 10 ms with noise like that of independent arrivals, times
    /// a factor.
    fn series(seed: u64, factor: impl Fn(usize) -> f64) -> Vec<u64> {
        let mut chance = Chance::new(seed);
        (0..1_000)
            .map(|at| ((40.0 + 40f64.sqrt() * chance.normal()).max(0.0) * factor(at)) as u64)
            .collect()
    }

    #[test]
    fn a_freeze_a_slow_time_and_short_stalls_are_found_with_their_length() {
        for seed in 1..50 {
            let freeze = series(seed, |at| if (400..500).contains(&at) { 0.0 } else { 1.0 });
            let found = stalls(&freeze, TEN_MS, None).unwrap();
            assert_eq!(found.count, 1);
            assert!((found.lost_ns / 1e9 - 1.0).abs() < 0.05, "{found:?}");
            assert!(found.longest_ns.abs_diff(1_000_000_000) <= found.width_ns, "{found:?}");
            assert!((found.with / 3_550.0 - 1.0).abs() < 0.03, "{found:?}");
            assert!((found.without / 3_950.0 - 1.0).abs() < 0.03, "{found:?}");
            let slow = series(seed, |at| if (400..600).contains(&at) { 0.1 } else { 1.0 });
            let found = stalls(&slow, TEN_MS, None).unwrap();
            assert!((found.lost_ns / 1.8e9 - 1.0).abs() < 0.05, "{found:?}");
            let short = series(seed, |at| if at % 100 >= 95 { 0.0 } else { 1.0 });
            let found = stalls(&short, TEN_MS, None).unwrap();
            assert!((9..=10).contains(&found.count), "{found:?}");
            assert!((found.lost_ns / 0.5e9 - 1.0).abs() < 0.25, "{found:?}");
        }
    }

    #[test]
    fn noise_levels_ramps_and_slices_are_no_stalls() {
        let factors: [fn(usize) -> f64; 6] = [
            |_| 1.0,
            // A level until the end, one from the beginning, and one of half the time.
            |at| if at >= 700 { 0.3 } else { 1.0 },
            |at| if at < 250 { 0.3 } else { 1.0 },
            |at| if (200..650).contains(&at) { 0.3 } else { 1.0 },
            |at| 1.5 - at as f64 / 1_000.0,
            // A throttle that lets all through at the beginning of each tenth of a second.
            |at| if at % 10 < 3 { 3.0 } else { 0.0 },
        ];
        for (number, factor) in factors.iter().enumerate() {
            for seed in 1..50 {
                let found = stalls(&series(seed, factor), TEN_MS, None);
                // A single interval of a thousand may be far below by chance.
                let lost_ns = found.map_or(0.0, |found| found.lost_ns);
                assert!(lost_ns < 5e7, "{number}, seed {seed}: {found:?}");
            }
        }
        assert_eq!(stalls(&[0; 1_000], TEN_MS, None), None);
        assert_eq!(stalls(&[100; 19], TEN_MS, None), None);
    }

    #[test]
    fn slow_times_are_all_found_though_narrow_intervals_show_few_of_them() {
        for seed in 1..50 {
            // 13 operations per 10 ms for 0.7 s of each 3 s, and one chance to be far below.
            let is_slow = |at: usize| at % 300 >= 200 && at % 300 < 270;
            let noisy = |at: usize| {
                let usual = if at.is_multiple_of(2) { 1.25 } else { 0.75 };
                usual / if is_slow(at) { 3.0 } else { 1.0 }
            };
            let found = stalls(&series(seed, noisy), TEN_MS, None).unwrap();
            assert_eq!(found.count, 3, "{found:?}");
            assert!((found.without / 3_950.0 - 1.0).abs() < 0.03, "{found:?}");
        }
    }

    #[test]
    fn stalls_that_return_are_found_and_an_even_slow_rate_has_none() {
        for seed in 1..20 {
            // One second of three, and 30 ms of each tenth of a second.
            let freezes: [fn(usize) -> bool; 2] = [|at| at % 300 >= 200, |at| at % 10 >= 7];
            for is_frozen in freezes {
                let values = series(seed, |at| if is_frozen(at) { 0.0 } else { 1.0 });
                let found = stalls(&values, TEN_MS, None).unwrap();
                assert!((found.lost_ns / 3e9 - 1.0).abs() < 0.15, "{found:?}");
                assert!((found.without / 3_950.0 - 1.0).abs() < 0.05, "{found:?}");
            }
        }
        for every in [2, 5, 10, 20] {
            let values: Vec<u64> = (0..1_000).map(|at| u64::from(at % every == 0)).collect();
            assert_eq!(stalls(&values, TEN_MS, None), None, "{every}");
        }
    }

    #[test]
    fn freezes_for_most_of_the_time_are_found_and_slow_or_sliced_rates_are_none() {
        let tenth_ns = 100_000_000;
        for (every, busy) in [(100, 45), (100, 40), (100, 10), (300, 10), (50, 10)] {
            for seed in 1..20 {
                let values = series(seed, |at| if at % every < busy { 1.0 } else { 0.0 });
                let found = freezes(&values, TEN_MS, None, tenth_ns).unwrap();
                let share = 1.0 - busy as f64 / every as f64;
                assert!((found.lost_ns / 1e10 / share - 1.0).abs() < 0.05, "{found:?}");
                assert!((found.without / 3_950.0 - 1.0).abs() < 0.15, "{found:?}");
                let longest_ns = (every - busy) as u64 * TEN_MS;
                assert_eq!(found.longest_ns, longest_ns, "{found:?}");
            }
        }
        let even: Vec<u64> = (0..1_000).map(|at| u64::from(at % 20 == 0)).collect();
        let sliced = series(1, |at| if at % 10 < 3 { 3.0 } else { 0.0 });
        let gone = series(1, |at| if at < 200 { 1.0 } else { 0.0 });
        let seldom = series(1, |at| if at % 300 < 250 { 1.0 } else { 0.0 });
        for values in [even, sliced, gone, seldom, vec![0; 1_000], series(1, |_| 1.0)] {
            assert_eq!(freezes(&values, TEN_MS, None, tenth_ns), None);
        }
    }

    #[test]
    fn a_freeze_of_a_slow_device_is_found_where_no_interval_is_even() {
        // Bursts of four operations, 100 per second: intervals of 0.3 s scatter by 30 %.
        let bursts = |seed: u64, frozen: std::ops::Range<usize>| -> Vec<u64> {
            let mut chance = Chance::new(seed);
            let burst = |at| !frozen.contains(&at) && chance.unit() < 0.25;
            (0..1_000).map(burst).map(|is_burst| u64::from(is_burst) * 4).collect()
        };
        let found = |frozen: std::ops::Range<usize>| {
            let seeds =
                (1..=200).filter_map(|seed| stalls(&bursts(seed, frozen.clone()), TEN_MS, None));
            seeds.filter(|found| found.longest_ns >= 1_500_000_000).count()
        };
        let (hits, false_ones) = (found(500..750), found(0..0));
        assert!(hits >= 190 && false_ones == 0, "{hits} and {false_ones} of 200");
    }

    /// Ten seconds of a server with constant service time, loaded to 90 % by a Poisson process of
    /// 450/s, and frozen for a part of them.
    fn constant_server(seed: u64, frozen_s: std::ops::Range<f64>) -> Vec<u64> {
        let mut chance = Chance::new(seed);
        let (mut due_s, mut free_s) = (0.0, 0.0f64);
        let mut counts = vec![0; 1_000];
        loop {
            due_s -= (1.0 - chance.unit()).ln() / 450.0;
            free_s = free_s.max(due_s) + 0.002;
            if frozen_s.contains(&free_s) {
                free_s = frozen_s.end;
            }
            match counts.get_mut((free_s * 100.0) as usize) {
                Some(count) => *count += 1,
                None => break counts,
            }
        }
    }

    #[test]
    fn a_busy_constant_server_does_not_stall_where_nothing_is_due() {
        let due = Due { per_s: 450.0, dispersion: 1.0 };
        for seed in 1..50 {
            let found = stalls(&constant_server(seed, 0.0..0.0), TEN_MS, Some(due));
            assert_eq!(found, None, "seed {seed}");
            let frozen = constant_server(seed, 2.0..3.0);
            let found = stalls(&frozen, TEN_MS, Some(due)).unwrap();
            assert!(found.longest_ns.abs_diff(1_000_000_000) <= 2 * found.width_ns, "{found:?}");
        }
    }

    /// Ten seconds of one server, at 600/s in equal distances: a tenth of the requests take 8.2 ms,
    /// and the others 0.2 ms.
    fn scattered_server(seed: u64, frozen_s: std::ops::Range<f64>) -> Vec<u64> {
        let mut chance = Chance::new(seed);
        let mut free_s = 0.0f64;
        let mut counts = vec![0; 1_000];
        for due in 0..6_000 {
            let takes_s = if chance.unit() < 0.1 { 0.008_2 } else { 0.000_2 };
            free_s = free_s.max(f64::from(due) / 600.0) + takes_s;
            if frozen_s.contains(&free_s) {
                free_s = frozen_s.end;
            }
            if let Some(count) = counts.get_mut((free_s * 100.0) as usize) {
                *count += 1;
            }
        }
        counts
    }

    #[test]
    fn many_freezes_of_one_length_are_no_scatter() {
        // A minute at 1,000/s, frozen for 100 ms each second.
        let freeze = |at: usize| match at % 100 {
            50..60 => 0,
            60 => 110,
            _ => 10,
        };
        let counts: Vec<u64> = (0..6_000).map(freeze).collect();
        let due = Due { per_s: 1_000.0, dispersion: 0.0 };
        assert_eq!(stalls(&counts, TEN_MS, Some(due)).unwrap().count, 60);
    }

    #[test]
    fn requests_that_take_long_on_one_server_are_no_stalls_and_a_freeze_of_it_is_one() {
        let due = Due { per_s: 600.0, dispersion: 0.0 };
        for seed in 1..100 {
            let found = stalls(&scattered_server(seed, 0.0..0.0), TEN_MS, Some(due));
            assert_eq!(found, None, "seed {seed}");
            let frozen = scattered_server(seed, 2.0..2.3);
            let found = stalls(&frozen, TEN_MS, Some(due)).unwrap();
            assert_eq!(found.count, 1, "{found:?}");
        }
    }

    #[test]
    fn half_of_what_is_due_is_a_stall_of_wider_intervals() {
        let due = Due { per_s: 4_000.0, dispersion: 1.0 };
        let found = (1..50).filter(|seed| {
            let slow = series(*seed, |at| if (400..600).contains(&at) { 0.5 } else { 1.0 });
            let found = stalls(&slow, TEN_MS, Some(due));
            found.is_some_and(|found| found.longest_ns > 1_500_000_000)
        });
        assert!(found.count() > 45);
    }

    #[test]
    fn a_device_that_has_gone_is_a_stall_though_it_never_came_back() {
        let gone = series(1, |at| if at >= 800 { 0.0 } else { 1.0 });
        assert_eq!(stalls(&gone, TEN_MS, None).map(|found| found.count), Some(1));
    }
}
