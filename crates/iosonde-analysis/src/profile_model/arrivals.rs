//! Due times of a role's requests: a distribution of inter-arrival times, and phases in which the
//! load is on, off or at another rate.

use super::rows::Row;
use super::sizes::rounded;
use iosonde_model::record::profile::{Class, Op, ProfileRun, Traffic};
use iosonde_model::record::run::CounterSeries;
use iosonde_model::spec::{Arrivals, Bursts, Pace, Phase, Rate};
use iosonde_stats::Histogram;
use iosonde_stats::distance::from_exponential;

/// Largest number of phases of a role.
const MOST_PHASES: usize = 48;
/// Largest number of intervals evaluated; more are merged first.
const MOST_INTERVALS: usize = 512;
/// Smallest share of a direction's requests with which a row gets the direction's series, in
/// records without a series for each row.
const DOMINANT: f64 = 0.7;
/// Smallest relative change of the rate that starts a new phase, if it is not a fluctuation.
const CHANGE: f64 = 0.25;
/// Standard errors at or above which a change is not a fluctuation.
const ERRORS: f64 = 4.0;
/// Idle share of the time at or above which a role has an idle phase.
const IDLE: f64 = 0.05;
/// Share of the requests that busy phases have; the other phases are slow or idle.
const BUSY: f64 = 0.95;
/// Ratio to the mean inter-arrival time of busy phases above which a time is not theirs.
const SLOWER: f64 = 1.05;
/// Share of the time at or above which a single inter-arrival time is not drawn: a replay would
/// have none or two by chance, and thus many more or fewer requests.
const SINGLE: f64 = 0.25;
/// Share of a phase below which its requests, at the drawn times, do not fill it.
const PART: f64 = 0.5;
/// Coefficient of variation at or below which arrivals are evenly spaced.
const EVEN: f64 = 0.1;
/// Distance from the exponential distribution at or below which arrivals are those of a Poisson
/// process.
const EXPONENTIAL: f64 = 0.05;
/// Bursts are drawn as such if the share of bursts with several requests is at most this share of
/// that of independent draws.
const CLUSTERED: f64 = 0.9;
/// Share of sequential requests at or above which requests sent together would be merged.
const MERGED: f64 = 0.2;
/// Share of short times at or above which they make bursts.
const OFTEN_SHORT: f64 = 0.05;
/// Fewest inter-arrival times for a distribution.
const FEWEST: u64 = 20;
/// Largest share of the inter-arrival times that one entry of a table represents.
const ENTRY: f64 = 1.0 / 32.0;
/// Largest ratio of the longest to the shortest inter-arrival time of an entry.
const ENTRY_RATIO: f64 = 2.0;

/// Pace and phases of a role.
pub(super) struct Phased {
    pub(super) pace: Pace,
    pub(super) phases: Vec<Phase>,
}

/// A span of time with its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Stretch {
    ns: u64,
    requests: f64,
}

impl Stretch {
    fn rate(self) -> f64 {
        self.requests / self.ns.max(1) as f64
    }

    fn with(self, other: Stretch) -> Stretch {
        Stretch { ns: self.ns + other.ns, requests: self.requests + other.requests }
    }
}

/// Length of one round of every role's phases, ns: at least until the last request of any.
pub(super) fn round_ns(run: &ProfileRun, rows: &[Row]) -> u64 {
    rows.iter().map(|row| row.active.1).max().unwrap_or(0).max(run.measured_ns).max(1)
}

/// Pace and phases of the requests of a row.
pub(super) fn arrivals(run: &ProfileRun, row: &Row, rows: &[Row]) -> Phased {
    let round_ns = round_ns(run, rows);
    let stretches = series(run, row, rows, round_ns).unwrap_or_else(|| active(row, round_ns));
    let stretches = merged(stretches);
    let busy = busy(&stretches);
    let drawn = row.gaps.as_ref().map(|gaps| within_phases(gaps, 1.0 / busy.rate));
    let law = drawn.as_ref().map_or(Arrivals::Poisson, |points| law(points));
    let stretches = drawn.map_or(stretches.clone(), |points| at_once(&stretches, busy, &points));
    let is_on = |stretch: &&Stretch| stretch.requests > 0.0;
    let on_ns: u64 = stretches.iter().filter(is_on).map(|stretch| stretch.ns).sum();
    let per_ns = row.requests as f64 / on_ns.max(1) as f64;
    let mean = stretches.iter().map(|stretch| stretch.requests).sum::<f64>() / on_ns.max(1) as f64;
    let phase = |stretch: &Stretch| Phase {
        ns: stretch.ns,
        rate_percent: rounded(100.0 * stretch.rate() / mean),
        ..Phase::default()
    };
    let phases: Vec<Phase> = match stretches.as_slice() {
        [] | [_] => Vec::new(),
        several => several.iter().map(phase).collect(),
    };
    // Six significant digits: no rate is known more precisely.
    let ops = significant(per_ns * 1e9);
    Phased { pace: Pace::Rate { rate: Rate::Ops(ops), arrivals: law }, phases }
}

/// Sets the share of the syncs of each phase if the program's flushes were not spread over time
/// like its writes: some threads sync while others write.
pub(super) fn spread_syncs(run: &ProfileRun, phases: &mut [Phase]) {
    let Some(series) = run.series.iter().find(|series| series.op == Op::Flush) else { return };
    let shares = shares(phases, &series.counters);
    for (phase, share) in phases.iter_mut().zip(shares) {
        phase.sync_percent = share.min(Phase::MOST_PERCENT);
    }
}

/// Sets the share of commits of each phase by the journal's writes in that time; `percent` of the
/// role's syncs wait for commits.
pub(super) fn spread_commits(phases: &mut [Phase], journal: &CounterSeries, percent: f64) {
    // If the number of syncs differs between phases, a phase has no single share of commits.
    if phases.iter().any(|phase| phase.sync_percent != 100.0) {
        return;
    }
    let shares = shares(phases, journal);
    for (phase, share) in phases.iter_mut().zip(shares) {
        phase.commit_percent = rounded(share.min(100.0 * 100.0 / percent));
    }
}

/// Share of all writes that each phase has.
fn writes(phases: &[Phase]) -> impl Iterator<Item = f64> {
    let writes = |phase: &Phase| phase.ns as f64 * phase.rate_percent;
    let all: f64 = phases.iter().map(writes).sum();
    phases.iter().map(move |phase| writes(phase) / all)
}

/// Number of requests of a series in each phase.
fn counted(phases: &[Phase], series: &CounterSeries) -> Vec<f64> {
    let spans = phases.iter().scan(0, |end_ns, phase| {
        *end_ns += phase.ns;
        Some((*end_ns - phase.ns, *end_ns))
    });
    let spans: Vec<(u64, u64)> = spans.collect();
    // The last interval ends with the load.
    let is_on = |(_, phase): &(_, &Phase)| phase.rate_percent > 0.0;
    let end_ns = spans.iter().zip(phases).rfind(is_on).map_or(0, |((_, end_ns), _)| *end_ns);
    let within = |(from_ns, to_ns): &(u64, u64)| -> f64 {
        let edges = (0..).map(|at| at * series.width_ns);
        let each = series.ops.iter().zip(edges).map(|(ops, at_ns)| {
            let upto_ns = end_ns.min(at_ns + series.width_ns);
            let part_ns = upto_ns.min(*to_ns).saturating_sub(at_ns.max(*from_ns));
            *ops as f64 * part_ns as f64 / upto_ns.saturating_sub(at_ns).max(1) as f64
        });
        each.sum()
    };
    spans.iter().map(within).collect()
}

/// Requests of a series in each phase, percent of the number if they were spread like the writes;
/// 100 for each phase if the differences are fluctuations.
fn shares(phases: &[Phase], series: &CounterSeries) -> Vec<f64> {
    let found = counted(phases, series);
    let whole: f64 = found.iter().sum();
    let expected: Vec<f64> = writes(phases).map(|share| whole * share).collect();
    let differs = |(found, expected): (&f64, &f64)| {
        *expected > 0.0
            && (found - expected).abs() > (ERRORS * expected.sqrt()).max(CHANGE * expected)
    };
    if whole < FEWEST as f64 || !found.iter().zip(&expected).any(differs) {
        return vec![100.0; phases.len()];
    }
    let share = |(found, expected): (&f64, &f64)| {
        if *expected > 0.0 { rounded(100.0 * found / expected) } else { 100.0 }
    };
    found.iter().zip(&expected).map(share).collect()
}

fn significant(value: f64) -> f64 {
    let scale = 10f64.powf(5.0 - value.abs().max(1e-12).log10().floor());
    (value * scale).round() / scale
}

/// The series of a row: its own or, in earlier records, that of the program's requests in its
/// direction, if the row has most of them.
fn counters<'a>(run: &'a ProfileRun, row: &'a Row, rows: &[Row]) -> Option<&'a CounterSeries> {
    if !row.counters.is_empty() {
        return Some(&row.counters);
    }
    let counts = |other: &&Row| other.op == row.op && other.class != Class::Journal;
    let of_op: u64 = rows.iter().filter(counts).map(|other| other.requests).sum();
    let has_most = counts(&row) && row.requests as f64 >= DOMINANT * of_op as f64;
    let series = run.series.iter().find(|series| series.op == row.op)?;
    has_most.then_some(&series.counters)
}

/// Requests of a row over time, from the start of the round to its end.
fn series(run: &ProfileRun, row: &Row, rows: &[Row], round_ns: u64) -> Option<Vec<Stretch>> {
    let series = counters(run, row, rows)?;
    let (width_ns, last) = (series.width_ns, series.ops.iter().rposition(|ops| *ops > 0)?);
    if width_ns == 0 || last < 2 {
        return None;
    }
    let counted = series.ops.iter().map(|ops| Stretch { ns: width_ns, requests: *ops as f64 });
    let mut stretches: Vec<Stretch> = counted.take(last + 1).collect();
    // The last interval ends with the last request.
    let before = last as u64 * width_ns;
    if let Some(end) = stretches.last_mut() {
        end.ns = row.active.1.saturating_sub(before).clamp(width_ns / 10, width_ns).max(1);
    }
    let seen: u64 = stretches.iter().map(|stretch| stretch.ns).sum();
    let rest = round_ns.saturating_sub(seen);
    if rest > 0 {
        stretches.push(Stretch { ns: rest, requests: 0.0 });
    }
    Some(stretches)
}

/// Idle, on, idle: derived from the first and the last request only.
fn active(row: &Row, round_ns: u64) -> Vec<Stretch> {
    let (from, to) = row.active;
    let idle_ns = from + round_ns.saturating_sub(to);
    if to <= from || (idle_ns as f64) < IDLE * round_ns as f64 {
        return vec![Stretch { ns: round_ns, requests: row.requests as f64 }];
    }
    let all = [
        Stretch { ns: from, requests: 0.0 },
        Stretch { ns: to - from, requests: row.requests as f64 },
        Stretch { ns: round_ns.saturating_sub(to), requests: 0.0 },
    ];
    all.into_iter().filter(|stretch| stretch.ns > 0).collect()
}

/// Merges neighbours that do not differ, the most similar first, and more until few remain.
fn merged(mut all: Vec<Stretch>) -> Vec<Stretch> {
    while all.len() > MOST_INTERVALS {
        let pairs = all.chunks(2).filter_map(|pair| pair.iter().copied().reduce(Stretch::with));
        all = pairs.collect();
    }
    let whole = all.iter().copied().fold(Stretch::default(), Stretch::with);
    let mean = whole.rate().max(f64::MIN_POSITIVE);
    let difference = |one: Stretch, other: Stretch| {
        let apart = (one.rate() - other.rate()).abs();
        let variance = |of: Stretch| of.requests / (of.ns.max(1) as f64).powi(2);
        let error = (variance(one) + variance(other)).sqrt().max(f64::MIN_POSITIVE);
        (apart / mean / CHANGE).min(apart / error / ERRORS)
    };
    while all.len() > 1 {
        let pairs = all.windows(2).map(|pair| difference(pair[0], pair[1])).enumerate();
        let Some((at, least)) = pairs.min_by(|a, b| a.1.total_cmp(&b.1)) else { break };
        if least >= 1.0 && all.len() <= MOST_PHASES {
            break;
        }
        let next = all.remove(at + 1);
        all[at] = all[at].with(next);
    }
    all
}

/// The phases that have nearly all requests, the fastest first.
#[derive(Clone, Copy, Debug)]
struct Busy {
    /// Requests per ns of all of them together; 0 if there is only one phase.
    rate: f64,
    /// Requests per ns of the slowest of them.
    slowest: f64,
}

fn busy(stretches: &[Stretch]) -> Busy {
    if let [] | [_] = stretches {
        return Busy { rate: 0.0, slowest: 0.0 };
    }
    let all: f64 = stretches.iter().map(|stretch| stretch.requests).sum();
    let mut fastest = stretches.to_vec();
    fastest.sort_by(|a, b| b.rate().total_cmp(&a.rate()));
    let mut busy = Stretch::default();
    let mut slowest = 0.0;
    for stretch in fastest {
        if busy.requests >= BUSY * all {
            break;
        }
        busy = busy.with(stretch);
        slowest = stretch.rate();
    }
    Busy { rate: busy.rate(), slowest }
}

/// Splits busy phases whose requests, at the drawn times, fill only a part of the phase: the
/// requests come at once, followed by a pause.
fn at_once(stretches: &[Stretch], busy: Busy, drawn: &[(u64, u64)]) -> Vec<Stretch> {
    let times: u64 = drawn.iter().map(|(_, times)| times).sum();
    let sum: f64 = drawn.iter().map(|(ns, times)| *ns as f64 * *times as f64).sum();
    let split = |stretch: &Stretch| -> Vec<Stretch> {
        let on_ns = stretch.requests * sum / times.max(1) as f64;
        let is_part = on_ns >= 1.0 && on_ns < PART * stretch.ns as f64;
        if times < FEWEST || !is_part || stretch.rate() < busy.slowest {
            return vec![*stretch];
        }
        let on_ns = on_ns as u64;
        vec![
            Stretch { ns: on_ns, requests: stretch.requests },
            Stretch { ns: stretch.ns - on_ns, requests: 0.0 },
        ]
    };
    let all: Vec<Stretch> = stretches.iter().flat_map(split).collect();
    let are_idle = |one: &Stretch, next: &Stretch| one.requests + next.requests == 0.0;
    all.chunk_by(are_idle).filter_map(|row| row.iter().copied().reduce(Stretch::with)).collect()
}

/// The inter-arrival times within phases. The longest times, which make phases slow or idle, are
/// excluded: a table is scaled to the rate, so they would shorten the others. Times that last for
/// much of the whole are excluded, too.
fn within_phases(gaps: &Histogram, busy_ns: f64) -> Vec<(u64, u64)> {
    let mut points: Vec<(u64, u64)> = gaps.midpoints().collect();
    let product = |(ns, times): &(u64, u64)| *ns as f64 * *times as f64;
    let mut sum: f64 = points.iter().map(product).sum();
    let mut times: u64 = points.iter().map(|(_, times)| times).sum();
    let is_apart = |ns: u64, sum: f64, times: u64| {
        let is_slower = sum > SLOWER * busy_ns * times as f64 && ns as f64 > SLOWER * busy_ns;
        is_slower || (times > FEWEST && ns as f64 >= SINGLE * sum)
    };
    while let Some(longest) = points.pop_if(|(ns, _)| is_apart(*ns, sum, times)) {
        sum -= product(&longest);
        times -= longest.1;
    }
    points
}

/// The distribution of the inter-arrival times within phases.
fn law(points: &[(u64, u64)]) -> Arrivals {
    let whole: f64 = points.iter().map(|(_, n)| *n as f64).sum();
    let moment = |power: i32| -> f64 {
        points.iter().map(|(ns, n)| (*ns as f64).powi(power) * *n as f64).sum::<f64>() / whole
    };
    if whole < FEWEST as f64 || moment(1) <= 0.0 {
        return Arrivals::Poisson;
    }
    let variation = (moment(2) / moment(1).powi(2) - 1.0).max(0.0).sqrt();
    match from_exponential(points) {
        _ if variation <= EVEN => Arrivals::Constant,
        Some(distance) if distance <= EXPONENTIAL => Arrivals::Poisson,
        _ => Arrivals::Drawn(table(points, whole)),
    }
}

/// Neighbouring inter-arrival times merged to their mean, each entry with a bounded share and
/// ratio.
fn table(points: &[(u64, u64)], all: f64) -> Vec<(u64, f64)> {
    let mut entries: Vec<(u64, f64, f64)> = Vec::new();
    for (ns, times) in points {
        let (ns_each, times) = (*ns as f64, *times as f64);
        match entries.last_mut() {
            Some((first, sum, count))
                if (*count + times) <= ENTRY * all
                    && ns_each <= ENTRY_RATIO * (*first).max(1) as f64 =>
            {
                *sum += ns_each * times;
                *count += times;
            }
            _ => entries.push((*ns, ns_each * times, times)),
        }
    }
    whole(entries.iter().map(|(_, sum, count)| ((sum / count).round() as u64, *count)).collect())
}

/// Replaces a drawn table by bursts of the recorded lengths if its short times come in long runs,
/// which independent draws would spread over the whole time.
pub(super) fn gathered(mut pace: Pace, row: &Row) -> Pace {
    if let Pace::Rate { arrivals, .. } = &mut pace
        && let Arrivals::Drawn(table) = arrivals
        && (row.sequential as f64) < MERGED * row.requests as f64
        && let Some(bursts) = bursts(table, &row.bursts)
    {
        *arrivals = Arrivals::Bursts(bursts);
    }
    pace
}

/// Bursts of these lengths with the times of a table; `None` if independent draws from the table
/// have nearly as many bursts of several requests.
fn bursts(table: &[(u64, f64)], lengths: &[u64]) -> Option<Bursts> {
    let (within, between): (Vec<_>, Vec<_>) =
        table.iter().partition(|(ns, _)| *ns < Traffic::WITHIN_BURST_NS);
    let percent = |part: &[(u64, f64)]| part.iter().map(|(_, percent)| percent).sum::<f64>();
    let (short, long) = (percent(&within) / 100.0, percent(&between) / 100.0);
    let all: u64 = lengths.iter().sum();
    let single = *lengths.first()?;
    if all < FEWEST || short < OFTEN_SHORT || long <= 0.0 {
        return None;
    }
    let of_several = (all - single) as f64 / all as f64;
    if of_several <= 0.0 || of_several > CLUSTERED * short {
        return None;
    }
    // Mean number of requests of a burst of several, from the share of the short times. The middles
    // of the classes may have another mean, so they are scaled to this one.
    let mean = 1.0 + short / long / of_several;
    let several = || lengths.iter().enumerate().skip(1).filter(|(_, bursts)| **bursts > 0);
    let middle = |class: usize| 1.5 * 2f64.powi(class as i32) - 0.5;
    let sum: f64 = several().map(|(class, bursts)| middle(class) * *bursts as f64).sum();
    let scale = (mean - 1.0) / (sum / (all - single) as f64 - 1.0);
    let share = |bursts: u64| bursts as f64 * 100.0 / all as f64;
    let length = |class: usize| (1.0 + (middle(class) - 1.0) * scale).round().max(2.0) as u64;
    let mut requests = vec![(1, share(single))];
    requests.extend(several().map(|(class, bursts)| (length(class), share(*bursts))));
    Some(Bursts { requests: whole(requests), within: whole(within), between: whole(between) })
}

/// Scales shares to a sum of 100, with six decimal places.
fn whole(mut table: Vec<(u64, f64)>) -> Vec<(u64, f64)> {
    let sum: f64 = table.iter().map(|(_, percent)| percent).sum();
    table.iter_mut().for_each(|(_, percent)| *percent = six(*percent * 100.0 / sum));
    table.retain(|(_, percent)| *percent > 0.0);
    let sum: f64 = table.iter().map(|(_, percent)| percent).sum();
    if let Some((_, most)) = table.iter_mut().max_by(|a, b| a.1.total_cmp(&b.1)) {
        *most = six(*most + 100.0 - sum);
    }
    table
}

/// Rounds to six decimal places: a rare time may be long enough to dominate the mean.
fn six(percent: f64) -> f64 {
    (percent * 1e6).round() / 1e6
}

/// The distribution for one of several threads whose combined arrivals follow this one: many
/// independent streams combine to a Poisson process, so each gets a Poisson process.
pub(super) fn of_one_among(together: Arrivals, threads: u32) -> Arrivals {
    match together {
        Arrivals::Drawn(_) | Arrivals::Bursts(_) if threads > 1 => Arrivals::Poisson,
        law => law,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::rows::rows;
    use super::*;
    use iosonde_fixtures::profile_model::{gaps, profile, row, series};
    use iosonde_model::plan::chance::Chance;
    use iosonde_model::record::profile::{Class, Op};

    fn phased(run: &ProfileRun) -> Phased {
        let rows = rows(run).0;
        arrivals(run, &rows[0], &rows)
    }

    fn rate_of(pace: &Pace) -> (f64, Arrivals) {
        match pace {
            Pace::Rate { rate: Rate::Ops(ops), arrivals } => (*ops, arrivals.clone()),
            other => panic!("{other:?}"),
        }
    }

    fn poisson(mean_ns: f64, n: u64) -> Histogram {
        let mut chance = Chance::new(1);
        gaps((0..n).map(|_| (-(1.0 - chance.unit()).ln() * mean_ns) as u64))
    }

    #[test]
    fn a_steady_load_has_its_rate_and_its_law_and_no_phases() {
        for (histogram, law) in [
            (poisson(1e6, 9999), Arrivals::Poisson),
            (gaps(std::iter::repeat_n(1_000_000, 9999)), Arrivals::Constant),
        ] {
            let traffic = Traffic { gaps: histogram, ..row(Class::Program, Op::Read, 10_000) };
            let phased = phased(&profile(vec![traffic]));
            assert_eq!(rate_of(&phased.pace), (1000.0, law));
            assert_eq!(phased.phases, []);
        }
    }

    #[test]
    fn bursts_become_a_table_with_their_mean_and_shares() {
        // Groups of ten at 10 µs, then a millisecond.
        let all = (0..10_000).map(|n| if n % 10 == 9 { 1_000_000 } else { 10_000 });
        let traffic = Traffic { gaps: gaps(all), ..row(Class::WriteBack, Op::Write, 10_001) };
        let (_, law) = rate_of(&phased(&profile(vec![traffic])).pace);
        let Arrivals::Drawn(table) = law else { panic!("{law:?}") };
        let [(short, many), (long, few)] = table[..] else { panic!("{table:?}") };
        assert!(short.abs_diff(10_000) < 100 && long.abs_diff(1_000_000) < 8000, "{table:?}");
        assert!((many - 90.0).abs() < 1e-6 && (few - 10.0).abs() < 1e-6, "{table:?}");
    }

    /// Writes of which half come 10 µs after the previous one; numbers of bursts by length class.
    fn clustered(bursts: Vec<u64>, sequential: u64) -> Row {
        let all = (0..10_000).map(|n| if n % 2 == 0 { 10_000 } else { 1_000_000 });
        let traffic = Traffic {
            gaps: gaps(all),
            bursts,
            sequential,
            ..row(Class::Program, Op::Write, 10_001)
        };
        rows(&profile(vec![traffic])).0.remove(0)
    }

    fn gathered_of(row: &Row) -> Arrivals {
        let run = profile(vec![]);
        rate_of(&gathered(arrivals(&run, row, std::slice::from_ref(row)).pace, row)).1
    }

    #[test]
    fn short_times_that_come_in_long_rows_become_bursts() {
        // 5000 times between bursts: 4800 of one request, 200 of 26 requests on average.
        let Arrivals::Bursts(bursts) = gathered_of(&clustered(vec![4800, 0, 0, 0, 200], 0)) else {
            panic!("no bursts");
        };
        assert_eq!(bursts.requests, [(1, 96.0), (26, 4.0)]);
        let [(within, 100.0)] = bursts.within[..] else { panic!("{:?}", bursts.within) };
        let [(between, 100.0)] = bursts.between[..] else { panic!("{:?}", bursts.between) };
        assert!(within.abs_diff(10_000) < 100 && between.abs_diff(1_000_000) < 8000);
        // A burst has the recorded mean length: 10,000 requests in 5000 bursts.
        assert!((Arrivals::mean(&bursts.requests) - 2.0).abs() < 1e-9);
        assert!((bursts.mean_ns() - 505_000.0).abs() < 4000.0, "{}", bursts.mean_ns());
    }

    #[test]
    fn short_times_as_independent_draws_have_them_stay_a_table() {
        // After each request, half of the bursts end.
        let independent = clustered(vec![2500, 1875, 586, 37], 0);
        assert!(matches!(gathered_of(&independent), Arrivals::Drawn(_)));
        // Requests of a stream would be merged; an earlier profile has no bursts.
        let stream = clustered(vec![4800, 0, 0, 0, 200], 9000);
        assert!(matches!(gathered_of(&stream), Arrivals::Drawn(_)));
        assert!(matches!(gathered_of(&clustered(vec![], 0)), Arrivals::Drawn(_)));
    }

    #[test]
    fn a_table_has_bounded_entries_and_adds_up() {
        let mut chance = Chance::new(4);
        let wide = (0..50_000).map(|_| 10f64.powf(2.0 + 7.0 * chance.unit()) as u64);
        let points: Vec<(u64, u64)> = gaps(wide).midpoints().collect();
        let Arrivals::Drawn(table) = law(&points) else { panic!() };
        assert!((20..80).contains(&table.len()), "{}", table.len());
        assert!((table.iter().map(|(_, percent)| percent).sum::<f64>() - 100.0).abs() < 1e-6);
        assert!(table.iter().all(|(_, percent)| *percent < 5.0), "{table:?}");
    }

    #[test]
    fn on_and_off_become_phases_of_the_right_length() {
        // Two seconds on, three off, twice: ten seconds of 100 ms.
        let counts: Vec<u64> = (0..100).map(|at| if at % 50 < 20 { 100 } else { 0 }).collect();
        let mut run = profile(vec![row(Class::Program, Op::Write, 4000)]);
        run.series = vec![series(Op::Write, counts)];
        let phased = phased(&run);
        let formatted: Vec<(u64, f64)> =
            phased.phases.iter().map(|phase| (phase.ns, phase.rate_percent)).collect();
        let (on, off) = (2_000_000_000, 3_000_000_000);
        assert_eq!(formatted, [(on, 100.0), (off, 0.0), (on, 100.0), (off, 0.0)]);
        assert_eq!(rate_of(&phased.pace).0, 1000.0);
    }

    #[test]
    fn pauses_that_make_a_phase_slow_are_not_drawn_in_the_others() {
        // One second of bursts of 10 requests, then nine seconds with two requests.
        let bursts = (0..10_000).map(|n| if n % 10 == 9 { 910_000 } else { 10_000 });
        let all = bursts.chain([3_000_000_000; 2]);
        let traffic = Traffic { gaps: gaps(all), ..row(Class::Program, Op::Read, 10_003) };
        let mut run = profile(vec![traffic]);
        let mut counts = vec![0; 100];
        counts[..10].fill(1000);
        (counts[40], counts[70]) = (1, 1);
        run.series = vec![series(Op::Read, counts)];
        let phased = phased(&run);
        let Arrivals::Drawn(table) = rate_of(&phased.pace).1 else { panic!() };
        let [(short, many), (long, few)] = table[..] else { panic!("{table:?}") };
        assert!(short.abs_diff(10_000) < 100 && long.abs_diff(910_000) < 8000, "{table:?}");
        assert!((many / few - 9.0).abs() < 0.1, "{table:?}");
    }

    #[test]
    fn requests_that_come_at_once_do_so_within_a_phase() {
        // Each second 150 requests 30 µs apart, in intervals of 100 ms.
        let all = std::iter::repeat_n(30_000, 447).chain([996_000_000; 2]);
        let counts = (0..100).map(|at| if at % 10 == 0 && at < 30 { 150 } else { 0 }).collect();
        let traffic = Traffic {
            gaps: gaps(all),
            counters: series(Op::Write, counts).counters,
            ..row(Class::Program, Op::Write, 450)
        };
        let phased = phased(&profile(vec![traffic]));
        let on: Vec<u64> = phased.phases.iter().map(|phase| phase.ns / 100_000).collect();
        assert_eq!(on[..4], [45, 9954, 45, 9954], "{:?}", phased.phases);
        let (ops, law) = rate_of(&phased.pace);
        assert!((ops / (1e9 / 30_000.0) - 1.0).abs() < 0.01 && law == Arrivals::Constant, "{ops}");
        assert_eq!(phased.phases[0].rate_percent, 100.0);
    }

    #[test]
    fn one_pause_that_lasts_for_much_of_all_is_not_drawn() {
        let traffic = |pauses| {
            let all = std::iter::repeat_n(10_000, 1000).chain([5_000_000; 40]).chain(pauses);
            Traffic { gaps: gaps(all), ..row(Class::Program, Op::Read, 1041) }
        };
        let longest = |pauses: Vec<u64>| {
            let pace = phased(&profile(vec![traffic(pauses)])).pace;
            let Arrivals::Drawn(table) = rate_of(&pace).1 else { panic!() };
            table.into_iter().map(|(ns, _)| ns).max().unwrap()
        };
        assert!(longest(vec![100_000_000]) < 6_000_000);
        // Several such times are part of the load.
        assert!(longest(vec![50_000_000; 8]) > 40_000_000);
    }

    #[test]
    fn a_rate_that_only_fluctuates_has_no_phases() {
        let mut chance = Chance::new(2);
        let counts: Vec<u64> =
            (0..100).map(|_| (0..200).filter(|_| chance.unit() < 0.5).count() as u64).collect();
        let requests = counts.iter().sum();
        let mut run = profile(vec![row(Class::Program, Op::Write, requests)]);
        run.series = vec![series(Op::Write, counts)];
        assert_eq!(phased(&run).phases, []);
    }

    #[test]
    fn each_group_has_the_phases_of_its_own_requests() {
        let of = |counts: Vec<u64>, group| Traffic {
            group,
            counters: series(Op::Write, counts).counters,
            ..row(Class::Program, Op::Write, 1000)
        };
        let early: Vec<u64> = (0..100).map(|at| if at < 25 { 40 } else { 0 }).collect();
        let late = early.iter().rev().copied().collect();
        let run = profile(vec![of(early, 1), of(late, 2)]);
        let rows = rows(&run).0;
        let on = |row: &Row| -> Vec<(u64, f64)> {
            let phases = arrivals(&run, row, &rows).phases;
            phases.iter().map(|phase| (phase.ns / 100_000_000, phase.rate_percent)).collect()
        };
        assert_eq!(on(&rows[0]), [(25, 100.0), (75, 0.0)]);
        assert_eq!(on(&rows[1]), [(75, 0.0), (25, 100.0)]);
    }

    /// Commits of a quarter of the syncs, of a journal with these writes per 100 ms.
    fn commits_of(writes: Vec<u64>, ns: [u64; 3]) -> Vec<f64> {
        let phase = |(ns, rate_percent)| Phase { ns, rate_percent, ..Phase::default() };
        let mut phases: Vec<Phase> = ns.into_iter().zip([50.0, 125.0, 0.0]).map(phase).collect();
        spread_commits(&mut phases, &series(Op::Write, writes).counters, 25.0);
        phases.iter().map(|phase| phase.commit_percent).collect()
    }

    #[test]
    fn phases_have_the_commits_of_their_time() {
        // A third of the time at two fifths of the rate: a sixth of the writes.
        let ns = [1_000_000_000, 2_000_000_000, 7_000_000_000];
        let early = [vec![34; 10], vec![8; 20], vec![0; 70]].concat();
        assert_eq!(commits_of(early, ns), [400.0, 38.4, 100.0], "not more than all syncs");
        // The journal's writes are spread like the role's own.
        let even = [vec![10; 10], vec![25; 20], vec![0; 70]].concat();
        assert_eq!(commits_of(even, ns), [100.0; 3]);
    }

    #[test]
    fn the_last_interval_ends_with_the_load() {
        let late = vec![0, 0, 50, 50, 50, 50, 50];
        let ns = [200_000_000, 410_000_000, 5_000_000];
        let phase = |(ns, rate_percent)| Phase { ns, rate_percent, ..Phase::default() };
        let phases: Vec<Phase> = ns.into_iter().zip([50.0, 125.0, 0.0]).map(phase).collect();
        assert_eq!(counted(&phases, &series(Op::Write, late).counters), [0.0, 250.0, 0.0]);
    }

    #[test]
    fn one_group_among_several_is_on_from_its_first_to_its_last_request() {
        let late = Traffic {
            active_ns: Some((5_000_000_000, 10_000_000_000)),
            ..row(Class::Program, Op::Write, 500)
        };
        let other = Traffic { group: 2, ..row(Class::Program, Op::Write, 400) };
        let phased = phased(&profile(vec![late, other]));
        let formatted: Vec<(u64, f64)> =
            phased.phases.iter().map(|phase| (phase.ns, phase.rate_percent)).collect();
        assert_eq!(formatted, [(5_000_000_000, 0.0), (5_000_000_000, 100.0)]);
        assert_eq!(rate_of(&phased.pace).0, 100.0);
    }
}
