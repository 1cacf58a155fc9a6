//! The two forms of a ring's entries: the usual ones, and those twice as long that carry NVMe
//! commands.

use crate::nvme::errno_of_status;
use crate::uapi::{self, CommandSqe, Cqe, LongCqe, Sqe};

/// A form of entries.
pub(super) trait Form {
    /// Submission queue entry.
    type Sqe: Copy;
    /// Completion queue entry.
    type Cqe: Copy;
    /// The flags of `io_uring_setup` that select it.
    const SETUP: u32;

    /// The slot that a completion names, and its result: 0 or more, or the negated errno.
    fn done(completion: &Self::Cqe) -> (usize, i32);
}

/// Entries of 64 bytes, completions of 16.
pub(super) struct Usual;

impl Form for Usual {
    type Sqe = Sqe;
    type Cqe = Cqe;
    const SETUP: u32 = 0;

    #[inline(always)]
    fn done(completion: &Cqe) -> (usize, i32) {
        (completion.user_data as usize, completion.result)
    }
}

/// Entries of 128 bytes, completions of 32: each carries an NVMe command or its answer.
pub(super) struct Command;

impl Form for Command {
    type Sqe = CommandSqe;
    type Cqe = LongCqe;
    const SETUP: u32 = uapi::SETUP_SQE128 | uapi::SETUP_CQE32;

    #[inline(always)]
    fn done(completion: &LongCqe) -> (usize, i32) {
        let result = match completion.usual.result {
            status if status > 0 => -errno_of_status(status),
            result => result,
        };
        (completion.usual.user_data as usize, result)
    }
}
