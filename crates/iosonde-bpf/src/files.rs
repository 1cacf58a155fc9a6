//! Counts of files. Each file has a numbered place for its counts, which user space frees.

use aya::Ebpf;
use aya::programs::{RawTracePoint, RawTracePointRunOptions, TestRun};

use crate::{Collector, FileKey, FilePlace, FileUse, Times, chain};

/// The program that rereads the names of a file. It has no tracepoint; user space runs it.
const NAMES_AGAIN: &str = "names_again";

/// Loads the program. If that fails, files keep the names of their first request.
pub(crate) fn load(ebpf: &mut Ebpf) {
    let program = ebpf.program_mut(NAMES_AGAIN).and_then(|program| program.try_into().ok());
    let _ = program.map(|program: &mut RawTracePoint| program.load());
}

impl Collector {
    /// Rereads the names of the file at a place, which may have been renamed since its first
    /// request. The names stay if the kernel no longer has the file in memory.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn read_names_again(&self, key: &FileKey, place: u32) -> Result<(), String> {
        let program = self.ebpf.program(NAMES_AGAIN).ok_or("not in the object")?;
        let program: &RawTracePoint = program.try_into().map_err(|error| chain(&error))?;
        let mut options = RawTracePointRunOptions::new();
        let key = [u64::from(key.device), key.inode, u64::from(key.generation)];
        options.args[0] = u64::from(place);
        options.args[1..4].copy_from_slice(&key);
        program.test_run(options).map(drop).map_err(|error| chain(&error))
    }

    /// Files and the places of their counts.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn files(&self) -> Result<Vec<(FileKey, FilePlace)>, String> {
        self.all::<FileKey, FilePlace>("files")
    }

    /// The counts at a place; place 0 sums all files for which the table was full.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn file(&self, place: u32) -> Result<FileUse, String> {
        self.at("file_data", place)
    }

    /// Latencies of the requests of the file at a place.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn file_times(&self, place: u32) -> Result<Times, String> {
        self.at("file_times", place)
    }

    /// Number of places ever used.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn file_places(&self) -> Result<u32, String> {
        self.at("file_count", 0)
    }

    /// Removes files from the kernel's table: their later requests are counted at a new place. The
    /// counts stay, and may still grow by requests in flight.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn forget_files(&mut self, keys: &[FileKey]) -> Result<(), String> {
        keys.iter().try_for_each(|key| self.remove::<FileKey, FilePlace>("files", *key))?;
        // Threads cache the place of their file until the generation changes.
        self.control.generation += 1;
        self.tell_control()
    }

    /// Clears places for reuse by other files.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn free_files(&mut self, places: &[u32]) -> Result<(), String> {
        for place in places {
            self.set("file_data", *place, FileUse::NONE)?;
            self.set("file_times", *place, Times::NONE)?;
            self.free("file_free", *place)?;
        }
        Ok(())
    }
}
