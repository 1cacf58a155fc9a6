//! `--live`: activity of the last second, on a full screen in a terminal, as a line elsewhere.

mod draw;
mod screen;

use iosonde_model::record::profile::{Ended, Op};
use iosonde_model::units::{bytes, count, duration};
use iosonde_report::clean::clean;
use iosonde_stats::Quantile;
use iosonde_watch::Live;
use iosonde_watch::tracer::{Done, Increase, Recent, Row};
use ratatui::crossterm::event::{KeyCode, KeyModifiers};

use crate::cli::output::note;
use screen::Screen;

/// SIGINT. A terminal in raw mode delivers a character instead.
const INTERRUPT: i32 = 2;

/// The table shown.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Table {
    #[default]
    Processes,
    Files,
    Cgroups,
}

/// Sort order of its rows.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Order {
    #[default]
    Bytes,
    Requests,
    Syncs,
}

/// Activity of the last second, and how to show it.
#[derive(Debug, Default)]
struct View {
    /// `None` for the whole machine. Files and cgroups always cover all programs.
    subject: Option<String>,
    elapsed_ns: u64,
    recent: Recent,
    table: Table,
    order: Order,
    is_paused: bool,
    ended: Option<Ended>,
}

impl View {
    fn take(&mut self, recent: Recent) {
        self.elapsed_ns += recent.span_ns;
        if !self.is_paused {
            self.recent = recent;
        }
    }

    fn press(&mut self, code: KeyCode, modifiers: KeyModifiers) {
        if modifiers.contains(KeyModifiers::CONTROL) {
            // `script` may send a zero byte, which is Ctrl+Space.
            if code == KeyCode::Char('c') {
                self.ended = Some(Ended::Interrupted { signal: INTERRUPT });
            }
            return;
        }
        match code {
            KeyCode::Char('q') | KeyCode::Esc => self.ended = Some(Ended::Stopped),
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => {
                self.order = match self.order {
                    Order::Bytes => Order::Requests,
                    Order::Requests => Order::Syncs,
                    Order::Syncs => Order::Bytes,
                }
            }
            KeyCode::Tab => {
                self.table = match self.table {
                    Table::Processes => Table::Files,
                    Table::Files => Table::Cgroups,
                    Table::Cgroups => Table::Processes,
                }
            }
            _ => {}
        }
    }

    /// Cells of the chosen table: name, requests, read, written and syncs per second.
    fn rows(&self) -> Vec<[String; 5]> {
        let of = |name: String, done: &Done| (name, *done);
        let mut rows: Vec<(String, Done)> = match self.table {
            Table::Processes => {
                self.recent.processes.iter().map(|row| of(process(row), &row.done)).collect()
            }
            Table::Files => {
                self.recent.files.iter().map(|row| of(clean(&row.name), &row.done)).collect()
            }
            Table::Cgroups => {
                self.recent.cgroups.iter().map(|row| of(clean(&row.name), &row.done)).collect()
            }
        };
        rows.sort_by_key(|(_, done)| {
            std::cmp::Reverse(match self.order {
                Order::Bytes => done.bytes(),
                Order::Requests => done.requests,
                Order::Syncs => done.syncs,
            })
        });
        let cells = |(name, done): (String, Done)| {
            [
                name,
                count::significant_or_whole(self.per_second(done.requests)),
                bytes::per_second(self.per_second(done.read_bytes)),
                bytes::per_second(self.per_second(done.write_bytes)),
                count::significant_or_whole(self.per_second(done.syncs)),
            ]
        };
        rows.into_iter().map(cells).collect()
    }

    fn per_second(&self, number: u64) -> f64 {
        number as f64 * 1e9 / self.recent.span_ns.max(1) as f64
    }

    /// The rate, bandwidth and latency of an operation.
    fn figures(&self, op: Op) -> String {
        let Increase { requests, bytes, latency } = &self.recent.ops[op as usize];
        let mut words = format!(
            "{} IOPS, {}",
            count::significant_or_whole(self.per_second(*requests)),
            bytes::per_second(self.per_second(*bytes))
        );
        for (name, q) in [("p50", 0.5), ("p99", 0.99)] {
            if latency.count() > 0 {
                let known = Quantile::of(latency, q).value_ns();
                let known = known.map_or("n/a".into(), |ns| duration::latency(ns as f64));
                words.push_str(&format!(", {name} {known}"));
            }
        }
        words
    }

    /// All figures in one line, for a log.
    fn line(&self) -> String {
        let mut words = format!(
            "{}: read {}; write {}",
            duration::span(self.elapsed_ns / 1_000_000_000 * 1_000_000_000),
            self.figures(Op::Read),
            self.figures(Op::Write)
        );
        let file = self.recent.files.first().filter(|_| self.subject.is_none());
        let busiest = [
            self.recent.processes.first().map(|row| (process(row), row.done)),
            file.map(|row| (clean(&row.name), row.done)),
        ];
        for (name, done) in busiest.into_iter().flatten() {
            let rate = bytes::per_second(self.per_second(done.bytes()));
            words.push_str(&format!("; most: {name} {rate}"));
        }
        words
    }
}

/// Name and process ID.
fn process(row: &Row<u32>) -> String {
    match row.key {
        0 => clean(&row.name),
        pid => format!("{} ({pid})", clean(&row.name)),
    }
}

/// The view, and the screen if there is one.
#[derive(Debug)]
pub(super) struct LiveView {
    view: View,
    screen: Option<Screen>,
}

impl LiveView {
    /// Takes the screen if stderr and stdin are terminals.
    pub(super) fn open(subject: Option<String>) -> LiveView {
        LiveView { view: View { subject, ..View::default() }, screen: Screen::open() }
    }

    fn draw(&mut self) {
        // If the terminal is gone, drawing ends and the profile continues.
        self.screen.take_if(|screen| screen.draw(&self.view).is_err());
    }
}

impl Live for LiveView {
    fn show(&mut self, recent: Recent) {
        self.view.take(recent);
        match self.screen {
            Some(_) => self.draw(),
            None => note(&self.view.line()),
        }
    }

    fn ended(&mut self) -> Option<Ended> {
        let mut is_changed = false;
        while let Some((code, modifiers)) = self.screen.as_ref().and_then(Screen::key) {
            self.view.press(code, modifiers);
            is_changed = true;
        }
        if is_changed {
            self.draw();
        }
        self.view.ended.take()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn row(key: u32, name: &str, requests: u64, write_bytes: u64, syncs: u64) -> Row<u32> {
        let done = Done { requests, write_bytes, syncs, ..Done::default() };
        Row { key, name: name.into(), done }
    }

    fn view() -> View {
        let mut view = View::default();
        let mut writes = Increase { requests: 200, bytes: 819_200, ..Increase::default() };
        writes.latency.record_many(1_000_000, 200);
        let ops = [Increase::default(), writes, Increase::default(), Increase::default()];
        let [reads, writes, discards, flushes] = ops;
        view.take(Recent {
            span_ns: 2_000_000_000,
            ops: [reads, writes, discards, flushes, Increase::default()],
            processes: vec![row(7, "dd", 100, 819_200, 0), row(8, "sqlite3\n", 150, 4096, 30)],
            ..Recent::default()
        });
        view
    }

    #[test]
    fn rates_are_per_second_and_names_are_clean() {
        let view = view();
        assert_eq!(view.rows()[0], ["dd (7)", "50.0", "0 MB/s", "0.410 MB/s", "0"]);
        assert_eq!(
            view.line(),
            "2.0 s: read 0 IOPS, 0 MB/s; write 100 IOPS, 0.410 MB/s, p50 1.00 ms, p99 n/a; \
             most: dd (7) 0.410 MB/s"
        );
        assert!(!view.rows()[1][0].contains('\n'), "{:?}", view.rows()[1]);
    }

    #[test]
    fn a_percentile_is_shown_where_the_requests_of_a_second_carry_it() {
        let shown = |requests: u64| {
            let mut view = view();
            view.recent.ops[Op::Write as usize].latency.record_many(1_000_000, requests - 200);
            view.figures(Op::Write)
        };
        assert!(shown(369).ends_with("p50 1.00 ms, p99 n/a"), "{}", shown(369));
        assert!(shown(370).ends_with("p50 1.00 ms, p99 1.00 ms"), "{}", shown(370));
        assert!(!view().figures(Op::Read).contains("p50"), "nothing was read");
    }

    #[test]
    fn keys_sort_pause_turn_the_page_and_end() {
        let mut view = view();
        let press = |view: &mut View, code| view.press(code, KeyModifiers::NONE);
        press(&mut view, KeyCode::Char('s'));
        assert!(view.rows()[0][0].starts_with("sqlite3"), "by requests");
        press(&mut view, KeyCode::Tab);
        assert_eq!((view.table, view.rows().len()), (Table::Files, 0));
        press(&mut view, KeyCode::Char('p'));
        view.take(Recent { span_ns: 1_000_000_000, ..Recent::default() });
        assert_eq!((view.recent.processes.len(), view.elapsed_ns), (2, 3_000_000_000));
        view.press(KeyCode::Char(' '), KeyModifiers::CONTROL);
        assert!(view.is_paused, "no key of ours");
        press(&mut view, KeyCode::Char('q'));
        assert_eq!(view.ended, Some(Ended::Stopped));
        view.press(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(view.ended, Some(Ended::Interrupted { signal: INTERRUPT }));
    }
}
