//! Figures, consistency checks, findings and verdicts, computed from records.
//!
//! This crate is pure: everything is recomputed from a record, so a newer version can evaluate an
//! old record.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a name that says it all has no sentence that repeats it")]

pub mod arrivals;
pub mod comparison;
pub mod consistency;
pub mod cross_check;
mod document;
pub mod expectation;
pub mod experiment;
pub mod fidelity;
pub mod figures;
pub mod finding;
pub mod foreign;
mod grouped;
pub mod history;
pub mod hosts;
pub mod intervals;
pub mod ladder;
pub mod phases;
pub mod precision;
pub mod priorities;
pub mod profile;
pub mod profile_model;
pub mod pursuit;
pub mod reference;
mod replayed;
pub mod series;
pub mod steady;
pub mod targets;
pub mod verdict;
pub mod verify;

pub use consistency::{Consistency, consistency};
pub use expectation::Expectation;
pub use figures::{Figures, figures};
pub use finding::{Finding, findings};
pub use ladder::{Ladder, ladder};
pub use verdict::{Assessment, Verdict, assess, verdict};
pub use verify::{VerifyJudgement, VerifyVerdict, judge};
