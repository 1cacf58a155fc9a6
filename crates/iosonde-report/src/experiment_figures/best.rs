//! Which setting is best at what: said at its point, and together where one is best at several.
//! Each looks only at its own measure.

use super::view::{Facet, View, unit};
use crate::chart::{Annotation, Callout, Edge, Marks, Panel, merge_annotations};
use iosonde_analysis::experiment::{Measure, Point, Standing};

/// What may be best, and how that is said.
const CONTESTS: [(Measure, &str); 3] = [
    (Measure::Iops, "best IOPS"),
    (Measure::Bandwidth, "best bandwidth"),
    (Measure::Mean, "lowest mean latency"),
];

/// The best of some measures, each as what it is and its point. No doubtful point is best where
/// there is a good one; where fewer than two can be compared, none is.
pub(super) fn best<'a>(
    facet: &Facet<'a>,
    measures: &[Measure],
) -> Vec<(&'static str, Measure, &'a Point)> {
    let points = || facet.series.iter().flat_map(|series| &series.points);
    let of_measure = |(measure, what): &(Measure, &'static str)| {
        let known = |point: &&&'a Point| point.mean(*measure).is_some();
        let all: Vec<&'a Point> = points().filter(known).copied().collect();
        let good = all.iter().filter(|point| point.standing == Standing::Good);
        let good: Vec<&'a Point> = good.copied().collect();
        let of = if good.is_empty() { &all } else { &good };
        let sign = if measure.more_is_better() == Some(true) { 1.0 } else { -1.0 };
        let worth = |point: &Point| sign * point.mean(*measure).unwrap_or(f64::NAN);
        // The first of equals.
        let best = of.iter().rev().max_by(|a, b| worth(a).total_cmp(&worth(b)))?;
        (all.len() > 1).then_some((*what, *measure, *best))
    };
    CONTESTS.iter().filter(|(m, _)| measures.contains(m)).filter_map(of_measure).collect()
}

/// Call-outs for a panel along the axis of the view that shows one measure: the best in it, and the
/// best bandwidth or IOPS if no other panel shows that.
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
    let annotation = |(what, _, point): (&str, Measure, &Point)| {
        let y = point.mean(shown)? * unit(shown).0;
        let (x, setting) = (view.place(point)?, view.setting(point));
        Some(Annotation { what: what.into(), setting, x, y, edge: Edge::Left })
    };
    merge_annotations(best(facet, &measures).into_iter().filter_map(annotation).collect())
}

/// What the call-outs of a panel say.
pub(super) fn formatted(panel: &Panel) -> Vec<String> {
    match &panel.marks {
        Marks::Plot(plot) => plot.callouts.iter().map(|callout| callout.text.clone()).collect(),
        _ => Vec::new(),
    }
}
