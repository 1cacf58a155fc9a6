//! The cheapest setting within a share of the best, and when further settings get worse.
//!
//! The cost of a setting may be jobs, depth or memory. A setting is enough if the lower end of the
//! 95 % interval of its ratio to the best is within the tolerance: closeness must be shown, not
//! merely the absence of a difference. If both have ten repeats or more, the interval is the
//! bootstrap's for the ratio of medians; otherwise Welch's t on logarithms, which keeps its
//! coverage down to two.
//!
//! A sweep gets worse when two consecutive settings, costlier than the best so far, are shown to be
//! below it by more than the tolerance. The best of many is selected partly by chance, and there
//! are many tests; requiring two at 2.5 % each keeps false stops rare: on a plateau of 12 settings
//! with 5 % noise and 3 repeats, 2 of 2,000 sweeps stopped.

use super::bootstrap::{BCA_FROM, Bootstrap, Interval, log_t_ratio};
use super::ratio::{greatest, median};
use super::summary::is_positive;

/// Consecutive settings that must be worse.
pub const WORSE_IN_A_ROW: usize = 2;

/// A setting with the figure of each repeat; more is better.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Its cost, in any unit.
    pub cost: f64,
    /// Figures of the repeats, positive. For latencies give 1 / latency.
    pub values: Vec<f64>,
}

/// A setting compared with the best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// Its cost.
    pub cost: f64,
    /// Its median over that of the best.
    pub ratio: f64,
    /// 95 % interval of the ratio; `None` if one of the two has fewer than two repeats, and for the
    /// best itself.
    pub interval: Option<Interval>,
    /// Whether it is shown to be within the tolerance.
    pub is_enough: bool,
}

/// The cheapest setting that is enough.
#[derive(Clone, Debug, PartialEq)]
pub struct Cheapest {
    /// Cost of the cheapest shown to be within the tolerance; that of the best if no other is.
    pub cost: f64,
    /// Cost of the setting of greatest median.
    pub best_cost: f64,
    /// Share by which a setting may be below the best.
    pub tolerance: f64,
    /// All settings, the cheapest first.
    pub settings: Vec<Compared>,
}

/// Whether further settings should be measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Worse {
    /// The last settings are not shown to be worse.
    No,
    /// The last [`WORSE_IN_A_ROW`] settings are worse than the best before them.
    Yes {
        /// Cost of the best.
        best_cost: f64,
        /// Median of the last setting over that of the best.
        ratio: f64,
        /// Its 95 % interval.
        interval: Interval,
    },
}

/// The cheapest setting within `tolerance` (0.05 is 5 %) of the best. `None` without a setting, or
/// if one has no figure or one that is not positive.
pub fn cheapest(settings: &[Setting], tolerance: f64, seed: u64) -> Option<Cheapest> {
    let mut settings: Vec<&Setting> = settings.iter().collect();
    settings.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let medians = medians(settings.iter().copied())?;
    let best = greatest(&medians)?;
    let compare = |(at, setting): (usize, &&Setting)| {
        let interval =
            if at == best { None } else { ratio(setting, settings[best], seed ^ at as u64) };
        let near = interval.is_some_and(|interval| interval.low >= 1.0 - tolerance);
        let ratio = medians[at] / medians[best];
        Compared { cost: setting.cost, ratio, interval, is_enough: at == best || near }
    };
    let compared: Vec<Compared> = settings.iter().enumerate().map(compare).collect();
    let enough = compared.iter().find(|setting| setting.is_enough)?;
    let best_cost = settings[best].cost;
    Some(Cheapest { cost: enough.cost, best_cost, tolerance, settings: compared })
}

/// Whether throughput has begun to fall: evaluated after each setting of an ascending sweep.
pub fn gets_worse(settings: &[Setting], tolerance: f64, seed: u64) -> Worse {
    let Some((best, medians)) =
        medians(settings.iter()).and_then(|all| Some((greatest(&all)?, all)))
    else {
        return Worse::No;
    };
    if settings.len() < best + 1 + WORSE_IN_A_ROW {
        return Worse::No;
    }
    let worse = |at: usize| {
        ratio(&settings[at], &settings[best], seed ^ at as u64)
            .filter(|interval| interval.high < 1.0 - tolerance)
    };
    let last = settings.len() - 1;
    if !(settings.len() - WORSE_IN_A_ROW..last).all(|at| worse(at).is_some()) {
        return Worse::No;
    }
    let ratio = medians[last] / medians[best];
    let stop = |interval| Worse::Yes { best_cost: settings[best].cost, ratio, interval };
    worse(last).map_or(Worse::No, stop)
}

fn medians<'a>(settings: impl Iterator<Item = &'a Setting>) -> Option<Vec<f64>> {
    let of = |setting: &Setting| {
        setting.values.iter().all(is_positive).then(|| median(&setting.values)).flatten()
    };
    settings.map(of).collect()
}

fn ratio(one: &Setting, other: &Setting, seed: u64) -> Option<Interval> {
    if one.values.len().min(other.values.len()) < BCA_FROM {
        return log_t_ratio(&one.values, &other.values);
    }
    Bootstrap::new(seed).ratio_of_medians(&one.values, &other.values)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::chance::Chance;

    fn sweep(
        costs: &[f64],
        repeats: usize,
        noise: f64,
        chance: &mut Chance,
        shape: impl Fn(f64) -> f64,
    ) -> Vec<Setting> {
        let setting = |cost: &f64| Setting {
            cost: *cost,
            values: (0..repeats).map(|_| shape(*cost) * (noise * chance.normal()).exp()).collect(),
        };
        costs.iter().map(setting).collect()
    }

    const JOBS: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];

    #[test]
    fn eight_jobs_are_enough() {
        let mut chance = Chance::new(1);
        let shape = |jobs: f64| 1_000.0 * jobs.min(8.0) * (1.0 + jobs / 3_200.0);
        for repeats in [5, 12] {
            let answers = (0..100).filter(|seed| {
                let settings = sweep(&JOBS, repeats, 0.01, &mut chance, shape);
                cheapest(&settings, 0.05, *seed).unwrap().cost == 8.0
            });
            let answers = answers.count();
            assert!(answers >= 90, "{repeats} repeats: {answers}");
        }
    }

    #[test]
    fn what_is_not_shown_is_not_enough() {
        let mut chance = Chance::new(2);
        // 8 % below the best, noise of 5 %: hardly ever within 5 %.
        let shape = |cost: f64| if cost > 1.0 { 100.0 } else { 92.0 };
        let shown = (0..400).filter(|seed| {
            let settings = sweep(&[1.0, 2.0], 5, 0.05, &mut chance, shape);
            let answer = cheapest(&settings, 0.05, *seed).unwrap();
            answer.best_cost == 2.0 && answer.cost == 1.0
        });
        let shown = shown.count();
        assert!(shown <= 8, "{shown} of 400");
        let alone = sweep(&JOBS, 1, 0.0, &mut chance, |_| 7.0);
        let answer = cheapest(&alone, 0.05, 1).unwrap();
        assert_eq!((answer.cost, answer.settings[1].is_enough), (1.0, false));
    }

    #[test]
    fn a_fall_stops_the_sweep_and_a_plateau_does_not() {
        let mut chance = Chance::new(3);
        let falls = |cost: f64| if cost > 8.0 { 80.0 } else { 10.0 * cost.min(10.0) + 20.0 };
        let exact = sweep(&JOBS, 3, 0.0, &mut chance, falls);
        assert_eq!(gets_worse(&exact[..5], 0.05, 1), Worse::No, "one is not enough");
        let Worse::Yes { best_cost, ratio, .. } = gets_worse(&exact, 0.05, 1) else { panic!() };
        assert_eq!((best_cost, ratio), (8.0, 0.8));
        let plateau: Vec<f64> = (1..=12).map(f64::from).collect();
        let stopped = (0..2_000).filter(|seed| {
            let settings = sweep(&plateau, 3, 0.05, &mut chance, |_| 100.0);
            (2..=12).any(|seen| gets_worse(&settings[..seen], 0.05, *seed) != Worse::No)
        });
        let stopped = stopped.count();
        assert!(stopped <= 20, "{stopped} of 2,000");
        let caught = (0..200).filter(|seed| {
            let settings = sweep(&JOBS, 5, 0.03, &mut chance, falls);
            gets_worse(&settings, 0.05, *seed) != Worse::No
        });
        let caught = caught.count();
        assert!(caught >= 180, "{caught} of 200");
    }

    #[test]
    fn what_has_no_figure() {
        assert_eq!(cheapest(&[], 0.05, 1), None);
        let empty = Setting { cost: 1.0, values: Vec::new() };
        assert_eq!(cheapest(std::slice::from_ref(&empty), 0.05, 1), None);
        assert_eq!(gets_worse(&[empty], 0.05, 1), Worse::No);
        let zero = Setting { cost: 1.0, values: vec![0.0, 1.0] };
        assert_eq!(cheapest(&[zero], 0.05, 1), None);
    }
}
