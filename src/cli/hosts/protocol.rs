//! Protocol of coordinator and agent: frames of JSON, each preceded by its length.
//!
//! ```text
//! #iosonde 27
//! {"Hello":{"protocol":1,…}}
//! ```
//!
//! It is text, so that line-based launchers can pass it on. Anything before the first frame is a
//! login banner; after it, only frames are valid.

use std::io::{self, BufRead, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use iosonde_model::record::Run;
use iosonde_model::record::hosts::TargetIdentity;

/// Version of the protocol. Both sides must also have the same program version: a plan means the
/// same only there.
pub(crate) const PROTOCOL: u32 = 1;

/// Prefix of the line before a frame.
const MARK: &str = "#iosonde ";
/// Longest line that contains a length, bytes.
const MAX_HEAD: u64 = 64;
/// Longest banner, bytes.
const MAX_BANNER: u64 = 64 << 10;
/// Longest frame, bytes.
const MAX_FRAME: u64 = 64 << 20;

/// Message from the coordinator.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) enum Order {
    /// Requests the time; `sent_ns` is the coordinator's clock.
    Ping { sent_ns: u64 },
    /// Run this command, and wait before anything is written.
    Begin { words: Vec<String> },
    /// All hosts are admitted: continue to the first run.
    Prepare,
    /// Begin this run at this time of the host's monotonic clock.
    Start { cell: usize, at_ns: u64 },
    /// End early and return partial results.
    Stop,
}

/// Message from the agent, or from the command that it runs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) enum News {
    /// A shell, before the agent starts, requests the program (`--send-binary`).
    Wanted,
    /// First message of an agent.
    Hello { protocol: u32, program: String, node: String, kernel: String },
    /// Host's monotonic clock, ns, in answer to the ping sent then.
    Pong { sent_ns: u64, clock_ns: u64 },
    /// The targets are open, and this host can continue.
    Admitted { targets: Vec<TargetIdentity> },
    /// All jobs of this run wait for its start.
    Ready { cell: usize, title: String },
    /// Measured window opened at this time of the host's monotonic clock.
    Opened { cell: usize, at_ns: u64 },
    /// Progress of the run.
    Moved { elapsed_ns: u64, ops: u64 },
    /// Record of a run that has ended.
    Record { cell: usize, run: Box<Run> },
    /// Line that the command wrote to standard error.
    Said { line: String },
    /// Sign of life without news.
    Alive,
    /// The command has ended with this standard output.
    Ended { code: u8, output: String },
}

/// Why no further message can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProtocolError {
    /// There is no frame.
    #[error("found {found:?}, expected an iosonde agent")]
    NoAgent { found: String },
    /// Invalid bytes between frames or in the line before one.
    #[error("found {found:?} between two messages, expected `{MARK}` and a length")]
    NoFrame { found: String },
    /// Longer than any message.
    #[error("a message of {found} B, expected at most {MAX_FRAME}")]
    TooLong { found: u64 },
    /// The connection ended within a message.
    #[error("the connection ended within a message")]
    Cut,
    /// Not a message of this protocol.
    #[error("a message that cannot be understood: {0}")]
    Message(#[from] serde_json::Error),
    /// System error.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Sends one message.
///
/// # Errors
/// If the pipe or socket is closed.
pub(crate) fn send<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    let text = serde_json::to_string(message)?;
    // A single write, so that output of others to the same pipe cannot split the message.
    to.write_all(format!("{MARK}{}\n{text}\n", text.len()).as_bytes())?;
    to.flush()
}

/// Reads messages.
#[derive(Debug)]
pub(crate) struct Messages<R> {
    from: R,
    /// Bytes of the banner that may still come; 0 after the first message.
    banner_left: u64,
}

impl<R: BufRead> Messages<R> {
    pub(crate) fn new(from: R) -> Messages<R> {
        Messages { from, banner_left: MAX_BANNER }
    }

    /// Next message; `None` at the end.
    ///
    /// # Errors
    /// If the input is not a valid message.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ProtocolError> {
        let Some(length) = self.length()? else { return Ok(None) };
        let mut text = Vec::new();
        // Memory is allocated only as bytes arrive, since the length may be wrong.
        self.from.by_ref().take(length + 1).read_to_end(&mut text)?;
        if text.len() as u64 != length + 1 {
            return Err(ProtocolError::Cut);
        }
        self.banner_left = 0;
        Ok(Some(serde_json::from_slice(&text)?))
    }

    /// Length of the next frame.
    fn length(&mut self) -> Result<Option<u64>, ProtocolError> {
        let mut first = None;
        loop {
            let mut line = Vec::new();
            let most = MAX_HEAD.max(self.banner_left);
            self.from.by_ref().take(most).read_until(b'\n', &mut line)?;
            let line_bytes = line.len() as u64;
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end();
            // A banner may end without a line feed.
            let head = line.find(MARK).filter(|at| *at == 0 || self.banner_left > 0);
            if let Some(at) = head {
                let length = line[at + MARK.len()..].parse();
                let length: u64 =
                    length.map_err(|_| ProtocolError::NoFrame { found: shown(line) })?;
                return match length {
                    0..=MAX_FRAME => Ok(Some(length)),
                    found => Err(ProtocolError::TooLong { found }),
                };
            }
            match (line_bytes, self.banner_left, first) {
                (0, 0, _) => return Ok(None),
                (0, _, Some(found)) => return Err(ProtocolError::NoAgent { found }),
                (0, _, None) => return Ok(None),
                (_, 0, _) => return Err(ProtocolError::NoFrame { found: shown(line) }),
                (_, left, earlier) => {
                    let found = earlier.unwrap_or_else(|| shown(line));
                    if line_bytes >= left {
                        return Err(ProtocolError::NoAgent { found });
                    }
                    self.banner_left = left - line_bytes;
                    first = Some(found);
                }
            }
        }
    }
}

/// Reads all bytes as a coordinator and as an agent would; returns the number of messages that each
/// found. For fuzzing.
pub fn read_frames(bytes: &[u8]) -> [usize; 2] {
    fn count<T: DeserializeOwned>(bytes: &[u8]) -> usize {
        let mut messages = Messages::new(bytes);
        std::iter::from_fn(|| messages.next::<T>().ok().flatten()).count()
    }
    [count::<News>(bytes), count::<Order>(bytes)]
}

/// Beginning of a line.
fn shown(line: &str) -> String {
    line.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_model::plan::chance::Chance;

    fn read(bytes: &[u8]) -> Result<Vec<Order>, ProtocolError> {
        let mut messages = Messages::new(bytes);
        let mut all = Vec::new();
        while let Some(message) = messages.next()? {
            all.push(message);
        }
        Ok(all)
    }

    fn orders() -> (Vec<Order>, Vec<u8>) {
        let orders = vec![
            Order::Begin { words: vec!["run".into(), "#iosonde 3\n".into()] },
            Order::Ping { sent_ns: 7 },
            Order::Start { cell: 2, at_ns: u64::MAX },
        ];
        let mut bytes = Vec::new();
        orders.iter().for_each(|order| send(&mut bytes, order).unwrap());
        (orders, bytes)
    }

    #[test]
    fn what_is_sent_is_read_also_behind_a_banner() {
        let (orders, bytes) = orders();
        assert_eq!(read(&bytes).unwrap(), orders);
        for banner in ["Welcome to node1\n\n", "Last login: today\r\n", "no line feed"] {
            let bytes = [banner.as_bytes(), &bytes].concat();
            assert_eq!(read(&bytes).unwrap(), orders, "{banner:?}");
        }
        assert_eq!(read(b"").unwrap(), []);
    }

    #[test]
    fn noise_cut_messages_and_lies_about_their_size_are_errors() {
        let words = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert_eq!(
            words(b"bash: iosonde: command not found\n"),
            "found \"bash: iosonde: command not found\", expected an iosonde agent"
        );
        assert!(words(&[b'x'; 1 << 20]).ends_with("expected an iosonde agent"));
        let (_, bytes) = orders();
        let behind = [&bytes[..], b"noise\n"].concat();
        assert!(words(&behind).starts_with("found \"noise\" between two messages"));
        assert!(words(b"#iosonde 99999999999\n{}").starts_with("a message of 99999999999 B"));
        assert!(words(b"#iosonde -1\n").starts_with("found \"#iosonde -1\""));
        assert!(words(b"#iosonde 9\n{}\n").contains("ended within a message"));
        assert!(words(b"#iosonde 2\n{}\n").contains("cannot be understood"));
    }

    #[test]
    fn no_bytes_are_too_much() {
        let (_, mut whole) = orders();
        let hello =
            News::Hello { protocol: 1, program: "0".into(), node: "n".into(), kernel: "k".into() };
        let ended = News::Ended { code: 0, output: "#iosonde 2\n{}\n".into() };
        let news = [hello, News::Wanted, News::Opened { cell: 0, at_ns: 1 }, News::Alive, ended];
        let (of_news, of_orders) = (news.len(), 3);
        let mut from_agent = Vec::new();
        news.iter().for_each(|news| send(&mut from_agent, news).unwrap());
        assert_eq!(read_frames(&from_agent), [of_news, 0]);
        assert_eq!(read_frames(&whole), [0, of_orders]);
        whole.extend(from_agent);
        let mut chance = Chance::new(18);
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..1 + chance.below(4) {
                let at = chance.below(bytes.len() as u64) as usize;
                match chance.below(3) {
                    0 => bytes[at] = chance.below(256) as u8,
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, b'#'),
                }
            }
            // Input is read or refused, within bounds of time and memory.
            let found = read_frames(&bytes);
            assert!(found.iter().all(|found| *found <= bytes.len() / 10), "{found:?}");
        }
    }
}
