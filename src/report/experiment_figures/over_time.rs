//! How the runs went: a rate over the time of each, one panel for each setting.

use super::distribution::spread_out;
use super::found;
use super::notes::capital;
use super::sheet::Sheet;
use super::view::{Layout, View, unit};
use crate::analysis::experiment::{Measure, Point, StageFacts, Standing, TrialFigures};
use crate::chart::{Axis, ChartError, Curve, Figure, Kind, Marks, Plot, Quantity, Scale, style};
use crate::spec::experiment;

/// Panels of one picture at most.
const MOST_PANELS: usize = 6;
/// Runs of a panel at most.
const MOST_RUNS: usize = 7;

/// A panel for each setting, a curve for each of its runs.
pub(super) fn draw(
    facts: &StageFacts,
    asked: &experiment::Figure,
) -> Result<Option<Figure>, ChartError> {
    let view = View::of(facts, asked, Layout::Scaled);
    let is_rate = |measure: &Measure| matches!(measure, Measure::Iops | Measure::Bandwidth);
    let asked = view.measures(&[]).into_iter().find(is_rate);
    let measure = asked.unwrap_or(Measure::Iops);
    let runs = |point: &Point| {
        let runs = facts.of_cell(point.cell).into_iter();
        runs.filter(|trial| trial.series.ops.len() > 1).collect::<Vec<&TrialFigures>>()
    };
    let all: Vec<&Point> = view.points().filter(|point| !runs(point).is_empty()).collect();
    let chosen = spread_out(&all, MOST_PANELS);
    let mut sheet = Sheet::new(&view).of_runs();
    let mut drawn: Vec<(String, Vec<Curve>)> = Vec::new();
    for point in &chosen {
        let runs = runs(point);
        let shown = spread_out(&runs, MOST_RUNS);
        if shown.len() < runs.len() {
            let (some, all) = (shown.len(), runs.len());
            sheet.note(format!(
                "Of {all} runs of a setting {some} are drawn, the first and last too."
            ));
        }
        let curves = shown.iter().map(|trial| curve(trial, measure)).collect();
        drawn.push((point.name(), curves));
    }
    if drawn.is_empty() {
        return Ok(None);
    }
    let points = |curves: &[Curve]| -> Vec<(f64, f64)> {
        curves.iter().flat_map(|curve| curve.parts.iter().flatten().copied()).collect()
    };
    let xs = drawn.iter().flat_map(|(_, curves)| points(curves)).map(|(x, _)| x);
    let x = Scale::fit(Kind::Time, xs.chain([0.0]))?;
    let (_, quantity, title) = unit(measure);
    let height = if drawn.len() > 2 { 130.0 } else { 220.0 };
    for (setting, curves) in drawn {
        // Each has a scale of its own: settings differ by far more than time changes them.
        let y = Scale::fit(Kind::Linear, points(&curves).into_iter().map(|p| p.1).chain([0.0]))?;
        let markers = found::regimes(facts, &setting, x.ends().1);
        let marks = Marks::Plot(Plot { curves, markers, ..Plot::default() });
        let x = Axis::new("time since the start of the run", Quantity::Time, x);
        sheet.push(&capital(&setting), x, Axis::new(title.clone(), quantity, y), marks, height);
    }
    if chosen.len() > 1 {
        sheet.note("The scale of each panel is its own.");
    }
    if chosen.len() < all.len() {
        let left_out = all.len() - chosen.len();
        sheet.note(format!(
            "{left_out} of {} settings between those shown are left out.",
            all.len()
        ));
    }
    let failed = facts.trials.iter().filter(|trial| !trial.is_usable()).count();
    if failed > 0 {
        sheet.note(format!("{failed} of {} runs failed and are not drawn.", facts.trials.len()));
    }
    Ok(sheet.finish(&format!("{} over time", measure.title())))
}

fn curve(trial: &TrialFigures, measure: Measure) -> Curve {
    let (series, one) = (&trial.series, unit(measure).0);
    let values = if measure == Measure::Iops { series.iops() } else { series.bytes_per_s() };
    let width = series.width_ns as f64;
    let mut points: Vec<(f64, f64)> =
        values.iter().enumerate().map(|(place, v)| (place as f64 * width, v * one)).collect();
    if let Some((_, last)) = points.last().copied() {
        points.push((points.len() as f64 * width, last));
    }
    let name = format!("run {}", trial.repeat + 1);
    let doubt = match &trial.standing {
        Standing::Doubtful(why) => format!("; doubtful: {why}"),
        _ => String::new(),
    };
    Curve {
        hover: format!("{name}{doubt}"),
        name,
        style: style(trial.repeat as usize),
        parts: vec![points],
        rough: true,
        dots: Vec::new(),
    }
}
