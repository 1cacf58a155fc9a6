//! Which parts of a block are compared? All of them: and a proof that each comparison is needed is
//! that without it the self-test fails.
//!
//! What is compared is a type, so that a comparison that is always made costs no question whether
//! it is. [`Without`] is for that proof alone: no option leads to it.

words! {
    /// A comparison between what was read and what must be there.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub enum Comparison {
        /// The first bytes of each sector.
        Magic,
        /// The checksum of each sector, which covers payload and place.
        Checksum,
        /// Version of the format, length of sector and block.
        Shape,
        /// Number of each sector within its block.
        Index,
        /// Where the block of each sector belongs.
        Offset,
        /// That all sectors are of one generation.
        Generation,
        /// The run of each sector.
        Run,
        /// That the generation is not lower than the last one that was acknowledged.
        Oldest,
        /// That the generation is not higher than the last one that was submitted.
        Newest,
        /// That nothing is there that was trimmed.
        Trimmed,
        /// That what writers of one region did at once is what one of them wrote.
        Outcomes,
    }
}

impl Comparison {
    /// The bits of a stamp that it is about: shape and index, offset, generation and run.
    const fn bits(self) -> [u64; 3] {
        const LOW: u64 = u32::MAX as u64;
        match self {
            Comparison::Shape => [LOW, 0, 0],
            Comparison::Index => [!LOW, 0, 0],
            Comparison::Offset => [0, u64::MAX, 0],
            Comparison::Generation => [0, 0, LOW],
            Comparison::Run => [0, 0, !LOW],
            _ => [0, 0, 0],
        }
    }
}

/// Which comparisons a verifier makes.
pub trait Comparisons: Clone + std::fmt::Debug + Send + 'static {
    /// The one that it does not make.
    const SKIPPED: Option<Comparison>;

    /// Whether it makes this one.
    #[inline(always)]
    fn are_made(comparison: Comparison) -> bool {
        match Self::SKIPPED {
            Some(skipped) => skipped as u8 != comparison as u8,
            None => true,
        }
    }
}

/// Every comparison is made.
#[derive(Clone, Copy, Debug)]
pub struct All;

impl Comparisons for All {
    const SKIPPED: Option<Comparison> = None;
}

/// All but the one with this number in [`Comparison::ALL`].
#[derive(Clone, Copy, Debug)]
pub struct Without<const NUMBER: usize>;

impl<const NUMBER: usize> Comparisons for Without<NUMBER> {
    const SKIPPED: Option<Comparison> = Some(Comparison::ALL[NUMBER]);
}

/// The bits of a stamp that are compared.
pub(super) const fn compared<C: Comparisons>() -> [u64; 3] {
    match C::SKIPPED {
        None => [u64::MAX; 3],
        Some(skipped) => {
            let [place, offset, rest] = skipped.bits();
            [!place, !offset, !rest]
        }
    }
}
