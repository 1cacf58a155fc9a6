//! Progress: one updated line on a terminal, plain lines or JSON lines elsewhere, and the live
//! file.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ratatui::crossterm::cursor::{MoveToColumn, MoveUp};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType};

use super::keys::Keys;
use super::live::{Live, sparkline};
use super::outputs::{Form, Gauge};
use super::screen::error_columns;
use iosonde_engine::engine::Progress as Moved;
use iosonde_model::units::{count, duration};
use iosonde_report::clean::clean;
use iosonde_report::json::Document;
use iosonde_report::progress::{Pace, progress_line};
use iosonde_report::wrapped;

/// Maximum interval of updates on a terminal, ns; a log has fewer.
const TERMINAL_NS: u64 = 250_000_000;

/// Maximum number of points that have a bar each.
const MOST_BARS: usize = 12;
/// Longest bar, columns.
const BAR: usize = 30;

/// Lines on stderr that are replaced together.
pub(super) fn screen() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

/// The last update.
#[derive(Debug, Default)]
struct Pacer {
    reported_ns: u64,
    /// Operations, and when they were counted.
    reported: (u64, u64),
}

impl Pacer {
    /// The rate since the last update, if the next is due.
    fn due(&mut self, moved: &Moved, pause_ns: u64) -> Option<f64> {
        if moved.elapsed_ns < self.reported_ns.saturating_add(pause_ns) {
            return None;
        }
        let (ops, counted_ns) = self.reported;
        let span_ns = moved.counted_ns.saturating_sub(counted_ns).max(1);
        let rate = (moved.ops - ops) as f64 * 1e9 / span_ns as f64;
        let reported = (moved.ops, moved.counted_ns);
        *self = Pacer { reported_ns: moved.elapsed_ns, reported };
        Some(rate)
    }
}

/// The lines on stderr, and the live file.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    verb: &'static str,
    form: Form,
    /// The lines that are replaced, on a terminal.
    screen: Option<ProgressBar>,
    /// Columns of the terminal at the last drawing, and of each line drawn.
    drawn: (usize, Vec<usize>),
    interval_ns: u64,
    gauge: Option<Gauge>,
    /// Cells of the whole command, and the current one.
    cells: usize,
    cell: usize,
    title: String,
    /// Time planned for the remaining cells, ns.
    to_come_ns: u64,
    lines: Pacer,
    live: Pacer,
    /// Rows shown above the progress line.
    rows: Vec<String>,
    /// Roles of the current run.
    now: Live,
    /// Points of the current stage, in the order of their levels: name, and rate if known.
    curve: Vec<(String, Option<f64>)>,
    /// Listens for `q` while progress is shown.
    keys: Option<Keys>,
}

impl Progress {
    /// Updates every `interval_ns`, or never if that is 0. Without a terminal, updates are less
    /// frequent to keep logs short.
    pub(crate) fn new(
        verb: &'static str,
        interval_ns: u64,
        form: Form,
        gauge: Option<Gauge>,
    ) -> Progress {
        Progress {
            verb,
            form,
            screen: (form == Form::Text && io::stderr().is_terminal()).then(screen),
            interval_ns,
            gauge,
            cells: 1,
            ..Progress::default()
        }
    }

    /// Begins a stage with these points, in the order of their levels.
    pub(crate) fn begin_curve(&mut self, names: Vec<String>) {
        self.curve = names.into_iter().map(|name| (name, None)).collect();
    }

    /// Sets the rate of a point so far.
    pub(crate) fn point(&mut self, at: usize, rate: f64) {
        if let Some((_, known)) = self.curve.get_mut(at) {
            *known = Some(rate);
        }
    }

    /// Begins a cell.
    pub(crate) fn begin(&mut self, cell: usize, cells: usize, title: &str, to_come_ns: u64) {
        self.cell = cell;
        self.cells = cells;
        self.title = title.into();
        self.to_come_ns = to_come_ns;
        self.lines = Pacer::default();
        self.live = Pacer::default();
        self.now = Live::default();
        if self.screen.is_some() && self.interval_ns > 0 {
            if self.keys.is_none() {
                self.keys = Keys::listen();
            }
            self.show(&format!("{}{}: starting", place_of(cell, cells), clean(title)));
        }
    }

    /// Updates the progress of a cell.
    pub(crate) fn moved(&mut self, moved: &Moved) {
        if self.interval_ns == 0 {
            return;
        }
        self.now.moved(&moved.roles, moved.elapsed_ns);
        let most_ns = if self.screen.is_some() { TERMINAL_NS } else { u64::MAX };
        let pause_ns = self.interval_ns.min(most_ns);
        if let Some(iops) = self.lines.due(moved, pause_ns) {
            self.now.update();
            let pace = self.pace(moved, iops);
            match self.form {
                Form::Text => self.show(&self.line(&pace, self.room())),
                Form::Json => self.say(&progress_line(&pace)),
                Form::None => {}
            }
        }
        if let Some(iops) = self.live.due(moved, self.interval_ns) {
            let pace = self.pace(moved, iops);
            if let Some(gauge) = &mut self.gauge {
                gauge.live(&pace);
            }
        }
    }

    /// Shows a status line, if the line can be replaced.
    pub(crate) fn print(&mut self, line: &str) {
        if self.screen.is_some() && self.interval_ns > 0 {
            self.show(&clean(line));
        }
    }

    /// The command has ended with this result; `false` if the live file could not be written.
    pub(crate) fn end(&mut self, document: &Document<'_>) -> bool {
        self.gauge.as_mut().is_none_or(|gauge| gauge.end(document))
    }

    fn pace(&self, moved: &Moved, iops: f64) -> Pace {
        let timed = moved.planned_ns > 0;
        let left_ns = moved.planned_ns.saturating_sub(moved.elapsed_ns) + self.to_come_ns;
        Pace {
            verb: self.verb,
            title: self.title.clone(),
            cell: self.cell,
            cells: self.cells,
            elapsed_ns: moved.elapsed_ns,
            left_ns: timed.then_some(left_ns),
            ops: moved.ops,
            iops,
        }
    }

    /// Columns of a line on the terminal, if it is one.
    fn room(&self) -> Option<usize> {
        self.screen.as_ref().map(|_| error_columns().saturating_sub(1))
    }

    /// The progress line of the current run. Parts that do not fit on the terminal are left out,
    /// the least important first.
    fn line(&self, pace: &Pace, room: Option<usize>) -> String {
        let mut start = place_of(pace.cell, pace.cells);
        let rate = || vec![format!("{} IOPS", count::significant_or_whole(pace.iops))];
        let mut figures = self.now.figures().unwrap_or_else(rate).into_iter();
        let iops = figures.next().unwrap_or_default();
        start.push_str(&format!("{}: {iops}", clean(&pace.title)));
        let mut parts: Vec<(u8, String)> = Vec::new();
        for figure in figures {
            let importance = if figure.starts_with("p99") { 3 } else { 2 };
            parts.push((importance, format!(", {figure}")));
        }
        parts.push(match pace.left_ns {
            Some(left_ns) => (4, format!(", {} left", duration::span(left_ns))),
            None => (4, format!(", {} so far", duration::span(pace.elapsed_ns))),
        });
        if self.keys.is_some() {
            parts.push((1, " (q stops)".to_owned()));
        }
        let columns = |text: &str| text.chars().count();
        while let Some(room) = room {
            let all = columns(&start) + parts.iter().map(|(_, text)| columns(text)).sum::<usize>();
            let least = parts.iter().map(|(importance, _)| *importance).min();
            let Some(least) = least.filter(|_| all > room) else { break };
            parts.retain(|(importance, _)| *importance > least);
        }
        parts.iter().for_each(|(_, text)| start.push_str(text));
        start
    }

    fn show(&mut self, line: &str) {
        let columns = error_columns();
        self.fit(columns);
        match &self.screen {
            Some(screen) => {
                let below = self.curve_lines().into_iter().chain(self.now.lines());
                // A line wrapped by the terminal could not be replaced.
                let room = columns.saturating_sub(1);
                let rows = wrapped(&self.rows.join("\n"), room);
                let rows = rows.lines().map(str::to_owned);
                let lines = rows.chain([line.to_owned()]).chain(below);
                let lines: Vec<String> = lines.map(|line| cut(&line, room)).collect();
                let most = rows_of_screen().saturating_sub(1).max(1);
                let lines = &lines[lines.len().saturating_sub(most)..];
                self.drawn = (columns, lines.iter().map(|line| line.chars().count()).collect());
                // The last line is padded with spaces.
                self.drawn.1.pop();
                self.drawn.1.push(columns);
                screen.reset();
                screen.set_message(lines.join("\n"));
                screen.tick();
            }
            None => self.say(&format!("iosonde: {line}\n")),
        }
    }

    /// Clears the lines after the width of the terminal changed: it may have wrapped or joined
    /// them.
    fn fit(&mut self, columns: usize) {
        if self.screen.is_none() || columns == self.drawn.0 {
            return;
        }
        let rows = |width: &usize| width.div_ceil(columns.min(self.drawn.0)).max(1);
        let rows: usize = std::mem::take(&mut self.drawn.1).iter().map(rows).sum();
        if let Some(old) = self.screen.replace(screen())
            && rows > 0
        {
            old.set_draw_target(ProgressDrawTarget::hidden());
            let up = u16::try_from(rows.min(rows_of_screen()) - 1).unwrap_or(u16::MAX);
            let mut error = io::stderr();
            // A closed stderr cannot be reported.
            let _ = match up {
                0 => execute!(error, MoveToColumn(0), Clear(ClearType::FromCursorDown)),
                up => {
                    execute!(error, MoveUp(up), MoveToColumn(0), Clear(ClearType::FromCursorDown))
                }
            };
        }
    }

    /// The known points of the stage as bars; as a sparkline if there are many.
    fn curve_lines(&self) -> Vec<String> {
        let known = self.curve.iter().filter(|(_, rate)| rate.is_some()).count();
        if known == 0 {
            return Vec::new();
        }
        let rates: Vec<f64> = self.curve.iter().map(|(_, rate)| rate.unwrap_or(0.0)).collect();
        let most = rates.iter().copied().fold(0.0, f64::max).max(1e-9);
        if self.curve.len() > MOST_BARS {
            let all = self.curve.len();
            return vec![format!("  {} {known} of {all} points", sparkline(&rates))];
        }
        let name_width = self.curve.iter().map(|(name, _)| name.chars().count()).max();
        let name_width = name_width.unwrap_or(0);
        let bar = |(name, rate): &(String, Option<f64>)| match rate {
            Some(rate) => {
                let long = (rate / most * BAR as f64).round() as usize;
                let iops = count::significant_or_whole(*rate);
                format!("  {name:name_width$} {:BAR$} {iops} IOPS", "█".repeat(long.max(1)))
            }
            None => format!("  {name:name_width$} ·"),
        };
        self.curve.iter().map(|(name, rate)| (clean(name), *rate)).map(|each| bar(&each)).collect()
    }

    fn say(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        // A closed stderr cannot be reported.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }

    /// Adds the row of a finished cell above the line, until the report is printed.
    pub(crate) fn row(&mut self, row: &str) {
        if self.form != Form::Text || self.interval_ns == 0 {
            return;
        }
        match self.screen {
            Some(_) => self.rows.push(clean(row)),
            None => self.say(&format!("iosonde: {}\n", clean(row))),
        }
    }

    /// Clears the screen, so that something else can be printed.
    pub(crate) fn clear(&mut self) {
        self.fit(error_columns());
        if let Some(screen) = &self.screen {
            screen.finish_and_clear();
        }
    }
}

/// The position of a cell among several, such as `[2/8] `.
fn place_of(cell: usize, cells: usize) -> String {
    if cells > 1 { format!("[{}/{cells}] ", cell + 1) } else { String::new() }
}

/// The beginning of a line that fits.
fn cut(line: &str, room: usize) -> String {
    if line.chars().count() <= room {
        return line.to_owned();
    }
    line.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

/// Number of rows of the terminal on stderr.
fn rows_of_screen() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.map_or(24, |size| usize::from(size.ws_row)).max(2)
}
