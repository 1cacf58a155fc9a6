//! Width of text output.

use std::io::IsTerminal;
use std::os::fd::AsFd;

/// Columns without a screen: wide enough for every table, so that logs have whole rows.
const WITHOUT_SCREEN: usize = 120;
/// Minimum columns; nothing is readable below.
const NARROWEST: usize = 20;

/// Columns of the terminal on stdout, or else of `COLUMNS`.
pub(crate) fn columns() -> usize {
    of(std::io::stdout())
}

/// Columns for stderr, likewise.
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

/// Columns at which text is wrapped; `None` if the output goes to a program or a file.
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
