//! The built program on real devices of known behaviour: a rate limited by a cgroup, a latency that
//! a FUSE server records, injected faults, file systems made for the test.
//!
//! Tests that a machine cannot run are skipped with the reason. No test asserts how fast the
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
