//! The known parts of a device, as disjoint ranges of offsets.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges, none of which touches another.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    /// End by start.
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds a range, and joins it with those that it touches.
    pub(super) fn insert(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        while let Some((from, to)) = self.last_from(end).filter(|(_, to)| *to >= start) {
            self.ends.remove(&from);
            start = start.min(from);
            end = end.max(to);
        }
        self.ends.insert(start, end);
    }

    /// The last range that begins at or before an offset.
    fn last_from(&self, offset: u64) -> Option<(u64, u64)> {
        self.ends.range(..=offset).next_back().map(|(start, end)| (*start, *end))
    }

    /// Each range, ascending.
    pub(super) fn all(&self) -> impl Iterator<Item = Range<u64>> {
        self.ends.iter().map(|(start, end)| *start..*end)
    }

    /// Sum of the lengths.
    pub(super) fn bytes(&self) -> u64 {
        self.ends.iter().map(|(start, end)| end - start).sum()
    }

    /// The first part of `from..to` that lies in no range.
    pub(super) fn next_gap(&self, from: u64, to: u64) -> Option<Range<u64>> {
        let start = match self.last_from(from) {
            Some((_, end)) if end > from => end,
            _ => from,
        };
        let next = self.ends.range(start..).next().map_or(to, |(next, _)| *next);
        let end = next.min(to);
        (start < end).then_some(start..end)
    }

    /// The parts of `within` that lie in no range.
    pub(super) fn gaps(&self, within: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = within.start;
        while let Some(gap) = self.next_gap(at, within.end) {
            at = gap.end;
            gaps.push(gap);
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_agree_with_a_map_of_every_byte() {
        let mut chance = iosonde_model::plan::chance::Chance::new(1);
        for _ in 0..200 {
            let (mut ranges, mut bytes) = (Ranges::default(), [false; 64]);
            for _ in 0..12 {
                let start = chance.below(60);
                let end = (start + chance.below(9)).min(64);
                ranges.insert(start..end);
                bytes[start as usize..end as usize].fill(true);
                assert_eq!(ranges.bytes(), bytes.iter().filter(|known| **known).count() as u64);
                let mut gaps = [true; 64];
                for gap in ranges.gaps(0..64) {
                    gaps[gap.start as usize..gap.end as usize].fill(false);
                }
                assert_eq!(gaps, bytes);
                let first = (0..64).find(|at| !bytes[*at as usize]);
                assert_eq!(ranges.next_gap(0, 64).map(|gap| gap.start), first);
            }
        }
    }
}
