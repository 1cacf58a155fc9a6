//! Which setting is best in which measure: marked at its point, and combined if one setting is best
//! in several. Each call-out considers only its own measure.

use super::view::{Facet, View, unit};
use crate::chart::{Annotation, Callout, Edge, Marks, Panel, merge_annotations};
use iosonde_analysis::experiment::{Measure, Point, gate};
use iosonde_model::spec::Direction;

/// Measures with the words for their best value.
const CONTESTS: [(Measure, &str); 3] = [
    (Measure::Iops, "best IOPS"),
    (Measure::Bandwidth, "best bandwidth"),
    (Measure::Mean, "lowest mean latency"),
];

/// The best point of each measure, with its words. Includes only points that are significantly
/// better than all others.
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

/// Call-outs for a panel that shows one measure: the best point in it, and the best bandwidth or
/// IOPS if no other panel shows that. If it is the only measure of the picture, the best of all
/// three, which shows the throughput at the lowest latency.
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

/// The texts of a panel's call-outs.
pub(super) fn formatted(panel: &Panel) -> Vec<String> {
    match &panel.marks {
        Marks::Plot(plot) => plot.callouts.iter().map(|callout| callout.text.clone()).collect(),
        _ => Vec::new(),
    }
}
