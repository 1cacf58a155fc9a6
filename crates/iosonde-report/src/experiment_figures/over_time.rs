//! The course of the runs: a rate over time, one panel for each setting, with the latency
//! percentiles of its first run below.

use super::Drawing;
use super::distribution::spread_out;
use super::found;
use super::notes::capital;
use super::sheet::{Sheet, ends};
use super::view::{Layout, View, unit};
use crate::chart::{
    Axis, Band, ChartError, Curve, Edge, Kind, Marks, Plot, Quantity, Scale, style, unbroken,
};
use iosonde_analysis::experiment::{Measure, Point, StageFacts, Standing, TrialFigures};
use iosonde_model::spec::experiment;

/// Most panels in one picture.
const MOST_PANELS: usize = 6;
/// Ratio of the highest to the lowest latency from which their scale is logarithmic.
const WIDE: f64 = 10.0;
/// Most runs in a panel.
const MOST_RUNS: usize = 7;

/// A panel for each setting, a curve for each of its runs.
pub(super) fn draw(facts: &StageFacts, requested: &experiment::Figure) -> Drawing {
    let view = View::of(facts, requested, Layout::Scaled);
    let is_rate = |measure: &Measure| matches!(measure, Measure::Iops | Measure::Bandwidth);
    let requested = view.measures(&[]).into_iter().find(is_rate);
    let measure = requested.unwrap_or(Measure::Iops);
    let runs = |point: &Point| {
        let runs = facts.of_cell(point.cell).into_iter();
        runs.filter(|trial| trial.series.ops.len() > 1).collect::<Vec<&TrialFigures>>()
    };
    let all: Vec<&Point> = view.points().filter(|point| !runs(point).is_empty()).collect();
    let chosen = spread_out(&all, MOST_PANELS);
    let mut sheet = Sheet::new(&view).of_runs();
    let mut drawn: Vec<(String, Plot, Option<&TrialFigures>)> = Vec::new();
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
        let timed = runs.iter().find(|trial| parts(trial).iter().any(|part| !part.is_empty()));
        drawn.push((point.name(), Plot { curves, ..Plot::default() }, timed.copied()));
    }
    if drawn.is_empty() {
        return Ok(None);
    }
    let xs = drawn.iter().flat_map(|(_, plot, _)| plot.xs());
    let timed = drawn.iter().filter_map(|(_, _, trial)| trial.as_ref());
    let ends = timed.flat_map(|trial| trial.over_time.last()).map(|last| last.end_ns as f64);
    let scale = Scale::fit(Kind::Time, xs.chain(ends).chain([0.0]))?;
    let x = Axis::new("time since the start of the run", Quantity::Time, scale);
    let (_, quantity, title) = unit(measure);
    let height = if drawn.len() > 2 { 130.0 } else { 220.0 };
    for (setting, plot, timed) in drawn {
        // Each panel has its own scale: settings differ far more than rates do over time.
        let y = Axis::from_zero(title.clone(), quantity, plot.ys(Edge::Left))?;
        let markers = found::regimes(facts, &setting, scale.ends().1);
        let marks = Marks::Plot(Plot { markers: markers.clone(), ..plot });
        sheet.push(&capital(&setting), x.clone(), y, marks, height);
        if let Some(trial) = timed {
            let title = format!("{}: latency, run {}", capital(&setting), trial.repeat + 1);
            let (y, plot) = latencies(trial)?;
            let marks = Marks::Plot(Plot { markers, ..plot });
            sheet.push(&title, x.clone(), y, marks, height * 0.8);
            sheet.note("Percentiles are of the requests of each interval, in the first run.");
        }
    }
    if chosen.len() > 1 {
        sheet.note("The scale of each panel is its own.");
    }
    sheet.note_left_out(chosen.len(), all.len());
    let failed = facts.trials.iter().filter(|trial| !trial.is_usable()).count();
    if failed > 0 {
        sheet.note(format!("{failed} of {} runs failed and are not drawn.", facts.trials.len()));
    }
    Ok(sheet.finish(&format!("{} over time", measure.title())))
}

/// Steps `(time, p50, p99)`, one list for each part without a gap.
fn parts(trial: &TrialFigures) -> Vec<Vec<(f64, f64, f64)>> {
    let values = trial.over_time.iter().map(|moment| {
        let value = moment.p50_ns.zip(moment.p99_ns);
        (moment.start_ns as f64, moment.end_ns as f64, value)
    });
    let step = |(x, (p50, p99)): (f64, (u64, u64))| (x, p50 as f64, p99 as f64);
    unbroken(values).into_iter().map(|part| part.into_iter().map(step).collect()).collect()
}

/// The median and the p99 of each interval, with the band between them.
fn latencies(trial: &TrialFigures) -> Result<(Axis, Plot), ChartError> {
    let parts = parts(trial);
    let all = || parts.iter().flatten();
    let (low, high) = ends(all().flat_map(|(_, p50, p99)| [*p50, *p99]));
    let values = all().flat_map(|(_, p50, p99)| [*p50, *p99]);
    let y = if low > 0.0 && high / low >= WIDE {
        Axis::fit("latency (logarithmic)", Quantity::Latency, Kind::Log10, values)?
    } else {
        Axis::from_zero("latency", Quantity::Latency, values)?
    };
    let curve = |name: &str, number: usize, pick: fn(&(f64, f64, f64)) -> f64| {
        let of = |part: &Vec<(f64, f64, f64)>| part.iter().map(|at| (at.0, pick(at))).collect();
        let hover = format!("{name} of each interval");
        Curve { hover, ..Curve::new(name, style(number), parts.iter().map(of).collect()) }
    };
    let curves = vec![curve("p50", 0, |at| at.1), curve("p99", 1, |at| at.2)];
    let band = Band {
        name: "p50 to p99".into(),
        style: style(0),
        parts: parts.clone(),
        hover: "between the median and p99 of each interval".into(),
    };
    Ok((y, Plot { bands: vec![band], curves, ..Plot::default() }))
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
        Standing::LowConfidence(why) => format!("; low confidence: {why}"),
        _ => String::new(),
    };
    Curve {
        hover: format!("{name}{doubt}"),
        rough: true,
        ..Curve::new(name, style(trial.repeat as usize), vec![points])
    }
}
