//! What the analyses of a stage have found, where a picture can show it.

use super::view::View;
use crate::chart::{Marker, Quantity};
use crate::units::{bytes, count, duration};

/// A level that an analysis has found, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) at: f64,
    pub(super) range: Option<(f64, f64)>,
}

/// What was found under a name.
pub(super) fn found(view: &View, name: &str) -> Option<Found> {
    found_of(view, name, "")
}

/// The same for one series: under a name of its own (`crossover-random-read`), or where there is
/// only one.
pub(super) fn found_of(view: &View, name: &str, series: &str) -> Option<Found> {
    let look = |name: &str| {
        let at = view.facts.found(name).filter(|at| at.is_finite())?;
        let end =
            |which: &str| view.facts.found(&format!("{name}_{which}")).filter(|v| v.is_finite());
        Some(Found { at, range: end("low").zip(end("high")) })
    };
    let many = view.facets.iter().map(|facet| facet.series.len()).sum::<usize>() > 1;
    match series {
        "" => look(name),
        series if many => look(&format!("{name}-{}", slug(series))),
        series => look(&format!("{name}-{}", slug(series))).or_else(|| look(name)),
    }
}

/// A name as figures have it: small letters and digits, a hyphen for all else.
fn slug(name: &str) -> String {
    let hyphened = |character: char| {
        if character.is_alphanumeric() { character.to_ascii_lowercase() } else { '-' }
    };
    let slug: String = name.chars().map(hyphened).collect();
    slug.split('-').filter(|part| !part.is_empty()).collect::<Vec<&str>>().join("-")
}

/// A line across the plot where a level was found; `None` beyond the levels that were measured.
pub(super) fn marker(view: &View, name: &str) -> Option<Marker> {
    marker_of(view, name, "")
}

/// The same for one series.
pub(super) fn marker_of(view: &View, name: &str, series: &str) -> Option<Marker> {
    let found = found_of(view, name, series)?;
    let (first, last) = view.span().filter(|_| is_of_x(view))?;
    if !(first..=last).contains(&found.at) {
        return None;
    }
    let at = told(view, found.at);
    let marker = Marker::at_x(found.at, format!("{name} {at}"));
    let Some((low, high)) = found.range else {
        return Some(Marker { hover: format!("{name}: {at}"), ..marker });
    };
    let hover = format!("{name}: {at}, 95 % interval {} to {}", told(view, low), told(view, high));
    Some(Marker { hover, ..marker.between(low.clamp(first, last), high.clamp(first, last)) })
}

/// Lines where the rate of a setting changed, at the times (seconds) that an analysis has found:
/// `change-1`, `change-2`, or with the setting behind it (`change-1-reads`).
pub(super) fn regimes(view: &View, setting: &str, end_ns: f64) -> Vec<Marker> {
    let own = |number: usize| found_of(view, &format!("change-{number}"), setting);
    let own = (1..).map_while(own).map(|found| found.at * 1e9);
    let within = own.filter(|at| (0.0..=end_ns).contains(at));
    within.map(|at| Marker::at_x(at, format!("change at {}", duration::span(at as u64)))).collect()
}

/// Whether the levels along the bottom are those that analyses speak of: the first axis.
fn is_of_x(view: &View) -> bool {
    let first = view.facts.stage.axes.first();
    view.x.is_some_and(|x| first.is_some_and(|first| first.name == x.name))
}

/// A place along the bottom in words.
pub(super) fn told(view: &View, at: f64) -> String {
    match view.quantity() {
        Quantity::Bytes => bytes::rough(at.max(0.0) as u64),
        Quantity::Latency => duration::latency(at),
        _ if at.fract() == 0.0 => count::thousands(at.max(0.0) as u64),
        _ => count::significant(at),
    }
}
