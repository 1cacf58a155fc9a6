//! Spread of values, and formatting of numbers.

/// Smallest and largest of at least one number.
pub(crate) fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let smallest = values.iter().copied().min_by(f64::total_cmp)?;
    Some((smallest, values.iter().copied().max_by(f64::total_cmp)?))
}

/// Operations per second, in thousands or millions.
pub(crate) fn rate(iops: f64) -> String {
    match iops {
        _ if iops >= 10e6 => format!("{:.1} M", iops / 1e6),
        _ if iops >= 100e3 => format!("{:.0} k", iops / 1e3),
        _ => format!("{:.1} k", iops / 1e3),
    }
}

/// A number without decimals, or a dash.
pub(crate) fn whole(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"))
}

/// A ratio, or a dash.
pub(crate) fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_and_rates() {
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[2.0, 1.0, 3.0]), Some((1.0, 3.0)));
        assert_eq!(rate(1_891_234.0), "1891 k");
        assert_eq!(rate(25_310_000.0), "25.3 M");
        assert_eq!(rate(74_300.0), "74.3 k");
    }
}
