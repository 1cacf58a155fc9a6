//! What is requested, what exactly will be done, which bytes are written, and what happened.
//!
//! ```text
//! spec::Workload -> plan::Plan -> record::Run
//! ```
//!
//! Everything here maps data to data, except the modules of [`record`] that store results in files.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a name that says it all has no sentence that repeats it")]

#[macro_use]
pub mod units;
pub mod content;
pub mod plan;
pub mod record;
pub mod spec;
