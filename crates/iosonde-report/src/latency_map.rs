//! A heat map of all latencies over time, for runs and profiles.

use std::collections::BTreeMap;

use crate::chart::{Axis, Cell, ChartError, Figure, HeatMap, Kind, Marks, Panel, Quantity, Scale};
use iosonde_model::units::{count, duration};

/// Most columns of a map.
const COLUMNS: usize = 120;
const ROWS_PER_DECADE: f64 = 10.0;
/// A map with fewer cells than this is drawn with less height.
const SPARSE: usize = 40;

/// The requests of an interval.
pub(crate) struct Column {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// Latencies, ns, with their counts.
    pub(crate) latencies: Vec<(u64, u64)>,
}

/// Latency over time, darker where there are more requests: a panel for each operation with
/// requests. `time` is the title of the time axis.
///
/// # Errors
/// If there are no requests, or no scale can hold the values.
pub(crate) fn figure<'a>(
    title: &str,
    subtitle: String,
    time: &str,
    maps: impl IntoIterator<Item = (&'a str, Vec<Column>)>,
) -> Result<Figure, ChartError> {
    let maps = maps.into_iter().map(|(name, columns)| (name, cells(&columns)));
    let maps: Vec<(&str, Vec<Cell>)> = maps.filter(|(_, cells)| !cells.is_empty()).collect();
    let width_ns = maps.first().map(|(_, cells)| cells[0].x.1 - cells[0].x.0);
    let width_ns = width_ns.ok_or(ChartError::Empty)?;
    let all = || maps.iter().flat_map(|(_, cells)| cells);
    let ends = all().flat_map(|cell| [0.0, cell.x.1]);
    let x = Axis::fit(time, Quantity::Time, Kind::Time, ends)?;
    let ends = all().flat_map(|cell| [cell.y.0, cell.y.1]);
    let y = Axis::fit("latency (log)", Quantity::Latency, Kind::Log10, ends)?;
    let most = all().map(|cell| cell.value).fold(10.0, f64::max);
    let scale = Scale::fit(Kind::Log10, [1.0, most])?;
    let panel = |(name, cells): &(&str, Vec<Cell>)| Panel {
        title: format!("{name} requests"),
        x: x.clone(),
        y: y.clone(),
        marks: Marks::Heat(HeatMap {
            title: "requests".into(),
            quantity: Quantity::Count,
            scale,
            cells: cells.clone(),
            missing: Vec::new(),
            numbered: false,
        }),
        height: if cells.len() < SPARSE { 110.0 } else { 190.0 },
    };
    let note = format!(
        "A column is {} wide, a row a tenth of a decade high; white: none.",
        duration::latency(width_ns)
    );
    let figure = Figure::stacked(title, subtitle, maps.iter().map(panel).collect());
    Ok(Figure { notes: vec![note], ..figure })
}

/// Request counts by time and latency, in at most `COLUMNS` columns.
fn cells(columns: &[Column]) -> Vec<Cell> {
    let merged = columns.len().div_ceil(COLUMNS).max(1);
    let mut cells = Vec::new();
    for group in columns.chunks(merged) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let x = (first.start_ns as f64, last.end_ns as f64);
        let mut rows: BTreeMap<i32, u64> = BTreeMap::new();
        for (ns, count) in group.iter().flat_map(|column| &column.latencies) {
            let row = ((*ns).max(1) as f64).log10() * ROWS_PER_DECADE;
            *rows.entry(row.floor() as i32).or_default() += count;
        }
        cells.extend(rows.into_iter().map(|(row, count)| {
            let edge = |row: i32| 10f64.powf(f64::from(row) / ROWS_PER_DECADE);
            let y = (edge(row), edge(row + 1));
            let hover = format!(
                "at {}, {} to {}: {} requests",
                duration::span(first.start_ns),
                duration::latency(y.0),
                duration::latency(y.1),
                count::thousands(count)
            );
            Cell { x, y, value: count as f64, hover }
        }));
    }
    cells
}
