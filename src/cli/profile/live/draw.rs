//! The full screen: figures above, a table, key help below.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table as Grid};

use super::{Order, Table, View};
use iosonde_model::record::profile::Op;
use iosonde_model::units::duration;
use iosonde_report::clean::clean;

/// Columns of a count, and of a byte rate.
const NUMBER: u16 = 9;
const RATE: u16 = 12;
/// Smallest number of columns for the name. Number columns are left out from the right to keep it.
const NAME: u16 = 18;

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let parts = [Constraint::Length(4), Constraint::Min(2), Constraint::Length(1)];
    let [head, body, foot] = Layout::vertical(parts).areas(frame.area());
    let bold = Style::default().add_modifier(Modifier::BOLD);
    let paused = if view.is_paused { "  PAUSED" } else { "" };
    let elapsed = duration::span(view.elapsed_ns / 1_000_000_000 * 1_000_000_000);
    let subject = view.subject.as_deref().unwrap_or("the whole machine");
    let title = format!("{}  {elapsed}{paused}", clean(subject));
    let lines = [
        Line::styled(title, bold),
        Line::from(format!("read   {}", view.figures(Op::Read))),
        Line::from(format!("write  {}", view.figures(Op::Write))),
        Line::from(""),
    ];
    frame.render_widget(Paragraph::new(lines.to_vec()), head);

    let names = ["", "requests/s", "read", "written", "syncs/s"];
    let what = match (view.table, &view.subject) {
        (Table::Processes, _) => "process",
        (Table::Files, None) => "file",
        (Table::Files, Some(_)) => "file, of all programs",
        (Table::Cgroups, None) => "cgroup",
        (Table::Cgroups, Some(_)) => "cgroup, of all programs",
    };
    let sorted = match view.order {
        Order::Bytes => "bytes",
        Order::Requests => "requests",
        Order::Syncs => "syncs",
    };
    let widths = [0, NUMBER + 1, RATE, RATE, NUMBER];
    // Syncs are counted only per thread.
    let most = if view.table == Table::Processes { 5 } else { 4 };
    let columns = (2..=most)
        .rev()
        .find(|columns| {
            let numbers: u16 = widths[1..*columns].iter().map(|width| width + 1).sum();
            numbers + NAME <= body.width
        })
        .unwrap_or(2);
    let numbers: u16 = widths[1..columns].iter().map(|width| width + 1).sum();
    let name_columns = usize::from(body.width.saturating_sub(numbers));
    let right = |text: String| Cell::new(Text::from(text).alignment(Alignment::Right));
    let header = (0..columns).map(|at| match at {
        0 => Cell::new(what),
        _ => right(names[at].to_owned()),
    });
    let rows = view.rows().into_iter().map(|row| {
        let cells = row.into_iter().take(columns).enumerate().map(|(at, text)| match at {
            0 => Cell::new(end_of(&text, name_columns)),
            _ => right(text),
        });
        Row::new(cells.collect::<Vec<_>>())
    });
    let mut constraints: Vec<Constraint> =
        widths[..columns].iter().map(|width| Constraint::Length(*width)).collect();
    constraints[0] = Constraint::Min(1);
    let header = Row::new(header.collect::<Vec<_>>())
        .style(Style::default().add_modifier(Modifier::REVERSED));
    frame.render_widget(Grid::new(rows, constraints).header(header), body);

    let keys = format!("q end  p pause  s sort ({sorted})  Tab next table");
    frame.render_widget(Paragraph::new(keys), foot);
}

/// The end of a name that is too long; of a path, this is the file.
fn end_of(name: &str, columns: usize) -> String {
    let length = name.chars().count();
    if length <= columns {
        return name.to_owned();
    }
    let skipped = length - columns.saturating_sub(1);
    format!("…{}", name.chars().skip(skipped).collect::<String>())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use iosonde_watch::tracer::{Done, Recent, Row as Seen};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn drawn(width: u16, height: u16) -> Vec<String> {
        let done = Done { requests: 12, read_bytes: 4096, write_bytes: 1 << 20, syncs: 3 };
        let row = Seen { key: 4711, name: "postgres".into(), done };
        let recent = Recent { span_ns: 1_000_000_000, processes: vec![row], ..Recent::default() };
        let mut view = View::default();
        view.take(recent);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &view)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn a_wide_screen_has_every_column_and_a_narrow_one_drops_from_the_right() {
        let wide = drawn(80, 8);
        assert_eq!(wide[0], "the whole machine  1.0 s");
        assert!(wide[4].starts_with("process") && wide[4].ends_with("syncs/s"), "{}", wide[4]);
        assert!(wide[5].starts_with("postgres (4711)"), "{}", wide[5]);
        assert!(wide[5].ends_with(" 12.0 0.00410 MB/s    1.05 MB/s      3.00"), "{:?}", wide[5]);
        let narrow = drawn(41, 8);
        assert!(narrow[4].ends_with("requests/s"), "{}", narrow[4]);
        assert_eq!(end_of("/var/lib/a/file", 8), "…/a/file");
        assert!(drawn(20, 5).iter().all(|line| line.chars().count() <= 20));
    }
}
