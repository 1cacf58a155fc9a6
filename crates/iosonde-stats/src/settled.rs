//! Is a figure steady by fio's rule (`steadystate`)? The largest deviation from the mean of a
//! window, or the slope of its least-squares line per interval, is below a limit.

/// A window of equally spaced values, with the figures of fio's rule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Settled {
    /// Mean.
    pub mean: f64,
    /// Largest distance of a value from the mean.
    pub max_deviation: f64,
    /// Slope of the least-squares line, per interval.
    pub slope: f64,
}

impl Settled {
    /// The figures of a window; zeros below two values.
    pub fn of(values: &[f64]) -> Settled {
        let n = values.len() as f64;
        if values.len() < 2 {
            return Settled::default();
        }
        let mean = values.iter().sum::<f64>() / n;
        let middle = (n - 1.0) / 2.0;
        let (mut products, mut squares, mut max_deviation) = (0.0, 0.0, 0.0f64);
        for (index, value) in values.iter().enumerate() {
            let x = index as f64 - middle;
            products += x * (value - mean);
            squares += x * x;
            max_deviation = max_deviation.max((value - mean).abs());
        }
        Settled { mean, max_deviation, slope: products / squares }
    }

    /// The value compared with the limit: slope or deviation, optionally in percent of the mean.
    /// `None` if the mean is 0 or below and a percentage is requested.
    pub fn criterion(&self, by_slope: bool, in_percent: bool) -> Option<f64> {
        let value = if by_slope { self.slope } else { self.max_deviation };
        match in_percent {
            true if self.mean > 0.0 => Some(100.0 * value / self.mean),
            true => None,
            false => Some(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let line = Settled::of(&[98.0, 99.0, 100.0, 101.0, 102.0]);
        assert_eq!((line.mean, line.max_deviation, line.slope), (100.0, 2.0, 1.0));
        assert_eq!(line.criterion(true, true), Some(1.0));
        assert_eq!(line.criterion(false, false), Some(2.0));
        let falling = Settled::of(&[30.0, 20.0, 10.0]);
        assert_eq!(falling.criterion(true, false), Some(-10.0));
        assert_eq!(Settled::of(&[0.0, 0.0]).criterion(true, true), None);
    }
}
