//! Data sets as files for other programs: CSV for spreadsheets, columns separated by blanks for
//! gnuplot.

use super::clean::clean;
use super::report::{DataSet, Datum};

/// A data set as CSV (RFC 4180) with a header line. Numbers have all digits and no separators, a
/// missing one is an empty cell, and no spreadsheet can take a text for a formula.
pub fn csv(data: &DataSet) -> String {
    let names = data.columns.iter().map(|name| csv_cell(name));
    let mut out = line(names, ",");
    for row in &data.rows {
        let cells = row.iter().map(|datum| match datum {
            Datum::Text(text) => csv_cell(text),
            number => bare(number).unwrap_or_default(),
        });
        out.push_str(&line(cells, ","));
    }
    out
}

/// A data set as columns separated by blanks. The header begins with `#`, a missing number is
/// `NaN`, which gnuplot skips, and blanks in texts are replaced.
pub fn ssv(data: &DataSet) -> String {
    let names = data.columns.iter().map(|name| word(name));
    let mut out = format!("# {}", line(names, " "));
    for row in &data.rows {
        let cells = row.iter().map(|datum| match datum {
            Datum::Text(text) => word(text),
            number => bare(number).unwrap_or_else(|| "NaN".into()),
        });
        out.push_str(&line(cells, " "));
    }
    out
}

/// A text as a CSV cell: quoted if necessary, and with a leading `'` if a spreadsheet would take it
/// for a formula.
pub(crate) fn csv_cell(text: &str) -> String {
    let text = clean(text);
    let harmless = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text };
    match harmless.contains([',', '"']) {
        true => format!("\"{}\"", harmless.replace('"', "\"\"")),
        false => harmless,
    }
}

fn line(cells: impl Iterator<Item = String>, between: &str) -> String {
    let cells: Vec<String> = cells.collect();
    format!("{}\n", cells.join(between))
}

/// A number without separators; `None` for a text or a missing value.
fn bare(datum: &Datum) -> Option<String> {
    match datum {
        Datum::Integer(value) => Some(value.to_string()),
        Datum::Number(value) if value.is_finite() => Some(value.to_string()),
        Datum::Number(_) | Datum::Missing | Datum::Text(_) => None,
    }
}

/// A text as one word for gnuplot: blanks, quotation marks and `#` are replaced.
fn word(text: &str) -> String {
    let apart = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '#');
    let text = clean(&text.replace(apart, "_"));
    if text.is_empty() { "-".into() } else { text }
}

/// Units of numbers, as suffixes of column names.
#[cfg(test)]
const UNITS: [&str; 15] = [
    "_ns",
    "_bytes",
    "_bytes_per_s",
    "_per_s",
    "_hz",
    "_count",
    "_share",
    "_percent",
    "_ratio",
    "_ns_per_byte",
    "_ns_per_op",
    "_celsius",
    "_watts",
    "_iops",
    "_number",
];

/// Columns of settings and indexes, which need no unit.
#[cfg(test)]
const SETTINGS: [&str; 14] = [
    "trial",
    "repeat",
    "block",
    "stage",
    "cell",
    "round",
    "seed",
    "jobs",
    "queue_depth",
    "depth",
    "iodepth",
    "numjobs",
    "exit_code",
    "quantile",
];

/// For tests of data sets: numeric columns whose unit is unknown. The `value` column of the long
/// form is exempt, since the `metric` beside it names the unit.
#[cfg(test)]
pub(crate) fn columns_without_unit(data: &DataSet) -> Vec<String> {
    let has_unit = |name: &str| {
        let stem = name.strip_suffix("_low").or(name.strip_suffix("_high")).unwrap_or(name);
        SETTINGS.contains(&stem) || stem == "iops" || UNITS.iter().any(|unit| stem.ends_with(unit))
    };
    let metric = data.columns.iter().position(|name| name == "metric");
    let is_long = metric.is_some_and(|at| {
        data.rows.iter().all(|row| matches!(&row[at], Datum::Text(name) if has_unit(name)))
    });
    let mut faults = Vec::new();
    for (at, name) in data.columns.iter().enumerate() {
        let is_number = |row: &Vec<Datum>| matches!(row[at], Datum::Integer(_) | Datum::Number(_));
        let in_metric = is_long && ["value", "low", "high"].contains(&name.as_str());
        if data.rows.iter().any(is_number) && !has_unit(name) && !in_metric {
            faults.push(format!("{}.{name}", data.name));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hostile() -> DataSet {
        DataSet {
            name: "points".into(),
            columns: ["cell", "latency_p99_ns", "iops"].map(str::to_owned).to_vec(),
            rows: vec![
                vec!["=HYPERLINK(\"x\")".into(), Datum::Integer(1_200_000), Datum::Number(0.1)],
                vec!["a, \"b\" #1\u{1b}[31m".into(), Datum::Missing, Datum::Number(f64::NAN)],
                vec!["".into(), Datum::Number(-1.5), Datum::Integer(u64::MAX)],
            ],
        }
    }

    #[test]
    fn a_cell_is_quoted_and_harmless() {
        assert_eq!(csv_cell("Database"), "Database");
        assert_eq!(csv_cell("a,\"b\""), "\"a,\"\"b\"\"\"");
        for first in ["=", "+", "-", "@"] {
            assert_eq!(csv_cell(&format!("{first}1")), format!("'{first}1"));
        }
        assert_eq!(csv_cell("\r1\n"), r"\r1\n");
        assert_eq!(csv_cell(""), "");
    }

    #[test]
    fn csv_has_bare_numbers_and_harmless_texts() {
        let expected = "cell,latency_p99_ns,iops\n\
                        \"'=HYPERLINK(\"\"x\"\")\",1200000,0.1\n\
                        \"a, \"\"b\"\" #1\\x1b[31m\",,\n\
                        ,-1.5,18446744073709551615\n";
        assert_eq!(csv(&hostile()), expected);
    }

    #[test]
    fn ssv_has_as_many_words_in_each_line() {
        let text = ssv(&hostile());
        let expected = "# cell latency_p99_ns iops\n\
                        =HYPERLINK(_x_) 1200000 0.1\n\
                        a,__b___1\\x1b[31m NaN NaN\n\
                        - -1.5 18446744073709551615\n";
        assert_eq!(text, expected);
        assert!(text.lines().skip(1).all(|line| line.split(' ').count() == 3));
    }

    #[test]
    fn a_number_without_a_unit_in_its_name_is_found() {
        let set = |columns: &[&str], row: Vec<Datum>| DataSet {
            name: "d".into(),
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows: vec![row],
        };
        let one = Datum::Integer(1);
        assert_eq!(columns_without_unit(&hostile()), Vec::<String>::new());
        let wide =
            set(&["device", "latency", "mean_us"], vec!["a".into(), one.clone(), one.clone()]);
        assert_eq!(columns_without_unit(&wide), ["d.latency", "d.mean_us"]);
        let long = set(&["metric", "value"], vec!["latency_p99_ns".into(), one.clone()]);
        assert_eq!(columns_without_unit(&long), Vec::<String>::new());
        let long = set(&["metric", "value"], vec!["latency".into(), one]);
        assert_eq!(columns_without_unit(&long), ["d.value"]);
    }

    #[test]
    fn the_sample_names_its_units() {
        for data in &super::super::sample::report().data {
            assert_eq!(columns_without_unit(data), Vec::<String>::new());
        }
    }
}
