//! The built program on real devices of known behaviour: a rate that a cgroup allows, a latency
//! that a FUSE server records, faults that it makes, file systems made for the test.
//!
//! What cannot be had on a machine is skipped with the reason. Nothing here asserts how fast the
//! program is; tolerances are those of the rig.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "a test that cannot run here says why")]

mod campaign;
mod erase_tools;
mod fault;
mod fsync;
mod in_use;
mod latency;
mod limit;
mod matrix;
mod powercut;
mod profile;
mod request;
mod rounds;
mod safety;
mod safety_contents;
mod safety_undo;
mod sector;
mod truth;
mod verify;
mod vhost;
