//! Bars on a floor of two axes, as an overview of a test matrix; its values are in the table.

use super::Drawing;
use super::lines::titled_in;
use super::sheet::{Drawn, Sheet, titled};
use super::view::{Facet, Layout, View, titles};
use crate::chart::{Axis, Marks, Tower, Towers};
use iosonde_analysis::experiment::{Measure, StageFacts};
use iosonde_model::spec::Direction;
use iosonde_model::spec::experiment;

/// Height of a plot, pixels.
const HEIGHT: f64 = 380.0;

/// One panel for each measure and each combination of further axes.
pub(super) fn draw(facts: &StageFacts, requested: &experiment::Figure) -> Drawing {
    let requested = super::heat::with_rows(facts, requested);
    let view = View::of(facts, &requested, Layout::Named);
    let measures = view.measures(&[Measure::Iops]);
    let mut sheet = Sheet::new(&view).of_runs();
    for measure in &measures {
        for facet in &view.facets {
            panel(&view, &mut sheet, facet, *measure)?;
        }
        sheet.note_unknown(*measure);
    }
    sheet.note("Each bar is the mean over its runs, drawn from zero.");
    Ok(sheet.finish(&titles(&measures)))
}

fn panel(view: &View, sheet: &mut Sheet, facet: &Facet, measure: Measure) -> Drawn {
    let mut towers = Vec::new();
    for (row, series) in facet.series.iter().enumerate() {
        for point in &series.points {
            let place = view.place(point).map(|place| place.floor() as usize);
            let (Some(column), Some(datum)) = (place, view.datum(point, measure, Direction::Total))
            else {
                continue;
            };
            towers.push(Tower { column, row, value: datum.value, hover: datum.hover });
        }
    }
    let rows = facet.series.iter().map(|series| series.name.clone()).collect();
    let title = view.facts.stage.axes.iter().find(|axis| axis.name == view.requested.series);
    let title = title.map_or("", |axis| axis.heading()).to_owned();
    let towers = lowest_in_front(Towers { title, rows, towers });
    let values: Vec<f64> = towers.towers.iter().filter_map(|tower| tower.value.number()).collect();
    if values.is_empty() {
        return Ok(());
    }
    let (title, quantity) = titled(measure);
    let y = Axis::from_zero(title, quantity, values)?;
    let heading = titled_in(&facet.heading, measure.title());
    sheet.push(&heading, view.x_axis()?, y, Marks::Towers(towers), HEIGHT);
    Ok(())
}

/// Reverses the rows if necessary, so that the lower end is in front and hides less.
fn lowest_in_front(towers: Towers) -> Towers {
    let last = towers.rows.len().saturating_sub(1);
    let sum = |row: usize| -> f64 {
        let own = towers.towers.iter().filter(|tower| tower.row == row);
        own.filter_map(|tower| tower.value.number()).sum()
    };
    if sum(0) <= sum(last) {
        return towers;
    }
    let turned = |tower: Tower| Tower { row: last - tower.row, ..tower };
    Towers {
        rows: towers.rows.into_iter().rev().collect(),
        towers: towers.towers.into_iter().map(turned).collect(),
        ..towers
    }
}
