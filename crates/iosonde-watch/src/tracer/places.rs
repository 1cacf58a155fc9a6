//! Accessed places on disks, from the kernel's sample.

use std::collections::BTreeMap;

use iosonde_bpf::layout::{BLOCK_BYTES, CHUNK_BYTES};
use iosonde_bpf::major_minor;

use super::Tracer;
use iosonde_model::record::profile::{Chunk, Places};

impl Tracer {
    /// Removes chunks that left the sample when the kernel reduced it.
    pub(super) fn thin_places(&mut self) -> Result<(), String> {
        let sampling = self.collector.sampling()?;
        if sampling.chunk_shift > self.chunk_shift {
            self.chunk_shift = sampling.chunk_shift;
            self.collector.forget_chunks(&sampling)?;
        }
        Ok(())
    }

    /// Every disk with the chunks that are in the sample.
    pub(super) fn places(&mut self, lost_bytes: u64) -> Vec<Places> {
        let mut by_disk: BTreeMap<u32, Vec<Chunk>> = BTreeMap::new();
        let sampling = self.collector.sampling().unwrap_or_default();
        let chunks = self.collector.chunks().unwrap_or_default();
        for (key, chunk) in chunks.into_iter().filter(|(key, _)| sampling.keeps(key.number)) {
            let kept = sampling.kept_blocks(key.number);
            let ones = |words: [u64; 4]| {
                let each = words.iter().zip(kept).map(|(word, kept)| (word & kept).count_ones());
                each.sum::<u32>() << sampling.block_shift
            };
            let both: [u64; 4] = std::array::from_fn(|at| chunk.read[at] | chunk.written[at]);
            by_disk.entry(key.disk).or_default().push(Chunk {
                number: key.number,
                reads: chunk.reads,
                writes: chunk.writes,
                read_blocks: ones(chunk.read),
                written_blocks: ones(chunk.written),
                touched_blocks: ones(both),
                block_writes: chunk.block_writes,
                overwrites: chunk.overwrites,
            });
        }
        let each = by_disk.into_iter().map(|(disk, mut chunks)| {
            chunks.sort_by_key(|chunk| chunk.number);
            Places {
                device: self.disks.name(major_minor(disk)),
                chunk_bytes: CHUNK_BYTES,
                block_bytes: BLOCK_BYTES,
                chunks,
                block_shift: sampling.block_shift,
                chunk_shift: sampling.chunk_shift,
                // All disks share one table, so each reports the total loss.
                lost_bytes,
            }
        });
        each.collect()
    }
}
