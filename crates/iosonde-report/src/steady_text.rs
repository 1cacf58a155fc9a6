//! The rounds of a run that continues until it is steady, in a few lines.

use iosonde_analysis::steady::{InWindow, SteadyFigures};
use iosonde_model::units::{bytes, count, duration};

/// `Steady state: steady in rounds 4 to 8, of 10.0 s each.` with the figures of those rounds.
pub(crate) fn steady_text(figures: &SteadyFigures) -> String {
    let round = duration::latency(figures.round_ns as f64);
    let early = if figures.ended_early { "; the run ended early" } else { "" };
    let mut out = format!("  Steady state: {}, of {round} each{early}.\n", figures.verdict);
    if let Some(window) = &figures.in_window {
        let rounds = figures.steadiness.window_rounds;
        let which = match figures.steadiness.is_steady {
            true => "in the window".into(),
            false => format!("in the last {rounds} rounds"),
        };
        let words = of_window(window);
        out.push_str(&format!("    {which}: {words}; the figures above are of the whole run\n"));
    }
    for sentence in &figures.sentences {
        out.push_str(&format!("    - {sentence}\n"));
    }
    out
}

/// The verdict, with figures of the window only.
pub(crate) fn steady_line(figures: &SteadyFigures) -> String {
    let window = figures.in_window.as_ref().map(of_window);
    let which = if figures.steadiness.is_steady { "in the window" } else { "in the last rounds" };
    let window = window.map(|words| format!("; {words} {which}")).unwrap_or_default();
    format!("{}{window}", figures.verdict)
}

fn of_window(window: &InWindow) -> String {
    let latency =
        |value: Option<u64>| value.map_or("n/a".into(), |ns| duration::latency(ns as f64));
    format!(
        "{} IOPS, {}, p50 {}, p99 {}",
        count::significant_or_whole(window.iops),
        bytes::per_second(window.bytes_per_s),
        latency(window.p50_ns),
        latency(window.p99_ns),
    )
}
