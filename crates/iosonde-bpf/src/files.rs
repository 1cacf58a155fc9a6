//! The tables of files: each has a numbered place for its counts, which user space empties.

use aya::Ebpf;
use aya::programs::{RawTracePoint, RawTracePointRunOptions, TestRun};

use crate::{Collector, FileKey, FilePlace, FileUse, Times, chain};

/// The program that reads the names of a file again: at no event, but whenever it is run from here.
const NAMES_AGAIN: &str = "names_again";

/// Loads it. Where it cannot be, names stay those of the first request.
pub(crate) fn load(ebpf: &mut Ebpf) {
    let program = ebpf.program_mut(NAMES_AGAIN).and_then(|program| program.try_into().ok());
    let _ = program.map(|program: &mut RawTracePoint| program.load());
}

impl Collector {
    /// Reads the names of the file at a place again, which may have moved since its first request;
    /// they stay if the kernel does not know the file any longer.
    ///
    /// # Errors
    /// In words.
    pub fn read_names_again(&self, key: &FileKey, place: u32) -> Result<(), String> {
        let program = self.ebpf.program(NAMES_AGAIN).ok_or("not in the object")?;
        let program: &RawTracePoint = program.try_into().map_err(|error| chain(&error))?;
        let mut options = RawTracePointRunOptions::new();
        let key = [u64::from(key.device), key.inode, u64::from(key.generation)];
        options.args[0] = u64::from(place);
        options.args[1..4].copy_from_slice(&key);
        program.test_run(options).map(drop).map_err(|error| chain(&error))
    }

    /// Files with the places of their counts.
    ///
    /// # Errors
    /// In words.
    pub fn files(&self) -> Result<Vec<(FileKey, FilePlace)>, String> {
        self.all::<FileKey, FilePlace>("files")
    }

    /// The counts at a place; those at 0 are of all files that found none.
    ///
    /// # Errors
    /// In words.
    pub fn file(&self, place: u32) -> Result<FileUse, String> {
        self.at("file_data", place)
    }

    /// Latencies of the requests of the file at a place.
    ///
    /// # Errors
    /// In words.
    pub fn file_times(&self, place: u32) -> Result<Times, String> {
        self.at("file_times", place)
    }

    /// Places of files that were ever in use.
    ///
    /// # Errors
    /// In words.
    pub fn file_places(&self) -> Result<u32, String> {
        self.at("file_count", 0)
    }

    /// Takes files out of the kernel's table: what is done to them from now on is counted at a new
    /// place. The counts stay, and may still grow by requests that are under way.
    ///
    /// # Errors
    /// In words.
    pub fn forget_files(&mut self, keys: &[FileKey]) -> Result<(), String> {
        keys.iter().try_for_each(|key| self.remove::<FileKey, FilePlace>("files", *key))?;
        // Threads keep the places of their files until they are looked at anew.
        self.control.generation += 1;
        self.tell_control()
    }

    /// Empties places, so that other files find one.
    ///
    /// # Errors
    /// In words.
    pub fn free_files(&mut self, places: &[u32]) -> Result<(), String> {
        for place in places {
            self.set("file_data", *place, FileUse::NONE)?;
            self.set("file_times", *place, Times::NONE)?;
            self.free("file_free", *place)?;
        }
        Ok(())
    }
}
