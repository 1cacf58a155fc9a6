//! The pictures of the sample report.

use super::{Drawn, Level, SECONDS, second};
use crate::chart::{Axis, Band, Curve, Figure, Kind, Marks, Panel, Quantity, Scale, style};
use crate::report::Trust;
use iosonde_model::units::count::thousands;
use iosonde_model::units::duration;

/// Throughput over depth, with its interval.
pub(super) fn rate(levels: &[Level]) -> Drawn {
    let used: Vec<&Level> = used(levels).collect();
    let words = |level: &Level| {
        let doubt = if level.trust == Trust::LowConfidence { ", low confidence" } else { "" };
        let (iops, low, high) = (whole(level.iops), whole(level.low), whole(level.high));
        format!("depth {}: {iops} IOPS ({low} to {high}){doubt}", level.depth)
    };
    let curve = curve("operations per second", 0, &used, |level| level.iops, words);
    let band = Band {
        name: "95 % interval".into(),
        style: style(0),
        parts: vec![used.iter().map(|l| (f64::from(l.depth), l.low, l.high)).collect()],
        hover: "95 % interval".into(),
    };
    let ends = used.iter().map(|level| level.high).chain([0.0]);
    let y = Axis::new("operations per second", Quantity::Count, Scale::fit(Kind::Linear, ends)?);
    figure("Throughput", x_axis(&used)?, y, Marks::curves(vec![band], vec![curve]))
}

/// Latency over depth.
pub(super) fn latency(levels: &[Level]) -> Drawn {
    let used: Vec<&Level> = used(levels).collect();
    let mean = curve(
        "mean",
        0,
        &used,
        |level| level.mean_ns,
        |level| format!("depth {}: mean {}", level.depth, duration::latency(level.mean_ns)),
    );
    let p99 = curve(
        "p99",
        1,
        &used,
        |level| level.p99_ns,
        |level| format!("depth {}: p99 {}", level.depth, duration::latency(level.p99_ns)),
    );
    let all = used.iter().flat_map(|level| [level.mean_ns, level.p99_ns]);
    let y = Axis::new("latency", Quantity::Latency, Scale::fit(Kind::Log10, all)?);
    figure("Latency", x_axis(&used)?, y, Marks::curves(Vec::new(), vec![mean, p99]))
}

/// Share of requests above each latency.
pub(super) fn tails() -> Drawn {
    let depths = [(1, 80e3), (8, 110e3), (64, 640e3)];
    let curves = depths.into_iter().enumerate().map(|(number, (depth, scale))| {
        // Steps of a tenth of a decade, down to one in ten thousand.
        let points: Vec<(f64, f64)> = (0..=40)
            .map(|step| {
                let share = 10f64.powf(-f64::from(step) / 10.0);
                (scale * (1.0 - share.log10()).powf(0.9), share)
            })
            .collect();
        let dots = [(10, "p90"), (20, "p99"), (30, "p99.9")].map(|(step, name)| {
            let (at, share): (f64, f64) = points[step];
            (at, share, format!("depth {depth}, {name}: {}", duration::latency(at)))
        });
        let curve = Curve::new(format!("depth {depth}"), style(number), vec![points]);
        Curve { dots: dots.to_vec(), ..curve }
    });
    let curves: Vec<Curve> = curves.collect();
    let at = curves.iter().flat_map(|curve| curve.parts.iter().flatten()).map(|point| point.0);
    let x = Axis::new("latency", Quantity::Latency, Scale::fit(Kind::Log10, at)?);
    let y = Axis::new("share above", Quantity::Share, Scale::fit(Kind::Log10, [1e-4, 1.0])?);
    figure("Tail latency", x, y, Marks::curves(Vec::new(), curves))
}

/// Throughput over time.
pub(super) fn course() -> Drawn {
    let place = |at: u32| f64::from(at) * 1e9;
    let mut points: Vec<(f64, f64)> = (0..SECONDS).map(|at| (place(at), second(at))).collect();
    points.push((place(SECONDS), second(SECONDS - 1)));
    let dots = (0..SECONDS)
        .map(|at| (place(at), second(at), format!("second {at}: {} IOPS", whole(second(at)))));
    let curve = Curve {
        dots: dots.collect(),
        ..Curve::new("operations per second", style(0), vec![points])
    };
    let x = Axis::new("time", Quantity::Time, Scale::fit(Kind::Time, [0.0, place(SECONDS)])?);
    let rates = (0..SECONDS).map(second).chain([0.0]);
    let y = Axis::new("operations per second", Quantity::Count, Scale::fit(Kind::Linear, rates)?);
    figure("Over time", x, y, Marks::curves(Vec::new(), vec![curve]))
}

fn used(levels: &[Level]) -> impl Iterator<Item = &Level> {
    levels.iter().filter(|level| level.trust != Trust::Failed)
}

fn curve(
    name: &str,
    number: usize,
    levels: &[&Level],
    value: impl Fn(&Level) -> f64,
    words: impl Fn(&Level) -> String,
) -> Curve {
    let place = |level: &Level| (f64::from(level.depth), value(level));
    let dot = |level: &&Level| (f64::from(level.depth), value(level), words(level));
    let points = levels.iter().map(|level| place(level)).collect();
    let dots = levels.iter().map(dot).collect();
    Curve { dots, ..Curve::new(name, style(number), vec![points]) }
}

fn x_axis(levels: &[&Level]) -> Result<Axis, crate::chart::ChartError> {
    let depths = levels.iter().map(|level| f64::from(level.depth));
    Ok(Axis::new("requests in flight", Quantity::Count, Scale::fit(Kind::Log2, depths)?))
}

fn figure(title: &str, x: Axis, y: Axis, marks: Marks) -> Drawn {
    let panel = Panel { title: String::new(), x, y, marks, height: 250.0 };
    Ok(Figure::stacked(title, "an invented device; nothing was measured", vec![panel]))
}

fn whole(value: f64) -> String {
    thousands(value.round() as u64)
}
