//! The witness as an observer of flushes.

use super::FlushObserver;
use crate::host::Witness;
use iosonde_model::record::witness_log::Line;

/// The engine counts flushes from 0, the lines from 1.
impl FlushObserver for Witness {
    fn before_flush(&self, job: usize, flush: u64, ops: u64) -> Result<(), String> {
        let line = Line::Pre { job: job as u32, flush: flush + 1, ops };
        self.say(&line).map_err(|error| error.to_string())
    }

    fn after_flush(&self, job: usize, flush: u64, ops: u64) -> Result<(), String> {
        let line = Line::Post { job: job as u32, flush: flush + 1, ops };
        self.say(&line).map_err(|error| error.to_string())
    }
}
