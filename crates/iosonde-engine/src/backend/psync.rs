//! `pread` and `pwrite`: one blocking call at a time, the lower bound of latency.

use std::os::fd::BorrowedFd;

use iosonde_sys::{Direction, syscall};

use super::blocking::{BlockingQueue, Call};

/// The queue of `pread` and `pwrite`.
pub type PsyncQueue = BlockingQueue<Pread>;

/// `pread` and `pwrite` as the calls of a [`BlockingQueue`].
#[derive(Debug)]
pub struct Pread;

impl Call for Pread {
    #[inline(always)]
    fn transfer(file: BorrowedFd<'_>, way: Direction, buffer: &mut [u8], offset: u64) -> i32 {
        syscall::transfer(file, way, buffer, offset)
    }
}
