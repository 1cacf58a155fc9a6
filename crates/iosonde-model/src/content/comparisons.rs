//! Comparisons of a block. All of them are made. Each is proved to be needed: the self-test fails
//! without it.
//!
//! The set of comparisons is a type, so that no comparison costs a test of whether to make it.
//! [`Without`] serves that proof alone: no option selects it.

words! {
    /// A comparison of the data read with the required data.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub enum Comparison {
        /// The first bytes of each sector.
        Magic,
        /// The checksum of each sector, which covers stamp and payload.
        Checksum,
        /// Version of the format, length of sector and block.
        Shape,
        /// Number of each sector within its block.
        Index,
        /// Offset of the block of each sector.
        Offset,
        /// All sectors have the same generation.
        Generation,
        /// The run of each sector.
        Run,
        /// The generation is not below the last acknowledged one.
        Oldest,
        /// The generation is not above the last submitted one.
        Newest,
        /// Trimmed data is gone.
        Trimmed,
        /// Concurrent writers of a region left the data of one of them.
        Outcomes,
    }
}

impl Comparison {
    /// The bits of a stamp that are compared: shape and index, offset, generation and run.
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

/// The comparisons that a verifier makes.
pub trait Comparisons: Clone + std::fmt::Debug + Send + 'static {
    /// The only comparison that is not made.
    const SKIPPED: Option<Comparison>;

    /// Whether this comparison is made.
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
