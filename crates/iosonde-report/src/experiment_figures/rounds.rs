//! Convergence of rounds: each tracked figure over all rounds, and over the measurement window with
//! its limits and fitted line. The y axes begin at zero; otherwise a change of 2 % would look like
//! a collapse.

use super::Drawing;
use super::view::unit;
use crate::chart::{
    Axis, ChartError, Edge, Figure, Kind, Line, Marker, Marks, Panel, Plot, Point, Quantity, style,
};
use iosonde_analysis::experiment::rounds::Tracked;
use iosonde_analysis::experiment::{StageFacts, Steadiness};
use iosonde_model::spec::experiment::{self, Rounds};
use iosonde_model::units::count;

/// Most panels in one picture.
const MOST_PANELS: usize = 8;

/// Each tracked figure over all rounds, with the measurement window shaded.
pub(super) fn convergence(facts: &StageFacts, requested: &experiment::Figure) -> Drawing {
    figure(facts, requested, "Convergence over the rounds", |steadiness, _, tracked| {
        let (one, ..) = unit(tracked.measure);
        let values = (1u32..).zip(&tracked.values);
        let points: Vec<Point> = values
            .filter_map(|(round, value)| Some(Point::new(f64::from(round), (*value)? * one)))
            .collect();
        let markers = window_marker(steadiness).into_iter().collect();
        Plot { lines: vec![Line::new("each round", style(0), points)], markers, ..Plot::default() }
    })
}

/// The measurement window, if the stage reached one.
pub(super) fn window_marker(steadiness: &Steadiness) -> Option<Marker> {
    let start = steadiness.window_start.filter(|_| steadiness.is_steady)?;
    let (first, last) = (f64::from(start + 1), f64::from(start + steadiness.window_rounds));
    Some(Marker::over_x(first, last, "measurement window"))
}

/// Each tracked figure over the measurement window: its mean, the limits around it, the fit.
pub(super) fn window(facts: &StageFacts, requested: &experiment::Figure) -> Drawing {
    figure(facts, requested, "Steady-state window", |steadiness, limits, tracked| {
        let (Some(window), Some(start)) = (tracked.window, steadiness.window_start) else {
            return Plot::default();
        };
        let (one, ..) = unit(tracked.measure);
        let rounds = window.rounds as u32;
        let (first, last) = (f64::from(start + 1), f64::from(start + rounds));
        let values = tracked.values.iter().skip(start as usize).take(window.rounds);
        let points: Vec<Point> = (start + 1..)
            .zip(values)
            .filter_map(|(round, value)| Some(Point::new(f64::from(round), (*value)? * one)))
            .collect();
        let level = |y: f64| vec![Point::new(first, y * one), Point::new(last, y * one)];
        let end = window.start + window.slope * f64::from(rounds - 1);
        let fit = vec![Point::new(first, window.start * one), Point::new(last, end * one)];
        let half = limits.range_percent / 200.0;
        let bound = format!("mean ± {} %", limits.range_percent / 2.0);
        let undotted = |name: &str, number: usize, points| Line {
            dotted: false,
            ..Line::new(name, style(number), points)
        };
        Plot {
            lines: vec![
                Line::new("each round", style(0), points),
                undotted("fitted line", 1, fit),
                undotted("mean", 2, level(window.mean)),
                undotted(&bound, 6, level(window.mean * (1.0 + half))),
                undotted(&bound, 6, level(window.mean * (1.0 - half))),
            ],
            ..Plot::default()
        }
    })
}

/// An axis with a tick at each of these numbers.
pub(super) fn counted(title: &str, mut numbers: Vec<f64>) -> Result<Axis, ChartError> {
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    let axis = Axis::fit(title, Quantity::Count, Kind::Linear, numbers.iter().copied())?;
    Ok(axis.ticks_at(numbers))
}

/// A panel for each tracked figure with data.
fn figure(
    facts: &StageFacts,
    requested: &experiment::Figure,
    title: &str,
    plot: impl Fn(&Steadiness, &Rounds, &Tracked) -> Plot,
) -> Drawing {
    let (Some(steadiness), Some(limits)) = (&facts.steadiness, &facts.stage.rounds) else {
        return Ok(None);
    };
    let mut panels = Vec::new();
    let mut left_out = 0;
    for tracked in &steadiness.tracked {
        let plot = plot(steadiness, limits, tracked);
        if plot.lines.iter().all(|line| line.points.is_empty()) {
            continue;
        }
        if panels.len() == MOST_PANELS {
            left_out += 1;
            continue;
        }
        let (_, quantity, unit) = unit(tracked.measure);
        let x = counted("round", plot.xs())?;
        let y = Axis::from_zero(unit, quantity, plot.ys(Edge::Left))?;
        let title = format!("{}: {}", tracked.name, tracked.measure.title());
        panels.push(Panel::new(title, x, y, Marks::Plot(plot), 200.0));
    }
    let mut notes = vec![format!(
        "Steady: range at most {} % of the mean, and the fitted line changes by at most {} % of \
         it, over {} consecutive rounds, for every tracked figure.",
        limits.range_percent, limits.slope_percent, limits.window
    )];
    if left_out > 0 {
        notes.push(format!("{left_out} further tracked figures are in the table only."));
    }
    let title = match requested.title.as_str() {
        "" => format!("{}: {}", facts.stage.heading(), lower(title)),
        title => title.into(),
    };
    let verdict = steadiness.verdict();
    let seconds = count::setting(facts.stage.seconds);
    let subtitle = format!("{verdict}; rounds of {seconds} s for each cell");
    let figure = Figure { notes, ..Figure::stacked(title, subtitle, panels) };
    Ok(Some(figure).filter(|figure| !figure.panels.is_empty()))
}

fn lower(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}
