//! A fast write cache: writes are quick until it is full, then as slow as the inner device.

use super::{Device, Served, Transfer};
use iosonde_model::plan::IoKind;

/// Completes `bytes` of writes and trims, and every sync, in `fast_ns` each; passes on all others.
pub struct WriteCache {
    inner: Box<dyn Device>,
    room_bytes: u64,
    fast_ns: u64,
}

impl WriteCache {
    /// An empty cache.
    pub fn new(inner: Box<dyn Device>, bytes: u64, fast_ns: u64) -> WriteCache {
        WriteCache { inner, room_bytes: bytes, fast_ns }
    }
}

impl Device for WriteCache {
    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Served {
        let bytes = u64::from(transfer.bytes);
        if transfer.way == IoKind::Read || self.room_bytes < bytes {
            return self.inner.serve(now_ns, transfer);
        }
        self.room_bytes -= bytes;
        Served { done_ns: now_ns + self.fast_ns, result: transfer.bytes as i32 }
    }
}
