//! Pictures of a run: throughput and latency over time, and latency distributions.

use crate::chart::{Axis, Band, ChartError, Curve, Figure, Kind, Marks, Panel, Quantity, style};
use crate::latency_map::{self, Column};
use crate::profile_figures::distribution::{Times, body_and_tail};
use crate::report::Picture;
use iosonde_analysis::{Assessment, intervals};
use iosonde_model::record::run::Run;
use iosonde_model::units::duration;
use iosonde_stats::{Histogram, Quantile};

/// Least length of an interval in a picture, ns.
pub(super) const STEP_NS: u64 = 1_000_000_000;
/// Title of the time axis.
const SINCE: &str = "time since the start of measurement";
/// Most intervals in a picture.
const INTERVALS: u64 = 600;

/// The pictures of a run; `index` is its position in the report.
pub(super) fn pictures(index: usize, run: &Run, row: &Assessment) -> Vec<Picture> {
    let subject = format!("{} · {}", run.plan.title, run.target.path);
    let drawn = [
        ("throughput", "Operations and bytes per second over time.", throughput(run, &subject)),
        (
            "latency-time",
            "p50 and p99 of the latency over time; the band lies between them.",
            course(run, &subject),
        ),
        (
            "latency-map",
            "Every latency over time: darker where there were more requests.",
            latencies(run, &subject),
        ),
        (
            "latency",
            "How latencies are distributed, by direction, and their tail.",
            distribution(run, row, &subject),
        ),
    ];
    let named = drawn.into_iter().filter_map(|(name, caption, figure)| {
        // A picture without values is left out.
        let figure = figure.ok()?;
        let name = format!("run-{}-{name}", index + 1);
        Some(Picture { name, caption: caption.into(), figure })
    });
    named.collect()
}

/// Every latency over time.
fn latencies(run: &Run, subject: &str) -> Result<Figure, ChartError> {
    let jobs = intervals::all_jobs(run);
    let width_ns = intervals::common_width_ns(&jobs, requested_width(run));
    let maps = intervals::DIRECTIONS.map(|of| {
        let all = intervals::over_time(&jobs, std::slice::from_ref(&of), run.measured_ns, width_ns);
        let column = |(edge, latency): (intervals::Interval, Histogram)| Column {
            start_ns: edge.start_ns,
            end_ns: edge.end_ns,
            latencies: latency.midpoints().collect(),
        };
        (of.0, all.map(column).collect())
    });
    latency_map::figure("All latencies over time", subject.into(), SINCE, maps)
}

pub(super) fn requested_width(run: &Run) -> u64 {
    STEP_NS.max(run.measured_ns / INTERVALS).min((run.measured_ns / 10).max(1))
}

fn throughput(run: &Run, subject: &str) -> Result<Figure, ChartError> {
    let jobs = intervals::all_jobs(run);
    let width = intervals::counter_width_ns(&jobs, requested_width(run));
    let (mut iops, mut bandwidth) = (Vec::new(), Vec::new());
    for (number, of) in intervals::DIRECTIONS.into_iter().enumerate() {
        let all = intervals::rates(&jobs, &[of], run.measured_ns, width);
        if all.iter().all(|interval| interval.ops == 0) {
            continue;
        }
        let curve = |value: &dyn Fn(&intervals::Interval) -> f64| {
            let mut points: Vec<(f64, f64)> =
                all.iter().map(|each| (each.start_ns as f64, value(each))).collect();
            points.extend(all.last().map(|last| (last.end_ns as f64, value(last))));
            Curve::new(of.0, style(number), vec![points])
        };
        iops.push(curve(&|each| each.iops()));
        if all.iter().any(|each| each.bytes > 0) {
            bandwidth.push(curve(&|each| each.bytes_per_s() / 1e6));
        }
    }
    let panel = |title, unit, curves| Panel::over_time(title, SINCE, unit, curves, 170.0);
    let mut panels = vec![panel("Operations per second", "IOPS", iops)?];
    if !bandwidth.is_empty() {
        panels.push(panel("Bandwidth", "MB/s", bandwidth)?);
    }
    let notes = vec![format!("A step is {} wide.", duration::latency(width as f64))];
    Ok(Figure { notes, ..Figure::stacked("Throughput over time", subject, panels) })
}

/// p50 and p99 of each interval, with the band between them.
fn course(run: &Run, subject: &str) -> Result<Figure, ChartError> {
    let jobs = intervals::all_jobs(run);
    let width = intervals::common_width_ns(&jobs, requested_width(run));
    let mut panels = Vec::new();
    for of in intervals::DIRECTIONS {
        let (mut steps, mut end): (Vec<(f64, f64, f64)>, _) = (Vec::new(), 0.0);
        for (interval, latency) in intervals::over_time(&jobs, &[of], run.measured_ns, width) {
            end = interval.end_ns as f64;
            let value = |q| Quantile::of(&latency, q).value_ns().map(|ns| ns as f64);
            if let (Some(p50), Some(p99)) = (value(0.5), value(0.99)) {
                steps.push((interval.start_ns as f64, p50, p99));
            }
        }
        steps.extend(steps.last().copied().map(|(_, p50, p99)| (end, p50, p99)));
        if steps.len() < 3 {
            continue;
        }
        let times = steps.iter().map(|step| step.0).chain([0.0]);
        let x = Axis::fit(SINCE, Quantity::Time, Kind::Time, times)?;
        let values = steps.iter().flat_map(|step| [step.1, step.2]);
        let y = Axis::fit("latency (logarithmic)", Quantity::Latency, Kind::Log10, values)?;
        let curve = |name: &str, number, value: fn(&(f64, f64, f64)) -> f64| {
            let points = steps.iter().map(|step| (step.0, value(step))).collect();
            let hover = format!("{} {name}", of.0);
            Curve { hover, ..Curve::new(name, style(number), vec![points]) }
        };
        let curves = vec![curve("p50", 0, |step| step.1), curve("p99", 1, |step| step.2)];
        let band = Band {
            name: "p50 to p99".into(),
            style: style(0),
            parts: vec![steps.clone()],
            hover: format!("{}: between p50 and p99", of.0),
        };
        let title = format!("{} latency", of.0);
        panels.push(Panel::new(title, x, y, Marks::curves(vec![band], curves), 190.0));
    }
    if panels.is_empty() {
        return Err(ChartError::Empty);
    }
    let note = format!(
        "A step is {} wide; one with fewer than 370 requests has no p99 and is left out.",
        duration::latency(width as f64)
    );
    let figure = Figure::stacked("Latency over time", subject, panels);
    Ok(Figure { notes: vec![note], ..figure })
}

fn distribution(run: &Run, row: &Assessment, subject: &str) -> Result<Figure, ChartError> {
    if !row.consistency.valid() {
        return Err(ChartError::Empty);
    }
    let merged = intervals::DIRECTIONS.map(|(name, of)| {
        let mut sum = Histogram::new();
        // In an open loop, the relevant latency is the response time from the due time.
        let open = run.jobs.iter().any(|job| of(job).response.count() > 0);
        for job in &run.jobs {
            sum.merge(if open { &of(job).response } else { &of(job).latency });
        }
        (name, sum)
    });
    let times = Times::of_all(merged.iter().map(|(name, sum)| ((*name).into(), sum)));
    body_and_tail("Latency", subject, &times)
}
