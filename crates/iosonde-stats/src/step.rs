//! One change of level in a series.

use super::summary::Summary;

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

/// Finds the split that leaves the least squared error, both parts at least `shortest` values long;
/// `None` if the series is shorter than two such parts, or constant.
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
    // Between-level sum of squares, from running sums of deviations.
    let n = series.len() as f64;
    let mut sum = 0.0;
    let mut best = (shortest, f64::NEG_INFINITY);
    for (index, value) in series.iter().enumerate() {
        let left = index as f64;
        if index >= shortest && index + shortest <= series.len() {
            let between = sum * sum * (1.0 / left + 1.0 / (n - left));
            if between > best.1 {
                best = (index, between);
            }
        }
        sum += value - whole.mean;
    }
    let (before, after) = series.split_at(best.0);
    Some(Step {
        at: best.0,
        before: Summary::of(before.split_last()?.1)?,
        after: Summary::of(after.split_first()?.1)?,
        explained: (best.1 / total).clamp(0.0, 1.0),
    })
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
    fn a_ramp_is_explained_less_than_a_step() {
        let ramp: Vec<f64> = (0..60).map(f64::from).collect();
        assert!(two_levels(&ramp, 5).unwrap().explained < 0.8);
        assert_eq!(two_levels(&[5.0; 60], 5), None);
        assert_eq!(two_levels(&[1.0, 2.0], 5), None);
    }
}
