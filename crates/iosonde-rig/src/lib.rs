//! Devices of known behaviour, for tests.
//!
//! [`FuseMount`] serves a directory whose latency, errors and lies are defined by a [`Script`]. It
//! records what it really did ([`Truth`]), so that a test can compare a measured percentile with
//! the true one. [`guard`] makes loop devices, file systems on images, tmpfs mounts, rate limits
//! and zram devices, and removes them on drop, also when a test panics. [`guest`] is a virtual
//! machine with a power switch and with disks that the host lacks; [`write_log`] reads which writes
//! reached one of its disks.
//!
//! All of these return [`Unavailable`] with the reason if the machine does not support them, so
//! that a test reports it by [`skip`] and never passes silently.
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

/// Why a rig is unavailable on this machine or to this user. The text is the reason to print.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

impl Unavailable {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Returns `Err` with the reason unless the effective user is root. Mounting needs root.
pub fn require_root() -> Result<(), Unavailable> {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(Unavailable::new("needs root; run the tests as root to include this one"))
    }
}
