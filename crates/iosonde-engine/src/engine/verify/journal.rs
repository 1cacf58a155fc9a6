//! The ledger file as a journal.

use std::io;

use super::Journal;
use iosonde_model::record::ledger_file::{JobLedger, Progress};

impl Journal for JobLedger {
    fn note(&mut self, submitted: u64, acked: u64, durable: u64) -> io::Result<()> {
        JobLedger::note(self, Progress { submitted, acked, durable, ended: false })
    }

    fn failed(&mut self, op: u64) -> io::Result<()> {
        JobLedger::failed(self, op)
    }
}
