//! For tests: stages with known figures.
#![allow(clippy::unwrap_used, reason = "tests")]
