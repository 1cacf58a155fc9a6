//! The standard normal distribution.

/// Standard deviations beyond which the series loses all digits; the tail is below 1e-15.
const FAR: f64 = 8.0;

/// Probability that a standard normal number is below `x`.
///
/// G. Marsaglia, "Evaluating the normal distribution", J. Stat. Software 11(4), 2004: one half plus
/// the density times x + x^3/3 + x^5/(3·5) + …; absolute error below 1e-15.
pub fn cdf(x: f64) -> f64 {
    if x.abs() > FAR {
        return f64::from(u8::from(x > 0.0));
    }
    let (mut sum, mut term, mut odd) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() && term != 0.0 {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    (0.5 + sum * density(x)).clamp(0.0, 1.0)
}

/// Density of a standard normal number at `x`.
pub fn density(x: f64) -> f64 {
    (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt()
}

/// The `p` quantile of the standard normal distribution, limited to ±8 deviations as [`cdf`] is.
pub fn quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-FAR, FAR);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if cdf(middle) < p { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_textbooks() {
        for (x, p) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_543),
            (-1.644_853_626_951_473, 0.05),
            (1.959_963_984_540_054, 0.975),
            (-3.090_232_306_167_813, 0.001),
        ] {
            assert!((cdf(x) - p).abs() < 1e-14, "{x}");
            assert!((quantile(p) - x).abs() < 1e-10, "{p}");
        }
        assert_eq!((cdf(9.0), cdf(-9.0)), (1.0, 0.0));
    }
}
