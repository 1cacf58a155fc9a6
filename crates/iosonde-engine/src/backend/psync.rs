//! `pread` and `pwrite`: true depth 1, and the floor of every latency.

use std::os::fd::BorrowedFd;

use iosonde_sys::{Direction, syscall};

use super::blocking::{BlockingQueue, Call};

/// The queue of `pread` and `pwrite`.
pub type PsyncQueue = BlockingQueue<Pread>;

/// The calls.
#[derive(Debug)]
pub struct Pread;

impl Call for Pread {
    #[inline(always)]
    fn transfer(file: BorrowedFd<'_>, way: Direction, buffer: &mut [u8], offset: u64) -> i32 {
        syscall::transfer(file, way, buffer, offset)
    }
}
