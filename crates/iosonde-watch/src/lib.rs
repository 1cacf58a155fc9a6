//! Profiles a program from outside and fills in a
//! [`iosonde_model::record::ProfileRun`].
//!
//! This crate draws no conclusions. The profiled command keeps its user, its standard streams and
//! its exit code; data that could not be recorded is named with the reason, and is never zero.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a name that says it all has no sentence that repeats it")]

mod cgroup;
mod counters;
mod devices;
mod interrupts;
mod launch;
mod privilege;
mod processes;
mod request;
mod result;
mod scope;
mod telemetry;
pub mod tracer;
mod watch;

pub use privilege::wake_writing;
pub use request::{Attached, Request, WatchError};
pub use watch::{Live, rehearse, watch};
