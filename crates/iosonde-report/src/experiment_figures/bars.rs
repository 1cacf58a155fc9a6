//! Grouped bars: a few measures side by side for each setting.

use super::Drawing;
use super::notes::capital;
use super::sheet::{Drawn, Sheet, common, titled};
use super::view::{Layout, View, titles, unit};
use crate::chart::{Axis, Bar, BarSeries, Bars, Marks, style};
use iosonde_analysis::experiment::measure::Quantity;
use iosonde_analysis::experiment::{Measure, Point, StageFacts};
use iosonde_model::spec::Direction;
use iosonde_model::spec::experiment;

/// Measures shown by default.
const USUAL: [Measure; 3] = [Measure::Mean, Measure::Quantile(0.95), Measure::Quantile(0.99)];
/// With more bars than this in a panel, values above them would not be legible.
const MOST_LABELLED: usize = 18;

/// One panel for each quantity, one group for each setting.
pub(super) fn draw(facts: &StageFacts, requested: &experiment::Figure) -> Drawing {
    let view = View::of(facts, requested, Layout::Named);
    let measures = view.measures(&USUAL);
    let mut sheet = Sheet::new(&view);
    for quantity in quantities(&measures) {
        let own: Vec<Measure> =
            measures.iter().copied().filter(|measure| measure.quantity() == quantity).collect();
        for facet in &view.facets {
            for series in &facet.series {
                let heading = facet.named(series);
                panel(&view, &mut sheet, (&own, &heading), &series.points)?;
            }
        }
    }
    measures.iter().for_each(|measure| sheet.note_unknown(*measure));
    Ok(sheet.finish(&titles(&measures)))
}

fn panel(
    view: &View,
    sheet: &mut Sheet,
    (measures, heading): (&[Measure], &str),
    points: &[&Point],
) -> Drawn {
    let bar = |measure: Measure| {
        move |point: &&Point| {
            let datum = view.datum(point, measure, Direction::Total)?;
            Some(Bar { value: datum.value, range: datum.range, ..Bar::new(0.0, datum.hover) })
        }
    };
    let series = measures.iter().enumerate().map(|(number, measure)| BarSeries {
        name: measure.title().into(),
        style: style(number),
        values: points.iter().map(bar(*measure)).collect(),
    });
    let bars = Bars { series: series.collect(), labelled: false, stacked: false };
    let values = bars.values();
    if values.is_empty() {
        return Ok(());
    }
    let count = bars.series.len() * points.len();
    let bars = Bars { labelled: count <= MOST_LABELLED, ..bars };
    let names = points.iter().map(|point| view.level(point).map_or("", |level| &level.label));
    let names: Vec<String> = names.map(str::to_owned).collect();
    let x = Axis::names(view.x.map_or("", |axis| axis.heading()), names);
    let (title, quantity) = match measures {
        [only] => titled(*only),
        [first, ..] => (common(*first).into(), unit(*first).1),
        [] => return Ok(()),
    };
    let y = Axis::from_zero(title, quantity, values)?;
    sheet.push(&capital(heading), x, y, Marks::Bars(bars), 240.0);
    Ok(())
}

fn quantities(measures: &[Measure]) -> Vec<Quantity> {
    let mut quantities: Vec<Quantity> = Vec::new();
    for measure in measures {
        if !quantities.contains(&measure.quantity()) {
            quantities.push(measure.quantity());
        }
    }
    quantities
}
