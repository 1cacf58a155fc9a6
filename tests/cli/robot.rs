//! A program on a terminal: sends keys and reads the screen.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::program::{Held, Place};

const PATIENCE: Duration = Duration::from_secs(120);
const LINES: u16 = 60;
const COLUMNS: u16 = 100;

/// A new terminal, and the path of its other side.
pub(crate) fn terminal() -> (OwnedFd, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    resize(&terminal, LINES, COLUMNS);
    (terminal, name)
}

/// A command whose three streams are this terminal, which is also its controlling terminal, so that
/// keys and a hang-up reach it.
pub(crate) fn on_terminal(place: &Place, name: &str, words: &str) -> Command {
    let open = || {
        let side = fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
        Stdio::from(OwnedFd::from(side))
    };
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait", iosonde_fixtures::program!().path()]);
    command.args(words.split_whitespace()).current_dir(place.work());
    command.env("HOME", place.home()).env_remove("XDG_STATE_HOME");
    command.env("TERM", "xterm").env_remove("NO_COLOR").env_remove("COLUMNS");
    command.stdin(open()).stdout(open()).stderr(open());
    command
}

fn resize(terminal: &OwnedFd, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

/// A program on a terminal.
pub(crate) struct Robot {
    child: Held,
    keyboard: fs::File,
    said: Receiver<Vec<u8>>,
    screen: vt100::Parser,
}

impl Robot {
    pub(crate) fn start(place: &Place, words: &str) -> Robot {
        let (terminal, name) = terminal();
        let child = Held::spawn(&mut on_terminal(place, &name, words)).unwrap();
        let keyboard = fs::File::from(terminal);
        let mut reader = keyboard.try_clone().unwrap();
        let (sender, said) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A read fails after the terminal's last program has ended.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let screen = vt100::Parser::new(LINES.try_into().unwrap(), COLUMNS.try_into().unwrap(), 0);
        Robot { child, keyboard, said, screen }
    }

    pub(crate) fn contents(&self) -> String {
        self.screen.screen().contents()
    }

    /// Waits until the screen contains the text.
    #[track_caller]
    pub(crate) fn sees(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.contents().contains(text) {
            assert!(Instant::now() < until, "`{text}` is not on the screen:\n{}", self.contents());
            self.look(Duration::from_millis(50));
        }
    }

    /// Reads the program's output for this time.
    pub(crate) fn watches(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.look(Duration::from_millis(20));
        }
    }

    fn look(&mut self, most: Duration) {
        if let Ok(bytes) = self.said.recv_timeout(most) {
            self.screen.process(&bytes);
        }
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Changes the width of the window.
    pub(crate) fn resizes(&mut self, columns: u16) {
        let terminal = OwnedFd::from(self.keyboard.try_clone().unwrap());
        resize(&terminal, LINES, columns);
        self.screen.screen_mut().set_size(LINES.try_into().unwrap(), columns.try_into().unwrap());
    }

    /// Waits for the end. Returns the exit code; no signal may have ended it. The screen is kept.
    pub(crate) fn ends(&mut self) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        loop {
            self.look(Duration::from_millis(20));
            if let Some(status) = self.child.child().try_wait().unwrap() {
                self.watches(Duration::from_millis(200));
                assert_eq!(status.signal(), None, "{}", self.contents());
                return status.code();
            }
            assert!(Instant::now() < until, "it does not end:\n{}", self.contents());
        }
    }
}
