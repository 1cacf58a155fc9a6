//! Lines: measures over the levels of an axis. Each measure has its own panel, unless there is only
//! one series and all measures have the same quantity.

use super::Drawing;
use super::best;
use super::found;
use super::notes::capital;
use super::sheet::{Sheet, common, titled};
use super::view::{Facet, Layout, Series, View, heading};
use crate::chart::{Line, Plot, style};
use iosonde_analysis::experiment::{Measure, StageFacts};
use iosonde_model::spec::experiment;

/// Measures shown by default.
const USUAL: [Measure; 3] = [Measure::Iops, Measure::Mean, Measure::Quantile(0.99)];

/// One panel for each measure, one line for each series.
pub(super) fn draw(facts: &StageFacts, requested: &experiment::Figure) -> Drawing {
    let view = View::of(facts, requested, Layout::Scaled);
    let measures = view.measures(&USUAL);
    let mut sheet = Sheet::new(&view);
    for facet in &view.facets {
        match (measures.as_slice(), facet.series.as_slice()) {
            ([first, _, ..], [only]) if together(&measures) => {
                let named = |(number, measure): (usize, &Measure)| {
                    line(&view, only, (*measure, number), &heading(*measure, view.direction()))
                };
                let lines = measures.iter().enumerate().filter_map(named).collect();
                let callouts = best::in_panel(&view, facet, *first, &measures);
                let axis = (common(*first).into(), titled(*first).1);
                let plot = Plot { lines, callouts, ..Plot::default() };
                sheet.plot(&facet.heading, axis, knees(&view, facet, plot))?;
            }
            _ => {
                for measure in &measures {
                    let plot = Plot {
                        lines: lines(&view, facet, *measure),
                        callouts: best::in_panel(&view, facet, *measure, &measures),
                        ..Plot::default()
                    };
                    let title = titled_in(&facet.heading, &heading(*measure, view.direction()));
                    sheet.plot(&title, titled(*measure), knees(&view, facet, plot))?;
                }
            }
        }
    }
    measures.iter().for_each(|measure| sheet.note_unknown(*measure));
    let against = view.x.map_or(String::new(), |axis| format!(" against {}", axis.heading()));
    let what = measures.iter().map(|measure| heading(*measure, view.direction()));
    let what: Vec<String> = what.collect();
    Ok(sheet.finish(&format!("{}{against}", what.join(", "))))
}

/// Adds the knee if there is only one series; several knees could not be distinguished.
fn knees(view: &View, facet: &Facet, plot: Plot) -> Plot {
    let [only] = facet.series.as_slice() else { return plot };
    Plot { markers: found::marker(view, "knee", only).into_iter().collect(), ..plot }
}

fn together(measures: &[Measure]) -> bool {
    measures.windows(2).all(|pair| pair[0].quantity() == pair[1].quantity())
}

/// Lines of a measure for all series of a facet.
pub(super) fn lines(view: &View, facet: &Facet, measure: Measure) -> Vec<Line> {
    let all = facet.series.iter().enumerate();
    all.filter_map(|(number, series)| line(view, series, (measure, number), &series.name)).collect()
}

/// Line of a measure for a series, in the style `number`; `None` if no point has the measure.
pub(super) fn line(
    view: &View,
    series: &Series,
    (measure, number): (Measure, usize),
    name: &str,
) -> Option<Line> {
    let all = series.points.iter();
    let points = all.filter_map(|point| view.point(point, measure, view.direction())).collect();
    let hover = heading(measure, view.direction());
    let line = Line { hover, ..Line::new(name, style(number), points) };
    (!line.points.is_empty()).then_some(line)
}

/// Title of a panel: the measure, preceded by the heading of its facet.
pub(super) fn titled_in(heading: &str, measure: &str) -> String {
    let measure = capital(measure);
    if heading.is_empty() { measure } else { format!("{heading}: {measure}") }
}
