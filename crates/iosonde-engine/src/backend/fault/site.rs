//! Region and grid in which a fault strikes.

use iosonde_model::plan::chance::Chance;

/// Region, grid and seed of a fault.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// First byte of the region that may be written.
    pub region_start: u64,
    /// Length of the region, bytes.
    pub region_bytes: u64,
    /// Size of a block, bytes, on a grid from the start of the region; not 0.
    pub block_bytes: u64,
    /// Unit that a tear does not divide, bytes; not 0, and a divisor of the block size.
    pub sector_bytes: u64,
    /// Seed of all draws.
    pub seed: u64,
    /// Replaces a block that is about to be written by a valid-looking one that was never written.
    pub forge: fn(&mut [u8]),
}

impl Site {
    /// Draws another place for a transfer: in the region, on its grid, without overlap. `None` if
    /// there is none.
    pub(super) fn elsewhere(&self, offset: u64, bytes: u64, chance: &mut Chance) -> Option<u64> {
        let (below, first_above, above) = self.choices(offset, bytes)?;
        let drawn = chance.below(below + above);
        let block = if drawn < below { drawn } else { first_above + (drawn - below) };
        Some(self.region_start + block * self.block_bytes)
    }

    /// Whether there is another place for a transfer.
    pub(super) fn has_elsewhere(&self, offset: u64, bytes: u64) -> bool {
        self.choices(offset, bytes).is_some()
    }

    /// Places below a transfer, first block above it, and number of places from there.
    fn choices(&self, offset: u64, bytes: u64) -> Option<(u64, u64, u64)> {
        let from = offset.checked_sub(self.region_start)?;
        let first = from / self.block_bytes;
        let end = (from + bytes).div_ceil(self.block_bytes);
        // A transfer that begins within a block touches one block more.
        let length = end - first;
        let below = (first + 1).saturating_sub(length);
        let blocks = self.region_bytes / self.block_bytes;
        let above = (blocks + 1).saturating_sub(length + end);
        (length > 0 && below + above > 0).then_some((below, end, above))
    }

    /// Draws how many of the first sectors of a torn write are done. Where a block has several
    /// sectors, the tear is within a block, since missing whole blocks are not torn.
    pub(super) fn tear(&self, bytes: u64, chance: &mut Chance) -> u64 {
        let (sectors, per_block) = (self.sectors(bytes), self.block_bytes / self.sector_bytes);
        let mut drawn = 1 + chance.below(sectors - 1);
        if per_block > 1 && drawn.is_multiple_of(per_block) {
            drawn -= 1 + chance.below(per_block - 1);
        }
        drawn
    }

    /// Sectors of a transfer, a partial last one included.
    pub(super) fn sectors(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.sector_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn site(blocks: u64) -> Site {
        Site {
            region_start: 12_288,
            region_bytes: blocks * 4096,
            block_bytes: 4096,
            sector_bytes: 512,
            seed: 1,
            forge: |_| {},
        }
    }

    #[test]
    fn every_other_place_is_drawn_and_the_right_one_never() {
        for (blocks, block, length) in [(8, 3, 1), (8, 0, 2), (8, 7, 1), (9, 3, 3), (2, 0, 1)] {
            let mut chance = Chance::new(7);
            let mut seen = BTreeSet::new();
            for _ in 0..1000 {
                let offset = 12_288 + block * 4096;
                let elsewhere = site(blocks).elsewhere(offset, length * 4096, &mut chance);
                seen.insert((elsewhere.unwrap_or(0) - 12_288) / 4096);
            }
            let apart = |at: &u64| at + length <= block || *at >= block + length;
            let expected: BTreeSet<u64> = (0..=blocks - length).filter(apart).collect();
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn where_there_is_no_other_place_none_is_given() {
        assert!(!site(1).has_elsewhere(12_288, 4096));
        assert!(!site(5).has_elsewhere(12_288 + 4096, 3 * 4096));
        assert!(!site(5).has_elsewhere(0, 4096));
        // The tail of one block and the head of the next touch two blocks.
        assert!(!site(3).has_elsewhere(12_288 + 512, 4096));
        assert!(site(4).has_elsewhere(12_288 + 512, 4096));
    }

    #[test]
    fn a_tear_is_within_a_block() {
        let mut chance = Chance::new(3);
        let mut seen = BTreeSet::new();
        for _ in 0..2000 {
            let sectors = site(8).tear(3 * 4096, &mut chance);
            assert!((1..24).contains(&sectors) && !sectors.is_multiple_of(8), "{sectors}");
            seen.insert(sectors);
        }
        assert_eq!(seen.len(), 21);
        let coarse = Site { sector_bytes: 4096, ..site(8) };
        assert_eq!(coarse.tear(8192, &mut chance), 1);
    }
}
