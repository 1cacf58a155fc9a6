//! Mean, spread, and intervals for a mean.

/// Mean, sample standard deviation and size of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Sample size, at least 1.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (divisor n - 1); 0 for one value.
    pub std_dev: f64,
}

impl Summary {
    /// Summarises a sample; `None` if it is empty.
    pub fn of(values: &[f64]) -> Option<Summary> {
        if values.is_empty() {
            return None;
        }
        let (n, mean) = (values.len(), mean(values));
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let std_dev = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
        Some(Summary { n, mean, std_dev })
    }

    /// Coefficient of variation; `None` if the mean is 0.
    pub fn cv(&self) -> Option<f64> {
        (self.mean != 0.0).then(|| self.std_dev / self.mean.abs())
    }
}

/// Arithmetic mean; 0 of no values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Whether a figure is positive and finite.
pub(crate) fn is_positive(value: &f64) -> bool {
    *value > 0.0 && value.is_finite()
}

/// Logarithms of a sample; `None` if a value is not positive.
pub(crate) fn logarithms(sample: &[f64]) -> Option<Vec<f64>> {
    sample.iter().all(is_positive).then(|| sample.iter().map(|value| value.ln()).collect())
}

/// Two-sided p value: probability that Student's t is at least as far from 0 as `t` (Abramowitz and
/// Stegun 26.7.3 and 26.7.4, exact); 1 for no degrees of freedom.
pub fn t_p(t: f64, degrees_of_freedom: usize) -> f64 {
    if degrees_of_freedom == 0 || t.is_nan() {
        return 1.0;
    }
    let angle = (t.abs() / (degrees_of_freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = degrees_of_freedom % 2 == 1;
    // The powers of the cosine go up to two less than the degrees of freedom.
    let mut power = if is_odd { 1 } else { 0 };
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    while power + 2 <= degrees_of_freedom {
        sum += term;
        term *= cosine * cosine * (power + 1) as f64 / (power + 2) as f64;
        power += 2;
    }
    let inside = sine * sum;
    let inside = if is_odd { (angle + inside) * std::f64::consts::FRAC_2_PI } else { inside };
    (1.0 - inside).clamp(0.0, 1.0)
}

/// The value of Student's t with this two-sided p: the inverse of [`t_p`], by bisection. `None` for
/// no degrees of freedom and for probabilities of 0 or 1.
pub fn t_with_p(p: f64, degrees_of_freedom: usize) -> Option<f64> {
    if degrees_of_freedom == 0 || !(p > 0.0 && p < 1.0) {
        return None;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while t_p(high, degrees_of_freedom) > p && high < 1e9 {
        high *= 2.0;
    }
    while high - low > 1e-9 * high {
        let middle = (low + high) / 2.0;
        *if t_p(middle, degrees_of_freedom) > p { &mut low } else { &mut high } = middle;
    }
    Some(high)
}

/// Quantile 0.975 of Student's t distribution; `None` for no degrees of freedom.
///
/// A table up to 4 degrees of freedom; above, the Cornish-Fisher expansion (Abramowitz and Stegun
/// 26.7.5), accurate to 0.001.
pub fn t_975(degrees_of_freedom: usize) -> Option<f64> {
    const FEW: [f64; 4] = [12.706_205, 4.302_653, 3.182_446, 2.776_445];
    if degrees_of_freedom == 0 {
        return None;
    }
    if let Some(value) = FEW.get(degrees_of_freedom - 1) {
        return Some(*value);
    }
    let x = 1.959_963_985_f64;
    let v = degrees_of_freedom as f64;
    let g1 = (x.powi(3) + x) / 4.0;
    let g2 = (5.0 * x.powi(5) + 16.0 * x.powi(3) + 3.0 * x) / 96.0;
    let g3 = (3.0 * x.powi(7) + 19.0 * x.powi(5) + 17.0 * x.powi(3) - 15.0 * x) / 384.0;
    let g4 = (79.0 * x.powi(9) + 776.0 * x.powi(7) + 1_482.0 * x.powi(5)
        - 1_920.0 * x.powi(3)
        - 945.0 * x)
        / 92_160.0;
    Some(x + g1 / v + g2 / v.powi(2) + g3 / v.powi(3) + g4 / v.powi(4))
}

/// Autocorrelation time of a series, in steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dependence {
    /// Integrated autocorrelation time, at least 1: `n` correlated values carry as much information
    /// as `n / time` independent ones.
    pub time: f64,
    /// Standard error of `time`.
    pub error: f64,
}

impl Dependence {
    /// Estimates the time by Geyer's initial positive sequence ("Practical Markov chain Monte
    /// Carlo", Statistical Science 7(4), 1992). The standard error is that of Madras and Sokal
    /// ("The pivot algorithm", Journal of Statistical Physics 50, 1988) for the lags that are
    /// summed.
    pub fn of(series: &[f64]) -> Dependence {
        let none = Dependence { time: 1.0, error: 0.0 };
        let Some(summary) = Summary::of(series) else { return none };
        let n = series.len();
        let covariance = |lag: usize| {
            let pairs = series.iter().zip(&series[lag..]);
            pairs.map(|(a, b)| (a - summary.mean) * (b - summary.mean)).sum::<f64>() / n as f64
        };
        let variance = covariance(0);
        if n < 4 || variance <= 0.0 {
            return none;
        }
        // Pairs rho(2k) + rho(2k+1), beginning with rho(0) = 1.
        let mut sum = 0.0;
        let mut lag = 0;
        while lag + 1 < n / 2 {
            let pair = (covariance(lag) + covariance(lag + 1)) / variance;
            if pair <= 0.0 {
                break;
            }
            sum += pair;
            lag += 2;
        }
        let time = 2.0 * sum - 1.0;
        if time <= 1.0 {
            return none;
        }
        // Lags from -(lag - 1) to lag - 1.
        Dependence { time, error: time * (2.0 * (2 * lag - 1) as f64 / n as f64).sqrt() }
    }

    /// Upper estimate of the time: two standard errors more, scaled by `1 - time^-2`, because the
    /// estimate for independent values exceeds 1 by chance alone.
    pub fn longest(self) -> f64 {
        self.time + 2.0 * self.error * (1.0 - self.time.powi(-2))
    }
}

/// Integrated [autocorrelation time](Dependence) of a series in steps, at least 1.
pub fn autocorrelation_time(series: &[f64]) -> f64 {
    Dependence::of(series).time
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_tail_of_students_t_is_that_of_the_tables() {
        for (freedom, t) in [(1, 12.706_205), (2, 4.302_653), (3, 3.182_446), (10, 2.228_139)] {
            assert!((t_p(t, freedom) - 0.05).abs() < 1e-6, "{freedom}: {}", t_p(t, freedom));
            assert!((t_p(-t, freedom) - 0.05).abs() < 1e-6);
        }
        assert!((t_p(4.604_095, 4) - 0.01).abs() < 1e-6);
        assert_eq!((t_p(0.0, 5), t_p(3.0, 0)), (1.0, 1.0));
    }

    #[test]
    fn mean_and_spread_of_a_known_sample() {
        let summary = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!(summary.mean, 5.0);
        assert!((summary.std_dev - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert!(Summary::of(&[]).is_none());
        assert_eq!(Summary::of(&[3.0]).unwrap().std_dev, 0.0);
    }

    #[test]
    fn t_quantiles_match_the_tables() {
        let table = [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (5, 2.571),
            (6, 2.447),
            (7, 2.365),
            (8, 2.306),
            (9, 2.262),
            (10, 2.228),
            (14, 2.145),
            (19, 2.093),
            (29, 2.045),
            (1_000_000, 1.960),
        ];
        for (df, expected) in table {
            assert!((t_975(df).unwrap() - expected).abs() < 0.0015, "{df}");
        }
        assert_eq!(t_975(0), None);
        for (p, df, expected) in [(0.05, 1, 12.706), (0.01, 4, 4.604), (0.05 / 3.0, 20, 2.613)] {
            assert!((t_with_p(p, df).unwrap() - expected).abs() < 0.001, "{p} {df}");
        }
        assert_eq!((t_with_p(0.05, 0), t_with_p(0.0, 3)), (None, None));
    }

    #[test]
    fn alternation_and_persistence_are_distinguished() {
        let noise = |seed: u64, i: u64| {
            let mut z = (seed + i).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            ((z ^ (z >> 27)) % 2_001) as f64 / 1_000.0 - 1.0
        };
        let white: Vec<f64> = (0..2_000).map(|i| noise(1, i)).collect();
        assert!(autocorrelation_time(&white) < 1.5);
        // AR(1) with phi = 0.8: (1 + phi) / (1 - phi) = 9.
        let mut last = 0.0;
        let slow: Vec<f64> = (0..20_000)
            .map(|i| {
                last = 0.8 * last + noise(7, i);
                last
            })
            .collect();
        let time = autocorrelation_time(&slow);
        assert!((6.5..12.0).contains(&time), "{time}");
        assert_eq!(autocorrelation_time(&[1.0; 50]), 1.0);
    }
}
