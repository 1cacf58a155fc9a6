//! Addresses of kernel functions by which direct I/O is recognised.

use std::fs::File;
use std::io::{BufRead, BufReader};

use iosonde_engine::host::Root;

/// What the kernel calls at the end of direct I/O on files and on block devices.
pub(super) const ENDS: [&str; 5] =
    [FILES_END, "blkdev_bio_end_io", "blkdev_bio_end_io_async", WAIT_END, CHAIN_END];
pub(super) const FILES_END: &str = "iomap_dio_bio_end_io";
pub(super) const CHAIN_END: &str = "bio_chain_endio";
pub(super) const WAIT_END: &str = "submit_bio_wait_endio";

/// The addresses of kernel symbols; 0 if the kernel hides them. The list is long:
/// reading ends with the last of them.
pub(super) fn symbols<const N: usize>(root: &Root, names: [&str; N]) -> [u64; N] {
    let mut addresses = [0; N];
    let Ok(list) = File::open(root.path("/proc/kallsyms")) else { return addresses };
    let mut left = N;
    for line in BufReader::with_capacity(1 << 16, list).lines().map_while(Result::ok) {
        let mut words = line.split(' ');
        let (Some(address), Some(name)) = (words.next(), words.nth(1)) else { continue };
        if let Some(at) = names.iter().position(|wanted| *wanted == name) {
            addresses[at] = u64::from_str_radix(address, 16).unwrap_or(0);
            left -= 1;
        }
        if left == 0 {
            break;
        }
    }
    addresses
}
