//! Latencies of a run over time, as a heat map.

use std::collections::BTreeMap;

use super::figures::requested_width;
use crate::chart::{
    Arrangement, Axis, Cell, ChartError, Figure, HeatMap, Kind, Marks, Panel, Quantity, Scale,
};
use iosonde_analysis::intervals;
use iosonde_model::record::run::Run;
use iosonde_model::units::{count, duration};

/// Columns of a map at most.
const COLUMNS: usize = 120;
const ROWS_PER_DECADE: f64 = 10.0;

/// A map for each direction: time and latency, dark where there were many requests.
pub(super) fn heat(run: &Run, subject: &str) -> Result<Figure, ChartError> {
    let jobs = intervals::all_jobs(run);
    let width_ns = intervals::common_width_ns(&jobs, requested_width(run));
    let maps = intervals::DIRECTIONS.into_iter().filter_map(|of| {
        let edges = intervals::rates(&jobs, of, run.measured_ns, width_ns);
        let last = edges.len().saturating_sub(1);
        let columns: Vec<Column> = edges
            .iter()
            .enumerate()
            .map(|(at, edge)| {
                let latency = intervals::latency(&jobs, of, width_ns, at, at == last);
                (edge.start_ns, edge.end_ns, latency.midpoints().collect())
            })
            .collect();
        let cells = cells(&columns);
        (!cells.is_empty()).then_some((of.0, cells))
    });
    let maps: Vec<(&str, Vec<Cell>)> = maps.collect();
    let all = || maps.iter().flat_map(|(_, cells)| cells);
    let x = Scale::fit(Kind::Time, all().flat_map(|cell| [0.0, cell.x.1]))?;
    let y = Scale::fit(Kind::Log10, all().flat_map(|cell| [cell.y.0, cell.y.1]))?;
    let most = all().map(|cell| cell.value).fold(10.0, f64::max);
    let scale = Scale::fit(Kind::Log10, [1.0, most])?;
    let panel = |(name, cells): &(&str, Vec<Cell>)| Panel {
        title: format!("{name} requests"),
        x: Axis::new("time since the start of measurement", Quantity::Time, x),
        y: Axis::new("latency (log)", Quantity::Latency, y),
        marks: Marks::Heat(HeatMap {
            title: "requests".into(),
            quantity: Quantity::Count,
            scale,
            cells: cells.clone(),
            missing: Vec::new(),
            numbered: false,
        }),
        height: 190.0,
    };
    Ok(Figure {
        title: "All latencies over time".into(),
        subtitle: subject.into(),
        arrangement: Arrangement::Stacked,
        panels: maps.iter().map(panel).collect(),
        notes: vec!["A row is a tenth of a decade high; white: none.".into()],
    })
}

/// Start and end, ns, and the latencies with their counts.
type Column = (u64, u64, Vec<(u64, u64)>);

fn cells(columns: &[Column]) -> Vec<Cell> {
    let merged = columns.len().div_ceil(COLUMNS).max(1);
    let mut cells = Vec::new();
    for group in columns.chunks(merged) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let x = (first.0 as f64, last.1 as f64);
        let mut rows: BTreeMap<i32, u64> = BTreeMap::new();
        for (ns, count) in group.iter().flat_map(|(.., latencies)| latencies) {
            let row = ((*ns).max(1) as f64).log10() * ROWS_PER_DECADE;
            *rows.entry(row.floor() as i32).or_default() += count;
        }
        cells.extend(rows.into_iter().map(|(row, count)| {
            let edge = |row: i32| 10f64.powf(f64::from(row) / ROWS_PER_DECADE);
            let y = (edge(row), edge(row + 1));
            let hover = format!(
                "at {}, {} to {}: {} requests",
                duration::span(first.0),
                duration::latency(y.0),
                duration::latency(y.1),
                count::thousands(count)
            );
            Cell { x, y, value: count as f64, hover }
        }));
    }
    cells
}
