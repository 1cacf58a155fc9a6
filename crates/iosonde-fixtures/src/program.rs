//! The program under test.

use std::fmt;
use std::sync::LazyLock;

/// Absolute, because tests run it in other directories.
static OTHER: LazyLock<Option<String>> = LazyLock::new(|| {
    let named = std::env::var("IOSONDE_PROGRAM").ok()?;
    let path = std::fs::canonicalize(&named).unwrap_or_else(|error| panic!("{named}: {error}"));
    assert!(path.ends_with("iosonde"), "IOSONDE_PROGRAM: found {named}, expected .../iosonde");
    Some(path.to_str()?.to_owned())
});

/// The program that end-to-end tests run: the one named by `IOSONDE_PROGRAM`, or else the build of
/// the tests. [`program!`](crate::program!) creates it.
#[derive(Clone, Copy)]
pub struct Program {
    pub built: &'static str,
}

impl Program {
    pub fn path(self) -> &'static str {
        OTHER.as_deref().unwrap_or(self.built)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

/// The [`Program`] of the package that invokes it.
#[macro_export]
macro_rules! program {
    () => {
        $crate::Program { built: env!("CARGO_BIN_EXE_iosonde") }
    };
}
