//! Limits outside the storage, such as a rate limiter: a sweep that reaches one has no knee.

use super::super::words::Times;
use super::super::{Answer, Measure, Point, StageFacts, gate};
use super::Line;
use crate::finding::Evidence;
use iosonde_model::units::count;
use iosonde_stats::step::two_levels;
use iosonde_stats::summary::Summary;

/// Share of the highest mean rate at or above which a level belongs to the plateau.
const PLATEAU_FROM: f64 = 0.9;
/// Maximum relative difference of two rates set by one limiter.
const SAME_WITHIN: f64 = 0.02;
/// Minimum fall of the rate within the runs of a level, as a share.
const FALL_FROM: f64 = 0.05;
/// Minimum share of the variance over time that a fall explains.
const EXPLAINED: f64 = 0.6;
/// Minimum number of levels of one rate at the end of a sweep that show a limiter.
const EQUAL_LEVELS: usize = 3;
/// Maximum relative difference of the means of these levels.
const EQUAL_WITHIN: f64 = 0.002;
/// Dispersion of these levels, relative to that explained by service times, below which a limiter
/// is shown: nine runs have so little by chance once in ten thousand times.
const EVEN_BELOW: f64 = 0.05;
/// The same below which it is undecided: nine runs have so little once in a hundred times.
const MAY_BE_EVEN_BELOW: f64 = 0.2;
/// Share above the rate of these levels beyond which a lower level shows a burst.
const BURST_FROM: f64 = 0.02;
/// Reciprocal of the minimum share of a run before and after a fall.
const SHORTEST_SHARE: usize = 10;

impl Line<'_> {
    /// Reports a limit, or a possible one, instead of a knee. Returns whether it did.
    pub(super) fn is_limited(&self, answer: &mut Answer, facts: &StageFacts) -> bool {
        let plateau = self.plateau();
        let named = limit_of_most(facts, &plateau).zip(plateau.first().copied());
        let Some((limit, first)) = named else { return self.is_exact_limit(answer) };
        self.say_limit(answer, first, &limit);
        true
    }

    /// Reports a limit, or a possible one, that only its exact rate shows. Returns whether it did.
    fn is_exact_limit(&self, answer: &mut Answer) -> bool {
        let Some((even, first)) = self.exact_rate() else { return false };
        match self.is_more_even_than_service(&even, first) {
            Some(true) => {
                let limit = format!(
                    "a limit, as of a rate limiter or a link: {} have that rate within {} although \
                     latencies scatter",
                    self.settings(&even.points),
                    count::percent(even.width)
                );
                self.say_limit(answer, first, &limit);
                true
            }
            Some(false) => false,
            None => {
                answer.find(&self.key("knee_undecided"), 1.0);
                answer.say(format!(
                    "{}: the place of the knee is not decidable yet: {} have one rate of {} IOPS, \
                     and whether a limit or the storage sets it needs lower levels or longer runs.",
                    self.name,
                    self.settings(&even.points),
                    count::significant_or_whole(even.mean)
                ));
                true
            }
        }
    }

    /// The levels of one exact rate at the end of the sweep, and the first of them, if no level has
    /// a higher rate and the latencies scatter.
    fn exact_rate(&self) -> Option<(Even<'_>, &Point)> {
        gate::withheld(self.points).is_none().then_some(())?;
        let even = self.even_end()?;
        let first = even.points.first().copied()?;
        let is_higher = |iops: f64| iops > even.mean * (1.0 + BURST_FROM);
        let is_below_peak = self.points.iter().filter_map(|p| p.mean(Measure::Iops)).any(is_higher);
        (!is_below_peak && gate::latencies_scatter(first)).then_some((even, first))
    }

    /// Whether a rate is more even than service times explain, so that something else sets it;
    /// `None` if undecided. The completions of busy servers are a renewal process: their dispersion
    /// approaches the squared coefficient of variation of the service times. Latencies show the
    /// service times only if no request waits: at a full queue, they scatter even before servers of
    /// constant speed.
    fn is_more_even_than_service(&self, even: &Even<'_>, first: &Point) -> Option<bool> {
        let scatter = self.service_scatter(first)?;
        let explained = scatter.powi(2).min(1.0);
        if scatter < gate::SCATTER_FROM || even.dispersion >= MAY_BE_EVEN_BELOW * explained {
            return Some(false);
        }
        (even.dispersion < EVEN_BELOW * explained).then_some(true)
    }

    /// Coefficient of variation of the latencies without queueing: the smallest over the levels
    /// below `saturated` and the level with one request in flight.
    fn service_scatter(&self, saturated: &Point) -> Option<f64> {
        let n = |point: &Point| point.at(self.axis).zip(self.per_level).map(|(at, per)| at * per);
        let is_alone = |point: &Point| n(point).is_some_and(|n| n <= 1.0);
        let is_below = |point: &Point| point.at(self.axis) < saturated.at(self.axis);
        let levels = self.points.iter().filter(|point| is_below(point) || is_alone(point));
        levels.filter_map(|point| gate::scatter(point)).min_by(f64::total_cmp)
    }

    /// Reports a limiter whose burst only lower levels used: the levels at the end of the sweep
    /// have exactly one rate, and a lower level has a higher one. Returns whether there is one.
    pub(super) fn is_burst(&self, answer: &mut Answer) -> bool {
        let Some((peak, level)) = self.burst() else { return false };
        answer.find(&self.key("knee_undecided"), 1.0);
        for (name, figure) in [("knee", peak.at(self.axis)), ("best_iops", Some(level.mean))] {
            answer.find(&self.key(name), figure.unwrap_or_default());
        }
        answer.say(format!(
            "{}: the rate of {} IOPS is that of a limiter: {} have it within {}; {} did {} IOPS, \
             likely of a burst. This is no knee of the storage; longer runs needed.",
            self.name,
            count::significant_or_whole(level.mean),
            self.settings(&level.points),
            count::percent(level.width),
            self.settings(&[peak]),
            peak.formatted(Measure::Iops),
        ));
        true
    }

    /// The level with the highest rate, and the higher levels with the exact rate of the limiter.
    fn burst(&self) -> Option<(&Point, Even<'_>)> {
        gate::withheld(self.points).is_none().then_some(())?;
        let even = self.even_end()?;
        let (_, peak) = gate::highest(self.points, Measure::Iops)?;
        let first = even.points.first()?;
        let is_below = peak.at(self.axis) < first.at(self.axis);
        let times = Times::of(peak, first, Measure::Iops)?;
        let is_higher = gate::side(&times, 0.0, 1.0 + BURST_FROM) == Some(gate::Side::Above);
        (is_below && is_higher).then_some((peak, even))
    }

    /// The levels at the end of the sweep whose runs all have nearly the same number of requests.
    fn even_end(&self) -> Option<Even<'_>> {
        let last = self.points.last()?.mean(Measure::Iops)?;
        let is_equal = |point: &&&Point| {
            let mean = point.mean(Measure::Iops);
            mean.is_some_and(|mean| (mean / last - 1.0).abs() <= EQUAL_WITHIN)
        };
        let points = self.points.iter().rev().take_while(is_equal).copied();
        let mut points: Vec<&Point> = points.collect();
        points.reverse();
        let runs = points.iter().flat_map(|point| &point.runs);
        let off = runs.map(|run| (run.all.total.iops / last - 1.0).abs());
        let width = off.fold(0.0, f64::max);
        let dispersion = gate::dispersion(&points).filter(|of| *of < EVEN_BELOW)?;
        let is_even = points.len() >= EQUAL_LEVELS;
        is_even.then_some(Even { points, mean: last, width, dispersion })
    }

    pub(super) fn say_limit(&self, answer: &mut Answer, from: &Point, limit: &str) {
        answer.find(&self.key("knee_undecided"), 1.0);
        answer.say(format!(
            "{}: throughput stops growing at {} ({} IOPS at {}) because of {limit}: this is no \
             knee of the storage.",
            self.name,
            self.settings(&[from]),
            from.formatted(Measure::Iops),
            from.formatted(Measure::Mean)
        ));
    }

    /// A known limit at this level or at the next one.
    pub(super) fn limit_near(&self, facts: &StageFacts, point: &Point) -> Option<String> {
        let from = self.points.iter().position(|each| each.cell == point.cell)?;
        let near = self.points.iter().skip(from).take(2);
        near.filter_map(|point| gate::known_limit(facts, point)).next()
    }

    /// Why a knee is withheld at a level whose rate falls within its runs, as after a burst: it has
    /// several rates, and depth is not the reason why throughput stops growing.
    pub(super) fn falls_within(&self, facts: &StageFacts, point: &Point) -> Option<String> {
        let rates = mean_over_time(facts, point);
        let step = two_levels(&rates, rates.len().div_ceil(SHORTEST_SHARE))?;
        let is_fall = step.change() <= -FALL_FROM && step.explained >= EXPLAINED;
        is_fall.then(|| {
            format!(
                "the place of the knee is not decidable yet: at {} the rate falls within the runs, \
                 from {} to {} IOPS ({} runs together); longer runs needed",
                self.settings(&[point]),
                count::significant_or_whole(step.before.mean),
                count::significant_or_whole(step.after.mean),
                point.runs.len()
            )
        })
    }

    /// The levels with nearly the highest rate.
    fn plateau(&self) -> Vec<&Point> {
        let iops = |point: &Point| point.mean(Measure::Iops).unwrap_or(0.0);
        let most = self.points.iter().map(|point| iops(point)).fold(0.0, f64::max);
        let high = self.points.iter().filter(|point| iops(point) >= PLATEAU_FROM * most);
        high.copied().collect()
    }
}

/// Levels with the same rate.
struct Even<'a> {
    points: Vec<&'a Point>,
    /// Operations per second of the last level.
    mean: f64,
    /// Maximum relative distance of a run from `mean`.
    width: f64,
    /// Index of dispersion of the requests per run.
    dispersion: f64,
}

/// The limit of most levels of a plateau: they report it, or have the rate to which another level
/// of the plateau was limited after its burst.
fn limit_of_most(facts: &StageFacts, plateau: &[&Point]) -> Option<String> {
    let limited = plateau.iter().find_map(|point| rate_limit(facts, point));
    let is_held = |point: &&&Point| {
        let rate = limited.as_ref().map(|(_, rate)| rate);
        let does = |rate: &f64| {
            let near = |iops: f64| (iops / rate - 1.0).abs() <= SAME_WITHIN;
            point.mean(Measure::Iops).is_some_and(near)
                || later_rate(facts, point).is_some_and(near)
        };
        gate::known_limit(facts, point).is_some() || rate.is_some_and(does)
    };
    let held = plateau.iter().filter(is_held).count();
    let named = plateau.iter().find_map(|point| gate::known_limit(facts, point));
    let is_most = plateau.len() > 1 && 2 * held > plateau.len();
    named.or(limited.map(|(name, _)| name)).filter(|_| is_most)
}

/// The mean over the runs of a level for each interval, operations per second.
fn mean_over_time(facts: &StageFacts, point: &Point) -> Vec<f64> {
    let runs: Vec<Vec<f64>> =
        facts.of_cell(point.cell).iter().map(|trial| trial.series.iops()).collect();
    let shortest = runs.iter().map(Vec::len).min().unwrap_or(0);
    let mean = |at: usize| runs.iter().map(|rates| rates[at]).sum::<f64>() / runs.len() as f64;
    (0..shortest).map(mean).collect()
}

/// Operations per second in the second half of the runs, after any burst.
fn later_rate(facts: &StageFacts, point: &Point) -> Option<f64> {
    let rates = mean_over_time(facts, point);
    Summary::of(&rates[rates.len() / 2..]).map(|summary| summary.mean)
}

/// A rate limiter found in a run of a level, with the operations per second after its burst.
fn rate_limit(facts: &StageFacts, point: &Point) -> Option<(String, f64)> {
    facts.of_cell(point.cell).iter().flat_map(|trial| &trial.findings).find_map(|finding| {
        match finding.evidence.get("sustained_iops")? {
            Evidence::Number(rate) if finding.code == "token_bucket" => {
                Some((finding.subject.clone(), *rate))
            }
            _ => None,
        }
    })
}
