//! Latency distributions over all runs of a setting: histograms are merged, and no percentile is
//! averaged. Each run is drawn as a thin curve beside them.

use super::Drawing;
use super::sheet::Sheet;
use super::view::{Layout, MOST_SERIES, View};
use crate::chart::{Axis, Curve, Kind, Marks, Quantity, Style, style};
use iosonde_analysis::experiment::{Point, StageFacts};
use iosonde_model::spec::experiment;
use iosonde_model::units::count::thousands;
use iosonde_model::units::duration;
use iosonde_stats::histogram::upper_edge;
use iosonde_stats::{Histogram, Quantile};

/// Quantiles marked with a dot if there are enough requests for them.
const DOTS: [(f64, &str); 5] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];
/// The highest share below one that a scale of nines can show.
const LAST: f64 = 0.999_999_9;
/// The shortest latency shown, ns.
const SHORTEST: u64 = 1;

/// Side of a distribution.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Side {
    /// The share of requests within each latency, on a scale of nines.
    Within,
    /// The share of requests above each latency, on a logarithmic scale.
    Above,
}

pub(super) fn draw(facts: &StageFacts, requested: &experiment::Figure, side: Side) -> Drawing {
    let view = View::of(facts, requested, Layout::Scaled);
    let has_latency =
        |point: &&Point| facts.of_cell(point.cell).iter().any(|trial| trial.latency.count() > 0);
    let all: Vec<&Point> = view.points().filter(has_latency).collect();
    if all.is_empty() {
        return Ok(None);
    }
    let chosen = spread_out(&all, MOST_SERIES);
    let mut sheet = Sheet::new(&view).of_runs();
    let (mut curves, mut thin) = (Vec::new(), Vec::new());
    let (mut times, mut largest) = (Vec::new(), 10);
    for (number, point) in chosen.iter().enumerate() {
        let trials = facts.of_cell(point.cell);
        let mut merged = Histogram::new();
        trials.iter().for_each(|trial| merged.merge(&trial.latency));
        let name = match view.setting(point) {
            name if name.is_empty() => "latency".into(),
            name => name,
        };
        if trials.len() > 1 {
            for trial in &trials {
                let name = format!("{name}, run {}", trial.repeat + 1);
                let curve = curve(&trial.latency, (name, style(number)), side);
                thin.push(Curve { name: String::new(), rough: true, dots: Vec::new(), ..curve });
            }
        }
        times.extend([merged.min(), merged.max()].into_iter().flatten());
        largest = largest.max(merged.count());
        curves.push(curve(&merged, (name, style(number)), side));
    }
    let has_runs = !thin.is_empty();
    thin.extend(curves);
    let times = times.iter().map(|ns| (*ns).max(SHORTEST) as f64);
    let x = Axis::fit("latency (logarithmic)", Quantity::Latency, Kind::Log10, times)?;
    let points = thin.iter().flat_map(|curve| curve.parts.iter().flatten()).map(|(_, y)| *y);
    // A dot may be on a step where its curve has no point.
    let dots = thin.iter().flat_map(|curve| &curve.dots).map(|(_, y, _)| *y);
    let shares = points.chain(dots);
    let y = match side {
        Side::Within => {
            Axis::fit("share within that time (nines)", Quantity::Share, Kind::Nines, shares)?
        }
        Side::Above => {
            let shares = [1.0 / largest as f64, 1.0].into_iter().chain(shares);
            Axis::fit("fraction slower (logarithmic)", Quantity::Share, Kind::Log10, shares)?
        }
    };
    sheet.push("", x, y, Marks::curves(Vec::new(), thin), 380.0);
    if has_runs {
        sheet
            .note("Thick: all runs of a setting, their histograms merged. Thin: each of its runs.");
    }
    sheet.note(
        "Dots: p50, p90, p99, p99.9 and p99.99, where enough requests lie beyond. The last \
                few requests of each curve rest on chance.",
    );
    sheet.note_left_out(chosen.len(), all.len());
    Ok(sheet.finish("distribution of latencies"))
}

/// At most `most` elements at even distances, including the first and the last.
pub(super) fn spread_out<T: Copy>(all: &[T], most: usize) -> Vec<T> {
    if all.len() <= most || most < 2 {
        return all.iter().copied().take(most.max(1)).collect();
    }
    (0..most).map(|place| all[place * (all.len() - 1) / (most - 1)]).collect()
}

fn curve(histogram: &Histogram, (name, look): (String, Style), side: Side) -> Curve {
    let all = histogram.count().max(1) as f64;
    let share = |seen: u64| match side {
        Side::Within => (seen as f64 / all).min(LAST),
        Side::Above => (histogram.count() - seen) as f64 / all,
    };
    let at = |ns: u64| ns.max(SHORTEST) as f64;
    let max = histogram.max().unwrap_or(0);
    let mut points = vec![(at(histogram.min().unwrap_or(0)), share(0))];
    let mut seen = 0;
    for (index, count) in histogram.occupied() {
        seen += count;
        // A scale of nines cannot show a share of one, nor a logarithmic scale a share of zero.
        if seen < histogram.count() {
            points.push((at(upper_edge(index as usize).min(max)), share(seen)));
        }
    }
    let last = points.last().map_or(0.0, |(_, share)| *share);
    points.push((at(max), last));
    let dot = |(q, word): &(f64, &str)| {
        let value = Quantile::of(histogram, *q).value_ns()? as f64;
        let height = if side == Side::Within { *q } else { 1.0 - q };
        Some((value.max(1.0), height, format!("{name} {word}: {}", duration::latency(value))))
    };
    Curve {
        dots: DOTS.iter().filter_map(dot).collect(),
        hover: format!("{name}: {} requests", thousands(histogram.count())),
        ..Curve::new(name, look, vec![points])
    }
}
