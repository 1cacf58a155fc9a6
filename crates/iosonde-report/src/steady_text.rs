//! The rounds of a run that goes on until it is steady, in a few lines.

use iosonde_analysis::steady::{InWindow, SteadyFigures};
use iosonde_model::units::{bytes, count, duration};

/// `Steady state: steady in rounds 4 to 8, of 10.0 s each.` with the figures of those rounds.
pub fn steady_text(figures: &SteadyFigures) -> String {
    let round = duration::latency(figures.round_ns as f64);
    let early = if figures.ended_early { "; the run ended early" } else { "" };
    let mut out = format!("  Steady state: {}, of {round} each{early}.\n", figures.verdict);
    if let Some(window) = &figures.in_window {
        let rounds = figures.steadiness.window_rounds;
        let which = match figures.steadiness.is_steady {
            true => "in the window".into(),
            false => format!("in the last {rounds} rounds"),
        };
        out.push_str(&format!("    {which}: {}\n", of_window(window)));
    }
    for sentence in &figures.sentences {
        out.push_str(&format!("    - {sentence}\n"));
    }
    out
}

fn of_window(window: &InWindow) -> String {
    let latency =
        |value: Option<u64>| value.map_or("n/a".into(), |ns| duration::latency(ns as f64));
    format!(
        "{} IOPS, {}, p50 {}, p99 {}; the figures above are of the whole run",
        count::significant_or_whole(window.iops),
        bytes::per_second(window.bytes_per_s),
        latency(window.p50_ns),
        latency(window.p99_ns),
    )
}
