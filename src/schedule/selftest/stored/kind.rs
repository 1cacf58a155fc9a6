//! Which faults there are in what is stored.

/// What was done to sectors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Move {
    /// Two pieces exchange their places.
    Swapped,
    /// One piece stands at the place of another, too.
    Copied,
    /// A row of sectors stands some sectors too early or too late.
    Shifted,
}

/// Over which borders.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reach {
    /// Within one block.
    Block,
    /// Between blocks of one job, and of whole blocks.
    Blocks,
    /// Between the regions of two jobs.
    Jobs,
}

/// A fault in what is stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StoredFault {
    /// Sectors stand at the place of others.
    Moved(Move, Reach),
    /// The last sectors of a block are older, zeros, or of another run.
    Tear,
    /// One bit is another.
    Bit,
    /// Blocks are those before the last write.
    Older,
    /// Blocks are zeros.
    Zeros,
    /// Blocks are of another run, and right otherwise.
    OtherRun,
    /// A block of a generation that nobody has written.
    Newer,
    /// A sector is of blocks of another length, and right otherwise.
    OtherShape,
    /// A block is still there that was trimmed.
    Untrimmed,
    /// Where jobs share a region: what a job wrote before what it wrote last, among the writes that
    /// were under way together.
    Superseded,
}

use Move::{Copied, Shifted, Swapped};
use StoredFault::Moved;

/// Every fault with its name, and what must come of it in words.
const WORDS: [(StoredFault, &str, &str); 18] = [
    (Moved(Swapped, Reach::Block), "swap-in-block", "swapped"),
    (Moved(Swapped, Reach::Blocks), "swap-blocks", "misdirected"),
    (Moved(Swapped, Reach::Jobs), "swap-jobs", "misdirected"),
    (Moved(Copied, Reach::Block), "copy-in-block", "duplicated"),
    (Moved(Copied, Reach::Blocks), "copy-blocks", "misdirected"),
    (Moved(Copied, Reach::Jobs), "copy-jobs", "misdirected"),
    (Moved(Shifted, Reach::Block), "shift-in-block", "shifted; a copy where it is short"),
    (Moved(Shifted, Reach::Blocks), "shift-blocks", "shifted or misdirected"),
    (Moved(Shifted, Reach::Jobs), "shift-jobs", "shifted or misdirected"),
    (StoredFault::Tear, "tear-stored", "torn"),
    (StoredFault::Bit, "bit-stored", "bit-flip"),
    (StoredFault::Older, "older-stored", "stale"),
    (StoredFault::Zeros, "zeros-stored", "lost"),
    (StoredFault::OtherRun, "other-run", "old-run"),
    (StoredFault::Newer, "newer-stored", "phantom"),
    (StoredFault::OtherShape, "other-shape", "torn; old-run where it is the whole"),
    (StoredFault::Untrimmed, "untrimmed", "stale"),
    (StoredFault::Superseded, "superseded", "stale"),
];

impl StoredFault {
    /// All of them.
    pub fn all() -> impl Iterator<Item = StoredFault> {
        WORDS.into_iter().map(|(fault, ..)| fault)
    }

    /// Its name.
    pub fn word(self) -> &'static str {
        self.row().1
    }

    /// What must come of it, in words.
    pub fn expected(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> (StoredFault, &'static str, &'static str) {
        WORDS.into_iter().find(|(fault, ..)| *fault == self).unwrap_or(WORDS[0])
    }

    /// Whether it needs blocks of more than one sector.
    pub(super) fn is_within_a_block(self) -> bool {
        matches!(self, Moved(_, Reach::Block) | StoredFault::Tear)
    }
}
