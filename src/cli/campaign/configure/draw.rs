//! The menu on the screen: rows above, help and warnings below.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Wrap};

use super::menu::{Menu, Mode};
use super::rows::{Kind, Row};
use iosonde_report::clean::clean;

/// Lines below the rows, borders included.
const HELP_LINES: u16 = 7;

/// Draws the whole menu.
pub(super) fn draw(frame: &mut Frame<'_>, menu: &mut Menu) {
    let parts = [Constraint::Min(3), Constraint::Length(HELP_LINES), Constraint::Length(1)];
    let [above, help, foot] = Layout::vertical(parts).areas(frame.area());
    let height = usize::from(above.height.saturating_sub(2)).max(1);
    if menu.cursor < menu.top {
        menu.top = menu.cursor;
    } else if menu.cursor >= menu.top + height {
        menu.top = menu.cursor + 1 - height;
    }
    let shown = menu.rows.iter().enumerate().skip(menu.top).take(height);
    let lines: Vec<Line<'_>> =
        shown.map(|(at, row)| line(row, at == menu.cursor, &menu.mode)).collect();
    let changed = if menu.is_changed() { " (changed)" } else { "" };
    let title = format!(" {}{changed} ", clean(&menu.title));
    let block = Block::default().borders(Borders::ALL).title(title);
    frame.render_widget(Paragraph::new(lines).block(block), above);

    let row = &menu.rows[menu.cursor];
    let mut said = vec![Line::from(clean(&row.help))];
    let warn = Style::default().fg(Color::Yellow).add_modifier(Modifier::BOLD);
    if let Some(why) = &row.blocked {
        said.push(Line::styled(format!("no effect here: {}", clean(why)), warn));
    }
    if let Some(why) = &row.warning {
        said.push(Line::styled(format!("warning: {}", clean(why)), warn));
    }
    if !menu.message.is_empty() {
        said.push(Line::styled(clean(&menu.message), warn));
    }
    let block = Block::default().borders(Borders::ALL).title(format!(" {} ", clean(&row.title)));
    frame.render_widget(Paragraph::new(said).wrap(Wrap { trim: true }).block(block), help);

    let keys = match &menu.mode {
        Mode::Browse => {
            "Enter/Space change  / search  n next  d remove  c check  s save  q leave".to_owned()
        }
        Mode::Edit(_) => "type the value; Enter accepts, empty clears, Esc cancels".into(),
        Mode::Search(text) => format!("search: {}_  Enter done", clean(text)),
        Mode::Leave => "y discard changes  s save  any other key: stay".into(),
    };
    frame.render_widget(Paragraph::new(keys), foot);
}

fn line<'a>(row: &Row, is_chosen: bool, mode: &Mode) -> Line<'a> {
    let indent = "  ".repeat(row.depth);
    let value = row.value.as_deref().unwrap_or_default();
    let edited = match mode {
        Mode::Edit(text) if is_chosen => Some(format!("{}_", clean(text))),
        _ => None,
    };
    let title = clean(&row.title);
    let text = match (&row.kind, edited) {
        (_, Some(text)) => format!("{indent}{title} = {text}"),
        (Kind::Heading, _) => format!("{indent}{title}"),
        (Kind::AddDevice | Kind::AddExperiment, _) => format!("{indent}+ {title}"),
        (Kind::Experiment(_), _) => {
            format!("{indent}[{}] {title}", if row.place.is_some() { "*" } else { " " })
        }
        (Kind::Toggle, _) => {
            format!("{indent}[{}] {title}", if value == "true" { "*" } else { " " })
        }
        _ if value.is_empty() => format!("{indent}{title}"),
        _ => format!("{indent}{title} = {}", clean(value)),
    };
    let mut style = Style::default();
    if row.kind == Kind::Heading {
        style = style.add_modifier(Modifier::BOLD);
    }
    if row.blocked.is_some() {
        style = style.add_modifier(Modifier::DIM);
    }
    if is_chosen {
        style = style.add_modifier(Modifier::REVERSED);
    }
    let mark = if row.warning.is_some() { " !" } else { "" };
    Line::from(vec![
        Span::styled(text, style),
        Span::styled(mark, Style::default().fg(Color::Yellow)),
    ])
}
