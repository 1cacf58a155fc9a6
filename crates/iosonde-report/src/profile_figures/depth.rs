//! Numbers of requests in flight.

use super::Drawn;
use super::pool::{in_file_name, subject};
use crate::chart::{
    Axis, Bar, BarSeries, Bars, ChartError, Figure, Marks, Panel, Quantity, Style, style,
};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{Depth, ProfiledDevice};
use iosonde_model::units::count::percent;

/// Highest depth up to which each level has its own bar.
const EXACT: u32 = 12;

/// Requests in flight on each device: weighted by time, and as found by arriving requests.
pub(super) fn depths(run: &ProfileRun) -> Result<Vec<Drawn>, ChartError> {
    let mut drawn = Vec::new();
    for device in run.devices.iter().filter(|device| device.program_depth.max > 0) {
        let name = device.facts.name.as_str();
        let title = format!("Requests in flight on {name}");
        let note = "From the first request to the end. 0: the device had nothing to do for them.";
        let figure = Figure::stacked(title, subject(run), panels(device)?);
        let figure = Figure { notes: vec![note.into()], ..figure };
        drawn.push((format!("depth-{}", in_file_name(name)), figure));
    }
    Ok(drawn)
}

fn panels(device: &ProfiledDevice) -> Result<Vec<Panel>, ChartError> {
    let both = [
        ("the program's", style(0), &device.program_depth),
        ("everybody's", style(6), &device.depth),
    ];
    let time = both.map(|(name, look, depth)| (name, look, depth.time_ns.as_slice()));
    let arrivals = both.map(|(name, look, depth)| (name, look, depth.arrivals.as_slice()));
    Ok(vec![
        panel("By time", "share of the time", &time)?,
        panel("As a new request found them", "share of the requests", &arrivals)?,
    ])
}

/// Name and style of a series, and its weights by level.
type Named<'a> = (&'a str, Style, &'a [(u32, u64)]);

/// A panel of shares by level.
pub(super) fn panel(title: &str, of: &str, all: &[Named]) -> Result<Panel, ChartError> {
    let highest = all.iter().flat_map(|(.., levels)| levels.iter()).map(|(level, _)| *level).max();
    let classes = classes(highest.unwrap_or(0));
    let series: Vec<BarSeries> = all
        .iter()
        .filter(|(.., levels)| !levels.is_empty())
        .map(|(name, look, levels)| BarSeries {
            name: (*name).into(),
            style: *look,
            values: shares(levels, &classes, name),
        })
        .collect();
    let labels = classes.iter().map(|(from, to)| label(*from, *to)).collect();
    let x = Axis::names("requests in flight", labels);
    let bars = Bars { series, labelled: false, stacked: false };
    let y = Axis::from_zero(of, Quantity::Share, bars.values())?;
    Ok(Panel::new(title, x, y, Marks::Bars(bars), 180.0))
}

/// Depths of the program by time in two runs; `None` if either has no requests.
pub(super) fn compared(
    recorded: &ProfileRun,
    regenerated: &ProfileRun,
    names: [(&str, Style); 2],
) -> Result<Option<Panel>, ChartError> {
    let (Some(one), Some(other)) = (busiest(recorded), busiest(regenerated)) else {
        return Ok(None);
    };
    let levels = [
        (names[0].0, names[0].1, one.time_ns.as_slice()),
        (names[1].0, names[1].1, other.time_ns.as_slice()),
    ];
    panel("", "share of the time", &levels).map(Some)
}

/// The program's depth on the device with the most requests in flight over time.
fn busiest(run: &ProfileRun) -> Option<&Depth> {
    let depths = run.devices.iter().map(|device| &device.program_depth);
    depths.filter(|depth| depth.max > 0).max_by_key(|depth| depth.area_ns)
}

/// First and last level of each class: single levels, or powers of two if there are too many.
fn classes(highest: u32) -> Vec<(u32, u32)> {
    if highest <= EXACT {
        return (0..=highest).map(|level| (level, level)).collect();
    }
    let powers = (0..=highest.ilog2()).map(|power| (1 << power, u32::MAX >> (31 - power)));
    [(0, 0)].into_iter().chain(powers).collect()
}

fn label(from: u32, to: u32) -> String {
    if from == to { from.to_string() } else { format!("{from}–{to}") }
}

fn shares(levels: &[(u32, u64)], classes: &[(u32, u32)], name: &str) -> Vec<Option<Bar>> {
    let all: f64 = levels.iter().map(|(_, weight)| *weight as f64).sum();
    let class = |(from, to): &(u32, u32)| {
        let within = levels.iter().filter(|(level, _)| (*from..=*to).contains(level));
        let share = within.map(|(_, weight)| *weight as f64).sum::<f64>() / all;
        let hover = format!("{name}, {}: {}", label(*from, *to), percent(share));
        (share > 0.0).then(|| Bar::new(share, hover))
    };
    classes.iter().map(class).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_stand_alone_or_by_powers_of_two_and_none_is_lost() {
        assert_eq!(classes(3), [(0, 0), (1, 1), (2, 2), (3, 3)]);
        assert_eq!(classes(16)[..4], [(0, 0), (1, 1), (2, 3), (4, 7)]);
        assert_eq!(classes(16).last(), Some(&(16, 31)));
        let levels = [(0, 10), (1, 20), (5, 30), (16, 40)];
        let shares = shares(&levels, &classes(16), "x");
        let sum: f64 = shares.iter().flatten().filter_map(|bar| bar.value.number()).sum();
        assert_eq!(sum, 1.0);
        assert_eq!(shares[3], Some(Bar::new(0.3, "x, 4–7: 30.0 %")));
    }
}
