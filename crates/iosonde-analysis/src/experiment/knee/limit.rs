//! Limits that are not the storage's own, such as a rate limiter: where they hold there is no knee.

use super::super::words::Times;
use super::super::{Answer, Measure, Point, StageFacts, gate};
use super::Line;
use crate::finding::Evidence;
use iosonde_model::units::count;
use iosonde_stats::step::two_levels;
use iosonde_stats::summary::Summary;

/// Share of the highest mean rate from which a level belongs to the plateau.
const PLATEAU_FROM: f64 = 0.9;
/// Relative difference of two rates that one limiter sets.
const SAME_WITHIN: f64 = 0.02;
/// Smallest fall within the runs of a level.
const FALL_FROM: f64 = 0.05;
/// Share of the variance over time that a fall must explain.
const EXPLAINED: f64 = 0.6;
/// Levels at the end of a sweep that have one rate to show a limiter.
const EQUAL_LEVELS: usize = 3;
/// Relative difference of the means of these levels at most.
const EQUAL_WITHIN: f64 = 0.002;
/// Dispersion of these levels at most, over that which their service explains: nine runs are so
/// alike by chance once in ten thousand times.
const EVEN_BELOW: f64 = 0.05;
/// The same up to which it is not decided: nine runs are so alike once in a hundred times.
const MAY_BE_EVEN_BELOW: f64 = 0.2;
/// Share of their rate by which a lower level is above it.
const BURST_FROM: f64 = 0.02;
/// Share of a run that its levels before and after a fall last at least, as its reciprocal.
const SHORTEST_SHARE: usize = 10;

impl Line<'_> {
    /// Names a limit in place of a knee, or says that there may be one; whether either.
    pub(super) fn is_limited(&self, answer: &mut Answer, facts: &StageFacts) -> bool {
        let plateau = self.plateau();
        let named = limit_of_most(facts, &plateau).zip(plateau.first().copied());
        let Some((limit, first)) = named else { return self.is_exact_limit(answer) };
        self.say_limit(answer, first, &limit);
        true
    }

    /// Names a limit that only its exact rate shows, or says that it may be one; whether either.
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

    /// The levels of one exact rate at the end of the sweep, if it is the highest and their
    /// latencies scatter, and the first of them.
    fn exact_rate(&self) -> Option<(Even<'_>, &Point)> {
        gate::withheld(self.points).is_none().then_some(())?;
        let even = self.even_end()?;
        let first = even.points.first().copied()?;
        let is_higher = |iops: f64| iops > even.mean * (1.0 + BURST_FROM);
        let is_below_peak = self.points.iter().filter_map(|p| p.mean(Measure::Iops)).any(is_higher);
        (!is_below_peak && gate::latencies_scatter(first)).then_some((even, first))
    }

    /// Whether a rate is more even than the service of requests explains, so that something else
    /// sets it; `None` where that is not shown. What busy servers do in equal times varies as the
    /// times of single requests do (a renewal process: the dispersion approaches their squared
    /// coefficient of variation). Those times show only where no request waits for another: at a
    /// full queue latencies scatter before servers of constant speed, too.
    fn is_more_even_than_service(&self, even: &Even<'_>, first: &Point) -> Option<bool> {
        let scatter = self.service_scatter(first)?;
        let explained = scatter.powi(2).min(1.0);
        if scatter < gate::SCATTER_FROM || even.dispersion >= MAY_BE_EVEN_BELOW * explained {
            return Some(false);
        }
        (even.dispersion < EVEN_BELOW * explained).then_some(true)
    }

    /// Standard deviation of the latencies as a share of their mean where no request waits for
    /// another: at the levels below one, and with one request in flight. The least of them.
    fn service_scatter(&self, saturated: &Point) -> Option<f64> {
        let n = |point: &Point| point.at(self.axis).zip(self.per_level).map(|(at, per)| at * per);
        let is_alone = |point: &Point| n(point).is_some_and(|n| n <= 1.0);
        let is_below = |point: &Point| point.at(self.axis) < saturated.at(self.axis);
        let levels = self.points.iter().filter(|point| is_below(point) || is_alone(point));
        levels.filter_map(|point| gate::scatter(point)).min_by(f64::total_cmp)
    }

    /// Names a limiter whose burst only lower levels lived on; whether there is one. The levels of
    /// the end of the sweep then have one rate, exactly, and a lower level has more.
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

    /// The level of the highest rate, and those of the exact rate of the limiter above it.
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

    /// The levels at the end of the sweep whose runs all have the same number of requests, nearly.
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

    /// A limit that holds at a level, or at the next one.
    pub(super) fn limit_near(&self, facts: &StageFacts, point: &Point) -> Option<String> {
        let from = self.points.iter().position(|each| each.cell == point.cell)?;
        let near = self.points.iter().skip(from).take(2);
        near.filter_map(|point| gate::known_limit(facts, point)).next()
    }

    /// Withholds a knee at a level whose rate falls within its runs, as after a burst: it has not
    /// one rate, and more depth is not why it stops growing.
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

/// Levels of one rate.
struct Even<'a> {
    points: Vec<&'a Point>,
    /// Operations per second of the last.
    mean: f64,
    /// Largest relative distance of a run from that.
    width: f64,
    /// Variance of the requests of a run over their number.
    dispersion: f64,
}

/// The limit that holds most levels of a plateau of several: they name it, or do the rate at which
/// another level of the plateau was limited after its burst.
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

/// The mean of the runs of a level in each interval, operations per second.
fn mean_over_time(facts: &StageFacts, point: &Point) -> Vec<f64> {
    let runs: Vec<Vec<f64>> =
        facts.of_cell(point.cell).iter().map(|trial| trial.series.iops()).collect();
    let shortest = runs.iter().map(Vec::len).min().unwrap_or(0);
    let mean = |at: usize| runs.iter().map(|rates| rates[at]).sum::<f64>() / runs.len() as f64;
    (0..shortest).map(mean).collect()
}

/// Operations per second in the second half of the runs: after a burst, if there was one.
fn later_rate(facts: &StageFacts, point: &Point) -> Option<f64> {
    let rates = mean_over_time(facts, point);
    Summary::of(&rates[rates.len() / 2..]).map(|summary| summary.mean)
}

/// A rate limiter that a run of a level shows, with the operations per second after its burst.
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
