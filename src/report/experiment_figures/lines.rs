//! Lines: a measure against the levels of an axis, each measure in a panel of its own.

use super::best;
use super::found;
use super::sheet::{Sheet, titled};
use super::view::{Facet, View, heading};
use crate::analysis::experiment::{Measure, StageFacts};
use crate::chart::{ChartError, Edge, Figure, Line, Plot, style};
use crate::report::experiment_figures::notes::capital;
use crate::spec::Direction;
use crate::spec::experiment;

/// What is shown unless a file says otherwise.
const USUAL: [Measure; 3] = [Measure::Iops, Measure::Mean, Measure::Quantile(0.99)];

/// One panel for each measure, one line for each series.
pub(super) fn draw(
    facts: &StageFacts,
    asked: &experiment::Figure,
) -> Result<Option<Figure>, ChartError> {
    let view = View::of(facts, asked, false);
    let measures = view.measures(&USUAL);
    let mut sheet = Sheet::new(&view);
    for facet in &view.facets {
        for measure in &measures {
            let mut plot = Plot {
                lines: lines(&view, facet, *measure),
                callouts: best::in_panel(&view, facet, *measure, &measures),
                ..Plot::default()
            };
            plot.markers.extend(found::marker(&view, "knee"));
            let (axis, quantity) = titled(*measure);
            let title = titled_in(facet, *measure);
            sheet.plot(&title, (&axis, quantity), plot)?;
        }
    }
    measures.iter().for_each(|measure| sheet.note_unknown(*measure));
    let against = view.x.map_or(String::new(), |axis| format!(" against {}", axis.heading()));
    let what: Vec<&str> = measures.iter().map(|measure| measure.title()).collect();
    Ok(sheet.finish(&format!("{}{against}", what.join(", "))))
}

/// A measure of every series of a facet.
pub(super) fn lines(view: &View, facet: &Facet, measure: Measure) -> Vec<Line> {
    let series = facet.series.iter().enumerate().map(|(number, series)| {
        let all = series.points.iter();
        let points = all.filter_map(|point| view.point(point, measure, Direction::Total));
        Line {
            name: series.name.clone(),
            style: style(number),
            edge: Edge::Left,
            points: points.collect(),
            dotted: true,
            hover: heading(measure, Direction::Total),
        }
    });
    series.filter(|line| !line.points.is_empty()).collect()
}

/// Title of a panel: the measure, and what its facet has in common.
pub(super) fn titled_in(facet: &Facet, measure: Measure) -> String {
    let measure = capital(measure.title());
    if facet.heading.is_empty() { measure } else { format!("{}: {measure}", facet.heading) }
}
