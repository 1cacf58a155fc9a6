//! Two axes over block size: IOPS at the left, MB/s at the right, with their crossover; the latency
//! is below.

use super::Drawing;
use super::best;
use super::found;
use super::lines;
use super::notes::capital;
use super::sheet::{Drawn, Sheet, titled};
use super::view::{Facet, Layout, Series, View, unit};
use crate::chart::{Annotation, Edge, Line, Marks, Plot, merge_annotations};
use iosonde_analysis::experiment::{Measure, Point, StageFacts};
use iosonde_model::spec::Direction;
use iosonde_model::spec::experiment;

/// Number of styles used by IOPS and MB/s; latencies use the following ones.
const RATES: usize = 2;

/// A panel with both axes for each series, and one with the latencies of all series.
pub(super) fn draw(facts: &StageFacts, requested: &experiment::Figure) -> Drawing {
    let view = View::of(facts, requested, Layout::Scaled);
    let mut sheet = Sheet::new(&view);
    for facet in &view.facets {
        for series in &facet.series {
            rates(&view, &mut sheet, facet, series)?;
        }
        latency(&view, &mut sheet, facet)?;
    }
    for measure in [Measure::Iops, Measure::Bandwidth, Measure::Mean] {
        sheet.note_unknown(measure);
    }
    let x = view.x.map_or("", |axis| axis.heading());
    Ok(sheet.finish(&format!("IOPS and bandwidth against {x}")))
}

fn rates(view: &View, sheet: &mut Sheet, facet: &Facet, series: &Series) -> Drawn {
    let line = |measure, number, edge| {
        let (name, _) = titled(measure);
        let line = lines::line(view, series, (measure, number), &name)?;
        Some(Line { edge, ..line })
    };
    let left = line(Measure::Iops, 0, Edge::Left);
    let right = line(Measure::Bandwidth, 1, Edge::Right);
    let (Some(left), Some(right)) = (left, right) else { return Ok(()) };
    let mut plot = Plot {
        lines: vec![left, right],
        callouts: callouts(view, series),
        markers: found::marker(view, "crossover", series).into_iter().collect(),
        ..Plot::default()
    };
    if plot.lines.iter().all(|line| line.points.iter().all(|point| point.y.number().is_none())) {
        return Ok(());
    }
    let y = sheet.y_axis(titled(Measure::Iops), &mut plot, Edge::Left)?;
    plot.right = Some(sheet.y_axis(titled(Measure::Bandwidth), &mut plot, Edge::Right)?);
    let (reading, note) = reading(view, series);
    let heading = match facet.named(series) {
        named if named.is_empty() => reading,
        named => format!("{named}: {reading}"),
    };
    sheet.note(note);
    sheet.push(&capital(&heading), view.x_axis()?, y, Marks::Plot(plot), 250.0);
    Ok(())
}

/// Which unit applies in which range: a short text and a note.
fn reading(view: &View, series: &Series) -> (String, String) {
    let Some(crossover) = found::found(view, "crossover", series) else {
        return (
            "IOPS at the left, MB/s at the right".into(),
            "No crossover was found within these sizes.".into(),
        );
    };
    let at = found::formatted(view, crossover.at);
    let interval = crossover.interval(view);
    let interval = interval.map_or(String::new(), |interval| format!(" ({interval}, shaded)"));
    let of = if series.name.is_empty() { String::new() } else { format!(" of {}", series.name) };
    (
        format!("read IOPS (left) below {at}, MB/s (right) above"),
        format!(
            "Crossover{of}: {at}{interval}. Below it the fixed cost of a request limits, so IOPS \
             describe the storage; above it its transfer does, so MB/s do."
        ),
    )
}

fn callouts(view: &View, series: &Series) -> Vec<crate::chart::Callout> {
    let alone = series.alone(String::new());
    let annotation = |(what, measure, point): (&str, Measure, &Point)| {
        let edge = if measure == Measure::Iops { Edge::Left } else { Edge::Right };
        let y = point.mean(measure)? * unit(measure).0;
        let (x, setting) =
            (view.place(point)?, view.level(point).map(|level| view.formatted(level))?);
        Some(Annotation { what: what.into(), setting, x, y, edge })
    };
    let best = best::best(&alone, &[Measure::Iops, Measure::Bandwidth], Direction::Total);
    merge_annotations(best.into_iter().filter_map(annotation).collect())
}

fn latency(view: &View, sheet: &mut Sheet, facet: &Facet) -> Drawn {
    let named = |(number, series): (usize, &Series)| {
        let name = match series.name.as_str() {
            "" => "mean latency".into(),
            name => format!("mean latency, {name}"),
        };
        lines::line(view, series, (Measure::Mean, RATES + number), &name)
    };
    let plot = Plot {
        lines: facet.series.iter().enumerate().filter_map(named).collect(),
        callouts: best::in_panel(view, facet, Measure::Mean, &[]),
        ..Plot::default()
    };
    let title = lines::titled_in(&facet.heading, Measure::Mean.title());
    sheet.plot(&title, titled(Measure::Mean), plot)
}
