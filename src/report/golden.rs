//! Golden files of the report's tests: `IOSONDE_BLESS=1 cargo test` writes them anew.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

/// Asserts that a text equals the file of this name under `tests/golden/report`.
#[track_caller]
pub(crate) fn assert_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/report").join(name);
    if std::env::var_os("IOSONDE_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{name} differs; now it is:\n{text}\nit was:\n{expected}");
}
