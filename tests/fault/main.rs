//! The decorator that does wrong: exactly what it says, to exactly whom it says.
#![allow(clippy::unwrap_used, reason = "tests")]

mod bench;
mod kinds;
mod mix;
mod order;
