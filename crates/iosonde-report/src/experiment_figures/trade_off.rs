//! Throughput against latency at each level.

use super::Drawing;
use super::best;
use super::found;
use super::sheet::{Drawn, Sheet, ends, titled};
use super::view::{Facet, Layout, Series, View, unit};
use crate::chart::{
    self, Annotation, Axis, Callout, Edge, Kind, Line, Marks, Plot, Quantity, merge_annotations,
    style,
};
use iosonde_analysis::experiment::{Measure, Point, StageFacts};
use iosonde_model::spec::Direction;
use iosonde_model::spec::experiment;

/// Latencies that span more than this factor get a logarithmic scale.
const WIDE: f64 = 8.0;
/// With more series than this, only the means are drawn.
const MOST_WITH_TAIL: usize = 3;
/// Latencies along the x axis.
const LATENCIES: [(Measure, &str); 2] =
    [(Measure::Mean, "mean latency"), (Measure::Quantile(0.99), "p99")];
/// Measures whose best point is marked.
const BEST: [Measure; 3] = [Measure::Iops, Measure::Bandwidth, Measure::Mean];

/// One panel for each facet: latency along the x axis; IOPS, or another requested rate, along the y
/// axis; a point for each level.
pub(super) fn draw(facts: &StageFacts, requested: &experiment::Figure) -> Drawing {
    let view = View::of(facts, requested, Layout::Scaled);
    let is_rate = |measure: &Measure| measure.more_is_better() == Some(true);
    let rate = view.measures(&[]).into_iter().find(is_rate).unwrap_or(Measure::Iops);
    let mut sheet = Sheet::new(&view).without_failed();
    for facet in &view.facets {
        panel(&view, &mut sheet, facet, rate)?;
    }
    for measure in [rate, Measure::Mean, Measure::Quantile(0.99)] {
        sheet.note_unknown(measure);
    }
    if let Some(axis) = view.x {
        sheet.note(format!("The number at each point is its {}.", axis.heading()));
    }
    for series in view.facets.iter().flat_map(|facet| &facet.series) {
        if let Some(knee) = found::found(&view, "knee", series) {
            sheet.note(knee_note(&view, series, knee));
        }
    }
    Ok(sheet.finish("throughput against latency"))
}

fn knee_note(view: &View, series: &Series, knee: found::Found) -> String {
    let of = match series.name.as_str() {
        "" => String::new(),
        name => format!(" of {name}"),
    };
    if found::is_so(view, "knee_undecided", series) {
        return format!("The runs do not decide where the knee{of} is.");
    }
    if found::is_so(view, "knee_outside", series) {
        return format!("The knee{of} is outside the sweep.");
    }
    let axis = view.x.map_or("", |axis| axis.heading());
    let interval = knee.interval(view).map_or(String::new(), |interval| format!(", {interval}"));
    let blunt = if found::is_so(view, "no_sharp_knee", series) { "; it is not sharp" } else { "" };
    let at = found::formatted(view, knee.at);
    format!("Knee{of}: {axis} {at}{interval}: the most throughput for its latency{blunt}.")
}

fn panel(view: &View, sheet: &mut Sheet, facet: &Facet, rate: Measure) -> Drawn {
    let latencies = if facet.series.len() > MOST_WITH_TAIL { &LATENCIES[..1] } else { &LATENCIES };
    let mut lines = Vec::new();
    for (number, series) in facet.series.iter().enumerate() {
        for (tail, latency) in latencies.iter().enumerate() {
            let look = number * latencies.len() + tail;
            lines.extend(line(view, series, (rate, *latency), (look, tail == 0)));
        }
    }
    let points = || lines.iter().flat_map(|line| &line.points);
    let (low, high) = ends(points().map(|point| point.x));
    if low > high {
        return Ok(());
    }
    let log = low > 0.0 && high / low >= WIDE;
    if log {
        for point in lines.iter_mut().flat_map(|line| &mut line.points) {
            point.x_range = point.x_range.map(|(from, to)| (from.max(low / 2.0), to));
        }
    }
    let mut plot = Plot { lines, callouts: callouts(view, facet, rate), ..Plot::default() };
    let xs = plot.xs();
    let x = match log {
        true => Axis::fit("latency (logarithmic)", Quantity::Latency, Kind::Log10, xs)?,
        false => Axis::from_zero("latency", Quantity::Latency, xs)?,
    };
    let y = sheet.y_axis(titled(rate), &mut plot, Edge::Left)?;
    sheet.push(&facet.heading, x, y, Marks::Plot(plot), 380.0);
    Ok(())
}

/// A line through the points of a series, for one of its latencies.
fn line(
    view: &View,
    series: &Series,
    (rate, (latency, name)): (Measure, (Measure, &str)),
    (look, is_labelled): (usize, bool),
) -> Option<Line> {
    let point = |point: &&Point| {
        let y = view.datum(point, rate, Direction::Total)?;
        let x = view.datum(point, latency, Direction::Total)?;
        let label = view.level(point).map_or("", |level| &level.label);
        Some(chart::Point {
            x: x.value.number()?,
            y: y.value,
            x_range: x.range,
            y_range: y.range,
            label: if is_labelled { label.into() } else { String::new() },
            hover: format!("{}; {}", y.hover, x.hover),
        })
    };
    let points: Vec<chart::Point> = series.points.iter().filter_map(point).collect();
    let name = match series.name.as_str() {
        "" => name.to_owned(),
        series => format!("{series}: {name}"),
    };
    (!points.is_empty()).then(|| Line::new(name, style(look), points))
}

/// Call-outs for the knee and the best settings, combined if they are the same setting.
fn callouts(view: &View, facet: &Facet, rate: Measure) -> Vec<Callout> {
    let place = |point: &Point| {
        let y = point.mean(rate)? * unit(rate).0;
        Some((point.mean(Measure::Mean)?, y))
    };
    let annotation = |(what, point): (&str, &Point)| {
        let (x, y) = place(point)?;
        let setting = view.setting(point);
        Some(Annotation { what: what.into(), setting, x, y, edge: Edge::Left })
    };
    let best = best::best(facet, &BEST, Direction::Total)
        .into_iter()
        .map(|(what, _, point)| (what, point));
    let knees = facet.series.iter().filter_map(|series| knee(view, series));
    let knee = knees.map(|point| ("knee", point));
    merge_annotations(knee.chain(best).filter_map(annotation).collect())
}

/// The measured point nearest to the knee of a series, if the knee is within the sweep.
fn knee<'a>(view: &View, series: &Series<'a>) -> Option<&'a Point> {
    let is_open = found::is_so(view, "knee_undecided", series);
    let knee = found::found(view, "knee", series).filter(|knee| knee.at > 0.0 && !is_open)?;
    let far = |point: &Point| {
        let at = view.place(point).filter(|at| *at > 0.0);
        at.map_or(f64::INFINITY, |at| (at / knee.at).ln().abs())
    };
    let usable = series.points.iter().copied().filter(|point| point.is_usable());
    let is_outside = found::is_so(view, "knee_outside", series);
    usable.min_by(|a, b| far(a).total_cmp(&far(b))).filter(|_| !is_outside)
}
