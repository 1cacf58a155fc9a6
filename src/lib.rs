//! The iosonde command: [`cli`] is what the user types and sees, [`schedule`] decides how many runs
//! answer one question. The crates below it do the rest; `ARCHITECTURE.md` draws them.
#![forbid(unsafe_code)]

pub mod cli;
pub mod schedule;
