//! Where a program reads and writes: working set, overwrites, skew.

use serde::Serialize;

use iosonde_model::record::profile::{Chunk, Places};

use super::traffic::share;

/// Share of the chunks that counts as the hottest, as in the rule of Pareto.
const HOT: f64 = 0.20;
/// Fewest chunks of which a fifth is a whole chunk.
const CHUNKS_FOR_SKEW: usize = 5;

/// Access pattern on one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlaceFigures {
    /// Kernel name of the whole disk.
    pub device: String,
    /// Granularity of block tracking, bytes.
    pub block_bytes: u64,
    /// Bytes of distinct blocks read or written.
    pub working_set_bytes: u64,
    /// Bytes of distinct blocks read.
    pub read_set_bytes: u64,
    /// Bytes of distinct blocks written.
    pub write_set_bytes: u64,
    /// Bytes of all block writes, rewrites included.
    pub written_bytes: u64,
    /// Share of the block writes that overwrite blocks written before.
    pub overwrite_share: Option<f64>,
    /// Share of the accesses that fall on the hottest fifth of the chunks touched; 0.2 is even.
    pub hot_share: Option<f64>,
    /// Chunks touched.
    pub chunks: u64,
    /// Size of a chunk, bytes.
    pub chunk_bytes: u64,
    /// From the first to the end of the last chunk touched, bytes.
    pub span_bytes: u64,
    /// Bytes of requests whose offset was not recorded.
    pub lost_bytes: u64,
}

/// The figures of the offsets on a device.
pub(super) fn places(places: &Places) -> PlaceFigures {
    let chunks = &places.chunks;
    let blocks = |of: fn(&Chunk) -> u32| {
        chunks.iter().map(|chunk| u64::from(of(chunk))).sum::<u64>() * places.block_bytes
    };
    let first = chunks.iter().map(|chunk| chunk.number).min();
    let last = chunks.iter().map(|chunk| chunk.number).max();
    let span = first.zip(last).map_or(0, |(first, last)| last - first + 1);
    PlaceFigures {
        device: places.device.clone(),
        block_bytes: places.block_bytes,
        working_set_bytes: blocks(|chunk| chunk.touched_blocks),
        read_set_bytes: blocks(|chunk| chunk.read_blocks),
        write_set_bytes: blocks(|chunk| chunk.written_blocks),
        written_bytes: chunks
            .iter()
            .map(|chunk| chunk.block_writes)
            .sum::<u64>()
            .saturating_mul(places.block_bytes),
        overwrite_share: share(
            chunks.iter().map(|chunk| chunk.overwrites).sum(),
            chunks.iter().map(|chunk| chunk.block_writes).sum(),
        ),
        hot_share: hot_share(chunks),
        chunks: chunks.len() as u64,
        chunk_bytes: places.chunk_bytes,
        span_bytes: span.saturating_mul(places.chunk_bytes),
        lost_bytes: places.lost_bytes,
    }
}

fn hot_share(chunks: &[Chunk]) -> Option<f64> {
    if chunks.len() < CHUNKS_FOR_SKEW {
        return None;
    }
    let mut accesses: Vec<u64> = chunks.iter().map(|chunk| chunk.reads + chunk.writes).collect();
    accesses.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    let hot = (chunks.len() as f64 * HOT).round() as usize;
    share(accesses.iter().take(hot).sum(), accesses.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(number: u64, reads: u64) -> Chunk {
        Chunk { number, reads, read_blocks: 8, touched_blocks: 10, ..Chunk::default() }
    }

    #[test]
    fn a_known_place_gives_its_figures() {
        let mut given = Places {
            device: "vda".into(),
            chunk_bytes: 1 << 20,
            block_bytes: 4096,
            chunks: (10..20).map(|number| chunk(number, 1)).collect(),
            lost_bytes: 0,
        };
        given.chunks[0].block_writes = 40;
        given.chunks[0].overwrites = 30;
        let figures = places(&given);
        assert_eq!(figures.working_set_bytes, 100 * 4096);
        assert_eq!(figures.read_set_bytes, 80 * 4096);
        assert_eq!(figures.overwrite_share, Some(0.75));
        assert_eq!(figures.span_bytes, 10 << 20);
        // Even access: a fifth of the chunks has a fifth of it.
        assert_eq!(figures.hot_share, Some(0.2));
        given.chunks[3].reads = 91;
        assert_eq!(places(&given).hot_share, Some(0.92));
        given.chunks.truncate(4);
        assert_eq!(places(&given).hot_share, None);
    }
}
