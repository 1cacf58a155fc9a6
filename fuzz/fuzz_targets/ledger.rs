//! Whatever stands in a ledger file or in the log of a witness, reading it ends, and without a
//! panic.
#![no_main]

use iosonde_model::record::ledger_file::{LedgerFile, Reader};
use iosonde_model::record::witness_log::WitnessLog;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = LedgerFile::parse(bytes, &Reader { stream_version: 1, boot_id: None });
    let _ = WitnessLog::parse(&mut &bytes[..], 1);
});
