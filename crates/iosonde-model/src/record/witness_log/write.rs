//! The witness's side: each line is on storage before it is answered.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use super::line::{Line, LineError};
use super::{Conversation, MAX_LINE_BYTES};
use crate::content::block::crc32c;
use crate::record::ledger_file::sync_directory_of;
use crate::record::store::create_new;

/// A log that is being written.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    conversation: Conversation,
}

/// Why a line was not recorded. This ends the conversation.
#[derive(Debug, thiserror::Error)]
pub enum Unrecorded {
    /// The line is malformed.
    #[error(transparent)]
    Line(#[from] LineError),
    /// The line is not permitted here.
    #[error("{0}")]
    Order(String),
    /// The log cannot be written.
    #[error("the log cannot be written: {0}")]
    System(#[from] io::Error),
}

impl Recorder {
    /// Creates the log. The name must be unused.
    ///
    /// # Errors
    /// If the name is taken, even by a link that leads nowhere, or the file cannot be made.
    pub fn create(path: &Path) -> io::Result<Recorder> {
        let file = create_new(path)?;
        file.sync_all()?;
        sync_directory_of(path)?;
        Ok(Recorder { file, conversation: Conversation::default() })
    }

    /// Records a line, without its line feed, and returns its number when it has reached storage.
    ///
    /// # Errors
    /// If the line is not permitted here, or the log cannot be written.
    pub fn hear(&mut self, text: &[u8], unix_ns: u64) -> Result<u64, Unrecorded> {
        if text.len() > MAX_LINE_BYTES {
            let words = format!("found a line longer than {MAX_LINE_BYTES} bytes");
            return Err(Unrecorded::Order(words));
        }
        let text = std::str::from_utf8(text).map_err(|_| {
            LineError::Malformed(text[..text.len().min(60)].escape_ascii().to_string())
        })?;
        self.conversation.hear(text.parse::<Line>()?).map_err(Unrecorded::Order)?;
        let number = self.conversation.lines;
        self.file.write_all(sealed(number, unix_ns, text).as_bytes())?;
        self.file.sync_data()?;
        Ok(number)
    }

    /// Whether `bye` was received.
    pub fn ended(&self) -> bool {
        self.conversation.ended
    }

    /// Lines that were recorded.
    pub fn lines(&self) -> u64 {
        self.conversation.lines
    }
}

/// A line of the log.
fn sealed(number: u64, unix_ns: u64, text: &str) -> String {
    let content = format!("{number} {unix_ns} {text}");
    format!("{:08x} {content}\n", crc32c(content.as_bytes()))
}
