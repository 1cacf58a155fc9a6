//! A profile and its replay in the same pictures.

use super::distribution::{Times, body, body_and_tail};
use super::over_time::percentiles;
use super::pool::{Flow, Pool, by_flow, in_file_name, subject};
use super::sizes::Classes;
use super::{Drawn, Picture, depth, pictures, places, word};
use crate::chart::{
    Arrangement, Axis, BarSeries, ChartError, Edge, Figure, Kind, Marks, Panel, Plot, Quantity,
    Style, style,
};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::TrafficSeries;
use iosonde_stats::Histogram;

const RECORDED: &str = "recorded";
const REGENERATED: &str = "regenerated";

fn looks() -> [(&'static str, Style); 2] {
    [(RECORDED, style(0)), (REGENERATED, style(1))]
}

/// Pictures of the similarity of a recorded and a regenerated load: latencies, latency over time,
/// gaps, sizes, requests in flight, places and concentration. Data that either run lacks is left
/// out.
///
/// # Errors
/// If a record holds numbers that no scale can hold.
pub fn comparison(
    recorded: &ProfileRun,
    regenerated: &ProfileRun,
) -> Result<Vec<Picture>, ChartError> {
    let (ours, theirs) = (by_flow(recorded), by_flow(regenerated));
    let both: Vec<(Flow, [&Pool; 2])> =
        ours.iter().filter_map(|(flow, one)| Some((*flow, [one, theirs.get(flow)?]))).collect();
    let title = |what: &str| format!("{what}, {RECORDED} and {REGENERATED}");
    let subtitle = formatted([subject(recorded), subject(regenerated)]);
    let figure = |what: &str, arrangement, panels: Vec<Panel>| Figure {
        arrangement,
        ..Figure::stacked(title(what), &subtitle, panels)
    };
    let mut drawn: Vec<Drawn> = Vec::new();
    for (flow, pools) in &both {
        let times = times(pools.map(|pool| &pool.latency));
        if times.len() == 2 {
            let op = flow.word().0;
            let amount = |run, pool: &Pool| format!("{} ({})", subject(run), pool.amount());
            let amounts = formatted([amount(recorded, pools[0]), amount(regenerated, pools[1])]);
            let heading = title(&format!("Latency of {op} requests"));
            let figure = body_and_tail(heading, amounts, &times)?;
            drawn.push((format!("compared-latency-{}", in_file_name(op)), figure));
        }
    }
    for (op, panels) in latency_over_time(recorded, regenerated)? {
        let what = format!("Latency of {op} requests over time");
        let figure = figure(&what, Arrangement::SideBySide, panels);
        drawn.push((format!("compared-latency-over-time-{op}"), figure));
    }
    let gaps = gaps(&both)?;
    if !gaps.is_empty() {
        let figure = figure("Time between requests", Arrangement::SideBySide, gaps);
        drawn.push(("compared-gaps".into(), figure));
    }
    let sizes = sizes(&both)?;
    if !sizes.is_empty() {
        let figure = figure("Sizes of requests", Arrangement::Stacked, sizes);
        drawn.push(("compared-sizes".into(), figure));
    }
    if let Some(panel) = depth::compared(recorded, regenerated, looks())? {
        let figure = figure("Requests in flight", Arrangement::Stacked, vec![panel]);
        drawn.push(("compared-depth".into(), figure));
    }
    if let Some(panels) = places::compared(recorded, regenerated, looks())? {
        let figure = figure("Places", Arrangement::Stacked, panels);
        drawn.push(("compared-places".into(), figure));
    }
    pictures(drawn)
}

fn formatted([one, other]: [String; 2]) -> String {
    format!("{RECORDED}: {one}; {REGENERATED}: {other}")
}

/// The two distributions, without empty ones.
fn times(histograms: [&Histogram; 2]) -> Vec<Times<'_>> {
    looks()
        .into_iter()
        .zip(histograms)
        .filter(|(_, histogram)| histogram.count() > 0)
        .map(|((name, look), histogram)| Times { name: name.into(), style: look, histogram })
        .collect()
}

/// Time between neighbouring requests, one panel for each operation.
fn gaps(both: &[(Flow, [&Pool; 2])]) -> Result<Vec<Panel>, ChartError> {
    let mut panels = Vec::new();
    for (flow, pools) in both {
        let times = times(pools.map(|pool| &pool.gaps));
        if times.len() == 2 && panels.len() < 3 {
            panels.push(body(&times, format!("{} requests", flow.word().0), "gap")?);
        }
    }
    Ok(panels)
}

/// Share of requests by size, one panel for each operation.
fn sizes(both: &[(Flow, [&Pool; 2])]) -> Result<Vec<Panel>, ChartError> {
    let mut panels = Vec::new();
    for (flow, pools) in both {
        if pools.iter().any(|pool| !pool.sizes.keys().any(|size| *size > 0)) {
            continue;
        }
        let classes = Classes::of(pools.iter().map(|pool| &pool.sizes));
        let series = looks()
            .into_iter()
            .zip(pools)
            .map(|((name, look), pool)| BarSeries {
                name: name.into(),
                style: look,
                values: classes.shares(&pool.sizes, |_| 1, name),
            })
            .collect();
        panels.push(classes.panel(format!("{} requests", flow.word().0), series)?);
    }
    Ok(panels)
}

/// Percentiles over time of both runs, side by side with the same scales.
fn latency_over_time(
    recorded: &ProfileRun,
    regenerated: &ProfileRun,
) -> Result<Vec<(&'static str, Vec<Panel>)>, ChartError> {
    let mut figures = Vec::new();
    for one in &recorded.series {
        let Some(other) = regenerated.series.iter().find(|series| series.op == one.op) else {
            continue;
        };
        let plots = [one, other].map(|series: &TrafficSeries| {
            let (bands, curves) = percentiles(&series.latencies, style(0));
            Plot { bands, curves, ..Plot::default() }
        });
        if plots.iter().any(|plot| plot.curves.is_empty()) {
            continue;
        }
        let xs = plots.iter().flat_map(Plot::xs).chain([0.0]);
        let x = Axis::fit("time since the start", Quantity::Time, Kind::Time, xs)?;
        let times = plots.iter().flat_map(|plot| plot.ys(Edge::Left));
        let times = times.map(|ns| ns.max(1.0));
        let y = Axis::fit("latency (log)", Quantity::Latency, Kind::Log10, times)?;
        let panels = plots.into_iter().zip(looks()).map(|(plot, (name, _))| {
            Panel::new(name, x.clone(), y.clone(), Marks::Plot(plot), 260.0)
        });
        figures.push((word(one.op).0, panels.collect()));
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{looked_at, profile};
    use super::*;

    #[test]
    fn every_picture_of_a_replay_can_be_read() {
        let pictures = comparison(&profile(1.0), &profile(1.7)).unwrap();
        let names: Vec<&str> = pictures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "compared-latency-read.svg",
                "compared-latency-write.svg",
                "compared-latency-flush.svg",
                "compared-latency-device-flush.svg",
                "compared-latency-over-time-read.svg",
                "compared-latency-over-time-write.svg",
                "compared-gaps.svg",
                "compared-sizes.svg",
                "compared-depth.svg",
                "compared-places.svg",
            ]
        );
        looked_at(&pictures);
    }
}
