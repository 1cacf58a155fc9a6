//! Frequency of response times of each setting, with the levels that contain given shares of them.
//! The histograms of all runs of a setting are merged.

use super::Drawing;
use super::distribution::spread_out;
use super::sheet::Sheet;
use super::view::{Layout, View};
use crate::chart::{Axis, Band, Curve, Kind, Marker, Marks, Plot, Quantity, Scale, style};
use iosonde_analysis::experiment::{Point, StageFacts};
use iosonde_model::spec::experiment;
use iosonde_model::units::count::thousands;
use iosonde_model::units::duration;
use iosonde_stats::histogram::upper_edge;
use iosonde_stats::{Histogram, Quantile};

/// Columns per decade of time.
const PER_DECADE: f64 = 20.0;
/// Most settings shown, each in its own panel.
const MOST_PANELS: usize = 6;
/// The confidence levels of a response time histogram (SNIA PTS).
const LEVELS: [(f64, &str); 6] = [
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (0.99999, "99.999 %"),
    (0.999_999, "99.9999 %"),
];

/// One panel for each setting, all with the same axes.
pub(super) fn draw(facts: &StageFacts, requested: &experiment::Figure) -> Drawing {
    let view = View::of(facts, requested, Layout::Scaled);
    let merged = |point: &Point| {
        let mut merged = Histogram::new();
        facts.of_cell(point.cell).iter().for_each(|trial| merged.merge(&trial.latency));
        merged
    };
    let all: Vec<(&Point, Histogram)> = view
        .points()
        .map(|point| (point, merged(point)))
        .filter(|(_, merged)| merged.count() > 0)
        .collect();
    let shown = spread_out(&all.iter().collect::<Vec<_>>(), MOST_PANELS);
    if shown.is_empty() {
        return Ok(None);
    }
    let columns: Vec<Vec<(f64, f64)>> = shown.iter().map(|(_, merged)| shares(merged)).collect();
    let edges = columns.iter().flatten().flat_map(|(at, _)| [*at, at * next()]);
    let x = Scale::fit(Kind::Log10, edges)?;
    let y =
        Scale::fit(Kind::Log10, columns.iter().flatten().map(|(_, share)| *share).chain([1.0]))?;
    let (foot, _) = y.ends();
    let mut sheet = Sheet::new(&view).of_runs();
    for ((point, merged), columns) in shown.iter().zip(&columns) {
        let x = Axis::new("response time (logarithmic)", Quantity::Latency, x);
        let y = Axis::new("share of requests (logarithmic)", Quantity::Share, y);
        let plot = panel(merged, columns, foot);
        let heading = match view.setting(point) {
            name if name.is_empty() => format!("{} requests", thousands(merged.count())),
            name => format!("{name}: {} requests", thousands(merged.count())),
        };
        sheet.push(&heading, x, y, Marks::Plot(plot), 250.0);
    }
    sheet.note(
        "Each step is the share of requests within a twentieth of a factor of ten. Lines: the \
         times within which 90 to 99.9999 % of the requests lie, where enough lie beyond.",
    );
    sheet.note_left_out(shown.len(), all.len());
    Ok(sheet.finish("response times by frequency"))
}

/// Ratio of the left edges of neighbouring columns.
fn next() -> f64 {
    10_f64.powf(1.0 / PER_DECADE)
}

/// Left edge, ns, and share of each column that has requests.
fn shares(histogram: &Histogram) -> Vec<(f64, f64)> {
    let mut columns: Vec<(i64, u64)> = Vec::new();
    for (index, count) in histogram.occupied() {
        let ns = upper_edge(index as usize).min(histogram.max().unwrap_or(0)).max(1);
        let column = ((ns as f64).log10() * PER_DECADE).floor() as i64;
        match columns.last_mut() {
            Some((same, sum)) if *same == column => *sum += count,
            _ => columns.push((column, count)),
        }
    }
    let all = histogram.count() as f64;
    let edge = |column: i64| 10_f64.powf(column as f64 / PER_DECADE);
    columns.into_iter().map(|(column, count)| (edge(column), count as f64 / all)).collect()
}

/// Draws the columns from the foot of the plot, and the levels across them.
fn panel(merged: &Histogram, columns: &[(f64, f64)], foot: f64) -> Plot {
    let is_next = |a: &(f64, f64), b: &(f64, f64)| b.0 / a.0 < next() * 1.01;
    let parts = columns.chunk_by(is_next).map(|part| {
        let last = part.last().map(|(at, share)| (at * next(), *share));
        part.iter().copied().chain(last).collect::<Vec<(f64, f64)>>()
    });
    let parts: Vec<Vec<(f64, f64)>> = parts.collect();
    let areas = parts.iter().map(|part| part.iter().map(|(x, y)| (*x, foot, *y)).collect());
    let hover = format!("{} requests", thousands(merged.count()));
    let band =
        Band { name: String::new(), style: style(0), parts: areas.collect(), hover: hover.clone() };
    let curve = Curve { hover, ..Curve::new("", style(0), parts) };
    let marker = |(q, name): &(f64, &str)| {
        let ns = Quantile::of(merged, *q).value_ns()? as f64;
        let label = format!("{name}: {}", duration::latency(ns));
        Some(Marker::at_x(ns.max(1.0), label))
    };
    let markers = LEVELS.iter().filter_map(marker).collect();
    Plot { bands: vec![band], curves: vec![curve], markers, ..Plot::default() }
}
