//! Devices of known behaviour, for tests.
//!
//! Three parts. [`FuseMount`] serves a directory whose latency, errors and lies are written in a
//! [`Script`] and which records what it really did ([`Truth`]), so that a measured percentile can
//! be held against the true one. [`guard`] makes loop devices, file systems on images, tmpfs
//! mounts, rate limits and zram devices, and takes them away again on drop, also when a test
//! panics. [`guest`] is a whole machine, emulated, with the disks that this one lacks and a power
//! switch; [`write_log`] reads what one of its disks was written.
//!
//! Everything here returns [`Unavailable`] with the reason where the machine cannot do it, so that
//! a test says so by [`skip`] and never passes in silence.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a name that says it all has no sentence that repeats it")]

mod device;
mod fault;
mod files;
mod fuse;
pub mod guard;
pub mod guest;
mod latency;
mod machine;
mod mount;
mod quantity;
mod schedule;
mod scratch;
mod script;
mod skip;
mod store;
mod truth;
pub mod write_log;

pub use device::{Device, Ticket};
pub use fault::{Effect, Fault, Op, OpFilter, Pieces, Trigger};
pub use latency::{Latency, Rng};
pub use machine::{CpuWait, default_signals_for_children};
pub use mount::FuseMount;
pub use scratch::ScratchDir;
pub use script::{Script, ScriptError};
pub use skip::{skip, skip_part};
pub use truth::{Distribution, Histogram, OpTruth, Truth};

/// Why a rig cannot be had on this machine or by this user; its text is the reason to print.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

impl Unavailable {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// `Err` with the reason unless the effective user is root, which mounting needs.
pub fn require_root() -> Result<(), Unavailable> {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(Unavailable::new("needs root; run the tests as root to include this one"))
    }
}
