//! The decorator that injects faults: each has exactly its stated effect on exactly its requests.
#![allow(clippy::unwrap_used, reason = "tests")]

mod bench;
mod kinds;
mod mix;
mod order;
