//! The rooms `host` and `target::truth`, on recorded machines and on this one.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "a test that cannot run here says why")]

mod live;
mod recorded;
mod tree;
mod uses;
