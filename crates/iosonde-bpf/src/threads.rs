//! Counts of threads. Each thread has a numbered place for its counts, which user space frees after
//! it has ended.

use crate::{Collector, Thread, in_words};

/// A map update that fails where the key exists.
const BPF_NOEXIST: u64 = 1;

impl Collector {
    /// All threads in the table.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn threads(&self) -> Result<Vec<Thread>, String> {
        let data = self.array::<Thread>("thread_data")?;
        let places = self.all::<u32, u32>("threads")?.into_iter().map(|(_, place)| place);
        places.map(|place| data.get(&place, 0).map_err(in_words)).collect()
    }

    /// Removes an ended thread from the kernel's table, which frees its place. `None` if its id was
    /// reused by another thread meanwhile, which keeps its entry.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn take_thread(&mut self, tid: u32) -> Result<Option<Thread>, String> {
        let place = self.table::<u32, u32>("threads")?.get(&tid, 0).map_err(in_words)?;
        self.remove::<u32, u32>("threads", tid)?;
        let thread: Thread = self.at("thread_data", place)?;
        if thread.ended_ns == 0 && self.insert_new(tid, place)? {
            return Ok(None);
        }
        self.free("thread_free", place)?;
        Ok(Some(thread))
    }

    /// Inserts the place unless the thread has one; returns whether it did.
    fn insert_new(&mut self, tid: u32, place: u32) -> Result<bool, String> {
        let mut table = self.table_mut::<u32, u32>("threads")?;
        match table.insert(tid, place, BPF_NOEXIST) {
            Ok(()) => Ok(true),
            Err(_) if table.get(&tid, 0).is_ok() => Ok(false),
            Err(error) => Err(in_words(error)),
        }
    }
}
