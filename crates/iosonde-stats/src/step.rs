//! Changes of level in a series: one, or several.

use super::ratio::sorted;
use super::summary::{Summary, mean};

/// The best description of a series as two levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Index of the first value of the second level.
    pub at: usize,
    /// The first level, without the last value before the change.
    pub before: Summary,
    /// The second level, without the first value after the change: the change falls within an
    /// interval, whose value belongs to neither level.
    pub after: Summary,
    /// Share of the series' variance that the two levels explain, `0..=1`.
    pub explained: f64,
}

impl Step {
    /// Relative change of the level: -0.4 is a drop by 40 %.
    pub fn change(&self) -> f64 {
        if self.before.mean == 0.0 { 0.0 } else { self.after.mean / self.before.mean - 1.0 }
    }
}

/// Finds the split of least squared error, both parts at least `shortest` values long; `None` if
/// the series is shorter than two such parts, or constant. If that split is as near to an end as
/// allowed, the change itself may be nearer: the split is then repeated with parts of two values,
/// and `explained` is still that of the first split.
pub fn two_levels(series: &[f64], shortest: usize) -> Option<Step> {
    let shortest = shortest.max(2);
    if series.len() < 2 * shortest {
        return None;
    }
    let whole = Summary::of(series)?;
    let total: f64 = series.iter().map(|value| (value - whole.mean).powi(2)).sum();
    if total <= 0.0 {
        return None;
    }
    let sums = Sums::of(series);
    let (within, gain) = sums.split(0, series.len(), shortest)?;
    let is_at_edge = within == shortest || within + shortest == series.len();
    let at = if is_at_edge { sums.split(0, series.len(), 2)?.0 } else { within };
    let (before, after) = series.split_at(at);
    Some(Step {
        at,
        before: Summary::of(before.split_last()?.1)?,
        after: Summary::of(after.split_first()?.1)?,
        explained: (gain / total).clamp(0.0, 1.0),
    })
}

/// A part of a series on one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Index of its first value.
    pub start: usize,
    /// Index after its last value.
    pub end: usize,
    /// Mean of its values.
    pub mean: f64,
}

/// A series as several levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels {
    /// Consecutive levels without gaps; a single one if nothing changes.
    pub levels: Vec<Level>,
    /// Share of the series' variance that the levels explain, `0..=1`.
    pub explained: f64,
}

/// Divides a series repeatedly where that explains most of the variance (binary segmentation: Scott
/// and Knott, "A cluster analysis method for grouping means", Biometrics 30(3), 1974), until the
/// next division would explain less than `least` of it. Every part is at least `shortest` values
/// long.
pub fn levels(series: &[f64], shortest: usize, least: f64) -> Levels {
    let sums = Sums::of(series);
    let mut ends = vec![series.len()];
    let mut splits = vec![sums.split(0, series.len(), shortest.max(1))];
    let mut explained = 0.0;
    loop {
        let gains = splits.iter().enumerate().filter_map(|(part, split)| Some((part, (*split)?)));
        let best = gains.max_by(|(_, (_, one)), (_, (_, other))| one.total_cmp(other));
        let Some((part, (at, gain))) =
            best.filter(|(_, (_, gain))| sums.variation > 0.0 && *gain >= least * sums.variation)
        else {
            break;
        };
        let start = if part == 0 { 0 } else { ends[part - 1] };
        let end = ends[part];
        ends.insert(part, at);
        splits[part] = sums.split(start, at, shortest.max(1));
        splits.insert(part + 1, sums.split(at, end, shortest.max(1)));
        explained += gain / sums.variation;
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let level = |(start, end): (usize, &usize)| Level {
        start,
        end: *end,
        mean: mean(&series[start..*end]),
    };
    Levels { levels: starts.zip(&ends).map(level).collect(), explained: explained.min(1.0) }
}

/// A series that changes between two levels any number of times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoModes {
    /// Mean of the lower values.
    pub low: f64,
    /// Mean of the higher ones.
    pub high: f64,
    /// Number of changes from one level to the other.
    pub changes: usize,
    /// Mean length of a stay, in values, on the level with the shorter stays.
    pub stay: f64,
    /// Standard deviations by which there are fewer changes than for the same values in random
    /// order (Wald and Wolfowitz, "On a test whether two samples are from the same population",
    /// Annals of Mathematical Statistics 11(2), 1940).
    pub order: f64,
    /// Share of the series' variance that the two levels explain, `0..=1`: 2/pi for values of a
    /// normal distribution.
    pub explained: f64,
}

/// Divides the values, in any order, where that explains most of the variance (Otsu, "A threshold
/// selection method from gray-level histograms", IEEE Transactions on Systems, Man, and Cybernetics
/// 9(1), 1979); `None` if they are all equal.
pub fn two_modes(series: &[f64]) -> Option<TwoModes> {
    let sorted = sorted(series.iter().copied());
    let sums = Sums::of(&sorted);
    let (at, gain) = sums.split(0, sorted.len(), 1).filter(|_| sums.variation > 0.0)?;
    let is_high = |value: &f64| *value >= sorted[at];
    let stays = |high: bool| {
        let parts = series.chunk_by(|one, other| is_high(one) == is_high(other));
        let lengths: Vec<usize> =
            parts.filter(|part| is_high(&part[0]) == high).map(<[f64]>::len).collect();
        (lengths.len(), lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64)
    };
    let ((lows, low_stay), (highs, high_stay)) = (stays(false), stays(true));
    let n = sorted.len() as f64;
    let expected = 2.0 * at as f64 * (n - at as f64) / n;
    let deviation = (expected * (expected - 1.0) / (n - 1.0)).max(0.0).sqrt();
    let changes = (lows + highs).saturating_sub(1);
    Some(TwoModes {
        low: mean(&sorted[..at]),
        high: mean(&sorted[at..]),
        changes,
        stay: low_stay.min(high_stay),
        order: if deviation > 0.0 { (expected - changes as f64) / deviation } else { 0.0 },
        explained: (gain / sums.variation).clamp(0.0, 1.0),
    })
}

/// Running sums of the deviations from the mean.
struct Sums {
    variation: f64,
    running: Vec<f64>,
}

impl Sums {
    fn of(series: &[f64]) -> Sums {
        let mean = Summary::of(series).map_or(0.0, |summary| summary.mean);
        let mut running = vec![0.0];
        let mut sum = 0.0;
        for value in series {
            sum += value - mean;
            running.push(sum);
        }
        let variation = series.iter().map(|value| (value - mean).powi(2)).sum();
        Sums { variation, running }
    }

    /// The best index at which to divide a part, and the variation that explains.
    fn split(&self, start: usize, end: usize, shortest: usize) -> Option<(usize, f64)> {
        let last = end.checked_sub(shortest)?;
        let sum = |from: usize, to: usize| self.running[to] - self.running[from];
        let square = |from: usize, to: usize| sum(from, to).powi(2) / (to - from) as f64;
        let places = (start + shortest..=last)
            .map(|at| (at, square(start, at) + square(at, end) - square(start, end)));
        places.max_by(|one, other| one.1.total_cmp(&other.1))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_clean_step_is_found_exactly() {
        let mut series = vec![100.0; 60];
        series[22..].fill(40.0);
        let step = two_levels(&series, 5).unwrap();
        assert_eq!(step.at, 22);
        assert!((step.change() + 0.6).abs() < 1e-12);
        assert!((step.explained - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_interval_of_the_change_belongs_to_neither_level() {
        let mut series = vec![100.0; 60];
        series[22..].fill(40.0);
        for mixed in [90.0, 45.0] {
            series[22] = mixed;
            let step = two_levels(&series, 5).unwrap();
            assert_eq!((step.before.mean, step.after.mean), (100.0, 40.0));
            assert_eq!(step.after.std_dev, 0.0);
        }
    }

    #[test]
    fn a_level_shorter_than_allowed_has_its_own_mean() {
        for at in [55, 5] {
            let mut series = vec![100.0; 60];
            series[at..].fill(40.0);
            let step = two_levels(&series, 10).unwrap();
            assert_eq!((step.at, step.before.mean, step.after.mean), (at, 100.0, 40.0));
            assert!((0.4..0.5).contains(&step.explained), "{step:?}");
        }
    }

    #[test]
    fn several_levels_are_found_exactly_and_noise_has_one() {
        let mut series = vec![100.0; 90];
        series[30..60].fill(30.0);
        series[80..].fill(60.0);
        let found = levels(&series, 5, 0.05);
        let ends: Vec<usize> = found.levels.iter().map(|level| level.end).collect();
        assert_eq!(ends, [30, 60, 80, 90]);
        assert!((found.levels[1].mean - 30.0).abs() < 1e-9 && found.explained > 0.999);
        let mut chance = crate::chance::Chance::new(3);
        let noise: Vec<f64> = (0..100).map(|_| 100.0 + chance.normal()).collect();
        assert!(levels(&noise, 5, 0.05).explained < 0.5);
        assert_eq!(levels(&[5.0; 60], 5, 0.05).levels.len(), 1);
        assert_eq!(levels(&[], 5, 0.05).levels.len(), 1);
    }

    #[test]
    fn levels_that_alternate_have_two_modes_and_noise_has_one() {
        let mut chance = crate::chance::Chance::new(3);
        let mut series = |level: fn(usize) -> f64| -> Vec<f64> {
            (0..600).map(|at| level(at) + 5.0 * chance.normal()).collect()
        };
        let found = two_modes(&series(|at| if at % 40 < 20 { 100.0 } else { 40.0 })).unwrap();
        assert!((found.low - 40.0).abs() < 1.0 && (found.high - 100.0).abs() < 1.0, "{found:?}");
        assert_eq!((found.changes, found.stay), (29, 20.0));
        assert!(found.explained > 0.95 && found.order > 20.0, "{found:?}");
        let found = two_modes(&series(|_| 100.0)).unwrap();
        assert!(found.explained < 0.7 && found.stay < 3.0, "{found:?}");
        assert!(found.order.abs() < 3.0, "{found:?}");
        assert_eq!(two_modes(&[5.0; 60]), None);
        assert_eq!(two_modes(&[]), None);
    }

    #[test]
    fn a_ramp_is_explained_less_than_a_step() {
        let ramp: Vec<f64> = (0..60).map(f64::from).collect();
        assert!(two_levels(&ramp, 5).unwrap().explained < 0.8);
        assert_eq!(two_levels(&[5.0; 60], 5), None);
        assert_eq!(two_levels(&[1.0, 2.0], 5), None);
    }
}
