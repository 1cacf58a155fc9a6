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
    let mut list = BufReader::with_capacity(1 << 16, list);
    let mut line = Vec::new();
    let mut left = N;
    while left > 0 && list.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        for (address, name) in addresses.iter_mut().zip(names) {
            if let Some(found) = address_of(line.trim_ascii_end(), name) {
                *address = found;
                left -= 1;
            }
        }
        line.clear();
    }
    addresses
}

/// The address in a line that is about this symbol: `ffffffff81000000 T name`. Most are not.
fn address_of(line: &[u8], name: &str) -> Option<u64> {
    if !line.ends_with(name.as_bytes()) {
        return None;
    }
    let mut words = str::from_utf8(line).ok()?.split(' ');
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    (words.nth(1)? == name).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_is_found_by_its_whole_name() {
        let line = b"ffffffff81539590 t bio_chain_endio";
        assert_eq!(address_of(line, CHAIN_END), Some(0xffff_ffff_8153_9590));
        assert_eq!(address_of(b"ffffffff81539590 t my_bio_chain_endio", CHAIN_END), None);
        assert_eq!(address_of(b"ffffffff81539590 t", "t"), None);
    }
}
