//! Where a program reads and writes: working set, overwrites, skew.

use serde::Serialize;

use iosonde_model::record::profile::{Chunk, Places};

use super::traffic::share;

/// Share of the chunks that counts as the hottest, as in the Pareto rule.
const HOT: f64 = 0.20;
/// Fewest chunks for which a fifth is a whole chunk.
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
    /// Share of the accesses that fall on the hottest fifth of the chunks touched, corrected for
    /// chance; 0.2 is even.
    #[serde(rename = "hottest_fifth_share")]
    pub hot_share: Option<f64>,
    /// Chunks touched.
    pub chunks: u64,
    /// One of this many blocks was sampled, and the figures are estimates; 1 if all were.
    pub one_block_in: u64,
    /// Size of a chunk, bytes.
    pub chunk_bytes: u64,
    /// Distance from the first chunk touched to the end of the last, bytes.
    pub span_bytes: u64,
    /// Bytes of requests whose offset was not recorded.
    pub lost_bytes: u64,
}

/// The figures of the offsets on a device.
pub(super) fn places(places: &Places) -> PlaceFigures {
    let chunks = &places.chunks;
    let blocks = |of: fn(&Chunk) -> u32| {
        let listed: u64 = chunks.iter().map(|chunk| u64::from(of(chunk))).sum();
        (listed << places.chunk_shift) * places.block_bytes
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
            .map(|chunk| chunk.block_writes << places.chunk_shift)
            .sum::<u64>()
            .saturating_mul(places.block_bytes),
        overwrite_share: share(
            chunks.iter().map(|chunk| chunk.overwrites).sum(),
            chunks.iter().map(|chunk| chunk.block_writes).sum(),
        ),
        hot_share: hot_share(chunks, (1u64 << places.block_shift) as f64),
        chunks: (chunks.len() as u64) << places.chunk_shift,
        one_block_in: 1 << (places.block_shift + places.chunk_shift),
        chunk_bytes: places.chunk_bytes,
        span_bytes: span.saturating_mul(places.chunk_bytes),
        lost_bytes: places.lost_bytes,
    }
}

/// Share of the hottest chunks, corrected for chance. Counts of independent accesses have a
/// variance equal to their mean; in a sample, `weight` times that. Only the variance beyond it is
/// due to the chunks.
fn hot_share(chunks: &[Chunk], weight: f64) -> Option<f64> {
    if chunks.len() < CHUNKS_FOR_SKEW {
        return None;
    }
    let mut accesses: Vec<u64> = chunks.iter().map(|chunk| chunk.reads + chunk.writes).collect();
    accesses.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    let hot = (chunks.len() as f64 * HOT).round() as usize;
    let found = share(accesses.iter().take(hot).sum(), accesses.iter().sum())?;
    let mean = accesses.iter().sum::<u64>() as f64 / accesses.len() as f64;
    let squares = accesses.iter().map(|count| (*count as f64 - mean).powi(2)).sum::<f64>();
    let variance = squares / (accesses.len() - 1) as f64;
    let even = hot as f64 / accesses.len() as f64;
    let own = if variance > 0.0 { (1.0 - weight * mean / variance).max(0.0).sqrt() } else { 0.0 };
    Some(even + (found - even) * own)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_sample_stands_for_what_was_left_out() {
        let given = Places {
            device: "vda".into(),
            chunk_bytes: 1 << 20,
            block_bytes: 4096,
            chunks: (0..64).map(|number| chunk(number * 4, 8)).collect(),
            block_shift: 3,
            chunk_shift: 2,
            ..Places::default()
        };
        let figures = places(&given);
        assert_eq!((figures.chunks, figures.one_block_in), (256, 32));
        assert_eq!(figures.working_set_bytes, 256 * 10 * 4096);
    }

    #[test]
    fn uniform_accesses_have_no_hottest_fifth() {
        // Counts of a Poisson process of mean 8, by inversion of its distribution.
        let poisson = |at: u64| {
            let wanted = (at as f64 + 0.5) / 500.0;
            let (mut count, mut term) = (0u64, (-8.0f64).exp());
            let mut sum = term;
            while sum < wanted {
                count += 1;
                term *= 8.0 / count as f64;
                sum += term;
            }
            count
        };
        let mut given = Places {
            chunk_bytes: 1 << 20,
            block_bytes: 4096,
            chunks: (0..500).map(|at| chunk(at, poisson(at))).collect(),
            ..Places::default()
        };
        let hot = places(&given).hot_share.unwrap();
        assert!((0.2..0.22).contains(&hot), "{hot}");
        // Each access counts eight times: a one-in-eight sample of uniform accesses.
        given.block_shift = 3;
        for chunk in &mut given.chunks {
            chunk.reads *= 8;
        }
        let hot = places(&given).hot_share.unwrap();
        assert!((0.2..0.22).contains(&hot), "{hot}");
    }

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
            ..Places::default()
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
        let hot = places(&given).hot_share.unwrap();
        assert!((0.91..0.92).contains(&hot), "{hot}");
        given.chunks.truncate(4);
        assert_eq!(places(&given).hot_share, None);
    }
}
