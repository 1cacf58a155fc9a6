//! Draws of operation lengths.

use super::IoKind;
use crate::plan::Job;
use crate::plan::chance::Chance;
use crate::spec::Draw;

/// The length distributions of a job's operations, by kind.
#[derive(Clone, Debug)]
pub(super) struct Lengths {
    /// The common length of all operations; 0 if lengths differ.
    pub(super) one: u32,
    /// Room in bytes that suffices for the shortest length of every kind.
    pub(super) least: u64,
    by_way: [Length; 3],
}

#[derive(Clone, Debug)]
enum Length {
    Fixed(u32),
    Range {
        low: u32,
        step: u32,
        count: u64,
    },
    /// An operation has the length of the first entry whose bound exceeds a 32-bit draw.
    Split(Box<[(u64, u32)]>),
}

impl Lengths {
    pub(super) fn new(job: &Job) -> Lengths {
        let sizes = &job.sizes;
        let by_way =
            [&sizes.read, &sizes.write, &sizes.trim].map(|draw| Length::new(draw, job.block_bytes));
        let other = if job.trims { IoKind::Trim } else { IoKind::Write };
        // A rereading job has the lengths of the writes.
        let used = match job.rereads {
            true => [(IoKind::Read, job.read_percent > 0), (IoKind::Write, true)],
            false => [(IoKind::Read, job.reads()), (other, job.changes())],
        };
        let used = used.into_iter().filter(|(_, used)| *used).map(|(way, _)| &by_way[way as usize]);
        let mut fixed = used.clone().map(|length| match length {
            Length::Fixed(bytes) => *bytes,
            _ => 0,
        });
        let first = fixed.next().unwrap_or(0);
        let one = if fixed.all(|bytes| bytes == first) { first } else { 0 };
        let least = used.map(Length::least).max().map_or(job.block_bytes, u64::from);
        Lengths { one, least, by_way }
    }

    /// Draws the length of the next operation of this kind, bytes.
    #[inline]
    pub(super) fn draw(&self, way: IoKind, chance: &mut Chance) -> u32 {
        match self.by_way.get(way as usize) {
            None => 0,
            Some(Length::Fixed(bytes)) => *bytes,
            Some(Length::Range { low, step, count }) => low + step * chance.below(*count) as u32,
            Some(Length::Split(shares)) => {
                let draw = chance.bits() >> 32;
                let share = shares.iter().find(|(below, _)| draw < *below);
                share.map_or(0, |(_, bytes)| *bytes)
            }
        }
    }
}

impl Length {
    fn least(&self) -> u32 {
        match self {
            Length::Fixed(bytes) => *bytes,
            Length::Range { low, .. } => *low,
            Length::Split(shares) => shares.iter().map(|(_, bytes)| *bytes).min().unwrap_or(0),
        }
    }

    fn new(draw: &Draw, block_bytes: u64) -> Length {
        match draw {
            Draw::Block => Length::Fixed(block_bytes as u32),
            Draw::Fixed(bytes) => Length::Fixed(*bytes as u32),
            Draw::Range { low, high, step } => Length::Range {
                low: *low as u32,
                step: *step as u32,
                count: (high - low) / step + 1,
            },
            Draw::Split(shares) => {
                let mut sum = 0.0;
                let mut bounds: Vec<(u64, u32)> = shares
                    .iter()
                    .filter(|(_, percent)| *percent > 0.0)
                    .map(|(bytes, percent)| {
                        sum += percent / 100.0;
                        ((sum * (1u64 << 32) as f64).round() as u64, *bytes as u32)
                    })
                    .collect();
                if let Some((below, _)) = bounds.last_mut() {
                    *below = 1 << 32;
                }
                Length::Split(bounds.into())
            }
        }
    }
}
