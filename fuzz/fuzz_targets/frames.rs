//! Whatever an agent or a coordinator is sent, reading it ends, and without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let found = iosonde::cli::read_frames(bytes);
    // A message has a head of ten bytes at least.
    assert!(found.iter().all(|found| *found <= bytes.len() / 10));
});
