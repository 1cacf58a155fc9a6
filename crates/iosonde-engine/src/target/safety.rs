//! Detects files whose data another file shares.

use std::os::fd::{AsFd, OwnedFd};

use iosonde_sys::inspect;

/// Whether another file shares some of this file's data, as far as the file system reports it.
pub fn has_shared_extents(file: &OwnedFd, size_bytes: u64) -> bool {
    let mut at = 0;
    while at < size_bytes {
        let Ok(batch) = inspect::extents(file.as_fd(), at, size_bytes - at) else { return false };
        if batch.iter().any(inspect::Extent::is_shared) {
            return true;
        }
        match batch.last() {
            Some(last) if !last.is_last() => {
                let end = last.start_bytes.saturating_add(last.length_bytes);
                if end <= at {
                    return false;
                }
                at = end;
            }
            _ => return false,
        }
    }
    false
}
