//! How wide a text may be.

use std::io::IsTerminal;
use std::os::fd::AsFd;

/// Where nobody sees a screen: wide enough for every table, so that logs have whole rows.
const WITHOUT_SCREEN: usize = 120;
/// Nothing is readable below.
const NARROWEST: usize = 20;

/// Columns of the screen that stdout is: of the terminal, else by `COLUMNS`.
pub(crate) fn columns() -> usize {
    of(std::io::stdout())
}

/// The same of stderr.
pub(crate) fn error_columns() -> usize {
    of(std::io::stderr())
}

fn of(stream: impl AsFd) -> usize {
    let terminal = || {
        let size = rustix::termios::tcgetwinsize(stream).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    };
    terminal().or_else(by_variable).unwrap_or(WITHOUT_SCREEN).max(NARROWEST)
}

/// Columns beyond which sentences are broken: not where a program or a file gets them.
pub(crate) fn wrap_at() -> Option<usize> {
    let is_screen = std::io::stdout().is_terminal() || by_variable().is_some();
    is_screen.then(columns)
}

fn by_variable() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0)
}

/// Whether stdout and stderr are the same file or pipe.
pub(crate) fn is_one_stream() -> bool {
    let of = |stat: rustix::io::Result<rustix::fs::Stat>| {
        stat.ok().map(|stat| (stat.st_dev, stat.st_ino))
    };
    let (out, error) = (rustix::fs::fstat(std::io::stdout()), rustix::fs::fstat(std::io::stderr()));
    of(out).is_some_and(|out| of(error) == Some(out)) && !std::io::stdout().is_terminal()
}
