//! Kinds of faults in stored data.

/// How sectors were moved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Move {
    /// Two pieces were exchanged.
    Swapped,
    /// One piece was copied over another.
    Copied,
    /// A range of sectors was shifted by some sectors.
    Shifted,
}

/// Borders that a move crosses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reach {
    /// Within one block.
    Block,
    /// Between blocks of one job; also whole blocks.
    Blocks,
    /// Between the regions of two jobs.
    Jobs,
}

/// A fault in stored data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StoredFault {
    /// Sectors were moved.
    Moved(Move, Reach),
    /// The last sectors of a block are older, zeros, or of another run.
    Tear,
    /// One bit is flipped.
    Bit,
    /// Blocks have their content before the last write.
    Older,
    /// Blocks are zeros.
    Zeros,
    /// Blocks are of another run, and otherwise valid.
    OtherRun,
    /// A block has a generation that was never written.
    Newer,
    /// A sector belongs to blocks of another length, and is otherwise valid.
    OtherShape,
    /// A trimmed block still has its data.
    Untrimmed,
    /// In a region shared by jobs: of several concurrent writes, one that the same job overwrote
    /// later.
    Superseded,
}

use Move::{Copied, Shifted, Swapped};
use StoredFault::Moved;

impl StoredFault {
    /// All faults.
    pub const ALL: [StoredFault; 18] = [
        Moved(Swapped, Reach::Block),
        Moved(Swapped, Reach::Blocks),
        Moved(Swapped, Reach::Jobs),
        Moved(Copied, Reach::Block),
        Moved(Copied, Reach::Blocks),
        Moved(Copied, Reach::Jobs),
        Moved(Shifted, Reach::Block),
        Moved(Shifted, Reach::Blocks),
        Moved(Shifted, Reach::Jobs),
        StoredFault::Tear,
        StoredFault::Bit,
        StoredFault::Older,
        StoredFault::Zeros,
        StoredFault::OtherRun,
        StoredFault::Newer,
        StoredFault::OtherShape,
        StoredFault::Untrimmed,
        StoredFault::Superseded,
    ];

    /// The name of the fault.
    pub fn word(self) -> &'static str {
        self.words().0
    }

    /// The expected classification, in words.
    pub fn expected(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Moved(Swapped, Reach::Block) => ("swap-in-block", "swapped"),
            Moved(Swapped, Reach::Blocks) => ("swap-blocks", "misdirected"),
            Moved(Swapped, Reach::Jobs) => ("swap-jobs", "misdirected"),
            Moved(Copied, Reach::Block) => ("copy-in-block", "duplicated"),
            Moved(Copied, Reach::Blocks) => ("copy-blocks", "misdirected"),
            Moved(Copied, Reach::Jobs) => ("copy-jobs", "misdirected"),
            Moved(Shifted, Reach::Block) => ("shift-in-block", "shifted; a copy where it is short"),
            Moved(Shifted, Reach::Blocks) => ("shift-blocks", "shifted or misdirected"),
            Moved(Shifted, Reach::Jobs) => ("shift-jobs", "shifted or misdirected"),
            StoredFault::Tear => ("tear-stored", "torn"),
            StoredFault::Bit => ("bit-stored", "bit-flip"),
            StoredFault::Older => ("older-stored", "stale"),
            StoredFault::Zeros => ("zeros-stored", "lost"),
            StoredFault::OtherRun => ("other-run", "old-run"),
            StoredFault::Newer => ("newer-stored", "phantom"),
            StoredFault::OtherShape => ("other-shape", "torn; old-run where it is the whole"),
            StoredFault::Untrimmed => ("untrimmed", "stale"),
            StoredFault::Superseded => ("superseded", "stale"),
        }
    }

    /// Whether it needs blocks of more than one sector.
    pub(super) fn is_within_a_block(self) -> bool {
        matches!(self, Moved(_, Reach::Block) | StoredFault::Tear)
    }
}
