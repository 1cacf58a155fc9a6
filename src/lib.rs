//! The iosonde command: [`cli`] is the command line and output, [`schedule`] runs lists of cells.
//! The crates below it do the rest; see `ARCHITECTURE.md`.
#![forbid(unsafe_code)]

pub mod cli;
pub mod schedule;
