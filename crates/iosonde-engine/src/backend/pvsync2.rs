//! `preadv2` and `pwritev2` with a vector of one buffer.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use iosonde_sys::Direction;
use rustix::io::{ReadWriteFlags, preadv2, pwritev2};

use super::blocking::{BlockingQueue, Call};

/// The queue of `preadv2` and `pwritev2`.
pub type Pvsync2Queue = BlockingQueue<Preadv2>;

/// `preadv2` and `pwritev2` as the calls of a [`BlockingQueue`].
#[derive(Debug)]
pub struct Preadv2;

impl Call for Preadv2 {
    #[inline(always)]
    fn transfer(file: BorrowedFd<'_>, way: Direction, buffer: &mut [u8], offset: u64) -> i32 {
        let none = ReadWriteFlags::empty();
        let moved = if way == Direction::Read {
            preadv2(file, &mut [IoSliceMut::new(buffer)], offset, none)
        } else {
            pwritev2(file, &[IoSlice::new(buffer)], offset, none)
        };
        moved.map_or_else(|error| -error.raw_os_error(), |moved| moved as i32)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use iosonde_model::plan::{Engine, EngineKind, IoKind, Job};
    use iosonde_sys::Clock;

    use super::super::{Queue, Transfer};
    use super::*;

    #[test]
    fn a_flag_that_the_file_does_not_support_is_an_error_and_nothing_is_written() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let mut job = Job { read_percent: 0, iodepth: 1, block_bytes: 4096, ..Job::default() };
        for (atomic, expected) in [(true, -95), (false, 4096)] {
            job.sync.atomic = atomic;
            let files = vec![file.try_clone().unwrap().into()];
            let engine = Engine::of(EngineKind::Pvsync2);
            let mut queue = Pvsync2Queue::open(&job, &engine, files, Clock::monotonic()).unwrap();
            queue.buffer(0).fill(7);
            let write =
                Transfer { way: IoKind::Write, target: 0, offset: 4096, skip: 0, bytes: 4096 };
            queue.push(0, write);
            queue.enter(1, 0).unwrap();
            // No buffered write is atomic: EOPNOTSUPP, also from a kernel without RWF_ATOMIC.
            queue.reap(|_, result| assert_eq!(result, expected));
            let mut block = [0; 4096];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut block, 4096).unwrap();
            assert_eq!(block == [7; 4096], expected > 0);
        }
    }
}
