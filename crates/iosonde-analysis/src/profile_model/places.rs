//! Regions of the roles of a device, as large as the touched bytes, with hot and cold zones.

use super::rows::Row;
use super::sizes::{self, rounded};
use iosonde_model::record::profile::{Chunk, Class, Op, Places, ProfileRun};
use iosonde_model::spec::{Access, Zone};
use iosonde_model::units::bytes;

/// Regions begin and end on multiples of this, bytes.
const GRID_BYTES: u64 = 4096;
/// Bytes transferred over bytes touched at or below which nothing was touched twice.
const ONCE: f64 = 1.05;
/// Largest ratio of a region for uniform draws to the touched bytes.
const MOST_GROWTH: f64 = 4.0;
/// Difference between the share of accesses and the share of blocks at or above which accesses are
/// skewed, beyond the effect of chance.
const SKEW: f64 = 0.15;
/// Largest region of a journal, bytes: its position is not recorded.
const JOURNAL_BYTES: u64 = 64 << 20;
/// Largest ratio of the mean request to the commonest size at which an aligned permutation touches
/// as much as the requests move.
const FITS: f64 = 1.2;
/// Largest number of zones.
const MOST_ZONES: usize = 8;

/// The regions of the roles of one device.
pub(super) struct Layout {
    /// Each row with its region.
    places: Vec<(Row, Place)>,
    /// Bytes required of a target.
    pub(super) whole_bytes: u64,
    /// Remarks on what is unknown.
    pub(super) remarks: Vec<String>,
}

/// Whether a row is traffic of the file system.
fn is_journal(row: &Row) -> bool {
    row.class == Class::Journal
}

/// The region of a role.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// The distribution of its random offsets.
    pub(super) access: Access,
}

/// All rows of one direction.
struct Direction<'a> {
    rows: Vec<&'a Row>,
    /// Bytes touched.
    touched: f64,
    /// Size of the region as a multiple of the touched bytes.
    growth: f64,
    access: Access,
}

impl Layout {
    /// Places writes at the beginning, and reads so that both share the bytes touched by both.
    pub(super) fn new(run: &ProfileRun, device: &str, rows: &[Row]) -> Layout {
        let seen = run.places.iter().find(|places| places.device == device);
        let of = |op: Op| -> Vec<&Row> {
            let here = |row: &&Row| row.device == device && row.op == op && !is_journal(row);
            rows.iter().filter(here).collect()
        };
        let mut remarks = Vec::new();
        if seen.is_none() {
            remarks.push(format!(
                "offsets on {device} were not recorded: each region is as long as the bytes \
                 transferred"
            ));
        }
        if let Some(places) = seen.filter(|places| places.lost_bytes > 0) {
            remarks.push(format!(
                "{} on {device} did not fit in the profiler's table; regions are scaled up",
                bytes::rough(places.lost_bytes)
            ));
        }
        let chunk_bytes = seen.map_or(GRID_BYTES, |places| places.chunk_bytes).max(GRID_BYTES);
        let device_bytes = device_bytes(run, device);
        let journals = || rows.iter().filter(|row| row.device == device && is_journal(row));
        let of_journals: u64 = journals().map(|row| journal_bytes(row, chunk_bytes)).sum();
        let room = device_bytes.saturating_sub(of_journals) / chunk_bytes * chunk_bytes;
        let mut reads =
            Direction::new(of(Op::Read), seen, |chunk| (chunk.read_blocks, chunk.reads));
        let mut writes =
            Direction::new(of(Op::Write), seen, |chunk| (chunk.written_blocks, chunk.writes));
        // A device of the same size must be large enough.
        for direction in [&mut reads, &mut writes] {
            direction.growth = direction.growth.min(room as f64 / direction.touched).max(1.0);
        }
        let mut layout = Layout { places: Vec::new(), whole_bytes: 0, remarks };
        layout.lay(&writes, 0, room);
        let end = layout.whole_bytes as f64;
        let both = shared(seen) * reads.growth.min(writes.growth);
        let wanted = reads.touched * reads.growth;
        let start = (end - both.min(wanted)).min(room as f64 - wanted).max(0.0) as u64;
        layout.lay(&reads, start / GRID_BYTES * GRID_BYTES, room);
        let discards = of(Op::Discard);
        let largest = discards.iter().map(|row| largest(row)).max().unwrap_or(0);
        layout.whole_bytes = layout.whole_bytes.max(largest);
        for row in discards {
            let bytes = layout.whole_bytes;
            layout.places.push((row.clone(), Place { offset: 0, bytes, access: Access::Uniform }));
        }
        for row in journals() {
            layout.lay_journal(row, chunk_bytes);
        }
        layout
    }

    /// Places a journal's region after all others, on separate chunks, so that a profile of the
    /// replay records its offsets separately.
    fn lay_journal(&mut self, row: &Row, chunk_bytes: u64) {
        let offset = self.whole_bytes.next_multiple_of(chunk_bytes);
        let bytes = journal_bytes(row, chunk_bytes);
        self.places.push((row.clone(), Place { offset, bytes, access: Access::Uniform }));
        self.whole_bytes = offset + bytes;
    }

    /// Places the rows of a direction one after another, each with a share of the region by its
    /// bytes and none beyond the room.
    fn lay(&mut self, direction: &Direction<'_>, start: u64, room: u64) {
        let all: f64 = direction.rows.iter().map(|row| row.bytes as f64).sum();
        let mut offset = start;
        for row in &direction.rows {
            let share = direction.touched * direction.growth * row.bytes as f64 / all.max(1.0);
            let bytes = (share as u64).max(largest(row)).next_multiple_of(GRID_BYTES);
            let access = direction.access.clone();
            offset = offset.min(room.saturating_sub(bytes));
            self.places.push(((*row).clone(), Place { offset, bytes, access }));
            offset += bytes;
        }
        self.whole_bytes = self.whole_bytes.max(offset);
    }

    /// The region of a row.
    pub(super) fn of(&self, row: &Row) -> Place {
        let found = self.places.iter().find(|(other, _)| other == row);
        found.map(|(_, place)| place.clone()).unwrap_or(Place {
            offset: 0,
            bytes: self.whole_bytes,
            access: Access::Uniform,
        })
    }
}

/// Size of the device; unlimited if unknown.
fn device_bytes(run: &ProfileRun, device: &str) -> u64 {
    let found = run.devices.iter().find(|found| found.facts.name == device);
    found.and_then(|found| found.facts.bytes).unwrap_or(u64::MAX)
}

/// Length of the region of a journal.
fn journal_bytes(row: &Row, chunk_bytes: u64) -> u64 {
    row.bytes.min(JOURNAL_BYTES).max(largest(row)).next_multiple_of(chunk_bytes)
}

/// Largest request of a row as it is regenerated, bytes.
fn largest(row: &Row) -> u64 {
    let sizes = row.sizes.iter().filter(|(_, requests)| *requests > 0).map(|(size, _)| *size);
    let most = if row.op == Op::Discard { 16 << 20 } else { 1 << 30 };
    sizes.max().unwrap_or(row.bytes / row.requests.max(1)).min(most).next_multiple_of(GRID_BYTES)
}

/// Bytes both read and written.
fn shared(seen: Option<&Places>) -> f64 {
    let Some(places) = seen else { return 0.0 };
    let both = |chunk: &Chunk| {
        (u64::from(chunk.read_blocks) + u64::from(chunk.written_blocks))
            .saturating_sub(u64::from(chunk.touched_blocks))
    };
    places.chunks.iter().map(both).sum::<u64>() as f64
        * (places.block_bytes << places.chunk_shift) as f64
}

impl<'a> Direction<'a> {
    fn new(
        rows: Vec<&'a Row>,
        seen: Option<&Places>,
        of: impl Fn(&Chunk) -> (u32, u64),
    ) -> Direction<'a> {
        let moved: f64 = rows.iter().map(|row| row.bytes as f64).sum();
        let chunks: Vec<(f64, f64)> = seen
            .iter()
            .flat_map(|places| places.chunks.iter().map(&of))
            .filter(|(blocks, hits)| *blocks > 0 && *hits > 0)
            .map(|(blocks, hits)| (f64::from(blocks), hits as f64))
            .collect();
        let block_bytes = seen.map_or(0, |places| places.block_bytes << places.chunk_shift) as f64;
        let lost = seen.map_or(0.0, |places| places.lost_bytes as f64).min(moved * 0.9);
        let found: f64 = chunks.iter().map(|(blocks, _)| blocks).sum::<f64>() * block_bytes;
        let touched = if found > 0.0 { found * moved / (moved - lost) } else { moved };
        let again = moved / touched.max(1.0);
        let random: u64 = rows.iter().map(|row| row.scattered()).sum();
        let requests = rows.iter().map(|row| row.requests).sum::<u64>();
        let is_random = random * 2 > requests;
        let blocks_each = moved / requests.max(1) as f64 / block_bytes.max(1.0);
        let zones = if is_random { zones(&chunks, blocks_each) } else { None };
        // A random request also covers the requests of the stream that follows it.
        let drawn = moved / random.max(1) as f64;
        let grid = rows.iter().map(|row| sizes::commonest(row) as f64).fold(1.0, f64::max);
        let (access, growth) = match zones {
            _ if again <= ONCE && drawn <= FITS * grid => (Access::Permutation, 1.0),
            _ if again <= ONCE && is_random => (Access::Permutation, growth(again.max(1.0))),
            _ if again <= ONCE => (Access::Permutation, 1.0),
            Some((zones, growth)) => (Access::Zoned(zones), growth),
            None if is_random => (Access::Uniform, growth(again)),
            None => (Access::Uniform, 1.0),
        };
        Direction { rows, touched, growth, access }
    }
}

/// Ratio of a region to the touched bytes at which uniform draws of `again` times the touched bytes
/// touch that many: the x with x (1 - e^(-again / x)) = 1, by bisection.
fn growth(again: f64) -> f64 {
    let touched = |x: f64| x * (1.0 - (-again / x).exp());
    let (mut low, mut high) = (1.0, MOST_GROWTH);
    if touched(high) <= 1.0 {
        return high;
    }
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if touched(middle) < 1.0 { low = middle } else { high = middle }
    }
    low
}

/// Chunks `(blocks, hits)` from hot to cold as zones, and the total size as a multiple of the
/// touched blocks; `None` if none is hotter than chance allows. Each zone has the size at which as
/// many uniform draws as were recorded touch as many blocks as were touched.
fn zones(chunks: &[(f64, f64)], blocks_each: f64) -> Option<(Vec<Zone>, f64)> {
    let mut chunks = chunks.to_vec();
    chunks.sort_by(|a, b| (b.1 / b.0).total_cmp(&(a.1 / a.0)));
    let blocks: f64 = chunks.iter().map(|(blocks, _)| blocks).sum();
    let hits: f64 = chunks.iter().map(|(_, hits)| hits).sum();
    let (mut size, mut access, mut skew) = (0.0, 0.0, 0.0f64);
    let mut edges: Vec<(f64, f64)> = Vec::new();
    for (at, (of_blocks, of_hits)) in chunks.iter().enumerate() {
        size += of_blocks / blocks;
        access += of_hits / hits;
        skew = skew.max(access - size);
        let next = (edges.len() + 1) as f64 / MOST_ZONES as f64;
        if access >= next - 1e-9 && edges.len() + 1 < MOST_ZONES || at + 1 == chunks.len() {
            edges.push((size, access));
        }
    }
    let by_chance = 0.5 / (hits / chunks.len() as f64).sqrt();
    if chunks.len() < 2 || skew < SKEW + by_chance {
        return None;
    }
    let mut before = (0.0, 0.0);
    let parts: Vec<(f64, f64)> = edges
        .into_iter()
        .map(|(size, access)| {
            let (of_size, of_access) = (size - before.0, access - before.1);
            before = (size, access);
            let again = of_access * hits * blocks_each / (of_size * blocks);
            (of_size * growth(again), of_access)
        })
        .collect();
    let grown: f64 = parts.iter().map(|(size, _)| size).sum();
    let zone = |(size, access): &(f64, f64)| Zone {
        access_percent: rounded(100.0 * access),
        size_percent: rounded(100.0 * size / grown).max(0.001),
    };
    let mut zones: Vec<Zone> = parts.iter().map(zone).collect();
    let left = |share: fn(&Zone) -> f64| 100.0 - zones.iter().map(share).sum::<f64>();
    let (of_access, of_size) = (left(|zone| zone.access_percent), left(|zone| zone.size_percent));
    let largest = zones.iter_mut().max_by(|a, b| a.size_percent.total_cmp(&b.size_percent))?;
    largest.size_percent = rounded(largest.size_percent + of_size);
    largest.access_percent = rounded(largest.access_percent + of_access).max(0.0);
    Some((zones, grown))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::rows::rows;
    use super::*;
    use iosonde_fixtures::profile_model::{chunk, profile, row};
    use iosonde_model::record::facts::DeviceFacts;
    use iosonde_model::record::profile::{Class, ProfiledDevice, Traffic};

    const MIB: u64 = 1 << 20;

    fn layout(run: &ProfileRun) -> (Layout, Vec<Row>) {
        let rows = rows(run).0;
        (Layout::new(run, "vda", &rows), rows)
    }

    fn places(chunks: Vec<Chunk>) -> Vec<Places> {
        vec![Places {
            device: "vda".into(),
            chunk_bytes: 16 * MIB,
            block_bytes: 4096,
            chunks,
            ..Places::default()
        }]
    }

    #[test]
    fn what_was_read_and_written_is_shared_and_the_rest_is_not() {
        // 4096 blocks written, 4096 read, 1024 of them both.
        let mut run = profile(vec![
            row(Class::Program, Op::Write, 4096),
            row(Class::Program, Op::Read, 4096),
        ]);
        run.places = places(vec![
            chunk(5, (0, 0), (3072, 3072)),
            Chunk { touched_blocks: 1024, ..chunk(9, (1024, 1024), (1024, 1024)) },
            chunk(11, (3072, 3072), (0, 0)),
        ]);
        let (layout, rows) = layout(&run);
        let region = |op: Op| {
            let place = layout.of(rows.iter().find(|row| row.op == op).unwrap());
            (place.offset, place.bytes, place.access)
        };
        assert_eq!(region(Op::Write), (0, 16 * MIB, Access::Permutation));
        assert_eq!(region(Op::Read), (12 * MIB, 16 * MIB, Access::Permutation));
        assert_eq!(layout.whole_bytes, 28 * MIB);
    }

    #[test]
    fn a_device_of_the_same_size_is_large_enough() {
        let small = Traffic { group: 2, ..row(Class::Program, Op::Read, 31) };
        let mut run = profile(vec![
            row(Class::Program, Op::Write, 9000),
            row(Class::Program, Op::Read, 9000),
            small,
            row(Class::Journal, Op::Write, 4096),
        ]);
        // Each direction touches 4096 blocks, 2.2 times on average; none are shared.
        run.places = places(vec![chunk(5, (0, 0), (4096, 9000)), chunk(11, (4096, 9000), (0, 0))]);
        for (mebibytes, expected) in [(200, 64), (48, 48), (32, 32)] {
            run.devices = vec![ProfiledDevice {
                facts: DeviceFacts {
                    name: "vda".into(),
                    bytes: Some(mebibytes * MIB),
                    ..DeviceFacts::default()
                },
                ..ProfiledDevice::default()
            }];
            let needed = layout(&run).0.whole_bytes;
            assert_eq!(needed / MIB, expected, "{mebibytes}: {needed}");
        }
    }

    #[test]
    fn repeated_draws_get_a_region_in_which_they_touch_as_much() {
        // Uniform draws of as many blocks as there are touch 1 - 1/e of them.
        let n: u64 = 100_000;
        let touched = (n as f64 * (1.0 - (-1.0f64).exp())) as u32;
        let mut run = profile(vec![row(Class::Program, Op::Read, n)]);
        run.places = places(vec![chunk(1, (touched, n), (0, 0))]);
        let (layout, rows) = layout(&run);
        let place = layout.of(&rows[0]);
        assert_eq!(place.access, Access::Uniform);
        let blocks = place.bytes as f64 / 4096.0;
        assert!((blocks / n as f64 - 1.0).abs() < 0.001, "{blocks}");
    }

    #[test]
    fn hot_chunks_become_zones_with_their_shares() {
        // A tenth of the blocks gets nine tenths of the reads.
        let chunks =
            (0..10).map(|n| chunk(n, (1000, if n == 3 { 81_000 } else { 1000 }), (0, 0))).collect();
        let mut run = profile(vec![row(Class::Program, Op::Read, 90_000)]);
        run.places = places(chunks);
        let (layout, rows) = layout(&run);
        let place = layout.of(&rows[0]);
        let Access::Zoned(zones) = place.access else { panic!() };
        // The hot blocks were read 81 times each. The cold ones were read once, so that uniform
        // draws need the largest growth to touch nearly as many.
        assert_eq!((zones[0].access_percent, zones[0].size_percent), (90.0, 2.703));
        assert!((place.bytes as f64 / (37_000.0 * 4096.0) - 1.0).abs() < 0.001, "{}", place.bytes);
        let sum = |share: fn(&Zone) -> f64| zones.iter().map(share).sum::<f64>();
        assert!((sum(|zone| zone.access_percent) - 100.0).abs() < 1e-6);
        assert!((sum(|zone| zone.size_percent) - 100.0).abs() < 1e-6);
    }

    #[test]
    fn chance_makes_no_zones() {
        let mut chance = iosonde_model::plan::chance::Chance::new(3);
        let mut hits = vec![0u64; 100];
        for _ in 0..1000 {
            hits[chance.below(100) as usize] += 1;
        }
        let chunks: Vec<(f64, f64)> = hits.iter().map(|hits| (9.0, *hits as f64)).collect();
        assert_eq!(zones(&chunks, 1.0), None);
    }

    #[test]
    fn several_groups_have_parts_of_their_own() {
        let second = Traffic { group: 2, ..row(Class::Program, Op::Write, 1000) };
        let mut run = profile(vec![row(Class::Program, Op::Write, 3000), second]);
        run.places = places(vec![chunk(1, (0, 0), (4000, 4000))]);
        let (layout, rows) = layout(&run);
        let parts: Vec<(u64, u64)> =
            rows.iter().map(|row| (layout.of(row).offset, layout.of(row).bytes)).collect();
        assert_eq!(parts, [(0, 3000 * 4096), (3000 * 4096, 1000 * 4096)]);
    }
}
