//! Figures of each run of a cell in the order of rounds: over the round number, and over the bytes
//! written so far.

use super::Drawing;
use super::rounds::{counted, window_marker};
use super::sheet::{Drawn, Sheet, titled};
use super::view::{Layout, View, titles, unit};
use crate::chart::{Axis, Edge, Line, Marks, Plot, Point, Quantity, style};
use iosonde_analysis::experiment::{Measure, StageFacts, TrialFigures};
use iosonde_model::plan::design::tracked;
use iosonde_model::spec::Direction;
use iosonde_model::spec::experiment::{self, Track};

/// Most lines in one panel; more cannot be distinguished.
const MOST_LINES: usize = super::view::MOST_SERIES;
/// Height of a panel, pixels.
const HEIGHT: f64 = 210.0;

/// A panel for each measure, with a line for each cell that has the levels of the picture.
pub(super) fn draw(facts: &StageFacts, requested: &experiment::Figure) -> Drawing {
    let view = View::of(facts, requested, Layout::Scaled);
    let measures = view.measures(&[Measure::Iops]);
    let mut sheet = Sheet::new(&view).of_runs();
    let cells = cells(facts, requested);
    let word = if facts.stage.rounds.is_some() { "round" } else { "run" };
    for measure in &measures {
        let x = |trial: &TrialFigures| Some(f64::from(trial.repeat + 1));
        let lines = lines(&view, &cells, *measure, x);
        let places = lines.iter().flat_map(|line| &line.points).map(|point| point.x);
        let places: Vec<f64> = places.collect();
        if places.is_empty() {
            continue;
        }
        let markers = facts.steadiness.as_ref().and_then(window_marker).into_iter().collect();
        let plot = Plot { lines, markers, ..Plot::default() };
        push(&mut sheet, *measure, counted(word, places)?, plot)?;
    }
    note_left_out(&mut sheet, &cells);
    Ok(sheet.finish(&format!("{} in each {word}", titles(&measures))))
}

/// The same over the bytes written by the end of each round, in GB and in fills of the range.
pub(super) fn saturation(facts: &StageFacts, requested: &experiment::Figure) -> Drawing {
    let view = View::of(facts, requested, Layout::Scaled);
    let measure = view.measures(&[Measure::Iops])[0];
    let mut sheet = Sheet::new(&view).of_runs();
    let cells = cells(facts, requested);
    let range = facts.laid_out.prepared.last().map(|prepared| prepared.range_bytes);
    let by_then = |trial: &TrialFigures| -> f64 {
        let before = facts.trials.iter().filter(|other| other.position <= trial.position);
        before.map(|other| other.written_bytes as f64).sum()
    };
    let written = lines(&view, &cells, measure, |trial| Some(by_then(trial) / 1e9));
    over(&mut sheet, measure, "written so far, GB", written)?;
    if let Some(range) = range.filter(|range| *range > 0) {
        let fills = lines(&view, &cells, measure, |trial| Some(by_then(trial) / range as f64));
        over(&mut sheet, measure, "fills of the active range", fills)?;
    }
    note_left_out(&mut sheet, &cells);
    Ok(sheet.finish(&format!("{} over what was written", measure.title())))
}

fn over(sheet: &mut Sheet, measure: Measure, title: &str, lines: Vec<Line>) -> Drawn {
    let plot = Plot { lines, ..Plot::default() };
    if plot.xs().is_empty() {
        return Ok(());
    }
    let x = Axis::from_zero(title, Quantity::Count, plot.xs())?;
    push(sheet, measure, x, plot)
}

fn push(sheet: &mut Sheet, measure: Measure, x: Axis, plot: Plot) -> Drawn {
    let (title, quantity) = titled(measure);
    let y = Axis::from_zero(title, quantity, plot.ys(Edge::Left))?;
    let heading = super::notes::capital(measure.title());
    sheet.push(&heading, x, y, Marks::Plot(plot), HEIGHT);
    Ok(())
}

/// The cells with all levels of the picture; a file that names other levels was rejected.
fn cells(facts: &StageFacts, requested: &experiment::Figure) -> Vec<usize> {
    let track = Track { metric: String::new(), cell: requested.cell.clone() };
    tracked(&facts.stage, &facts.laid_out.cells, &track).unwrap_or_default()
}

fn note_left_out(sheet: &mut Sheet, cells: &[usize]) {
    let further = cells.len().saturating_sub(MOST_LINES);
    if further > 0 {
        sheet.note(format!("{further} further cells are in the table of runs only."));
    }
}

/// A line for each cell; unusable runs are gaps.
fn lines(
    view: &View,
    cells: &[usize],
    measure: Measure,
    x: impl Fn(&TrialFigures) -> Option<f64>,
) -> Vec<Line> {
    let (one, ..) = unit(measure);
    let facts = view.facts;
    let points = |cell: usize| -> Vec<Point> {
        let own = facts.trials.iter().filter(|trial| trial.cell == cell && trial.is_usable());
        let value = |trial: &TrialFigures| measure.of(&trial.figures, Direction::Total);
        own.filter_map(|trial| Some(Point::new(x(trial)?, value(trial)? * one))).collect()
    };
    let named = cells.iter().take(MOST_LINES).enumerate();
    let lines = named.map(|(number, cell)| {
        let point = facts.points.iter().find(|point| point.cell == *cell);
        let name = point.map_or(String::new(), |point| view.setting(point));
        Line::new(name, style(number), points(*cell))
    });
    lines.collect()
}
