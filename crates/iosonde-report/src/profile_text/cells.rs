//! Cells, tables and percentile rows for the report of a profile.

use crate::report::Column;
use crate::wrap::{self, Rule, Text, width};
use iosonde_analysis::profile::{Latency, Spread};
use iosonde_model::units::count;

/// Most columns of the report.
pub(super) const COLUMNS: usize = 100;
/// Least width of the first column of a table when it is shortened.
const SHORTEST: usize = 12;
/// Columns of the label before the values of a row.
pub(super) const LABEL: usize = 17;

/// A size in binary units: `4K`, `128K`, `1.5M`, `512`.
pub(super) fn size(bytes: f64) -> String {
    for (scale, unit) in [(f64::from(1 << 30), "G"), (f64::from(1 << 20), "M"), (1024.0, "K")] {
        if bytes >= scale {
            let value = bytes / scale;
            let whole = (value - value.round()).abs() < 1e-9 && value < 1e6;
            let formatted = if whole { format!("{value:.0}") } else { count::significant(value) };
            return format!("{formatted}{unit}");
        }
    }
    format!("{bytes:.0}")
}

/// A time without a space, for a narrow cell: `162µs`, `1.23ms`.
pub(super) fn time(ns: f64) -> String {
    let (scale, unit) = match ns {
        ns if ns < 999.5 => (1.0, "ns"),
        ns if ns < 999.5e3 => (1e3, "µs"),
        ns if ns < 999.5e6 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{}{unit}", count::significant(ns / scale))
}

/// A share in percent: `12%`, `0.3%`.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent >= 9.95 || percent == 0.0 => format!("{percent:.0}%"),
        percent if percent < 0.05 => "<0.1%".into(),
        percent => format!("{percent:.1}%"),
    }
}

/// A share that may be unknown.
pub(super) fn maybe_percent(share: Option<f64>) -> String {
    share.map_or("n/a".into(), percent)
}

/// MB (10^6 bytes) with one decimal.
pub(super) fn megabytes(bytes: u64) -> String {
    let tenths = (bytes as f64 / 1e5).round() as u64;
    format!("{}.{}", count::thousands(tenths / 10), tenths % 10)
}

/// A rate in MB/s, one decimal.
pub(super) fn megabytes_per_s(bytes_per_s: f64) -> String {
    format!("{} MB/s", megabytes(bytes_per_s.round() as u64))
}

/// A rate as a whole number, or with three digits below 100.
pub(super) fn rate(per_s: f64) -> String {
    if per_s == 0.0 { "0".into() } else { count::significant_or_whole(per_s) }
}

/// Writes `  label           p25=… … max=…` for a spread.
pub(super) fn spread_row(
    out: &mut Text,
    label: &str,
    spread: &Spread,
    formatted: impl Fn(f64) -> String,
) {
    if spread.percentiles.iter().all(|(_, value)| value.is_none()) {
        let known = spread.mean.zip(spread.max);
        let known = known.map(|(mean, max)| (formatted(mean), formatted(max)));
        return too_few(out, label, known, spread.count);
    }
    let cells = spread.percentiles.iter().map(|(q, value)| (*q, value.map(&formatted)));
    row(out, label, cells, spread.max.map(&formatted))
}

/// The same for latencies.
pub(super) fn latency_row(out: &mut Text, label: &str, latency: &Latency) {
    let formatted = |ns: u64| time(ns as f64);
    if latency.quantiles.iter().all(|each| each.value_ns().is_none()) {
        let known = latency.mean_ns.zip(latency.max_ns);
        let known = known.map(|(mean, max)| (time(mean), formatted(max)));
        return too_few(out, label, known, latency.count);
    }
    let cells = latency.quantiles.iter().map(|each| (each.q, each.value_ns().map(formatted)));
    row(out, label, cells, latency.max_ns.map(formatted))
}

/// Writes a row without known percentiles.
fn too_few(out: &mut Text, label: &str, mean_and_max: Option<(String, String)>, count: u64) {
    let words = mean_and_max.map_or("no data (none was seen)".into(), |(mean, max)| {
        format!("mean={mean} max={max} ({count} are too few for percentiles)")
    });
    out.hanging(&format!("{label:<LABEL$}"), &words);
}

/// Writes percentiles side by side; those that do not fit continue on the next line.
fn row(
    out: &mut Text,
    label: &str,
    cells: impl Iterator<Item = (f64, Option<String>)>,
    max: Option<String>,
) {
    let known = |value: Option<String>| value.unwrap_or("n/a".into());
    let mut line = format!("{label:<LABEL$}");
    let mut say = |cell: &str, room: usize| {
        if line.len() > LABEL && width(&line) + width(cell) > out.columns {
            out.push_str(&format!("{}\n", line.trim_end()));
            line = " ".repeat(LABEL);
        }
        line.push_str(&format!("{cell:<room$} "));
    };
    for (q, value) in cells {
        let name = format!("p{}", (q * 1e5).round() / 1e3);
        say(&format!("{name}={}", known(value)), 7 + name.len());
    }
    say(&format!("max={}", known(max)), 0);
    out.push_str(&format!("{}\n", line.trim_end()));
}

/// A table of columns with headings and alignment. The first column is shortened if a row would be
/// too wide.
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with text columns followed by number columns.
    pub(super) fn new(
        words: &[&str],
        numbers: &[&str],
        rows: impl Iterator<Item = Vec<String>>,
    ) -> Table {
        Table { columns: Column::all(words, numbers), rows: rows.collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the table below a heading, if it has rows.
    pub(super) fn write_below(&self, out: &mut Text, heading: &str) {
        if !self.is_empty() {
            out.push_str(&format!("{heading}:\n"));
            out.push_str(&self.text(out.columns));
        }
    }

    /// Headings, rule and rows, each indented by two.
    pub(super) fn text(&self, screen: usize) -> String {
        let widest = |at: usize| {
            let cells = self.rows.iter().map(|row| width(&row[at]));
            cells.chain([width(&self.columns[at].title)]).max().unwrap_or(0)
        };
        // Two blanks before the first column, three between columns.
        let others: usize = (1..self.columns.len()).map(|at| widest(at) + 3).sum();
        let first = screen.saturating_sub(others + 2).max(SHORTEST);
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| {
                let mut row = row.clone();
                row[0] = shortened(&row[0], first);
                row
            })
            .collect();
        // If the table becomes blocks, there is space for full names.
        let fits = others + 2 + SHORTEST.max(width(&self.columns[0].title)) <= screen;
        wrap::table(&self.columns, if fits { &rows } else { &self.rows }, Rule::Dashes, screen)
    }
}

/// Shortens a text: keeps the end of a path, where paths differ, and the beginning of other names.
pub(super) fn shortened(text: &str, room: usize) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    if !text.starts_with('/') {
        return text.chars().take(room.saturating_sub(1)).chain(['…']).collect();
    }
    let kept: String = text.chars().skip(length + 1 - room).collect();
    format!("…{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_short() {
        assert_eq!([size(512.0), size(4096.0), size(1536.0 * 1024.0)], ["512", "4K", "1.50M"]);
        assert_eq!([time(80.0), time(162_000.0), time(2.5e9)], ["80.0ns", "162µs", "2.50s"]);
        assert_eq!(
            [percent(0.0), percent(0.0001), percent(0.034), percent(1.0)],
            ["0%", "<0.1%", "3.4%", "100%"]
        );
        assert_eq!(megabytes(1_234_560_000), "1,234.6");
    }

    #[test]
    fn a_table_stays_within_the_page_and_keeps_the_end_of_long_names() {
        let rows = [
            vec![format!("/a/{}/end", "x".repeat(200)), "1.0".into()],
            vec!["a name with spaces".into(), "12,345.0".into()],
        ];
        let table = Table::new(&["File"], &["Read MB"], rows.into_iter());
        let text = table.text(COLUMNS);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(text.contains("…x") && text.contains("/end | ") && text.contains("a name with"));
    }
}
