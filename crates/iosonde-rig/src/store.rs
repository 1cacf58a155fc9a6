//! Content of one file: sparse, in memory, with the state to which a power cut reverts it.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes per page of storage.
pub(crate) const PAGE_BYTES: u64 = 4096;

type Page = Arc<[u8; PAGE_BYTES as usize]>;

/// A file's content. `undo` holds the durable version of each page changed since the last sync.
#[derive(Debug, Default)]
pub(crate) struct Content {
    size_bytes: u64,
    pages: BTreeMap<u64, Page>,
    durable_size_bytes: u64,
    undo: BTreeMap<u64, Option<Page>>,
}

/// The parts of `offset..offset+length`, as (page, offset in page, length).
fn parts(offset: u64, length: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset.saturating_add(length);
    let mut at = offset;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let within = at % PAGE_BYTES;
            let length = (PAGE_BYTES - within).min(end - at);
            let part = (at / PAGE_BYTES, within as usize, length as usize);
            at += length;
            part
        })
    })
}

impl Content {
    /// Length of the file in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes held in memory.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE_BYTES
    }

    /// The data at `offset`: up to `length` bytes, not beyond the end of the file.
    pub(crate) fn read(&self, offset: u64, length: u64) -> Vec<u8> {
        let length = length.min(self.size_bytes.saturating_sub(offset));
        let mut bytes = Vec::with_capacity(length as usize);
        for (page, start, length) in parts(offset, length) {
            match self.pages.get(&page) {
                Some(page) => bytes.extend_from_slice(&page[start..start + length]),
                None => bytes.resize(bytes.len() + length, 0),
            }
        }
        bytes
    }

    fn remember(&mut self, page: u64) {
        let before = self.pages.get(&page);
        self.undo.entry(page).or_insert_with(|| before.cloned());
    }

    /// Stores `data` at `offset`; the file grows as needed.
    pub(crate) fn write(&mut self, offset: u64, mut data: &[u8]) {
        self.grow(offset + data.len() as u64);
        for (page, start, length) in parts(offset, data.len() as u64) {
            self.remember(page);
            let stored =
                self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES as usize]));
            Arc::make_mut(stored)[start..start + length].copy_from_slice(&data[..length]);
            data = &data[length..];
        }
    }

    /// Makes the file at least this long.
    pub(crate) fn grow(&mut self, size_bytes: u64) {
        self.size_bytes = self.size_bytes.max(size_bytes);
    }

    /// Makes `offset..offset+length` read as zero; the length stays.
    pub(crate) fn zero(&mut self, offset: u64, length: u64) {
        let length = length.min(self.size_bytes.saturating_sub(offset));
        let touched: Vec<u64> = match length {
            0 => Vec::new(),
            _ => {
                let last = (offset + length - 1) / PAGE_BYTES;
                self.pages.range(offset / PAGE_BYTES..=last).map(|(&page, _)| page).collect()
            }
        };
        for page in touched {
            self.remember(page);
            let base = page * PAGE_BYTES;
            let start = offset.max(base) - base;
            let end = (offset + length - base).min(PAGE_BYTES);
            if end - start == PAGE_BYTES {
                self.pages.remove(&page);
            } else if let Some(page) = self.pages.get_mut(&page) {
                Arc::make_mut(page)[start as usize..end as usize].fill(0);
            }
        }
    }

    /// Sets the length of the file; data beyond it are lost.
    pub(crate) fn truncate(&mut self, size_bytes: u64) {
        // Zeroed to the end of the last page; otherwise a later growth would expose old data.
        self.zero(size_bytes, self.size_bytes.saturating_sub(size_bytes));
        self.size_bytes = size_bytes;
    }

    /// Makes everything durable.
    pub(crate) fn sync(&mut self) {
        self.undo.clear();
        self.durable_size_bytes = self.size_bytes;
    }

    /// Reverts to the durable state, except pages for which `is_kept` returns true: a cache had
    /// already written them back, in any order.
    pub(crate) fn power_cut(&mut self, mut is_kept: impl FnMut(u64) -> bool) {
        for (page, before) in std::mem::take(&mut self.undo) {
            if page * PAGE_BYTES < self.durable_size_bytes && is_kept(page) {
                continue;
            }
            match before {
                Some(before) => self.pages.insert(page, before),
                None => self.pages.remove(&page),
            };
        }
        self.size_bytes = self.durable_size_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_across_pages_and_holes() {
        let mut file = Content::default();
        file.write(4000, &[7; 5000]);
        assert_eq!(file.size_bytes(), 9000);
        assert_eq!(file.read(3999, 3), [0, 7, 7]);
        assert_eq!(file.read(8999, 10), [7]);
        assert_eq!(file.read(9000, 10), [] as [u8; 0]);
        file.write(1 << 40, &[1]);
        assert_eq!(file.stored_bytes(), 4 * PAGE_BYTES);
        assert_eq!(file.read(20_000, 4096), [0; 4096]);
    }

    #[test]
    fn truncated_bytes_do_not_come_back() {
        let mut file = Content::default();
        file.write(0, &[9; 8192]);
        file.truncate(100);
        file.truncate(8192);
        assert_eq!(file.read(99, 3), [9, 0, 0]);
        assert!(file.read(100, 8092).iter().all(|&byte| byte == 0));
        file.write(0, &[9; 8192]);
        file.zero(4096, 4096);
        assert_eq!((file.size_bytes(), file.stored_bytes()), (8192, 4096));
    }

    #[test]
    fn a_power_cut_may_keep_some_pages_and_not_others() {
        let mut file = Content::default();
        file.write(0, &[1; 3 * 4096]);
        file.sync();
        file.write(0, &[2; 4 * 4096]);
        file.power_cut(|page| page != 1);
        assert_eq!(file.size_bytes(), 3 * 4096, "its length was not durable");
        let pages = [0, 4096, 8192].map(|offset| file.read(offset, 1)[0]);
        assert_eq!(pages, [2, 1, 2]);
        file.grow(4 * 4096);
        assert_eq!(file.read(3 * 4096, 1), [0], "what lay beyond the length is gone");
        file.power_cut(|_| false);
        assert_eq!(file.read(0, 1), [2], "what was kept stays");
    }

    #[test]
    fn a_power_cut_takes_what_was_not_synced() {
        let mut file = Content::default();
        file.write(0, &[1; 4096]);
        file.sync();
        file.write(0, &[2; 100]);
        file.write(4096, &[3; 4096]);
        file.truncate(50);
        file.power_cut(|_| false);
        assert_eq!(file.read(0, 10_000), [1; 4096]);
        file.write(0, &[4; 10]);
        file.sync();
        file.power_cut(|_| false);
        assert_eq!(file.read(8, 4), [4, 4, 1, 1]);
    }
}
