//! fio's job language, read with fio's own units and rules: from a job file to groups of jobs, and
//! from a group to what one run is asked for.
//!
//! The layers, each in its file: [`lex`] lines and sections, [`number`] quantities, [`value`]
//! typed values, [`table`] every option and where we stand with it, [`job`] sections with what they
//! inherit, [`ask`] a group in the words of [`Workload`](crate::spec::Workload). What would be
//! another load than fio's is a fault with a file and a line, never a silence.

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

/// Where something was said.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Place {
    /// File as the user names it, or `command line`.
    pub file: Arc<str>,
    /// Line, counted from 1; 0 where there are no lines.
    pub line: u32,
    /// Section, if in one.
    pub section: Option<Arc<str>>,
}

impl Place {
    /// A line of a file.
    pub fn new(file: &str, line: u32) -> Place {
        Place { file: file.into(), line, section: None }
    }

    /// The same place, in this section.
    pub fn within(&self, section: &str) -> Place {
        Place { section: Some(section.into()), ..self.clone() }
    }
}

/// `job.fio:4: [name]`, with what is said about it to follow.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}:", self.file)?,
            line => write!(f, "{}:{line}:", self.file)?,
        }
        self.section.as_ref().map_or(Ok(()), |section| write!(f, " [{}]", shown(section)))
    }
}

/// One thing that keeps a job file from running.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{place} {what}")]
pub struct Fault {
    /// Where it stands.
    pub place: Place,
    /// The option and what is wrong with it, what is expected, and how to fix it.
    pub what: String,
}

impl Fault {
    fn new(place: &Place, what: impl Into<String>) -> Fault {
        Fault { place: place.clone(), what: what.into() }
    }
}

/// Everything that keeps a job file from running, in the order of the file. At least one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", .0.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Faults(pub Vec<Fault>);

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Faults {
        Faults(vec![fault])
    }
}

/// A text of the user as it stands in a message: bounded, and without control characters.
fn shown(text: &str) -> String {
    const LONGEST: usize = 80;
    let clean: String =
        text.chars().take(LONGEST).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().count() > LONGEST { format!("{clean}…") } else { clean }
}
