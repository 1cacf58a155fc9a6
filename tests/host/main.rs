//! The modules `host` and `target::truth`, on recorded machines and on this one.
#![allow(clippy::unwrap_used, reason = "tests")]

mod live;
mod recorded;
mod tree;
mod uses;
