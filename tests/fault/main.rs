//! The decorator that does wrong: exactly what it says, to exactly whom it says.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

mod bench;
mod kinds;
mod mix;
mod order;
