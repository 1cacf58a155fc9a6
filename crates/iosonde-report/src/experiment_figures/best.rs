//! Which setting is best at what: said at its point, and together where one is best at several.
//! Each looks only at its own measure.

use super::view::{Facet, View, unit};
use crate::chart::{Annotation, Callout, Edge, Marks, Panel, merge_annotations};
use iosonde_analysis::experiment::{Measure, Point, gate};
use iosonde_model::spec::Direction;

/// What may be best, and how that is said.
const CONTESTS: [(Measure, &str); 3] = [
    (Measure::Iops, "best IOPS"),
    (Measure::Bandwidth, "best bandwidth"),
    (Measure::Mean, "lowest mean latency"),
];

/// The best of some measures, each as what it is and its point: only what is shown to be better
/// than every other point.
pub(super) fn best<'a>(
    facet: &Facet<'a>,
    measures: &[Measure],
    direction: Direction,
) -> Vec<(&'static str, Measure, &'a Point)> {
    let points = || facet.series.iter().flat_map(|series| &series.points);
    let of_measure = |(measure, what): &(Measure, &'static str)| {
        let usable = points().copied().filter(|point| point.is_usable());
        let best = gate::best_of(&usable.collect::<Vec<&'a Point>>(), *measure, direction)?;
        Some((*what, *measure, best))
    };
    CONTESTS.iter().filter(|(m, _)| measures.contains(m)).filter_map(of_measure).collect()
}

/// Call-outs for a panel along the axis of the view that shows one measure: the best in it, and the
/// best bandwidth or IOPS if no other panel shows that. Where it is the only measure of the
/// picture, the best of all three: what does the setting of least latency cost?
pub(super) fn in_panel(
    view: &View,
    facet: &Facet,
    shown: Measure,
    elsewhere: &[Measure],
) -> Vec<Callout> {
    let other = match shown {
        Measure::Iops => Some(Measure::Bandwidth),
        Measure::Bandwidth => Some(Measure::Iops),
        _ => None,
    };
    let mut measures = vec![shown];
    measures.extend(other.filter(|other| !elsewhere.contains(other)));
    let is_contest = CONTESTS.iter().any(|(measure, _)| *measure == shown);
    if is_contest && *elsewhere == [shown] {
        measures = CONTESTS.map(|(measure, _)| measure).to_vec();
    }
    let direction = view.direction();
    let annotation = |(what, _, point): (&str, Measure, &Point)| {
        let y = point.spread(shown, direction)?.mean * unit(shown).0;
        let (x, setting) = (view.place(point)?, view.setting(point));
        Some(Annotation { what: what.into(), setting, x, y, edge: Edge::Left })
    };
    merge_annotations(
        best(facet, &measures, direction).into_iter().filter_map(annotation).collect(),
    )
}

/// What the call-outs of a panel say.
pub(super) fn formatted(panel: &Panel) -> Vec<String> {
    match &panel.marks {
        Marks::Plot(plot) => plot.callouts.iter().map(|callout| callout.text.clone()).collect(),
        _ => Vec::new(),
    }
}
