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
    let at = view.facts.found(name).filter(|at| at.is_finite())?;
    let end = |which: &str| view.facts.found(&format!("{name}_{which}")).filter(|v| v.is_finite());
    Some(Found { at, range: end("low").zip(end("high")) })
}

/// A line across the plot where a level was found; `None` beyond the levels that were measured.
pub(super) fn marker(view: &View, name: &str) -> Option<Marker> {
    let found = found(view, name)?;
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
