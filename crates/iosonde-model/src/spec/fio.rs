//! fio's job language with fio's units and rules: from a job file to groups of jobs, and from a
//! group to the request for one run.
//!
//! The layers, each in its file: [`lex`] lines and sections, [`number`] quantities, [`value`] typed
//! values, [`table`] every option and its support, [`job`] sections with inheritance, [`ask`] a
//! group as a [`Workload`](crate::spec::Workload). Anything that would change fio's load is
//! reported as a fault with file and line, never ignored silently.

pub mod ask;
pub mod command;
mod effect;
mod expression;
mod foreign;
pub mod iolog;
pub mod job;
pub mod lex;
pub mod lint;
mod load;
pub mod number;
mod pattern;
pub mod table;
pub mod value;

use std::fmt;
use std::sync::Arc;

pub use ask::{AccessHint, Asking, EngineRequest, LatencyRequest, LogRequest, TargetRequest, ask};
pub use job::{FioJob, Group, JobFile, jobs, parse};
pub use lex::Outside;

/// The origin of an option or a fault.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Place {
    /// File name as given by the user, or `command line`.
    pub file: Arc<str>,
    /// Line, counted from 1; 0 if the source has no lines.
    pub line: u32,
    /// Section, if any.
    pub section: Option<Arc<str>>,
}

impl Place {
    /// A line of a file.
    pub fn new(file: &str, line: u32) -> Place {
        Place { file: file.into(), line, section: None }
    }

    /// The same place, within this section.
    pub fn within(&self, section: &str) -> Place {
        Place { section: Some(section.into()), ..self.clone() }
    }
}

/// A prefix of a message: `job.fio:4: [name]`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}:", self.file)?,
            line => write!(f, "{}:{line}:", self.file)?,
        }
        self.section.as_ref().map_or(Ok(()), |section| write!(f, " [{}]", shown(section)))
    }
}

/// One reason why a job file cannot run.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{place} {what}")]
pub struct Fault {
    pub place: Place,
    /// The option, what is wrong with it, what is expected, and how to fix it.
    pub what: String,
}

impl Fault {
    fn new(place: &Place, what: impl Into<String>) -> Fault {
        Fault { place: place.clone(), what: what.into() }
    }
}

/// Every reason why a job file cannot run, in the order of the file. At least one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", .0.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Faults(pub Vec<Fault>);

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Faults {
        Faults(vec![fault])
    }
}

/// User text for a message: truncated, with control characters replaced.
fn shown(text: &str) -> String {
    const LONGEST: usize = 80;
    let clean: String =
        text.chars().take(LONGEST).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().count() > LONGEST { format!("{clean}…") } else { clean }
}
