//! iosonde measures storage, says why the number is what it is, and says when it cannot be trusted.
//!
//! One flow runs through the rooms below, from a question to an answer:
//!
//! ```text
//! spec::Workload -> plan::Plan -> engine::run -> record::Run -> analysis::Finding -> report
//! ```
//!
//! `ARCHITECTURE.md` draws the rooms and says what never happens; `tests/tidy.rs` holds the arrows.
#![forbid(unsafe_code)]

pub mod units;

pub mod stats;

pub mod spec;

pub mod plan;

pub mod content;

pub mod record;

pub mod analysis;

pub mod chart;

pub mod report;

pub mod host;

pub mod target;

pub mod backend;

pub mod engine;

pub mod profile;

pub mod schedule;

pub mod cli;
