//! Levels found by the analyses of a stage that a picture can show.

use super::view::{Series, View};
use crate::chart::{Marker, Quantity};
use iosonde_analysis::experiment::{StageFacts, slug};
use iosonde_model::units::{bytes, count, duration};

/// A level found by an analysis, with its interval or range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) at: f64,
    pub(super) range: Option<(f64, f64)>,
    pub(super) what: &'static str,
}

impl Found {
    /// `95 % interval 6 to 13`, if there is one.
    pub(super) fn interval(&self, view: &View) -> Option<String> {
        let (low, high) = self.range?;
        Some(format!("{} {} to {}", self.what, formatted(view, low), formatted(view, high)))
    }
}

/// The level found for a series. If there are several series, its key contains the line
/// (`crossover-random-read`).
pub(super) fn found(view: &View, name: &str, series: &Series) -> Option<Found> {
    let key = key(view, name, &series.line);
    let look = |key: String| view.facts.found(&key).filter(|value| value.is_finite());
    let ends =
        |low: &str, high: &str| look(format!("{key}_{low}")).zip(look(format!("{key}_{high}")));
    let (range, what) = match ends("low", "high") {
        Some(interval) => (Some(interval), "95 % interval"),
        None => (ends("min", "max"), "range of the repeats"),
    };
    look(key.clone()).map(|at| Found { at, range, what })
}

/// Whether the analysis set a flag, such as `knee_outside`, for a series.
pub(super) fn is_so(view: &View, name: &str, series: &Series) -> bool {
    view.facts.found(&key(view, name, &series.line)).is_some()
}

fn key(view: &View, name: &str, line: &str) -> String {
    let lines = view.facets.iter().flat_map(|facet| &facet.series);
    let lines = lines.filter(|series| series.points.iter().any(|point| point.is_usable()));
    if lines.count() < 2 { name.into() } else { format!("{name}-{}", slug(line)) }
}

/// A line across the plot at the level found for a series; `None` if it is undecided or outside the
/// measured levels.
pub(super) fn marker(view: &View, name: &str, series: &Series) -> Option<Marker> {
    let found = found(view, name, series)?;
    let (first, last) = view.span().filter(|_| is_of_x(view))?;
    let is = |word: &str| is_so(view, &format!("{name}_{word}"), series);
    if is("outside") || is("undecided") || !(first..=last).contains(&found.at) {
        return None;
    }
    let at = formatted(view, found.at);
    let marker = Marker::at_x(found.at, format!("{name} {at}"));
    let (Some((low, high)), Some(interval)) = (found.range, found.interval(view)) else {
        return Some(Marker { hover: format!("{name}: {at}"), ..marker });
    };
    let hover = format!("{name}: {at}, {interval}");
    Some(Marker { hover, ..marker.between(low.clamp(first, last), high.clamp(first, last)) })
}

/// Lines at the times (seconds) at which an analysis found a change of rate: `change-1`,
/// `change-2`, followed by the setting (`change-1-reads`) if there are several.
pub(super) fn regimes(facts: &StageFacts, setting: &str, end_ns: f64) -> Vec<Marker> {
    let is_one = facts.points.len() < 2;
    let key = |number: usize| match is_one {
        true => format!("change-{number}"),
        false => format!("change-{number}-{}", slug(setting)),
    };
    let all = (1..).map_while(|number| facts.found(&key(number))).map(|at| at * 1e9);
    let within = all.filter(|at| (0.0..=end_ns).contains(at));
    within.map(|at| Marker::at_x(at, format!("change at {}", duration::span(at as u64)))).collect()
}

/// Whether the x axis is the first axis of the stage, to which the results of analyses refer.
fn is_of_x(view: &View) -> bool {
    let first = view.facts.stage.axes.first();
    view.x.is_some_and(|x| first.is_some_and(|first| first.name == x.name))
}

/// A value of the x axis in words.
pub(super) fn formatted(view: &View, at: f64) -> String {
    match view.quantity() {
        Quantity::Bytes => bytes::rough(at.max(0.0) as u64),
        Quantity::Latency => duration::latency(at),
        _ if at.fract() == 0.0 => count::thousands(at.max(0.0) as u64),
        _ => count::significant(at),
    }
}
