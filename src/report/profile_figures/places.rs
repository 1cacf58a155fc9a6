//! Where on a device the program read and wrote.

use std::collections::BTreeMap;

use super::Drawn;
use super::pool::{in_file_name, subject};
use crate::chart::{
    Arrangement, Axis, Cell, ChartError, Figure, HeatMap, Kind, Marks, Panel, Quantity, Scale,
};
use crate::record::ProfileRun;
use crate::record::profile::{Chunk, Places};
use crate::units::bytes;
use crate::units::count::{significant, thousands};

/// Columns of the map, at most.
const COLUMNS: u64 = 160;
/// The rows with their names, the lowest first.
const ROWS: [(&str, Requests); 2] =
    [("writes", |chunk| chunk.writes), ("reads", |chunk| chunk.reads)];

/// Those of its requests that a row counts.
type Requests = fn(&Chunk) -> u64;

/// The map of each device.
pub(super) fn places(run: &ProfileRun) -> Result<Vec<Drawn>, ChartError> {
    let mut drawn = Vec::new();
    for places in run.places.iter().filter(|places| busy(places)) {
        let cells = cells(places, Value::Requests, 0);
        let device = &places.device;
        let mut notes = vec![format!(
            "A column is {} of the device, from the first that was touched to the last. White: \
             nothing.",
            bytes::rough(width(places))
        )];
        if places.lost_bytes > 0 {
            notes.push(format!("Not in it: {}.", bytes::rough(places.lost_bytes)));
        }
        let most = cells.iter().map(|cell| cell.value).fold(10.0, f64::max);
        let darkness = Scale::fit(Kind::Log10, [1.0, most])?;
        let axis = Axis::new("place on the device", Quantity::Bytes, extent(cells.iter())?);
        let figure = Figure {
            title: format!("Places on {device}"),
            subtitle: subject(run),
            arrangement: Arrangement::Stacked,
            panels: vec![panel("", axis, heat(cells, Value::Requests, darkness))],
            notes,
        };
        drawn.push((format!("places-{}", in_file_name(device)), figure));
    }
    Ok(drawn)
}

/// The maps of the busiest devices of two runs, each from its first place on; nothing if either
/// has none.
pub(super) fn compared(
    recorded: &ProfileRun,
    regenerated: &ProfileRun,
    names: [&str; 2],
) -> Result<Option<Vec<Panel>>, ChartError> {
    let (Some(one), Some(other)) = (busiest(recorded), busiest(regenerated)) else {
        return Ok(None);
    };
    let maps = [one, other].map(|places| cells(places, Value::Share, first(places)));
    let both = || maps.iter().flatten();
    let (x, darkness) = (extent(both())?, Scale::fit(Kind::Log10, both().map(|cell| cell.value))?);
    let axis = Axis::new("place, from the first that was touched", Quantity::Bytes, x);
    let panels = maps.iter().zip(names).map(|(cells, name)| {
        panel(name, axis.clone(), heat(cells.clone(), Value::Share, darkness))
    });
    Ok(Some(panels.collect()))
}

/// What the darkness is.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Value {
    /// Requests.
    Requests,
    /// Their share of all in the map.
    Share,
}

fn busy(places: &Places) -> bool {
    places.chunk_bytes > 0 && places.chunks.iter().any(|chunk| chunk.reads + chunk.writes > 0)
}

fn busiest(run: &ProfileRun) -> Option<&Places> {
    run.places.iter().filter(|places| busy(places)).max_by_key(|places| total(places))
}

fn total(places: &Places) -> u64 {
    places.chunks.iter().map(|chunk| chunk.reads + chunk.writes).sum()
}

fn first(places: &Places) -> u64 {
    places.chunks.iter().map(|chunk| chunk.number).min().unwrap_or(0)
}

/// Chunks in a column.
fn merged(places: &Places) -> u64 {
    let last = places.chunks.iter().map(|chunk| chunk.number).max().unwrap_or(0);
    ((last - first(places)) / COLUMNS).saturating_add(1)
}

/// Width of a column, bytes.
fn width(places: &Places) -> u64 {
    merged(places).saturating_mul(places.chunk_bytes)
}

/// One cell for each column and row with requests; chunk number `origin` lies at zero.
fn cells(places: &Places, value: Value, origin: u64) -> Vec<Cell> {
    let (first, merged, all) = (first(places), merged(places), total(places) as f64);
    let mut cells = Vec::new();
    for (row, (name, requests)) in ROWS.iter().enumerate() {
        let mut columns: BTreeMap<u64, u64> = BTreeMap::new();
        for chunk in places.chunks.iter().filter(|chunk| requests(chunk) > 0) {
            *columns.entry((chunk.number - first) / merged).or_default() += requests(chunk);
        }
        let chunk_bytes = places.chunk_bytes as f64;
        let edge =
            |column: u64| ((first - origin) as f64 + column as f64 * merged as f64) * chunk_bytes;
        cells.extend(columns.into_iter().map(|(column, requests)| {
            let share = requests as f64 / all;
            let at = (first + column * merged).saturating_mul(places.chunk_bytes);
            let hover = format!(
                "{name} from {} on: {} requests, {} %",
                bytes::rough(at),
                thousands(requests),
                significant(share * 100.0)
            );
            Cell {
                x: (edge(column), edge(column + 1)),
                y: (row as f64, row as f64 + 1.0),
                value: if value == Value::Share { share } else { requests as f64 },
                hover,
            }
        }));
    }
    cells
}

/// From the first column to the last.
fn extent<'a>(cells: impl Iterator<Item = &'a Cell>) -> Result<Scale, ChartError> {
    Scale::fit(Kind::Binary, cells.flat_map(|cell| [cell.x.0, cell.x.1]))
}

fn heat(cells: Vec<Cell>, value: Value, scale: Scale) -> HeatMap {
    let (title, quantity) = match value {
        Value::Requests => ("requests", Quantity::Count),
        Value::Share => ("share", Quantity::Share),
    };
    HeatMap { title: title.into(), quantity, scale, cells }
}

fn panel(title: &str, x: Axis, map: HeatMap) -> Panel {
    Panel {
        title: title.into(),
        x,
        y: Axis::names("", ROWS.iter().map(|(name, _)| (*name).into()).collect()),
        marks: Marks::Heat(map),
        height: 110.0,
    }
}
