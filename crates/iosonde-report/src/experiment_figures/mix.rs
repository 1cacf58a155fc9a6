//! Mixtures of reads and writes, from writes only to reads only: throughput above, latency below.

use super::Drawing;
use super::best;
use super::lines;
use super::sheet::{Sheet, titled};
use super::view::{Layout, Series, View, heading};
use crate::chart::{Line, Plot, style};
use iosonde_analysis::experiment::{Measure, Point, StageFacts};
use iosonde_model::spec::Direction;
use iosonde_model::spec::experiment;

/// Measures shown by default.
const USUAL: [Measure; 3] = [Measure::Iops, Measure::Mean, Measure::Quantile(0.99)];
/// Each direction with its name and its style number.
const DIRECTIONS: [(Direction, &str, usize); 3] =
    [(Direction::Total, "all", 0), (Direction::Read, "reads", 2), (Direction::Write, "writes", 1)];

/// One panel per series and measure, with lines for all operations, reads and writes.
pub(super) fn draw(facts: &StageFacts, requested: &experiment::Figure) -> Drawing {
    let view = View::of(facts, requested, Layout::Mixed);
    let measures = view.measures(&USUAL);
    let mut sheet = Sheet::new(&view);
    for facet in &view.facets {
        for series in &facet.series {
            let alone = series.alone(facet.named(series));
            for measure in &measures {
                let direction =
                    |which: &(Direction, &str, usize)| line(&view, series, *measure, *which);
                let plot = Plot {
                    lines: DIRECTIONS.iter().filter_map(direction).collect(),
                    callouts: best::in_panel(&view, &alone, *measure, &measures),
                    ..Plot::default()
                };
                let title = lines::titled_in(&alone.heading, measure.title());
                sheet.plot(&title, titled(*measure), plot)?;
            }
        }
    }
    measures.iter().for_each(|measure| sheet.note_unknown(*measure));
    sheet.note(
        "W: share of writes, R: share of reads, of the requests. Latencies of all are those \
                of reads and writes together.",
    );
    Ok(sheet.finish("throughput and latency over the mix"))
}

/// The line of a direction. Reads and writes have their own lines only if both occur.
fn line(
    view: &View,
    series: &Series,
    measure: Measure,
    (direction, name, number): (Direction, &str, usize),
) -> Option<Line> {
    let knows = |which: Direction| {
        series.points.iter().any(|point| !point.values(Measure::Iops, which).is_empty())
    };
    let is_mixed = knows(Direction::Read) && knows(Direction::Write);
    // A measure of the whole, such as the depth, has no directions; neither has a failed point.
    let has_directions =
        |point: &Point| point.values(measure, Direction::Total) != point.values(measure, direction);
    let is_reported = direction == Direction::Total
        || is_mixed && series.points.iter().any(|point| has_directions(point));
    let drawn = series.points.iter().filter(|p| direction == Direction::Total || p.is_usable());
    let points: Vec<_> = drawn.filter_map(|point| view.point(point, measure, direction)).collect();
    let hover = heading(measure, direction);
    (is_reported && !points.is_empty())
        .then(|| Line { hover, ..Line::new(name, style(number), points) })
}
