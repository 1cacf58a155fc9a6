//! How far it is: one changing line on a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal, Write};

use crate::engine::Progress as Moved;
use crate::units::{count, duration};

/// The line on stderr.
#[derive(Debug)]
pub(crate) struct Progress {
    terminal: bool,
    interval_ns: u64,
    /// Cells of the whole command, and which one it is.
    cells: usize,
    cell: usize,
    title: String,
    /// Time planned for cells that are still to come, ns.
    to_come_ns: u64,
    told_ns: u64,
    told_ops: u64,
    shown: bool,
}

impl Progress {
    /// Tells every `interval_ns`, or never if that is 0. Elsewhere than on a terminal the pace of a
    /// terminal would only fill logs.
    pub(crate) fn new(interval_ns: u64) -> Progress {
        let terminal = io::stderr().is_terminal();
        Progress {
            terminal,
            interval_ns,
            cells: 1,
            cell: 0,
            title: String::new(),
            to_come_ns: 0,
            told_ns: 0,
            told_ops: 0,
            shown: false,
        }
    }

    /// A cell begins.
    pub(crate) fn begin(&mut self, cell: usize, cells: usize, title: &str, to_come_ns: u64) {
        self.cell = cell;
        self.cells = cells;
        self.title = title.into();
        self.to_come_ns = to_come_ns;
        self.told_ns = 0;
        self.told_ops = 0;
    }

    /// A cell moves on.
    pub(crate) fn moved(&mut self, moved: &Moved) {
        let pause_ns =
            if self.terminal { self.interval_ns.min(250_000_000) } else { self.interval_ns };
        if self.interval_ns == 0 || moved.elapsed_ns < self.told_ns.saturating_add(pause_ns) {
            return;
        }
        let span_ns = moved.elapsed_ns - self.told_ns;
        let rate = (moved.ops - self.told_ops) as f64 * 1e9 / span_ns as f64;
        self.told_ns = moved.elapsed_ns;
        self.told_ops = moved.ops;
        let mut line = String::new();
        if self.cells > 1 {
            line.push_str(&format!("[{}/{}] ", self.cell + 1, self.cells));
        }
        line.push_str(&format!("{}: {} IOPS", self.title, count::significant_or_whole(rate)));
        if moved.planned_ns > 0 {
            let left_ns = moved.planned_ns.saturating_sub(moved.elapsed_ns) + self.to_come_ns;
            line.push_str(&format!(", {} left", duration::span(left_ns)));
        } else {
            line.push_str(&format!(", {} so far", duration::span(moved.elapsed_ns)));
        }
        self.show(&line);
    }

    fn show(&mut self, line: &str) {
        let mut stderr = io::stderr().lock();
        // A closed stderr leaves no way to say so.
        let _ = if self.terminal {
            self.shown = true;
            write!(stderr, "\r\x1b[2K{line}").and_then(|()| stderr.flush())
        } else {
            writeln!(stderr, "iosonde: {line}")
        };
    }

    /// Clears the line, so that something else can be printed.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let mut stderr = io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[2K").and_then(|()| stderr.flush());
        }
    }
}
