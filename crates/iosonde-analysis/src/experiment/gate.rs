//! The conditions under which a sentence may recommend, rank or conclude.
//!
//! A setting is called best only if it is shown to be better than every other one, by Welch's test
//! on logarithms with Holm's correction over all of them. Settings that are not shown to differ
//! from the highest are named together. Nothing is concluded from fewer than three runs, or if a
//! setting that may be the best has low confidence.

use super::words::Times;
use super::{Measure, Point, Spread, StageFacts, Standing};
use iosonde_model::spec::Direction;
use iosonde_model::spec::experiment::Parameter;
use iosonde_stats::bootstrap::log_t_p;
use iosonde_stats::holm::holm;
use iosonde_stats::normal;
use iosonde_stats::summary::Summary;

/// Maximum p value, corrected for all comparisons, at which a difference counts as shown.
const SHOWN: f64 = 0.05;
/// Minimum number of runs per setting for a conclusion.
const FEWEST_RUNS: usize = 3;
/// Share of the highest mean below which low confidence of a setting is ignored: its error would
/// have to be a factor of two.
const FAR_BELOW: f64 = 0.5;
/// Power: probability with which the recommended number of runs decides.
const POWER: f64 = 0.9;
/// Maximum number of further runs that is recommended; if more are needed, none are.
const MOST_RUNS: f64 = 30.0;
/// Maximum number of settings listed by name.
const LISTED: usize = 4;
/// Minimum coefficient of variation of a run's latencies that count as scattered.
pub(super) const SCATTER_FROM: f64 = 0.05;
/// Dispersion of one setting below which its rate may be a limit: the dispersion of three runs of
/// independent arrivals is this small once in a thousand times.
const EXACT_BELOW: f64 = 0.001;
/// Codes of findings about a limit outside the storage.
const KNOWN_LIMITS: [&str; 3] = ["cgroup_limit", "client_cpu", "token_bucket"];

/// The conclusion that the runs allow about the best of several settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Ranking<'a> {
    /// This setting is shown to be better than every other one.
    Best(&'a Point),
    /// The highest setting is not shown to be the best.
    Ties {
        /// The highest setting and those not shown to differ from it, in the given order.
        points: Vec<&'a Point>,
        /// Number of settings that are shown to be worse.
        others: usize,
        /// Further runs of each setting to tell the two highest apart; `None` if too many.
        more: Option<u64>,
    },
    /// Nothing can be concluded, for this reason.
    Undecided(String),
}

/// The highest mean of a measure and its setting, which need not be shown to be the best.
pub(super) fn highest<'a>(points: &[&'a Point], measure: Measure) -> Option<(f64, &'a Point)> {
    let means = points.iter().filter_map(|point| Some((point.mean(measure)?, *point)));
    means.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Ranks settings by a measure. `None` if fewer than two of them have it.
pub fn ranking<'a>(points: &[&'a Point], measure: Measure) -> Option<Ranking<'a>> {
    ranking_of(points, measure, Direction::Total)
}

/// Ranks settings by a measure of one direction.
fn ranking_of<'a>(points: &[&'a Point], measure: Measure, way: Direction) -> Option<Ranking<'a>> {
    let sign = if measure.more_is_better() == Some(false) { -1.0 } else { 1.0 };
    let candidates = points.iter().map(|point| {
        let values = point.values(measure, way);
        (*point, values.into_iter().map(|value| value.powf(sign)).collect())
    });
    rank(candidates.collect())
}

/// The setting that is shown to be best by a measure in one direction.
pub fn best_of<'a>(points: &[&'a Point], measure: Measure, way: Direction) -> Option<&'a Point> {
    match ranking_of(points, measure, way)? {
        Ranking::Best(point) => Some(point),
        _ => None,
    }
}

/// Ranks settings by one value per run; higher is better.
pub(super) fn rank(candidates: Vec<(&Point, Vec<f64>)>) -> Option<Ranking<'_>> {
    let known = candidates.into_iter().filter(|(_, values)| !values.is_empty());
    let known: Vec<(&Point, Vec<f64>)> = known.collect();
    if known.len() < 2 {
        return None;
    }
    let middle = |values: &[f64]| Summary::of(values).map_or(0.0, |summary| summary.mean);
    let high = |each: &&(&Point, Vec<f64>)| middle(&each.1);
    // `rev` makes `max_by` return the first of equals.
    let (lead, most) = known.iter().rev().max_by(|a, b| high(a).total_cmp(&high(b)))?;
    let few = known.iter().filter(|(_, values)| values.len() < FEWEST_RUNS).count();
    if few > 0 {
        let least = known.iter().map(|(_, values)| values.len()).min().unwrap_or(0);
        return Some(Ranking::Undecided(more_of_each(least)));
    }
    let near = |values: &[f64]| middle(values) >= FAR_BELOW * middle(most);
    let near = known.iter().filter(|(_, values)| near(values)).map(|(point, _)| *point);
    if let Some(reason) = low_confidence(near) {
        return Some(Ranking::Undecided(reason));
    }
    let others: Vec<&(&Point, Vec<f64>)> =
        known.iter().filter(|(point, _)| point.cell != lead.cell).collect();
    let corrected = holm(&others.iter().map(|(_, v)| log_t_p(most, v)).collect::<Vec<f64>>());
    let open = others.iter().zip(corrected).filter(|(_, p)| *p > SHOWN);
    let open: Vec<&(&Point, Vec<f64>)> = open.map(|(other, _)| *other).collect();
    let Some(next) = open.iter().copied().max_by(|a, b| high(a).total_cmp(&high(b))) else {
        return Some(Ranking::Best(lead));
    };
    let is_tie = |point: &Point| open.iter().any(|(other, _)| other.cell == point.cell);
    let points = known.iter().map(|(point, _)| *point);
    let points = points.filter(|point| point.cell == lead.cell || is_tie(point)).collect();
    let more = more_runs(most, &next.1, others.len());
    Some(Ranking::Ties { points, others: others.len() - open.len(), more })
}

/// The figure of the highest setting, corrected for its selection: the highest of many means is
/// partly high by chance. So the value of each run is that of the setting which is highest by the
/// other runs. The interval reaches at least to the upper end of the highest setting's own.
pub(super) fn figure_of_highest(points: &[&Point], measure: Measure) -> Option<Spread> {
    let all = points.iter().map(|point| point.per_run(measure));
    let all: Vec<Vec<f64>> = all.filter(|values| values.len() >= FEWEST_RUNS).collect();
    let runs = all.iter().map(Vec::len).min()?;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let highest = |of: &dyn Fn(&[f64]) -> f64| {
        all.iter().max_by(|a, b| of(a.as_slice()).total_cmp(&of(b.as_slice())))
    };
    let by_others = |run: usize| {
        let of_others = |values: &[f64]| mean(&[&values[..run], &values[run + 1..]].concat());
        highest(&of_others).map(|values| values[run])
    };
    let mut figure = Spread::of((0..runs).filter_map(by_others).collect())?;
    let own = highest(&mean).and_then(|values| Spread::of(values.clone())?.interval);
    figure.interval = figure.interval.zip(own).map(|((low, high), own)| (low, high.max(own.1)));
    Some(figure)
}

/// Whether the load of a setting has a think time, so that fewer requests are in flight.
pub(super) fn pauses(facts: &StageFacts, point: &Point) -> bool {
    facts.number(point, Parameter::Think).is_some_and(|ns| ns > 0.0)
}

/// Why nothing is concluded about these settings; `None` if a conclusion is allowed.
pub(super) fn withheld(points: &[&Point]) -> Option<String> {
    let least = points.iter().map(|point| point.runs.len()).min()?;
    if least < FEWEST_RUNS {
        return Some(more_of_each(least));
    }
    low_confidence(points.iter().copied())
}

fn more_of_each(have: usize) -> String {
    let more = FEWEST_RUNS - have.min(FEWEST_RUNS - 1);
    let (runs, of) = (if have == 1 { "run" } else { "runs" }, if more == 1 { "" } else { "s" });
    format!("not decidable yet: {have} {runs} per setting; {more} more run{of} of each needed")
}

fn low_confidence<'a>(points: impl Iterator<Item = &'a Point>) -> Option<String> {
    let low = points.filter(|point| point.standing != Standing::Good);
    let low: Vec<&Point> = low.collect();
    let Standing::LowConfidence(why) = &low.first()?.standing else {
        return Some("not decidable yet: a setting has no valid run".into());
    };
    let name = |point: &&Point| point.name();
    Some(match low.as_slice() {
        [one] => format!("not decidable yet: low confidence at {} ({why})", name(one)),
        several => format!(
            "not decidable yet: low confidence at {} settings, such as {} ({why})",
            several.len(),
            name(&several[0])
        ),
    })
}

/// Further runs of each of two settings that would show the observed difference, given the
/// observed spread; `None` above [`MOST_RUNS`].
fn more_runs(one: &[f64], other: &[f64], comparisons: usize) -> Option<u64> {
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let (one, other) = (Summary::of(&logs(one))?, Summary::of(&logs(other))?);
    let distance = (one.mean - other.mean).abs();
    let z =
        normal::quantile(1.0 - SHOWN / 2.0 / comparisons.max(1) as f64) + normal::quantile(POWER);
    let variance = one.std_dev.powi(2) + other.std_dev.powi(2);
    let more = z.powi(2) * variance / distance.powi(2) - one.n.min(other.n) as f64;
    (more.is_finite() && more <= MOST_RUNS).then_some(more.ceil().max(1.0) as u64)
}

/// Whether one of several ratios, chosen because it is far from 1, is shown to differ from 1, with
/// Holm's correction over all of them.
pub(super) fn differs_among(chosen: &Times, all: &[&Times]) -> bool {
    let corrected = holm(&all.iter().map(|times| times.p).collect::<Vec<f64>>());
    all.iter().zip(corrected).any(|(times, p)| *times == chosen && p <= SHOWN)
}

/// Whether a ratio is shown to be above, below or within two limits; `None` if its interval allows
/// several of these, or if it has no interval.
pub(super) fn side(times: &Times, low: f64, high: f64) -> Option<Side> {
    let interval = times.interval?;
    if interval.low > high {
        Some(Side::Above)
    } else if interval.high < low {
        Some(Side::Below)
    } else if interval.low >= low && interval.high <= high {
        Some(Side::Within)
    } else {
        None
    }
}

/// The side of `share` times the highest on which each setting is shown to be. The highest is
/// partly selected by chance, which makes the others look lower, so `Below` is tested with Holm's
/// correction over all of them. The highest itself is `Above`.
pub(super) fn sides(
    points: &[&Point],
    highest: &Point,
    share: f64,
    measure: Measure,
) -> Vec<Option<Side>> {
    let values = |point: &Point| point.per_run(measure);
    let line: Vec<f64> = values(highest).into_iter().map(|value| value * share).collect();
    let others = || points.iter().filter(|point| point.cell != highest.cell);
    let corrected = holm(&others().map(|p| log_t_p(&values(p), &line)).collect::<Vec<f64>>());
    let mut corrected = corrected.into_iter();
    let of = |point: &&Point| {
        if point.cell == highest.cell {
            return Some(Side::Above);
        }
        let is_shown = corrected.next()? <= SHOWN;
        let times = Times::of_values(&values(point), &line)?;
        side(&times, 1.0, f64::INFINITY).filter(|side| is_shown || *side != Side::Below)
    };
    points.iter().map(of).collect()
}

/// Position of a ratio relative to two limits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Side {
    Below,
    Within,
    Above,
}

/// The limit outside the storage that most runs of a setting report, if any. A rate at such a
/// limit says nothing about a knee.
pub(super) fn known_limit(facts: &StageFacts, point: &Point) -> Option<String> {
    let runs = facts.of_cell(point.cell);
    KNOWN_LIMITS.iter().find_map(|code| {
        let mut named = runs.iter().filter_map(|trial| {
            trial.findings.iter().find(|finding| finding.code == *code).map(|f| f.subject.clone())
        });
        let first = named.next()?;
        (2 * (1 + named.count()) > runs.len()).then_some(first)
    })
}

/// Index of dispersion of the requests per run, over all runs of settings of one rate: variance
/// over mean, 1 for independent arrivals, near 0 behind a rate limiter.
pub(super) fn dispersion(points: &[&Point]) -> Option<f64> {
    let runs = || points.iter().flat_map(|point| &point.runs);
    let rate = Summary::of(&runs().map(|run| run.all.total.iops).collect::<Vec<f64>>())?;
    let ops = Summary::of(&runs().map(|run| run.all.total.ops as f64).collect::<Vec<f64>>())?;
    // By the relative variance of the rate, so that different window lengths have no effect.
    Some((rate.std_dev / rate.mean).powi(2) * ops.mean)
}

/// Coefficient of variation of the latencies within a run, the smallest of all runs. `None` if a
/// run does not have it.
pub(super) fn scatter(point: &Point) -> Option<f64> {
    let of = |run: &crate::Figures| {
        let latency = &run.all.total.latency;
        Some(latency.std_dev_ns? / latency.mean_ns?)
    };
    let all: Option<Vec<f64>> = point.runs.iter().map(of).collect();
    all?.into_iter().min_by(f64::total_cmp)
}

/// Whether latencies scatter within each run.
pub(super) fn latencies_scatter(point: &Point) -> bool {
    scatter(point).is_some_and(|share| share >= SCATTER_FROM)
}

/// Whether the rate of one setting may be a limit: it is the same in all runs although latencies
/// scatter. A full queue before servers of constant speed looks the same.
pub(super) fn may_have_limited_rate(point: &Point) -> bool {
    let is_exact = || dispersion(&[point]).is_some_and(|of| of < EXACT_BELOW);
    point.runs.len() >= FEWEST_RUNS && is_exact() && latencies_scatter(point)
}

/// Names of settings: `8 to 32` if they are neighbours in `all`, else a list.
pub(super) fn listed(all: &[&Point], of: &[&Point], label: &dyn Fn(&Point) -> String) -> String {
    let place = |point: &Point| all.iter().position(|each| each.cell == point.cell);
    let places: Vec<usize> = of.iter().filter_map(|point| place(point)).collect();
    let is_range = places.windows(2).all(|pair| pair[1] == pair[0] + 1);
    match of {
        [] => String::new(),
        [one] => label(one),
        [first, .., last] if is_range => format!("{} to {}", label(first), label(last)),
        _ => {
            let names: Vec<String> = of.iter().take(LISTED).map(|point| label(point)).collect();
            let more = of.len().saturating_sub(LISTED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{}{more}", names.join(", "))
        }
    }
}

/// `; about 4 more runs of each would tell the two highest apart`.
pub fn advice(more: Option<u64>) -> String {
    more.map_or(String::new(), |more| {
        format!("; about {more} more runs of each would tell the two highest apart")
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{at, facts, noise, stage};
    use super::*;
    use iosonde_fixtures::Load;

    fn sweep(scatter: f64, seed: u64, shape: fn(f64) -> f64) -> StageFacts {
        let mut noise = noise(seed, scatter);
        facts(&stage("queue-depth", "queue-depth"), |cell, _| {
            let depth = at(cell, "iodepth");
            Load { depth: depth as u32, iops: shape(depth) * noise(), ..Load::default() }
        })
    }

    fn by_iops(facts: &StageFacts) -> Ranking<'_> {
        ranking(&facts.points.iter().collect::<Vec<_>>(), Measure::Iops).unwrap()
    }

    #[test]
    fn a_clear_winner_is_best_and_equals_are_named_together() {
        let peak = sweep(0.003, 3, |depth| 4_000.0 - 300.0 * (depth.log2() - 4.0).abs());
        let Ranking::Best(point) = by_iops(&peak) else { panic!("{:?}", by_iops(&peak)) };
        assert_eq!(point.at("iodepth"), Some(16.0));
        let plateau = sweep(0.01, 4, |depth| 1_000.0 * depth.min(16.0));
        let Ranking::Ties { points, others, .. } = by_iops(&plateau) else { panic!() };
        let label = |point: &Point| point.name();
        let all: Vec<&Point> = plateau.points.iter().collect();
        assert_eq!(listed(&all, &points, &label), "16 to 256");
        assert_eq!(others, 4);
    }

    #[test]
    fn a_flat_device_has_no_best() {
        let flat = sweep(0.05, 1, |_| 4_000.0);
        let mut noise = noise(2, 0.05);
        let is_best = |_: &u32| {
            let values = flat.points.iter().map(|p| (p, (0..3).map(|_| noise()).collect()));
            matches!(rank(values.collect()), Some(Ranking::Best(_)))
        };
        assert_eq!((0..2_000).filter(is_best).count(), 0);
    }

    #[test]
    fn the_figure_of_the_highest_of_many_equal_settings_is_not_raised_by_chance() {
        let plateau = sweep(0.0, 1, |_| 4_000.0).points;
        let (mut held, mut means, mut highest) = (0, 0.0, 0.0);
        for seed in 0..400 {
            let (mut plateau, mut noise) = (plateau.clone(), noise(seed, 0.10));
            let runs = plateau.iter_mut().flat_map(|point| &mut point.runs);
            runs.for_each(|run| run.all.total.iops = 4_000.0 * noise());
            let points: Vec<&Point> = plateau.iter().collect();
            let figure = figure_of_highest(&points, Measure::Iops).unwrap();
            let (low, high) = figure.interval.unwrap();
            held += u32::from(low <= 4_000.0 && 4_000.0 <= high);
            means += figure.mean / 4_000.0 / 400.0;
            let most = points.iter().filter_map(|point| point.mean(Measure::Iops));
            highest += most.fold(0.0, f64::max) / 4_000.0 / 400.0;
        }
        assert!((means - 1.0).abs() < 0.01 && highest > 1.05, "{means}, {highest}");
        assert!(held >= 368, "{held} of 400");
    }

    #[test]
    fn of_equal_settings_none_is_shown_to_lack_a_part_of_the_highest() {
        let plateau = sweep(0.0, 1, |_| 4_000.0).points;
        let wrong = |seed: u64| {
            let (mut plateau, mut noise) = (plateau.clone(), noise(seed, 0.15));
            let runs = plateau.iter_mut().flat_map(|point| &mut point.runs);
            runs.for_each(|run| run.all.total.iops = 4_000.0 * noise());
            let points: Vec<&Point> = plateau.iter().collect();
            let mean = |point: &&&Point| point.mean(Measure::Iops).unwrap();
            let highest = points.iter().max_by(|a, b| mean(a).total_cmp(&mean(b))).unwrap();
            let sides = sides(&points, highest, 0.95, Measure::Iops);
            sides.contains(&Some(Side::Below))
        };
        let count = (0..100).filter(|seed| wrong(*seed)).count();
        assert!(count <= 9, "{count} of 100");
        let rising = sweep(0.01, 5, |depth| 1_000.0 * depth.min(16.0));
        let points: Vec<&Point> = rising.points.iter().collect();
        let shown = sides(&points, points[6], 0.95, Measure::Iops);
        assert_eq!(shown[..4], [Some(Side::Below); 4]);
        assert!(shown[4..].iter().all(|side| *side != Some(Side::Below)), "{shown:?}");
    }

    #[test]
    fn low_confidence_near_the_top_and_single_runs_decide_nothing() {
        let mut peak = sweep(0.003, 3, |depth| 4_000.0 - 300.0 * (depth.log2() - 4.0).abs());
        peak.points[0].standing = Standing::LowConfidence("hot".into());
        let far = matches!(by_iops(&peak), Ranking::Undecided(_));
        assert!(far, "2,800 of 4,000 is not far below");
        peak.points[0].standing = Standing::Good;
        peak.points[5].standing = Standing::LowConfidence("hot".into());
        let Ranking::Undecided(why) = by_iops(&peak) else { panic!() };
        assert_eq!(why, "not decidable yet: low confidence at 32 (hot)");
        for point in &mut peak.points {
            point.runs.truncate(1);
        }
        let Ranking::Undecided(why) = by_iops(&peak) else { panic!() };
        assert_eq!(why, "not decidable yet: 1 run per setting; 2 more runs of each needed");
    }
}
