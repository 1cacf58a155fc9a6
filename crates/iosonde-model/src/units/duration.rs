//! Durations, internally in nanoseconds.

use serde::{Deserialize, Deserializer};

use super::{Quantity, UnitError, count, scaled, split};

const EXPECTED: &str = "a time such as 10, 10s (both ten seconds), 500ms, 200us or 2m";

const UNITS: [(&str, u64); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("usec", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a duration into nanoseconds; a bare number is in `default_unit_ns` (1e9 for seconds).
///
/// # Errors
/// If the text is empty, signed, not a number, has an unknown unit, or exceeds 64 bits.
pub fn parse(text: &str, default_unit_ns: u64) -> Result<u64, UnitError> {
    let (number, unit) = split(text, EXPECTED)?;
    if unit.is_empty() {
        return scaled(number, default_unit_ns, text);
    }
    match UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
        Some((_, scale)) => scaled(number, *scale, text),
        None => Err(UnitError::Unit { found: text.into(), unit: unit.into(), expected: EXPECTED }),
    }
}

/// For `#[serde(deserialize_with)]`: nanoseconds as an integer, or a string with a unit.
///
/// # Errors
/// If the value is neither, or [`parse`] rejects it; a string without a unit is in seconds.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Quantity::deserialize(from)?.read(|text| parse(text, 1_000_000_000))
}

/// A latency with three significant digits in a suitable unit: `853 ns`, `12.3 µs`, `1.20 ms`.
pub fn latency(ns: f64) -> String {
    let (scale, unit) = if ns < 999.5 {
        (1.0, "ns")
    } else if ns < 999.5e3 {
        (1e3, "µs")
    } else if ns < 999.5e6 {
        (1e6, "ms")
    } else {
        (1e9, "s")
    };
    format!("{} {unit}", count::significant(ns / scale))
}

/// A duration, rounded for display: `86.0 ms`, `4.0 s`, `1 min 30 s`, `2 h 5 min`.
pub fn span(ns: u64) -> String {
    if (1..100_000_000).contains(&ns) {
        return latency(ns as f64);
    }
    let tenths = ns.saturating_add(50_000_000) / 100_000_000;
    if tenths < 600 {
        return format!("{}.{} s", tenths / 10, tenths % 10);
    }
    let seconds = ns.saturating_add(500_000_000) / 1_000_000_000;
    if seconds < 3600 {
        return format!("{} min {} s", seconds / 60, seconds % 60);
    }
    format!("{} h {} min", seconds / 3600, seconds % 3600 / 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_numbers_take_the_default_unit() {
        assert_eq!(parse("10", 1_000_000_000), Ok(10_000_000_000));
        assert_eq!(parse("5", 1_000_000), Ok(5_000_000));
        assert_eq!(parse("500us", 1_000_000), Ok(500_000));
        assert_eq!(parse("1.5", 1_000_000_000), Ok(1_500_000_000));
        assert_eq!(parse("2m", 1), Ok(120_000_000_000));
        for text in ["", "nan", "-5", "5 parsecs", "1e9"] {
            assert!(parse(text, 1).is_err(), "{text}");
        }
    }

    #[test]
    fn latency_picks_its_unit() {
        assert_eq!(latency(80.0), "80.0 ns");
        assert_eq!(latency(999.9), "1.00 µs");
        assert_eq!(latency(12_340.0), "12.3 µs");
        assert_eq!(latency(5_690_000.0), "5.69 ms");
        assert_eq!(latency(2.0e9), "2.00 s");
    }

    #[test]
    fn spans_read_naturally() {
        assert_eq!([span(0), span(86_400_000)], ["0.0 s", "86.4 ms"]);
        assert_eq!([span(4_040_000_000), span(277_000_000)], ["4.0 s", "0.3 s"]);
        assert_eq!(span(59_960_000_000), "1 min 0 s");
        assert_eq!(span(90_000_000_000), "1 min 30 s");
        assert_eq!(span(7_500_000_000_000), "2 h 5 min");
    }
}
