//! How I/O is driven and timed, on what, and what protects it.
//!
//! [`host`] reads what the machine is, [`target`] alone opens anything for writing, a [`backend`]
//! carries I/O to the kernel or to a simulated device, and [`engine`] drives and times it.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a name that says it all has no sentence that repeats it")]

pub mod backend;
pub mod engine;
pub mod host;
pub mod target;
