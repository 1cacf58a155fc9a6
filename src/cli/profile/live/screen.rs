//! The terminal, restored however the profile ends.

use std::io::{self, IsTerminal, Stderr, stderr, stdin};
use std::mem::ManuallyDrop;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::View;
use super::draw::draw;
use crate::cli::keys::before_panic;

/// Full screen on stderr; keys are read from stdin.
#[derive(Debug)]
pub(super) struct Screen {
    /// Never dropped: its destructor panics if the terminal is gone, and is not needed.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stderr>>>,
}

impl Screen {
    /// Takes the screen; `None` if stderr or stdin is not a usable terminal.
    pub(super) fn open() -> Option<Screen> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if is_dumb || !stderr().is_terminal() || !stdin().is_terminal() {
            return None;
        }
        before_panic(give_back);
        enable_raw_mode().ok()?;
        let screen = execute!(stderr(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stderr())));
        match screen {
            Ok(terminal) => Some(Screen { terminal: ManuallyDrop::new(terminal) }),
            Err(_) => {
                give_back();
                None
            }
        }
    }

    pub(super) fn draw(&mut self, view: &View) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame, view)).map(|_| ())
    }

    /// Next key press, if any. A new window size takes effect with the next drawing.
    pub(super) fn key(&self) -> Option<(KeyCode, KeyModifiers)> {
        while poll(Duration::ZERO).is_ok_and(|is_ready| is_ready) {
            match read() {
                Ok(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                    return Some((key.code, key.modifiers));
                }
                Ok(_) => {}
                Err(_) => return None,
            }
        }
        None
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.terminal.show_cursor();
        give_back();
    }
}

/// Restores the terminal. Errors are ignored: the terminal may be gone.
fn give_back() {
    let _ = execute!(stderr(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
