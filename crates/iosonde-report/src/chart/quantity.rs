//! The quantity of an axis, which determines how its ticks are written.

use iosonde_model::units::count::thousands;

/// Quantity of the numbers of an axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Quantity {
    /// Plain numbers. The title of the axis names their unit.
    Count,
    /// Shares of one, written as per cent.
    Share,
    /// Latencies in nanoseconds, each written in the unit that fits.
    Latency,
    /// Bytes, each written in the binary unit that fits.
    Bytes,
    /// Times in nanoseconds, all written in the unit that fits the largest.
    Time,
}

impl Quantity {
    /// A single value with three significant digits.
    pub(super) fn rough(self, value: f64) -> String {
        let value = format!("{value:.2e}").parse().unwrap_or(value);
        self.labels(&[value], value).concat()
    }

    /// The labels of ticks; `last` is the upper end of their axis.
    pub(super) fn labels(self, ticks: &[f64], last: f64) -> Vec<String> {
        let label = |value: &f64| match self {
            Quantity::Count => counted(*value),
            Quantity::Share => format!("{} %", plain(*value * 100.0)),
            Quantity::Latency => in_unit(*value, *value, &LATENCIES),
            Quantity::Bytes => in_unit(*value, byte_measure(ticks, *value), &SIZES),
            Quantity::Time => in_unit(*value, last, &TIMES),
        };
        ticks.iter().map(label).collect()
    }
}

/// The value that determines the unit of a size. It is the size itself, unless a tick then needed
/// many decimals, as in `12.503906 GiB`. Then all ticks share the largest unit without such
/// decimals.
fn byte_measure(ticks: &[f64], value: f64) -> f64 {
    let short = |value: f64, one: f64| (value / one * 100.0).fract() == 0.0;
    let own = |value: f64| SIZES.iter().find(|(least, ..)| value >= *least).map_or(1.0, |u| u.1);
    if ticks.iter().all(|tick| short(*tick, own(*tick))) {
        return value;
    }
    let common = SIZES.iter().find(|(_, one, _)| ticks.iter().all(|tick| short(*tick, *one)));
    common.map_or(value, |unit| unit.1)
}

/// Units: the least value for which each is used, its size, its name.
type Units = [(f64, f64, &'static str)];

const LATENCIES: [(f64, f64, &str); 4] =
    [(1e9, 1e9, "s"), (1e6, 1e6, "ms"), (1e3, 1e3, "µs"), (0.0, 1.0, "ns")];
const TIMES: [(f64, f64, &str); 6] = [
    (7_200e9, 3_600e9, "h"),
    (180e9, 60e9, "min"),
    (1e9, 1e9, "s"),
    (1e6, 1e6, "ms"),
    (1e3, 1e3, "µs"),
    (0.0, 1.0, "ns"),
];
const SIZES: [(f64, f64, &str); 6] = [
    (1125899906842624.0, 1125899906842624.0, "PiB"),
    (1099511627776.0, 1099511627776.0, "TiB"),
    (1073741824.0, 1073741824.0, "GiB"),
    (1048576.0, 1048576.0, "MiB"),
    (1024.0, 1024.0, "KiB"),
    (0.0, 1.0, "B"),
];

/// A value in the unit that fits `measure`. Zero has the same meaning in every unit.
fn in_unit(value: f64, measure: f64, units: &Units) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let fitting = units.iter().find(|(least, ..)| measure.abs() >= least * (1.0 - 1e-9));
    match fitting {
        Some((_, one, name)) => format!("{} {name}", plain(value / one)),
        None => plain(value),
    }
}

/// Writes a number with k, M, G or T: thousands from ten thousand on, millions from one million on.
fn counted(value: f64) -> String {
    let sizes = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match sizes.iter().find(|(one, _)| value.abs() >= one * if *one < 1e6 { 10.0 } else { 1.0 }) {
        Some((one, letter)) => format!("{}{letter}", plain(value / one)),
        None => plain(value),
    }
}

/// A number without trailing zeros, with at most nine decimals.
fn plain(value: f64) -> String {
    let text = format!("{value:.9}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text.parse::<u64>() {
        Ok(whole) => thousands(whole),
        Err(_not_whole) if text == "-0" => "0".into(),
        Err(_not_whole) => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_share_a_unit_where_their_own_would_need_many_decimals() {
        let (gib, mib) = (1073741824.0, 1048576.0);
        let labels = |ticks: &[f64]| Quantity::Bytes.labels(ticks, 16.0 * gib);
        assert_eq!(labels(&[4096.0, mib, 1.5 * gib]), ["4 KiB", "1 MiB", "1.5 GiB"]);
        assert_eq!(labels(&[12.5 * gib, 12.5 * gib + 4.0 * mib]), ["12,800 MiB", "12,804 MiB"]);
        assert_eq!(labels(&[0.0, 512.0 * mib, gib]), ["0", "512 MiB", "1 GiB"]);
    }

    #[test]
    fn a_single_value_has_three_digits() {
        for (quantity, value, text) in [
            (Quantity::Count, 26_132.0, "26.1k"),
            (Quantity::Count, 1_234.0, "1,230"),
            (Quantity::Latency, 325_430.0, "325 µs"),
            (Quantity::Latency, 999_999.0, "1 ms"),
            (Quantity::Share, 0.123456, "12.3 %"),
        ] {
            assert_eq!(quantity.rough(value), text);
        }
    }

    #[test]
    fn each_quantity_is_written_correctly() {
        for (quantity, value, last, text) in [
            (Quantity::Count, 0.0, 1.0, "0"),
            (Quantity::Count, 2_500.0, 1e4, "2,500"),
            (Quantity::Count, 25_000.0, 1e5, "25k"),
            (Quantity::Count, 1.5e6, 2e6, "1.5M"),
            (Quantity::Count, 0.3, 1.0, "0.3"),
            (Quantity::Share, 0.25, 1.0, "25 %"),
            (Quantity::Share, 1e-5, 1.0, "0.001 %"),
            (Quantity::Share, 1e-9, 1.0, "0.0000001 %"),
            (Quantity::Latency, 50e3, 1e9, "50 µs"),
            (Quantity::Latency, 1e6, 1e9, "1 ms"),
            (Quantity::Bytes, 4096.0, 1e9, "4 KiB"),
            (Quantity::Bytes, 1.5 * 1073741824.0, 1e12, "1.5 GiB"),
            (Quantity::Time, 0.0, 60e9, "0"),
            (Quantity::Time, 15e9, 60e9, "15 s"),
            (Quantity::Time, 30e9, 600e9, "0.5 min"),
            (Quantity::Time, 5e8, 2e9, "0.5 s"),
        ] {
            assert_eq!(quantity.labels(&[value], last), [text]);
        }
    }
}
