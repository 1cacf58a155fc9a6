//! The comparison with another program's measurement of the same load, as text.

use std::fmt::Write as _;

use super::clean::clean;
use iosonde_analysis::cross_check::{CrossCheck, Seen};
use iosonde_model::units::{count, duration};
use iosonde_stats::Ratio;

/// A table of the rounds, the ratios below it, and the finding in words.
pub fn cross_check_text(check: &CrossCheck) -> String {
    let mut out = format!("  Cross-check of {}\n", clean(&check.title));
    if !check.rounds.is_empty() {
        let name = clean(&check.witness);
        let _ = writeln!(
            out,
            "    {:<5}  {:<28}  {:<28}  {:>6}",
            "round",
            "iosonde IOPS, p50, p99",
            format!("{name} IOPS, p50, p99"),
            "ratio"
        );
        for (number, round) in (1..).zip(&check.rounds) {
            let _ = writeln!(
                out,
                "    {number:>5}  {}  {}  {:>6.3}",
                seen(&round.ours),
                seen(&round.theirs),
                round.ours.iops / round.theirs.iops
            );
        }
        let ratios = [("IOPS", &check.iops), ("p50", &check.p50), ("p99", &check.p99)];
        let formatted = ratios.map(|(name, ratio)| format!("{name} {}", formatted(ratio.as_ref())));
        let _ = writeln!(out, "    median ratio [95 %]: {}", formatted.join(", "));
    }
    let _ = writeln!(out, "    {}", clean(&check.words()));
    out
}

fn seen(seen: &Seen) -> String {
    let time = |ns: Option<u64>| ns.map_or("n/a".into(), |ns| duration::latency(ns as f64));
    format!(
        "{:>9} {:>8} {:>9}",
        count::significant_or_whole(seen.iops),
        time(seen.p50_ns),
        time(seen.p99_ns)
    )
}

fn formatted(ratio: Option<&Ratio>) -> String {
    match ratio.map(|ratio| (ratio.median, ratio.interval)) {
        Some((median, Some((low, high)))) => format!("{median:.3} [{low:.3}, {high:.3}]"),
        Some((median, None)) => format!("{median:.3}"),
        None => "n/a".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_analysis::cross_check::CrossRound;

    #[test]
    fn rounds_stand_below_each_other() {
        let ours = Seen { iops: 12_345.6, p50_ns: Some(81_000), p99_ns: None };
        let theirs = Seen { iops: 12_000.0, p50_ns: Some(82_000), p99_ns: Some(1_500_000) };
        let check = CrossCheck {
            title: "T\u{1b}".into(),
            witness: "fio-3.33".into(),
            rounds: vec![CrossRound { ours, theirs }],
            iops: Ratio::in_rounds(&[(ours.iops, theirs.iops)]),
            p50: None,
            p99: None,
            agreement: None,
            missing: None,
        };
        let text = cross_check_text(&check);
        let row = text.lines().find(|line| line.starts_with("        1  "));
        assert_eq!(
            row,
            Some("        1     12,346  81.0 µs       n/a     12,000  82.0 µs   1.50 ms   1.029")
        );
        assert!(text.contains("IOPS 1.029, p50 n/a") && !text.contains('\u{1b}'), "{text}");
    }
}
