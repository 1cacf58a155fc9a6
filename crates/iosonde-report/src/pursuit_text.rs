//! A latency target in sentences: where it holds, where it fails, and the limits of that result.

use iosonde_analysis::pursuit::{Class, PursuitFigures};
use iosonde_model::record::controlled::Bound;
use iosonde_model::units::{count, duration};

/// The result of a run's latency target, in a few lines.
pub(crate) fn pursuit_text(figures: &PursuitFigures) -> String {
    let mut out = format!("  latency target ({}): {}\n", figures.mode.word(), figures.class.word());
    out.push_str(&format!("    {}\n", sentence(figures)));
    let most = figures.share_of_most.map_or(String::new(), |share| {
        format!("; {} % of the largest rate seen", count::significant(100.0 * share))
    });
    out.push_str(&format!(
        "    {} decisions; {} and {} I/Os before the start of measurement{most}\n",
        count::thousands(figures.decisions),
        duration::span(figures.pursued_ns),
        count::thousands(figures.pursued_ops),
    ));
    if matches!(figures.class, Class::MetAndBinding | Class::MetNotBinding) {
        out.push_str(
            "    This is a closed-loop depth, not a rate of independent arrivals: \
             measure an open loop for that.\n",
        );
    }
    out
}

/// The same as a one-line note below a table row.
pub(crate) fn pursuit_note(figures: &PursuitFigures) -> String {
    let limit = duration::latency(figures.target.limit_ns as f64);
    let beyond = figures.violations.map_or("n/a".into(), count::percent);
    let bound = match figures.bound {
        Some(Bound::MaxDepth) => " (limited by the largest depth)",
        Some(Bound::Device) => " (deeper queues are not shown to bring more)",
        Some(Bound::Target) | None => "",
    };
    let after = match figures.class {
        Class::Undecided => format!(" after {}", duration::span(figures.pursued_ns)),
        _ => String::new(),
    };
    format!(
        "      {} at {}: {}{bound}{after}, {beyond} above {limit}\n",
        figures.target,
        depths(figures),
        figures.class.word(),
    )
}

fn sentence(figures: &PursuitFigures) -> String {
    let PursuitFigures { target, depth, .. } = figures;
    let limit = duration::latency(target.limit_ns as f64);
    let measured = measured(figures);
    // A limit met only by the estimate is reported as such.
    let by_estimate = format!("By the estimate {target} holds");
    let (holds, open) = match figures.is_shown() {
        Some(true) => (format!("Holds {target}"), String::new()),
        Some(false) => (by_estimate, format!(", but the interval goes beyond {limit}")),
        None => (by_estimate, String::new()),
    };
    let fails = figures.fails_at.map_or(String::new(), |(depth, share)| {
        format!("; depth {depth} is not shown to hold it ({} above {limit})", count::percent(share))
    });
    match (figures.class, figures.bound) {
        (Class::MetAndBinding, _) => {
            format!("{holds} up to {} ({measured}){open}{fails}.", depths(figures))
        }
        (Class::MetNotBinding, Some(Bound::Device)) => format!(
            "{holds} at {} ({measured}){open}; the largest depth holds it too, and deeper \
             queues are not shown to bring more operations per second.",
            depths(figures)
        ),
        (Class::MetNotBinding, _) => format!(
            "{holds} at {}, the largest that was to be tried ({measured}){open}.",
            depths(figures)
        ),
        (Class::Infeasible, _) => {
            format!(
                "One request in flight misses {target} already ({measured}{}).",
                beyond(figures)
            )
        }
        (Class::Unstable, _) => format!(
            "No depth is shown to hold {target}: last at {depth}, {} ({measured}{}).",
            range(figures),
            beyond(figures)
        ),
        (Class::Undecided, _) => format!(
            "No answer after {}: {} ({measured}{}). Give --latency-window and --runtime more time: \
             {} needs at least {} I/Os at one depth.",
            duration::span(figures.pursued_ns),
            range(figures),
            beyond(figures),
            target.percentile(),
            count::thousands(figures.needs_ops),
        ),
    }
}

/// `8,900 IOPS ±2 %, p99 1.84 ms [1.79 ms, 1.92 ms]`
fn measured(figures: &PursuitFigures) -> String {
    let error = figures.iops_error.map_or(String::new(), |error| {
        let share = (error * 1000.0).ceil() / 10.0;
        format!(" ±{share} %")
    });
    let time = |ns: u64| duration::latency(ns as f64);
    let achieved = figures.achieved.value_ns().map_or("n/a".into(), time);
    let ends = match figures.achieved.interval() {
        Some(Ok((low, high))) => format!(" [{}, {}]", time(low), time(high)),
        Some(Err(reason)) => format!(" [n/a: {reason}]"),
        None => String::new(),
    };
    format!(
        "{} IOPS{error}, {} {achieved}{ends}",
        count::significant_or_whole(figures.iops),
        figures.target.percentile()
    )
}

fn beyond(figures: &PursuitFigures) -> String {
    let limit = duration::latency(figures.target.limit_ns as f64);
    figures
        .violations
        .map_or(String::new(), |share| format!(", {} above {limit}", count::percent(share)))
}

/// `depth 11`, with its range if it varied.
fn depths(figures: &PursuitFigures) -> String {
    let PursuitFigures { depth, depth_range: (low, high), .. } = figures;
    if low == high { format!("depth {depth}") } else { format!("depth {depth} ({low} to {high})") }
}

fn range(figures: &PursuitFigures) -> String {
    match figures.depth_range {
        (low, high) if low == high => format!("depth {low}"),
        (low, high) => format!("depth {low} to {high}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_model::plan::{LatencyTarget, Pursuit};
    use iosonde_stats::{Estimate, Quantile, Standing};

    fn figures(class: Class, bound: Option<Bound>) -> PursuitFigures {
        PursuitFigures {
            class,
            bound,
            target: LatencyTarget { quantile: 0.99, limit_ns: 2_000_000 },
            mode: Pursuit::Search,
            depth: 11,
            depth_range: (11, 11),
            iops: 8_900.0,
            iops_error: Some(0.0196),
            achieved: Quantile {
                q: 0.99,
                n: 89_000,
                estimate: Estimate::Value {
                    value_ns: 1_840_000,
                    range_ns: 0,
                    interval: Ok((1_790_000, 1_920_000)),
                    standing: Standing::Solid,
                },
            },
            violations: Some(0.0061),
            fails_at: Some((12, 0.0131)),
            share_of_most: Some(0.97),
            pursued_ns: 12_300_000_000,
            pursued_ops: 48_210,
            decisions: 18,
            needs_ops: 648,
        }
    }

    #[test]
    fn the_statement_says_what_holds_and_what_fails() {
        let text = pursuit_text(&figures(Class::MetAndBinding, Some(Bound::Target)));
        assert!(
            text.contains(
                "Holds p99 <= 2.00 ms up to depth 11 (8,900 IOPS ±2 %, p99 1.84 ms \
                 [1.79 ms, 1.92 ms]); depth 12 is not shown to hold it (1.31 % above 2.00 ms)."
            ),
            "{text}"
        );
        assert!(text.contains("open loop"));
    }

    #[test]
    fn an_estimate_whose_interval_goes_beyond_the_limit_is_not_said_to_hold_it() {
        let with = |interval| {
            let mut figures = figures(Class::MetAndBinding, Some(Bound::Target));
            let Estimate::Value { interval: of, .. } = &mut figures.achieved.estimate else {
                return String::new();
            };
            *of = interval;
            pursuit_text(&figures)
        };
        let wide = with(Ok((1_790_000, 2_100_000)));
        let expected = "By the estimate p99 <= 2.00 ms holds up to depth 11 (8,900 IOPS ±2 %, \
                        p99 1.84 ms [1.79 ms, 2.10 ms]), but the interval goes beyond 2.00 ms; ";
        assert!(wide.contains(expected), "{wide}");
        assert!(with(Ok((1_790_000, 2_000_000))).contains("Holds p99"));
    }

    #[test]
    fn every_other_end_has_its_sentence() {
        let device = pursuit_text(&figures(Class::MetNotBinding, Some(Bound::Device)));
        assert!(device.contains("the largest depth holds it too, and deeper queues are not shown"));
        let max = pursuit_text(&figures(Class::MetNotBinding, Some(Bound::MaxDepth)));
        assert!(max.contains("the largest that was to be tried"));
        let infeasible = pursuit_text(&figures(Class::Infeasible, None));
        assert!(infeasible.contains("One request in flight misses"));
        let mut open = figures(Class::Undecided, None);
        open.depth_range = (9, 14);
        assert!(pursuit_text(&open).contains("No answer after 12.3 s: depth 9 to 14"));
        let note = pursuit_note(&open);
        let expected = "p99 <= 2.00 ms at depth 11 (9 to 14): UNDECIDED after 12.3 s, \
                        0.610 % above 2.00 ms";
        assert_eq!(note.trim(), expected);
    }
}
