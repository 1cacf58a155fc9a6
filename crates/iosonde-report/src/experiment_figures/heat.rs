//! A heat map: a measure over two axes, with a rectangle for each combination.

use super::Drawing;
use super::lines::titled_in;
use super::sheet::{Drawn, Sheet, ends};
use super::view::{Layout, View, is_executed, titles, unit};
use crate::chart::{Axis, Cell, HeatMap, Kind, Marks, Missing, Scale};
use iosonde_analysis::experiment::{Measure, Point, StageFacts};
use iosonde_model::spec::Direction;
use iosonde_model::spec::experiment;

/// Values that span more than this factor get a logarithmic scale.
const WIDE: f64 = 20.0;
/// Height of a row, pixels.
const ROW: f64 = 30.0;

/// One panel for each measure and each combination of further axes.
pub(super) fn draw(facts: &StageFacts, requested: &experiment::Figure) -> Drawing {
    let requested = with_rows(facts, requested);
    let view = View::of(facts, &requested, Layout::Named);
    let measures = view.measures(&[Measure::Iops]);
    let mut sheet = Sheet::new(&view).of_runs();
    for measure in &measures {
        let values = view.points().filter_map(|point| point.mean(*measure));
        let (low, high) = ends(values.map(|value| value * unit(*measure).0));
        if low > high {
            continue;
        }
        let kind = if low > 0.0 && high / low >= WIDE { Kind::Log10 } else { Kind::Linear };
        // The range of the colours is that of the values; it need not include zero.
        let scale = Scale::fit(kind, [low, high])?;
        for facet in &view.facets {
            panel(&view, &mut sheet, facet, (*measure, scale, kind))?;
        }
        sheet.note_unknown(*measure);
    }
    sheet.note("Each rectangle is the mean over its runs.");
    Ok(sheet.finish(&titles(&measures)))
}

/// Uses the second axis of the stage for the rows if the file names none.
pub(super) fn with_rows(facts: &StageFacts, requested: &experiment::Figure) -> experiment::Figure {
    let x = View::of(facts, requested, Layout::Named).x.map(|axis| axis.name.clone());
    let other = facts.stage.axes.iter().find(|axis| Some(&axis.name) != x.as_ref());
    let mut requested = requested.clone();
    if requested.series.is_empty() {
        requested.series = other.map_or(String::new(), |axis| axis.name.clone());
    }
    requested
}

fn panel(
    view: &View,
    sheet: &mut Sheet,
    facet: &super::view::Facet,
    (measure, scale, kind): (Measure, Scale, Kind),
) -> Drawn {
    let (mut cells, mut missing) = (Vec::new(), Vec::new());
    for (row, series) in facet.series.iter().enumerate() {
        for point in &series.points {
            let Some(x) = view.place(point) else { continue };
            let x = (x - 0.5, x + 0.5);
            let y = (row as f64, row as f64 + 1.0);
            let datum = view.datum(point, measure, Direction::Total);
            match datum.as_ref().and_then(|datum| Some((datum.value.number()?, &datum.hover))) {
                Some((value, hover)) => cells.push(Cell { x, y, value, hover: hover.clone() }),
                None => {
                    let hover = datum.map_or_else(|| view.setting(point), |datum| datum.hover);
                    missing.push(Missing { x, y, word: why(point).into(), hover });
                }
            }
        }
    }
    if cells.is_empty() {
        return Ok(());
    }
    let rows = facet.series.iter().map(|series| series.name.clone()).collect::<Vec<String>>();
    let height = (rows.len() as f64 * ROW).clamp(60.0, 420.0);
    let series = view.facts.stage.axes.iter().find(|axis| axis.name == view.requested.series);
    let y = Axis::names(series.map_or("", |axis| axis.heading()), rows);
    let (_, quantity, title) = unit(measure);
    let log = if kind == Kind::Log10 { " (log)" } else { "" };
    let title = format!("{title}{log}");
    let map = HeatMap { title, quantity, scale, cells, missing, numbered: true };
    let heading = titled_in(&facet.heading, measure.title());
    sheet.push(&heading, view.x_axis()?, y, Marks::Heat(map), height);
    Ok(())
}

/// The reason for a missing value, in a word.
fn why(point: &Point) -> &'static str {
    match (is_executed(point), point.is_usable()) {
        (false, _) => "not run",
        (true, false) => "failed",
        (true, true) => "not known",
    }
}
