//! The log of a witness, read after the power cut.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::line::{Line, LineError, number};
use super::{Conversation, MAX_LINE_BYTES, WitnessedJob};
use crate::content::block::crc32c;
use crate::record::given::{self, GivenError};
use crate::record::ledger_file::{LedgerError, LedgerHeader};

/// Longest line of a log, bytes: checksum, number and time precede the text.
const MAX_LOGGED_BYTES: u64 = MAX_LINE_BYTES as u64 + 64;

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WitnessLogError {
    /// The file is missing or cannot be read.
    #[error(transparent)]
    Given(#[from] GivenError),
    /// The file is not a log.
    #[error("found a file that begins with `{found}`, expected the log of a witness")]
    NotALog {
        /// Its first bytes, escaped.
        found: String,
    },
    /// Nothing was recorded.
    #[error("the log has no complete line: power was lost before the run began")]
    Empty,
    /// Written by another version.
    #[error("the log cannot be read by this program: {0}")]
    OtherVersion(LineError),
    /// The log is damaged.
    #[error("the log is damaged in line {line}: {found}; use another copy of it")]
    Damaged {
        /// Number of the line, from 1.
        line: u64,
        /// What is wrong there.
        found: String,
    },
    /// Its run cannot be replayed by this program.
    #[error(transparent)]
    Run(#[from] LedgerError),
}

/// A witness's log of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct WitnessLog {
    /// The run, by the header of its ledger.
    pub header: LedgerHeader,
    /// One per job.
    pub jobs: Vec<WitnessedJob>,
    /// Whether the run ended in order, without a power cut.
    pub ended: bool,
    /// Time of the first line, ns since 1970 by the witness's clock.
    pub first_unix_ns: u64,
    /// Time of the last line, ns since 1970.
    pub last_unix_ns: u64,
    /// Why a check with this log is weaker than usual, for the report.
    pub notes: Vec<String>,
}

impl WitnessLog {
    /// Reads a log of a run whose operations follow from its plan by this version of the algorithm.
    ///
    /// # Errors
    /// If it is missing, not a log, damaged before its last line, or of another version.
    pub fn read(path: &Path, stream_version: u32) -> Result<WitnessLog, WitnessLogError> {
        let (file, _) = given::open(path)?;
        WitnessLog::parse(&mut BufReader::new(file), stream_version)
    }

    /// The same from any source of bytes.
    ///
    /// # Errors
    /// As [`read`](WitnessLog::read), except those of opening.
    pub fn parse(
        source: &mut dyn BufRead,
        stream_version: u32,
    ) -> Result<WitnessLog, WitnessLogError> {
        let mut heard = Conversation::default();
        let mut notes = Vec::new();
        let (mut first_unix_ns, mut last_unix_ns) = (None, 0);
        let mut piece = Vec::new();
        loop {
            piece.clear();
            let limited = (&mut *source).take(MAX_LOGGED_BYTES).read_until(b'\n', &mut piece);
            if limited.map_err(GivenError::System)? == 0 {
                break;
            }
            let number = heard.lines + 1;
            let damaged = |found: String| WitnessLogError::Damaged { line: number, found };
            let Some(whole) = piece.strip_suffix(b"\n") else {
                if piece.len() as u64 >= MAX_LOGGED_BYTES {
                    return Err(damaged("it has no end".into()));
                }
                notes.push(format!(
                    "line {number} of the witness's log, the last, is cut off and was not taken \
                     into account"
                ));
                // The lost line may have confirmed the flush in flight.
                for job in heard.jobs.iter_mut().filter(|job| job.pending_ops.is_some()) {
                    job.submitted_at_most_flush = job.submitted_at_most_flush.saturating_add(1);
                }
                break;
            };
            let (unix_ns, text) = match opened(whole, number) {
                Ok(content) => content,
                Err(_) if number == 1 => {
                    let found = whole[..whole.len().min(16)].escape_ascii().to_string();
                    return Err(WitnessLogError::NotALog { found });
                }
                Err(found) => return Err(damaged(found)),
            };
            let line = text.parse::<Line>().map_err(|error| match error {
                LineError::OtherVersion(_) => WitnessLogError::OtherVersion(error),
                error => damaged(error.to_string()),
            })?;
            heard.hear(line).map_err(damaged)?;
            first_unix_ns.get_or_insert(unix_ns);
            last_unix_ns = unix_ns;
        }
        let header = heard.header.ok_or(WitnessLogError::Empty)?;
        header.follows_law(stream_version)?;
        let first_unix_ns = first_unix_ns.unwrap_or_default();
        let (jobs, ended) = (heard.jobs, heard.ended);
        Ok(WitnessLog { header, jobs, ended, first_unix_ns, last_unix_ns, notes })
    }
}

/// Time and text of a line of the log.
fn opened(whole: &[u8], expected: u64) -> Result<(u64, &str), String> {
    let text = std::str::from_utf8(whole).map_err(|_| "it is not text")?;
    let (crc, content) = text.split_once(' ').ok_or("it has no checksum")?;
    if crc != format!("{:08x}", crc32c(content.as_bytes())) {
        return Err("its checksum does not fit".into());
    }
    let mut words = content.splitn(3, ' ');
    let mut next = || words.next().and_then(number);
    let (found, unix_ns) = (next(), next());
    if found != Some(expected) {
        return Err(format!("it is not number {expected}"));
    }
    let (Some(unix_ns), Some(text)) = (unix_ns, words.next()) else {
        return Err("it has no time or no text".into());
    };
    Ok((unix_ns, text))
}
