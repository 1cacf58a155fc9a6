//! Comparison of a check or run with earlier ones of the same storage.

use iosonde_model::record::run::Run;
use iosonde_model::record::summary::{Summary, SummaryRow};
use iosonde_model::units::count;
use iosonde_stats::ratio::median;

use crate::comparison::identity::Identity;
use crate::finding::Severity;
use crate::verdict::Assessment;

/// Factor at or above which a rate is called slower or faster: repeats differ by less.
const FACTOR: f64 = 2.0;

/// Rates of the usable rows of a check of this length; `None` if no row can be used.
pub fn of_check(rows: &[(&Run, &Assessment)], length_ns: u64) -> Option<Summary> {
    let usable = rows.iter().filter(|(_, row)| row.complete && row.consistency.valid());
    let rates = usable.map(|(run, row)| SummaryRow {
        title: run.plan.title.clone(),
        iops: row.figures.all.total.iops,
        is_reference: is_reference(row),
    });
    let rates: Vec<SummaryRow> = rates.collect();
    let (run, _) = rows.first().filter(|_| !rates.is_empty())?;
    let bytes = run.plan.target().bytes;
    Some(Summary { rows: rates, ..Summary::of(&run.target, bytes, length_ns) })
}

/// Whether a rate is typical of the storage: no low confidence, and no limit that was set for this
/// program alone.
fn is_reference(row: &Assessment) -> bool {
    row.findings
        .iter()
        .all(|each| each.severity != Severity::LowConfidence && each.code != "cgroup_limit")
}

/// The same for a run, which is compared only with runs of the same load.
pub fn of_run(rows: &[(&Run, &Assessment)]) -> Option<Summary> {
    let length_ns = rows.iter().map(|(run, _)| run.plan.length_ns().unwrap_or(0)).sum();
    let loads = rows.iter().map(|(run, _)| Identity::of(run, None).load());
    Some(Summary { load: loads.collect::<Vec<_>>().join(" "), ..of_check(rows, length_ns)? })
}

/// Compares the rates with those of earlier ones, called `noun`; `None` without an earlier one of
/// the same storage, load, size and length.
///
/// The rate of a row is divided by the median of the earlier rates of that row. Earlier rates of
/// low confidence, or within a cgroup limit, count only if there are no others, which is stated.
/// The figure is the median of these ratios over the rows; the range is that of the earlier checks,
/// each divided by the same medians. A range of few checks is no interval and is not called one.
pub fn against_earlier(now: &Summary, earlier: &[Summary], noun: &str) -> Option<String> {
    let alike: Vec<Summary> = earlier.iter().filter(|each| each.is_like(now)).cloned().collect();
    let sound: Vec<Summary> = alike.iter().filter_map(reliable).collect();
    let (earlier, weakness) = match sound.is_empty() {
        true => (alike, " (of low confidence, or within a cgroup limit)"),
        false => (sound, ""),
    };
    let usual = |title: &str| middle(earlier.iter().filter_map(|each| rate(each, title)));
    let ratios = |of: &Summary| -> Vec<(String, f64)> {
        let ratio = |title: &str| Some(rate(of, title)? / usual(title)?);
        let titles = now.rows.iter().map(|row| row.title.clone());
        titles.filter_map(|title| ratio(&title).map(|ratio| (title, ratio))).collect()
    };
    let overall = |of: &Summary| middle(ratios(of).into_iter().map(|(_, ratio)| ratio));
    let ratio = overall(now)?;
    let checks = match earlier.len() {
        1 => format!("an earlier {noun} here{weakness}"),
        several => format!("the median of {several} earlier {noun}s here{weakness}"),
    };
    let all: Vec<f64> = earlier.iter().filter_map(overall).collect();
    let range = range("those", &all);
    let n = count::significant;
    let words = in_words(ratio, &checks);
    let worst = ratios(now).into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let worst = worst.filter(|(_, row)| *row <= 1.0 / FACTOR && now.rows.len() > 1);
    let worst = worst.map(|(title, row)| format!(", most in {title}: {} times", n(1.0 / row)));
    Some(format!("{words}{range}{}", worst.unwrap_or_default()))
}

/// A rate as a multiple of another, as text.
fn in_words(ratio: f64, of: &str) -> String {
    let n = count::significant;
    match ratio {
        ratio if ratio <= 1.0 / FACTOR => format!("{} times slower than {of}", n(1.0 / ratio)),
        ratio if ratio >= FACTOR => format!("{} times faster than {of}", n(ratio)),
        ratio => format!("{} times the rate of {of}", n(ratio)),
    }
}

/// The same against one named result, whatever its storage; `None` if the two have no row in
/// common.
pub fn against(now: &Summary, reference: &Summary, name: &str) -> Option<String> {
    let titles = now.rows.iter().map(|row| &row.title);
    let ratios = titles.filter_map(|title| Some(rate(now, title)? / rate(reference, title)?));
    let ratios: Vec<f64> = ratios.collect();
    let words = in_words(median(&ratios)?, name);
    Some(format!("{words}{}", range("rows", &ratios)))
}

/// The smallest and the largest ratio, as text; empty for fewer than two.
fn range(what: &str, ratios: &[f64]) -> String {
    if ratios.len() < 2 {
        return String::new();
    }
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    format!(" ({what}: {} to {})", count::significant(least), count::significant(most))
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    median(&values.collect::<Vec<f64>>())
}

/// A copy with only the rows whose rates are typical of the storage; `None` without any.
fn reliable(of: &Summary) -> Option<Summary> {
    let rows: Vec<SummaryRow> = of.rows.iter().filter(|row| row.is_reference).cloned().collect();
    (!rows.is_empty()).then(|| Summary { rows, ..of.clone() })
}

fn rate(of: &Summary, title: &str) -> Option<f64> {
    let row = of.rows.iter().find(|row| row.title == title)?;
    (row.iops.is_finite() && row.iops > 0.0).then_some(row.iops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_model::record::TargetFacts;
    use iosonde_model::record::summary::SummaryRow;

    fn check(rates: &[f64]) -> Summary {
        let target = TargetFacts { mount_point: Some("/data".into()), ..TargetFacts::default() };
        let titles = ["Backup", "Cache", "Logging"];
        let rows = titles.iter().zip(rates);
        let rows = rows.map(|(title, iops)| SummaryRow {
            title: (*title).into(),
            iops: *iops,
            is_reference: true,
        });
        Summary { rows: rows.collect(), ..Summary::of(&target, 1 << 30, 1_000_000_000) }
    }

    #[test]
    fn a_usual_check_is_a_share_of_the_median_and_has_a_range() {
        let earlier = [check(&[90.0, 900.0]), check(&[100.0, 1000.0]), check(&[110.0, 1100.0])];
        let words = against_earlier(&check(&[100.0, 1000.0]), &earlier, "check");
        let expected =
            "1.00 times the rate of the median of 3 earlier checks here (those: 0.900 to 1.10)";
        assert_eq!(words.as_deref(), Some(expected));
    }

    #[test]
    fn a_slow_one_is_called_slow_and_its_worst_row_is_named() {
        let earlier = [check(&[100.0, 1000.0, 85_000.0]), check(&[100.0, 1000.0, 85_000.0])];
        let words =
            against_earlier(&check(&[50.0, 250.0, 247.0]), &earlier, "check").unwrap_or_default();
        assert!(words.starts_with("4.00 times slower than the median of 2 earlier"), "{words}");
        assert!(words.ends_with(", most in Logging: 344 times"), "{words}");
        let words = against_earlier(&check(&[300.0]), &earlier[..1], "check").unwrap_or_default();
        assert_eq!(words, "3.00 times faster than an earlier check here");
    }

    #[test]
    fn what_was_of_low_confidence_is_no_reference_beside_what_was_not() {
        let mut low = check(&[1.0, 1000.0]);
        low.rows[0].is_reference = false;
        let words = |earlier: &[Summary]| {
            against_earlier(&check(&[100.0, 1000.0]), earlier, "check").unwrap_or_default()
        };
        assert_eq!(
            words(std::slice::from_ref(&low)),
            "1.00 times the rate of an earlier check here"
        );
        low.rows[1].is_reference = false;
        let alone = words(std::slice::from_ref(&low));
        let expected = "an earlier check here (of low confidence, or within a cgroup limit)";
        assert!(alone.ends_with(expected), "{alone}");
        let good = check(&[100.0, 1000.0]);
        assert_eq!(words(&[low, good]), "1.00 times the rate of an earlier check here");
    }

    #[test]
    fn what_is_no_like_has_no_part_in_it() {
        let now = check(&[100.0]);
        let other_size = Summary { bytes: 1 << 20, ..now.clone() };
        let other_storage = Summary { storage: "sdb".into(), ..now.clone() };
        let other_load = Summary { load: "4k".into(), ..now.clone() };
        let unknown = Summary { storage: String::new(), ..now.clone() };
        let empty = check(&[]);
        assert_eq!(
            against_earlier(&now, &[other_size, other_storage, other_load, empty.clone()], "check"),
            None
        );
        assert_eq!(against_earlier(&unknown, std::slice::from_ref(&unknown), "check"), None);
        assert_eq!(against_earlier(&empty, std::slice::from_ref(&now), "check"), None);
        assert_eq!(against_earlier(&check(&[0.0]), &[now], "check"), None);
    }
}
