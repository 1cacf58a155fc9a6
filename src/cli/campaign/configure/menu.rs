//! State of the menu: it takes keys and changes the document.

use ratatui::crossterm::event::KeyCode as Key;
use toml_edit::Value;

use super::document::{Document, Place};
use super::rows::{Kind, Row, rows};
use iosonde_model::spec::Experiment;

/// Rows per page key.
const PAGE: usize = 10;

/// Whether the menu handles a key.
pub(super) fn knows(key: Key) -> bool {
    let moves = matches!(key, Key::Up | Key::Down | Key::PageUp | Key::PageDown);
    moves || matches!(key, Key::Enter | Key::Esc | Key::Backspace | Key::Char(_))
}

/// Action of the caller after a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Next {
    Stay,
    Save,
    Leave,
}

/// How keys are interpreted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Mode {
    /// Keys move the cursor and change rows.
    Browse,
    /// Keys edit the new value of the row.
    Edit(String),
    /// Keys edit the search text.
    Search(String),
    /// A key answers whether to discard changes.
    Leave,
}

pub(super) struct Menu {
    pub(super) title: String,
    pub(super) document: Document,
    experiments: Vec<Experiment>,
    pub(super) rows: Vec<Row>,
    pub(super) cursor: usize,
    /// First row on the screen.
    pub(super) top: usize,
    pub(super) mode: Mode,
    pub(super) message: String,
    /// Last search text.
    sought: String,
    saved: String,
}

impl Menu {
    pub(super) fn new(
        title: String,
        document: Document,
        experiments: Vec<Experiment>,
        exists: bool,
    ) -> Menu {
        let saved = if exists { document.text() } else { String::new() };
        let rows = rows(&document, &experiments);
        let (message, sought) = (String::new(), String::new());
        let (cursor, top, mode) = (1, 0, Mode::Browse);
        Menu { title, document, experiments, rows, cursor, top, mode, message, sought, saved }
    }

    /// Marks the document as saved.
    pub(super) fn saved(&mut self) {
        self.saved = self.document.text();
        self.message = match self.document.check() {
            Ok(()) => format!("saved {}", self.title),
            Err(why) => format!("saved {}; not complete: {why}", self.title),
        };
    }

    pub(super) fn is_changed(&self) -> bool {
        self.saved != self.document.text()
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: Key) -> Next {
        self.message.clear();
        match std::mem::replace(&mut self.mode, Mode::Browse) {
            Mode::Browse => return self.browse(key),
            Mode::Edit(text) => match key {
                Key::Enter => self.take(&text),
                Key::Esc => {}
                _ => self.mode = Mode::Edit(typed(text, key)),
            },
            Mode::Search(text) => match key {
                Key::Enter | Key::Esc => self.sought = text,
                _ => {
                    let text = typed(text, key);
                    self.find(&text, self.cursor);
                    self.mode = Mode::Search(text);
                }
            },
            Mode::Leave => match key {
                Key::Char('y') => return Next::Leave,
                Key::Char('s') => return Next::Save,
                _ => {}
            },
        }
        Next::Stay
    }

    fn browse(&mut self, key: Key) -> Next {
        let last = self.rows.len() - 1;
        match key {
            Key::Up | Key::Char('k') => self.cursor = self.cursor.saturating_sub(1),
            Key::Down | Key::Char('j') => self.cursor = (self.cursor + 1).min(last),
            Key::PageUp => self.cursor = self.cursor.saturating_sub(PAGE),
            Key::PageDown => self.cursor = (self.cursor + PAGE).min(last),
            Key::Char('/') => self.mode = Mode::Search(String::new()),
            Key::Char('n') => self.find(&self.sought.clone(), self.cursor + 1),
            Key::Char('s') => return Next::Save,
            Key::Char('c') => {
                self.message = match self.document.check() {
                    Ok(()) => "the file is complete".into(),
                    Err(why) => format!("not complete: {why}"),
                };
            }
            Key::Char('d') => self.remove(),
            Key::Char('q') | Key::Esc if self.is_changed() => {
                self.mode = Mode::Leave;
                self.message =
                    "unsaved changes: y discards them, s saves, any other key returns".into();
            }
            Key::Char('q') | Key::Esc => return Next::Leave,
            Key::Enter | Key::Char(' ') => self.choose(),
            _ => {}
        }
        Next::Stay
    }

    fn choose(&mut self) {
        let row = self.rows[self.cursor].clone();
        if let Some(why) = &row.blocked {
            self.message = format!("no effect here: {why}");
            return;
        }
        match (&row.kind, row.place) {
            (Kind::Toggle, Some(place)) => {
                let on = row.value.as_deref() != Some("true");
                self.document.put(place, on.then(|| true.into()));
            }
            (Kind::Choice(words), Some(place)) => {
                let now = words.iter().position(|word| row.value.as_deref() == Some(word));
                let next = words.get(now.map_or(0, |now| now + 1));
                self.document.put(place, next.map(|word| Value::from(*word)));
            }
            (Kind::Text | Kind::Number, Some(_)) => {
                self.mode = Mode::Edit(row.value.unwrap_or_default());
            }
            (Kind::Experiment(name), place) => match place {
                Some(Place::Experiment(number, _)) => self.document.remove("experiment", number),
                _ => {
                    self.document.add("experiment", name);
                }
            },
            (Kind::AddExperiment, _) => {
                self.document.add("experiment", "");
            }
            (Kind::AddDevice, _) => {
                let name = format!("device-{}", self.document.count("device") + 1);
                self.document.add("device", &name);
            }
            _ => {}
        }
        self.renew();
    }

    /// Sets the value of the row; empty text removes it.
    fn take(&mut self, text: &str) {
        let row = &self.rows[self.cursor];
        let Some(place) = row.place else { return };
        let new = match (text.trim(), &row.kind) {
            ("", _) => None,
            (text, Kind::Number) => match text.parse::<i64>() {
                Ok(number) => Some(Value::from(number)),
                Err(_) => {
                    self.message = format!("found `{text}`, expected a whole number");
                    return;
                }
            },
            (text, _) if text.starts_with('[') => match text.parse() {
                Ok(list) => Some(list),
                Err(_) => {
                    self.message = format!("found `{text}`, expected a list such as [\"ext4\"]");
                    return;
                }
            },
            (text, _) => Some(Value::from(text)),
        };
        let before = self.document.clone();
        self.document.put(place, new);
        if let Err(why) = self.document.campaign() {
            self.document = before;
            self.message = why;
        }
        self.renew();
    }

    fn remove(&mut self) {
        match self.rows[self.cursor].place {
            Some(Place::Device(number, _)) => self.document.remove("device", number),
            Some(Place::Experiment(number, _)) => self.document.remove("experiment", number),
            _ => self.message = "only a device or an experiment can be removed".into(),
        }
        self.renew();
    }

    /// Moves to the next row from `from` whose title contains the text, or else whose help does.
    fn find(&mut self, text: &str, from: usize) {
        let text = text.to_lowercase();
        let count = self.rows.len();
        let has = |at: &usize| {
            let row = &self.rows[*at];
            row.title.to_lowercase().contains(&text) || row.help.to_lowercase().contains(&text)
        };
        let exact = |at: &usize| self.rows[*at].title.to_lowercase().contains(&text);
        let order = || (0..count).map(|step| (from + step) % count);
        match order().find(exact).or_else(|| order().find(has)) {
            Some(at) => self.cursor = at,
            None => self.message = format!("nothing has `{text}`"),
        }
    }

    fn renew(&mut self) {
        self.rows = rows(&self.document, &self.experiments);
        self.cursor = self.cursor.min(self.rows.len() - 1);
    }
}

fn typed(mut text: String, key: Key) -> String {
    match key {
        Key::Char(c) => text.push(c),
        Key::Backspace => {
            text.pop();
        }
        _ => {}
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_model::spec::catalogue;

    fn menu() -> Menu {
        let document = Document::parse("name = \"c\" # mine\n").unwrap();
        Menu::new("c.toml".into(), document, catalogue::experiments().unwrap(), true)
    }

    fn keys(menu: &mut Menu, text: &str) {
        for c in text.chars() {
            let key = if c == '\n' { Key::Enter } else { Key::Char(c) };
            menu.key(key);
        }
    }

    #[test]
    fn a_campaign_is_made_by_keys_alone() {
        let mut menu = menu();
        assert!(menu.document.check().unwrap_err().contains("0 devices"));
        keys(&mut menu, "/add a dev");
        menu.key(Key::Esc);
        keys(&mut menu, "\n/path");
        menu.key(Key::Esc);
        keys(&mut menu, "\ndata\n/pts-iops-core");
        menu.key(Key::Esc);
        keys(&mut menu, " /rounds");
        menu.key(Key::Esc);
        keys(&mut menu, "\n7\n");
        assert_eq!(menu.document.check(), Ok(()));
        let campaign = menu.document.campaign().unwrap();
        assert_eq!(campaign.devices[0].path, "data");
        assert_eq!(campaign.experiments[0].name, "pts-iops-core");
        assert_eq!(campaign.experiments[0].rounds, Some(7));
        assert!(menu.document.text().contains("# mine"));
        assert_eq!(menu.key(Key::Char('q')), Next::Stay, "there are changes");
        assert_eq!(menu.key(Key::Char('y')), Next::Leave);
    }

    #[test]
    fn files_of_experiments_and_repeated_ones_have_rows_of_their_own() {
        let text = "name = \"c\"\n[[experiment]]\nname = \"queue-depth\"\n\
            [[experiment]]\nname = \"mine.toml\"\n[[experiment]]\nname = \"queue-depth\"\n\
            repeats = 7\n";
        let document = Document::parse(text).unwrap();
        let mut menu =
            Menu::new("c.toml".into(), document, catalogue::experiments().unwrap(), true);
        let names = |menu: &Menu| -> Vec<String> {
            let all = menu.document.campaign().unwrap().experiments;
            all.into_iter().map(|each| each.name).collect()
        };
        let rows: Vec<_> = menu.rows.iter().filter(|row| row.title == "queue-depth").collect();
        assert_eq!(rows.len(), 2);
        // The second one is removed, and a file is added under another name.
        keys(&mut menu, "/queue-depth\nn ");
        assert_eq!(names(&menu), ["queue-depth", "mine.toml"]);
        keys(&mut menu, "/add an exp\n\n\nyours.toml\n");
        assert_eq!(names(&menu), ["queue-depth", "mine.toml", "yours.toml"]);
        keys(&mut menu, "/mine.toml\nd");
        assert_eq!(names(&menu), ["queue-depth", "yours.toml"]);
    }

    #[test]
    fn what_has_no_effect_or_makes_no_sense_is_refused_with_the_reason() {
        let mut menu = menu();
        keys(&mut menu, "/queue-depth");
        menu.key(Key::Esc);
        keys(&mut menu, " ");
        assert!(menu.rows[menu.cursor].place.is_some());
        keys(&mut menu, "/rounds");
        menu.key(Key::Esc);
        keys(&mut menu, "\n");
        assert!(menu.message.contains("no effect"), "{}", menu.message);
        keys(&mut menu, "/parallel");
        menu.key(Key::Esc);
        keys(&mut menu, "\nmany\n");
        assert!(menu.message.contains("whole number"), "{}", menu.message);
        assert_eq!(menu.document.get(Place::Top("parallel")), None);
    }
}
