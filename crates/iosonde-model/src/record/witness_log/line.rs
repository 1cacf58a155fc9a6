//! One line between a run and its witness.

use std::fmt;
use std::io;
use std::str::FromStr;

use crate::record::ledger_file::{LedgerHeader, MAX_HEADER_BYTES};

/// Name of the protocol, without its version.
const PROTOCOL: &str = "iosonde-witness/";
/// Version of the protocol.
const VERSION: u32 = 1;
/// Longest line, bytes.
pub const MAX_LINE_BYTES: usize = MAX_HEADER_BYTES as usize + 128;

/// What a run sends to its witness.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// The run, by the header of its ledger.
    Hello(Box<LedgerHeader>),
    /// A flush is about to be sent.
    Pre {
        /// Number of the job.
        job: u32,
        /// Number of the flush, from 1.
        flush: u64,
        /// Leading operations of the job that were answered before.
        ops: u64,
    },
    /// The flush succeeded.
    Post {
        /// Number of the job.
        job: u32,
        /// Number of the flush, from 1.
        flush: u64,
        /// As in `Pre`.
        ops: u64,
    },
    /// The run has ended in order.
    Bye,
}

impl Line {
    /// The first line of a run.
    ///
    /// # Errors
    /// If the header contradicts itself, is too long, or is not read back as it was written.
    pub fn hello(header: LedgerHeader) -> io::Result<Line> {
        header.to_json()?;
        Ok(Line::Hello(Box::new(header)))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Hello(header) => {
                let json = serde_json::to_string(header).map_err(|_| fmt::Error)?;
                write!(f, "hello {PROTOCOL}{VERSION} {} {json}", header.run_id)
            }
            Line::Pre { job, flush, ops } => write!(f, "pre {job} {flush} {ops}"),
            Line::Post { job, flush, ops } => write!(f, "post {job} {flush} {ops}"),
            Line::Bye => f.write_str("bye"),
        }
    }
}

/// Why a line is not valid.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LineError {
    /// It is malformed.
    #[error(
        "found `{0}`, expected `hello {PROTOCOL}{VERSION} RUN HEADER`, `pre JOB FLUSH OPS`, \
         `post JOB FLUSH OPS` or `bye`"
    )]
    Malformed(String),
    /// The other side speaks another version.
    #[error("found `{0}`, expected `{PROTOCOL}{VERSION}`: use the same version on both sides")]
    OtherVersion(String),
    /// The header is not valid.
    #[error("the header of the run: {0}")]
    Header(String),
}

impl FromStr for Line {
    type Err = LineError;

    fn from_str(text: &str) -> Result<Line, LineError> {
        let malformed = || LineError::Malformed(glance(text));
        if let Some(rest) = text.strip_prefix("hello ") {
            return hello(rest, malformed);
        }
        let words: Vec<&str> = text.splitn(5, ' ').collect();
        let (verb, job, flush, ops) = match words[..] {
            ["bye"] => return Ok(Line::Bye),
            [verb @ ("pre" | "post"), job, flush, ops] => (verb, job, flush, ops),
            _ => return Err(malformed()),
        };
        let [job, flush, ops] = [job, flush, ops].map(number);
        let job = job.and_then(|job| u32::try_from(job).ok());
        let (Some(job), Some(flush), Some(ops)) = (job, flush, ops) else {
            return Err(malformed());
        };
        Ok(match verb {
            "pre" => Line::Pre { job, flush, ops },
            _ => Line::Post { job, flush, ops },
        })
    }
}

fn hello(rest: &str, malformed: impl Fn() -> LineError) -> Result<Line, LineError> {
    let mut words = rest.splitn(3, ' ');
    let protocol = words.next().filter(|word| word.starts_with(PROTOCOL)).ok_or_else(&malformed)?;
    if protocol.strip_prefix(PROTOCOL).and_then(number) != Some(u64::from(VERSION)) {
        return Err(LineError::OtherVersion(glance(protocol)));
    }
    let (Some(run_id), Some(json)) = (words.next(), words.next()) else { return Err(malformed()) };
    let header = LedgerHeader::from_json(json.as_bytes()).map_err(LineError::Header)?;
    if header.run_id.to_string() != run_id {
        let found = format!("it is of run {}, the line of run {}", header.run_id, glance(run_id));
        return Err(LineError::Header(found));
    }
    Ok(Line::Hello(Box::new(header)))
}

/// Parses digits only in the form that is written here: no sign, no leading zeros.
pub(super) fn number(word: &str) -> Option<u64> {
    let plain =
        word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    if plain { word.parse().ok() } else { None }
}

/// The beginning of foreign text.
fn glance(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}
