//! Places on a device that the program read and wrote.

use std::collections::BTreeMap;

use super::Drawn;
use super::pool::{in_file_name, subject};
use crate::chart::{
    Axis, Cell, ChartError, Curve, Figure, HeatMap, Kind, Marks, Panel, Plot, Quantity, Scale,
    Style,
};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{Chunk, Places};
use iosonde_model::units::bytes;
use iosonde_model::units::count::{percent, thousands};

/// Most columns of a map.
const COLUMNS: u64 = 160;
/// The rows with their names, the lowest first.
const ROWS: [(&str, Requests); 2] =
    [("writes", |chunk| chunk.writes), ("reads", |chunk| chunk.reads)];

/// Share of the requests in a close-up map.
const MOST: f64 = 0.9;
/// A close-up map is drawn if it covers less than this fraction (1/n) of the whole map.
const CLOSER: u64 = 4;

/// Selects the requests that a row counts.
type Requests = fn(&Chunk) -> u64;

/// The map of each device, and a close-up if most requests are in a small part of it.
pub(super) fn places(run: &ProfileRun) -> Result<Vec<Drawn>, ChartError> {
    let mut drawn = Vec::new();
    for places in run.places.iter().filter(|places| busy(places)) {
        let device = &places.device;
        let close = closer(places);
        let maps: Vec<&Places> = [Some(places), close.as_ref()].into_iter().flatten().collect();
        let cells: Vec<Vec<Cell>> =
            maps.iter().map(|places| cells(places, Value::Requests, 0)).collect();
        let most = cells.iter().flatten().map(|cell| cell.value).fold(10.0, f64::max);
        let darkness = Scale::fit(Kind::Log10, [1.0, most])?;
        let titles =
            ["From the first place that was touched to the last", "Where most requests are"];
        let mut panels = Vec::new();
        for ((places, cells), title) in maps.iter().zip(cells).zip(titles) {
            let axis = Axis::new("place on the device", Quantity::Bytes, extent(cells.iter())?);
            let title = format!(
                "{title}; a column is {}",
                bytes::rough(merged(places).saturating_mul(places.chunk_bytes))
            );
            panels.push(panel(&title, axis, heat(cells, Value::Requests, darkness)));
        }
        let mut notes = vec!["White: no request.".into()];
        if places.lost_bytes > 0 {
            notes.push(format!("Not in it: {}.", bytes::rough(places.lost_bytes)));
        }
        let figure = Figure::stacked(format!("Places on {device}"), subject(run), panels);
        drawn.push((format!("places-{}", in_file_name(device)), Figure { notes, ..figure }));
    }
    Ok(drawn)
}

/// The shortest part of the device that holds [`MOST`] of the requests, if it is short enough for a
/// close-up.
fn closer(places: &Places) -> Option<Places> {
    let mut chunks = places.chunks.clone();
    chunks.sort_by_key(|chunk| chunk.number);
    let enough = total(places) as f64 * MOST;
    let (mut start, mut held) = (0, 0);
    let mut shortest: Option<(u64, usize, usize)> = None;
    for (end, chunk) in chunks.iter().enumerate() {
        held += requests(chunk);
        while (held - requests(&chunks[start])) as f64 >= enough {
            held -= requests(&chunks[start]);
            start += 1;
        }
        let span = chunk.number - chunks[start].number;
        if held as f64 >= enough && shortest.is_none_or(|(known, ..)| span < known) {
            shortest = Some((span, start, end));
        }
    }
    let (span, start, end) = shortest?;
    let whole = chunks.last()?.number - chunks.first()?.number;
    let part = chunks[start..=end].to_vec();
    (span < whole / CLOSER).then(|| Places { chunks: part, ..places.clone() })
}

/// Maps of the busiest device of each run, from its first place on, and the share of requests in
/// the busiest places; `None` if either run has no requests.
pub(super) fn compared(
    recorded: &ProfileRun,
    regenerated: &ProfileRun,
    looks: [(&str, Style); 2],
) -> Result<Option<Vec<Panel>>, ChartError> {
    let (Some(one), Some(other)) = (busiest(recorded), busiest(regenerated)) else {
        return Ok(None);
    };
    let maps = [one, other].map(|places| cells(places, Value::Share, first(places)));
    let both = || maps.iter().flatten();
    let (x, darkness) = (extent(both())?, Scale::fit(Kind::Log10, both().map(|cell| cell.value))?);
    let axis = Axis::new("place, from the first that was touched", Quantity::Bytes, x);
    let mut panels: Vec<Panel> = maps
        .iter()
        .zip(looks)
        .map(|(cells, (name, _))| {
            panel(name, axis.clone(), heat(cells.clone(), Value::Share, darkness))
        })
        .collect();
    panels.push(concentration([one, other], looks)?);
    Ok(Some(panels))
}

/// Share of the requests in the busiest places, over the total size of these places.
fn concentration(both: [&Places; 2], looks: [(&str, Style); 2]) -> Result<Panel, ChartError> {
    let curves = both.into_iter().zip(looks).map(|(places, (name, style))| {
        let mut busiest: Vec<u64> = places.chunks.iter().map(requests).collect();
        busiest.sort_unstable_by(|a, b| b.cmp(a));
        let (all, mut held) = (total(places) as f64, 0);
        let step = |(index, requests): (usize, u64)| {
            held += requests;
            ((index + 1) as f64 * places.chunk_bytes as f64, held as f64 / all)
        };
        let points: Vec<(f64, f64)> = busiest.into_iter().enumerate().map(step).collect();
        let end = points.last().map(|(size, share)| (*size, *share, format!("{name}: all")));
        let dots = end.into_iter().collect();
        let hover = format!(
            "{name}: {} pieces of {}",
            places.chunks.len(),
            bytes::exact(places.chunk_bytes)
        );
        Curve { dots, hover, ..Curve::new(name, style, vec![points]) }
    });
    let plot = Plot { curves: curves.collect(), ..Plot::default() };
    let sizes = "size of the busiest places together (logarithmic)";
    let x = Axis::fit(sizes, Quantity::Bytes, Kind::Log2, plot.xs())?;
    let y = Axis::whole("share of the requests")?;
    let title = "Concentration: the busiest places first, wherever they lie";
    Ok(Panel::new(title, x, y, Marks::Plot(plot), 200.0))
}

/// Value shown by the darkness of a cell.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Value {
    Requests,
    /// Share of all requests in the map.
    Share,
}

fn busy(places: &Places) -> bool {
    places.chunk_bytes > 0 && total(places) > 0
}

fn busiest(run: &ProfileRun) -> Option<&Places> {
    run.places.iter().filter(|places| busy(places)).max_by_key(|places| total(places))
}

fn total(places: &Places) -> u64 {
    places.chunks.iter().map(requests).sum()
}

fn requests(chunk: &Chunk) -> u64 {
    chunk.reads + chunk.writes
}

fn first(places: &Places) -> u64 {
    places.chunks.iter().map(|chunk| chunk.number).min().unwrap_or(0)
}

/// Number of chunks in a column.
fn merged(places: &Places) -> u64 {
    let last = places.chunks.iter().map(|chunk| chunk.number).max().unwrap_or(0);
    ((last - first(places)) / COLUMNS).saturating_add(1)
}

/// One cell for each column and row with requests; chunk `origin` is at zero.
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
                "{name} from {} on: {} requests, {}",
                bytes::rough(at),
                thousands(requests),
                percent(share)
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

/// Scale from the first column to the last.
fn extent<'a>(cells: impl Iterator<Item = &'a Cell>) -> Result<Scale, ChartError> {
    Scale::fit(Kind::Binary, cells.flat_map(|cell| [cell.x.0, cell.x.1]))
}

fn heat(cells: Vec<Cell>, value: Value, scale: Scale) -> HeatMap {
    let (title, quantity) = match value {
        Value::Requests => ("requests", Quantity::Count),
        Value::Share => ("share", Quantity::Share),
    };
    let title = title.into();
    HeatMap { title, quantity, scale, cells, missing: Vec::new(), numbered: false }
}

fn panel(title: &str, x: Axis, map: HeatMap) -> Panel {
    let y = Axis::names("", ROWS.iter().map(|(name, _)| (*name).into()).collect());
    Panel::new(title, x, y, Marks::Heat(map), 110.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn touched(chunks: &[(u64, u64)]) -> Places {
        let chunk = |(number, reads): &(u64, u64)| Chunk {
            number: *number,
            reads: *reads,
            ..Chunk::default()
        };
        let chunks = chunks.iter().map(chunk).collect();
        Places { chunk_bytes: 1 << 20, chunks, ..Places::default() }
    }

    #[test]
    fn a_closer_map_shows_the_shortest_part_with_most_requests() {
        let places = touched(&[(0, 1), (500, 40), (501, 30), (502, 28), (2_000, 1)]);
        let close = closer(&places).unwrap();
        let numbers: Vec<u64> = close.chunks.iter().map(|chunk| chunk.number).collect();
        assert_eq!(numbers, [500, 501, 502]);
        assert_eq!(closer(&touched(&[(0, 50), (1_000, 50)])), None, "no part is a small one");
        assert_eq!(closer(&touched(&[(7, 50)])), None);
    }

    #[test]
    fn concentration_does_not_depend_on_where_the_places_lie() {
        let looks = [("a", crate::chart::style(0)), ("b", crate::chart::style(1))];
        let near = touched(&[(1, 10), (2, 90)]);
        let far = touched(&[(1, 90), (9_000, 10)]);
        let panel = concentration([&near, &far], looks).unwrap();
        let Marks::Plot(Plot { curves, .. }) = panel.marks else { panic!("no curves") };
        assert_eq!(curves[0].parts, curves[1].parts);
        assert_eq!(curves[0].parts[0], [(1048576.0, 0.9), (2097152.0, 1.0)]);
    }
}
