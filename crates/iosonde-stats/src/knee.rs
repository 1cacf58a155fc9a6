//! The knee of a sweep: the depth beyond which more depth costs more latency than it gains
//! throughput.
//!
//! The knee is that of Kleinrock's power: where X / R, throughput over mean latency, is largest (L.
//! Kleinrock, "Power and deterministic rules of thumb for probabilistic problems in computer
//! communications", ICC 1979). In a closed loop R = N / X, so power is X² / N where latencies were
//! not measured. It has no free parameter, and does not move with the end of the sweep. A parabola
//! through log power over log N, at the best level and its neighbours, locates the knee between
//! levels. Its companion N* = X_max · R(1) is where the asymptotes N / R(1) and X_max cross; where
//! the two differ by more than a factor of 2 there is no sharp knee, and the curve is the answer.
//!
//! Results for three shapes with 3 % noise, levels 1, 2, 4 … N_max, one repeat each: median (5 to
//! 95 %) of 400 sweeps. The tests at the foot check the knee against the truth.
//!
//! | shape | true knee | N_max | power knee | N* | 95 % of the best | Kneedle, log N |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | 8 servers | 8 | 64 | 8.0 (7.7-8.3) | 8.3 (7.7-8.7) | 8 (8-beyond) | 8 |
//! | | | 1,024 | 8.0 (7.7-8.3) | 8.3 (7.9-8.8) | 8 (8-beyond) | 8 |
//! | 16 dies hit at random | 15 | 64 | 15.2 (10.3-19.4) | 13.0 (11.9-14.0) | beyond | none |
//! | | | 1,024 | 15.0 (10.6-19.2) | 16.0 (15.1-17.0) | 512 (256-beyond) | 64 |
//! | USL, alpha 0.07, beta 0.0008 | 10.0 | 64 | 9.5 (8.1-12.3) | 8.1 (7.6-8.6) | 32 | 16 |
//! | | | 1,024 | 9.7 (8.2-12.5) | 8.1 (7.5-8.7) | 32 | 32 |
//!
//! (8 servers: noise of the last two levels alone makes the last doubling gain 5 % now and then.)
//! The knee may lie anywhere around the best level where power can be as large while neither
//! throughput nor latency falls with depth: from `a P / P(a)` to `b P(b) / P`, where P is the
//! largest power, a the level before and b the one after. The interval holds both ends.

use serde::Serialize;

use super::bootstrap::{Bootstrap, Interval, over_repeats as interval_over_repeats};
use super::least_squares::solve;
use super::ratio::{greatest, median};
use super::summary::is_positive;

/// Fewest levels for a knee.
pub const FEWEST_LEVELS: usize = 4;
/// Factor between the knee and N* above which there is no sharp knee.
pub const SHARP_WITHIN: f64 = 2.0;
/// Gain of the last doubling below which the throughput counts as saturated.
pub const SATURATED_BELOW: f64 = 0.05;
/// Share of the best throughput that the saturation depth reaches.
pub const SATURATION_SHARE: f64 = 0.95;
/// Resamples for the intervals.
const RESAMPLES: usize = 1_000;

/// One level of a sweep with its repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Requests in flight, at least 1.
    pub n: f64,
    /// Throughput of each repeat, in any unit.
    pub rates: Vec<f64>,
    /// Mean latency of each repeat, in the same order, in the inverse unit. If empty (not
    /// measured), N / X is used.
    pub latencies: Vec<f64>,
}

/// The result of a search for a knee.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The knee lies within the sweep.
    Found,
    /// Power is largest at an end of the sweep: there is no knee in it.
    OutsideSweep(Side),
    /// The knee and N* differ by more than [`SHARP_WITHIN`].
    NoSharpKnee,
    /// Fewer than [`FEWEST_LEVELS`] levels.
    TooFewLevels,
}

/// An end of the sweep.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// At or below the first level.
    First,
    /// At or beyond the last level.
    Last,
}

/// The smallest depth with 95 % of the best throughput. It is not the knee.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Saturation {
    /// From this level on.
    At(f64),
    /// Beyond this last level: the last doubling still gained 5 % or more.
    Beyond(f64),
}

/// The knee of a sweep and its companions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Knee {
    /// Result of the search.
    pub state: State,
    /// The depth of greatest power; `None` unless the state is [`State::Found`] or
    /// [`State::NoSharpKnee`].
    pub knee: Option<f64>,
    /// Range in which the knee may lie, with the 95 % interval of both ends over the repeats (below
    /// 5 repeats, their range); `None` if a level has fewer than two. A resample whose best level
    /// is an end of the sweep counts as that end, so an interval that reaches an end is open there.
    pub interval: Option<Interval>,
    /// N* = X_max · R(1); `None` without a level of depth 1.
    pub asymptotes_cross: Option<f64>,
    /// 95 % interval of N*.
    pub asymptotes_interval: Option<Interval>,
    /// Saturation depth.
    pub saturation: Option<Saturation>,
    /// Kneedle on log N (Satopää et al. 2011), for comparison with other tools only: it moves with
    /// the end of the sweep. `None` where it finds none.
    pub kneedle_sweep_dependent: Option<f64>,
}

/// Finds the knee of a sweep. Levels without a positive throughput are left out.
pub fn knee(levels: &[Level], seed: u64) -> Knee {
    let mut levels: Vec<&Level> = levels.iter().filter(|level| level.is_sound()).collect();
    levels.sort_by(|a, b| a.n.total_cmp(&b.n));
    let points: Vec<Point> =
        levels.iter().filter_map(|level| point(level.n, &level.repeats())).collect();
    let cross = asymptotes_cross(&points);
    let (state, place) = place(&points, cross);
    let bootstrap = Bootstrap::new(seed).resamples(RESAMPLES);
    let over_repeats = |statistic: &(dyn Fn(&[Point]) -> Option<f64> + Sync)| {
        over_repeats(&levels, &bootstrap, statistic)
    };
    Knee {
        state,
        knee: place,
        interval: place.and_then(|_| {
            let low = over_repeats(&|points| Some(bracket(points)?.0))?;
            let high = over_repeats(&|points| Some(bracket(points)?.1))?;
            Some(Interval { high: high.high, ..low })
        }),
        asymptotes_cross: cross,
        asymptotes_interval: cross.and_then(|_| over_repeats(&asymptotes_cross)),
        saturation: saturation(&points),
        kneedle_sweep_dependent: kneedle(&points),
    }
}

impl Knee {
    /// Divides all depths by `requests`: converts requests to threads of that depth each.
    pub fn per(self, requests: f64) -> Knee {
        let place = |at: Option<f64>| at.map(|at| at / requests);
        let ends = |interval: Option<Interval>| {
            interval.map(|interval| Interval {
                low: interval.low / requests,
                high: interval.high / requests,
                ..interval
            })
        };
        Knee {
            state: self.state,
            knee: place(self.knee),
            interval: ends(self.interval),
            asymptotes_cross: place(self.asymptotes_cross),
            asymptotes_interval: ends(self.asymptotes_interval),
            saturation: self.saturation.map(|saturation| match saturation {
                Saturation::At(at) => Saturation::At(at / requests),
                Saturation::Beyond(at) => Saturation::Beyond(at / requests),
            }),
            kneedle_sweep_dependent: place(self.kneedle_sweep_dependent),
        }
    }
}

/// Medians of one level.
#[derive(Clone, Copy, Debug)]
struct Point {
    n: f64,
    rate: f64,
    latency: f64,
}

impl Point {
    /// X / R; X² / N in closed loops.
    fn power(&self) -> f64 {
        self.rate / self.latency
    }
}

impl Level {
    fn is_sound(&self) -> bool {
        let paired = self.latencies.is_empty() || self.latencies.len() == self.rates.len();
        let all = self.rates.iter().chain(&self.latencies).all(is_positive);
        is_positive(&self.n) && paired && all && !self.rates.is_empty()
    }

    /// Rate and latency of each repeat.
    fn repeats(&self) -> Vec<(f64, f64)> {
        let closed = |rate: &f64| (*rate, self.n / rate);
        if self.latencies.is_empty() {
            return self.rates.iter().map(closed).collect();
        }
        self.rates.iter().copied().zip(self.latencies.iter().copied()).collect()
    }
}

/// Medians of the repeats.
fn point(n: f64, repeats: &[(f64, f64)]) -> Option<Point> {
    let rates: Vec<f64> = repeats.iter().map(|(rate, _)| *rate).collect();
    let latencies: Vec<f64> = repeats.iter().map(|(_, latency)| *latency).collect();
    Some(Point { n, rate: median(&rates)?, latency: median(&latencies)? })
}

/// The 95 % interval of a figure of the sweep; the repeats of each level are resampled separately.
fn over_repeats(
    levels: &[&Level],
    bootstrap: &Bootstrap,
    statistic: &(dyn Fn(&[Point]) -> Option<f64> + Sync),
) -> Option<Interval> {
    let repeats: Vec<Vec<(f64, f64)>> = levels.iter().map(|level| level.repeats()).collect();
    let groups: Vec<&[(f64, f64)]> = repeats.iter().map(Vec::as_slice).collect();
    let replicates = bootstrap.replicates(&groups, |drawn| {
        let points = levels.iter().zip(drawn).map(|(level, drawn)| point(level.n, drawn));
        statistic(&points.collect::<Option<Vec<Point>>>()?)
    });
    let fewest = groups.iter().map(|group| group.len()).min()?;
    interval_over_repeats(replicates, fewest)
}

/// Index of the level of greatest power.
fn best(points: &[Point]) -> Option<usize> {
    // The first of equals: the same power at less depth.
    greatest(&points.iter().map(Point::power).collect::<Vec<f64>>())
}

fn place(points: &[Point], cross: Option<f64>) -> (State, Option<f64>) {
    let Some(at) = best(points).filter(|_| points.len() >= FEWEST_LEVELS) else {
        return (State::TooFewLevels, None);
    };
    if at == 0 {
        return (State::OutsideSweep(Side::First), None);
    }
    if at == points.len() - 1 {
        return (State::OutsideSweep(Side::Last), None);
    }
    let place = summit(points, at);
    let differ = cross.is_some_and(|cross| {
        let factor = place / cross;
        factor.max(factor.recip()) > SHARP_WITHIN
    });
    (if differ { State::NoSharpKnee } else { State::Found }, Some(place))
}

/// Least and greatest depth at which power may be as large as at the best level, for any curve
/// between the levels. If neither throughput nor latency falls as depth rises, power at `n` is at
/// most that of a lower level times `n` over its depth, and at most that of a higher level times
/// its depth over `n`. The range includes the vertex of the parabola.
fn bracket(points: &[Point]) -> Option<(f64, f64)> {
    let at = best(points)?;
    let best = points[at];
    let before = at.checked_sub(1).map(|at| points[at]);
    let low = before.map_or(best.n, |of| of.n * best.power() / of.power());
    let high = points.get(at + 1).map_or(best.n, |of| of.n * of.power() / best.power());
    let is_inside = before.is_some() && at + 1 < points.len();
    let place = if is_inside { summit(points, at) } else { best.n };
    Some((low.min(place), high.max(place)))
}

/// Depth at the vertex of the parabola through a level and its neighbours. It lies between the
/// neighbours, because the middle level is the highest of the three.
fn summit(points: &[Point], at: usize) -> f64 {
    let middle = points[at].n.ln();
    let rows = [at - 1, at, at + 1].map(|at| {
        let x = points[at].n.ln() - middle;
        ([1.0, x, x * x], points[at].power().ln(), 1.0)
    });
    match solve(&rows) {
        Some([_, slope, curve]) if curve < 0.0 => (middle - slope / (2.0 * curve)).exp(),
        _ => points[at].n,
    }
}

/// X_max · R(1).
fn asymptotes_cross(points: &[Point]) -> Option<f64> {
    let first = points.first().filter(|point| point.n == 1.0)?;
    Some(most(points) * first.latency)
}

fn most(points: &[Point]) -> f64 {
    points.iter().map(|point| point.rate).fold(0.0, f64::max)
}

fn saturation(points: &[Point]) -> Option<Saturation> {
    let last = points.last()?;
    let half = points.iter().rev().find(|point| point.n <= last.n / 2.0);
    if half.is_none_or(|half| last.rate / half.rate - 1.0 >= SATURATED_BELOW) {
        return Some(Saturation::Beyond(last.n));
    }
    let enough = SATURATION_SHARE * most(points);
    points.iter().find(|point| point.rate >= enough).map(|point| Saturation::At(point.n))
}

/// The level highest above the diagonal of the curve, both axes scaled to 0..1.
fn kneedle(points: &[Point]) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    let least = points.iter().map(|point| point.rate).fold(f64::INFINITY, f64::min);
    let (width, height) = ((last.n / first.n).ln(), most(points) - least);
    let above = |point: &Point| (point.rate - least) / height - (point.n / first.n).ln() / width;
    let highest = points.iter().max_by(|a, b| above(a).total_cmp(&above(b)))?;
    (above(highest) > 1e-9).then_some(highest.n)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::chance::Chance;

    const NOISE: f64 = 0.03;

    fn sharp(n: f64) -> f64 {
        n.min(8.0)
    }

    /// Sixteen dies, hit at random.
    fn soft(n: f64) -> f64 {
        16.0 * n / (n + 15.0)
    }

    /// Universal scalability law with its optimum at 34.
    fn retrograde(n: f64) -> f64 {
        n / (1.0 + 0.07 * (n - 1.0) + 0.0008 * n * (n - 1.0))
    }

    fn sweep(shape: fn(f64) -> f64, last: u32, repeats: usize, chance: &mut Chance) -> Vec<Level> {
        let level = |power: u32| {
            let n = f64::from(1u32 << power);
            let rate = |_| shape(n) * (1.0 + NOISE * chance.normal());
            Level { n, rates: (0..repeats).map(rate).collect(), latencies: Vec::new() }
        };
        (0..=last.ilog2()).map(level).collect()
    }

    fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[(share * (values.len() - 1) as f64) as usize];
        (at(0.05), at(0.5), at(0.95))
    }

    /// Throughput over depth, and the depth of its knee.
    type Shape = (fn(f64) -> f64, f64);

    /// Each shape with its true knee: D - 1 for dies; for the USL, where the derivative of X² / N
    /// is 0.
    fn shapes() -> [Shape; 3] {
        let (alpha, beta) = (0.07, 0.0008f64);
        let root = ((alpha - beta).powi(2) + 12.0 * beta * (1.0 - alpha)).sqrt();
        [(sharp, 8.0), (soft, 15.0), (retrograde, (root - (alpha - beta)) / (6.0 * beta))]
    }

    #[test]
    fn the_knee_is_within_a_tenth_of_the_truth_wherever_the_sweep_ends() {
        let mut chance = Chance::new(1);
        for (shape, truth) in shapes() {
            for last in [64, 256, 1_024] {
                let sweeps = (0..400).map(|_| sweep(shape, last, 1, &mut chance));
                let knees = sweeps.filter_map(|sweep| knee(&sweep, 1).knee).collect();
                let (low, middle, high) = spread(knees);
                assert!((middle / truth - 1.0).abs() < 0.1, "{truth} to {last}: {middle}");
                assert!(low > 0.66 * truth && high < 1.5 * truth, "{truth}: {low} to {high}");
            }
        }
    }

    #[test]
    fn the_interval_over_repeats_holds_the_truth() {
        let mut chance = Chance::new(2);
        // A knee between two levels, which the scatter of the repeats does not show.
        let between: Shape = (|n| n.min(5.3), 5.3);
        for (shape, truth) in shapes().into_iter().chain([between]) {
            let held = (0..100).filter(|seed| {
                let knee = knee(&sweep(shape, 256, 5, &mut chance), *seed);
                assert_eq!(knee.state, State::Found);
                knee.interval.unwrap().holds(truth)
            });
            let held = held.count();
            assert!(held >= 90, "{truth}: {held} of 100");
        }
    }

    #[test]
    fn companions_of_a_known_shape() {
        let mut chance = Chance::new(3);
        let knee = knee(&sweep(sharp, 64, 9, &mut chance), 1);
        assert!((knee.asymptotes_cross.unwrap() / 8.0 - 1.0).abs() < 0.05, "{knee:?}");
        assert!(knee.asymptotes_interval.unwrap().holds(8.2));
        assert_eq!(knee.saturation, Some(Saturation::At(8.0)));
        assert_eq!(knee.kneedle_sweep_dependent, Some(8.0));
        let soft = super::knee(&sweep(soft, 32, 9, &mut chance), 1);
        assert_eq!(soft.saturation, Some(Saturation::Beyond(32.0)));
        // Concave in N, but not in log N.
        assert_eq!(soft.kneedle_sweep_dependent, None);
    }

    fn exact(rates: &[(f64, f64)]) -> Vec<Level> {
        let level = |(n, rate): &(f64, f64)| Level {
            n: *n,
            rates: vec![*rate; 3],
            latencies: vec![*n / rate; 3],
        };
        rates.iter().map(level).collect()
    }

    #[test]
    fn lines_have_no_knee() {
        let rising: Vec<_> = [1.0, 2.0, 4.0, 8.0, 16.0].map(|n| (n, 100.0 * n)).to_vec();
        let straight = knee(&exact(&rising), 1);
        assert_eq!(straight.state, State::OutsideSweep(Side::Last));
        assert_eq!((straight.knee, straight.interval), (None, None));
        assert_eq!(straight.saturation, Some(Saturation::Beyond(16.0)));
        let level: Vec<_> = [1.0, 2.0, 4.0, 8.0].map(|n| (n, 4_000.0)).to_vec();
        let flat = knee(&exact(&level), 1);
        assert_eq!(flat.state, State::OutsideSweep(Side::First));
        assert_eq!(flat.saturation, Some(Saturation::At(1.0)));
        assert_eq!(knee(&exact(&rising[..3]), 1).state, State::TooFewLevels);
        assert_eq!(knee(&[], 1).state, State::TooFewLevels);
    }

    #[test]
    fn companions_far_apart_are_no_sharp_knee() {
        // The first request alone wakes the device up: five times slower.
        let rates = [(1.0, 0.2), (2.0, 2.0), (4.0, 4.0), (8.0, 8.0), (16.0, 8.0), (32.0, 8.0)];
        let knee = knee(&exact(&rates), 1);
        assert_eq!(knee.state, State::NoSharpKnee);
        assert!((knee.knee.unwrap() - 8.0).abs() < 0.01);
        assert!((knee.asymptotes_cross.unwrap() - 40.0).abs() < 1e-9);
    }

    #[test]
    fn measured_latencies_decide_where_they_differ_from_closed_loops() {
        let with = |latency: fn(f64) -> f64| -> Vec<Level> {
            let levels = [1.0f64, 2.0, 4.0, 8.0, 16.0, 32.0];
            let level =
                |n: f64| Level { n, rates: vec![sharp(n); 2], latencies: vec![latency(n); 2] };
            levels.map(level).to_vec()
        };
        // Four servers behind a queue that holds four: the latency grows before the rate stops.
        let early = knee(&with(|n| (n / 2.0).max(1.0).powi(2)), 1);
        assert!(early.knee.unwrap() < 4.0, "{early:?}");
        let closed = knee(&with(|n| (n / 8.0).max(1.0)), 1);
        assert!((closed.knee.unwrap() - 8.0).abs() < 0.01);
    }

    #[test]
    fn unsound_levels_are_left_out() {
        let mut levels = exact(&[(1.0, 1.0), (2.0, 2.0), (4.0, 4.0), (8.0, 4.0), (16.0, 4.0)]);
        levels.push(Level { n: 32.0, rates: vec![0.0; 3], latencies: Vec::new() });
        levels.push(Level { n: 64.0, rates: vec![4.0; 3], latencies: vec![1.0] });
        let knee = knee(&levels, 1);
        assert!((knee.knee.unwrap() - 4.0).abs() < 0.01);
        assert_eq!(knee.saturation, Some(Saturation::At(4.0)));
    }
}
