//! The built binary as a process: exit codes, output streams, and remaining files.
//!
//! Tests that this machine or user cannot run are skipped with the reason.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

mod altered;
mod blkbench;
mod campaign;
mod compare;
mod config;
mod configure;
mod cross_check;
mod engines;
mod environment;
mod experiment;
mod faults;
mod fio_line;
mod fio_verify;
mod fleets;
mod formats;
mod fsync;
mod hangs;
mod hosts;
mod job_file;
mod kept;
mod killed;
mod language;
mod namespaces;
mod output_text;
mod profile;
mod program;
mod qualify;
mod ranks;
mod read_only;
mod recipes;
mod refused;
mod replay;
mod report;
mod robot;
mod rounds;
mod screens;
mod search;
mod shown;
mod signals;
mod steady;
mod terminal;
mod usage;
mod verify;
mod verify_damage;
mod verify_kill;
mod verify_selftest;
mod verify_witness;
