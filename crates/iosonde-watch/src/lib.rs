//! What did the kernel see meanwhile? Watches a program from outside and fills in a
//! [`iosonde_model::record::ProfileRun`].
//!
//! Promises: nothing is judged here. The command that is watched keeps its user, its standard
//! streams and its exit code; what could not be seen is named with the reason, and is never zero.
#![forbid(unsafe_code)]

mod ask;
mod cgroup;
mod counters;
mod devices;
mod interrupts;
mod launch;
mod privilege;
mod processes;
mod result;
mod scope;
mod telemetry;
pub mod tracer;
mod watch;

pub use ask::{Asked, Attached, WatchError};
pub use privilege::wake_writing;
pub use watch::{rehearse, watch};
