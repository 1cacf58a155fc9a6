//! The key `q` ends a run as an interrupt does, while the live view is on a terminal.

use std::io::{IsTerminal, Read, stderr, stdin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use rustix::time::Timespec;

use super::watchdog;

/// Maximum time until the thread sees that it must end, ns.
const LOOK_NS: i64 = 200_000_000;

/// Original settings of the terminal, while they are changed.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Listens for keys until dropped.
#[derive(Debug)]
pub(super) struct Keys {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keys {
    /// Starts listening; `None` without a terminal, or if not in the foreground.
    pub(super) fn listen() -> Option<Keys> {
        let is_screen = stdin().is_terminal() && stderr().is_terminal();
        if !is_screen || !is_in_foreground() {
            return None;
        }
        before_panic(restore);
        let before = tcgetattr(stdin()).ok()?;
        let mut changed = before.clone();
        // Signal keys and output processing stay enabled.
        changed.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        tcsetattr(stdin(), OptionalActions::Now, &changed).ok()?;
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = std::thread::Builder::new().name("keys".into()).spawn(move || read(&ends));
        Some(Keys { over, thread: thread.ok() })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        restore();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Calls `give_back`, which restores the terminal, before a panic is reported: it ends the process
/// without running destructors.
pub(super) fn before_panic(give_back: fn()) {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        report(panic);
    }));
}

/// Restores the original settings of the terminal.
pub(super) fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before.filter(|_| is_in_foreground()) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}

/// The terminal settings, for a process that outlives one that may change them.
pub(super) fn state() -> Option<Termios> {
    tcgetattr(stdin()).ok().filter(|_| is_in_foreground())
}

/// Restores these terminal settings.
pub(super) fn put_back(state: Option<&Termios>) {
    if let Some(state) = state.filter(|_| is_in_foreground()) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, state);
    }
}

/// Whether this process is in the foreground; others are stopped if they touch the terminal.
fn is_in_foreground() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

fn read(over: &AtomicBool) {
    let wait = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
    while !over.load(Ordering::Relaxed) {
        let input = stdin();
        let mut polled = [PollFd::new(&input, PollFlags::IN)];
        let is_ready = poll(&mut polled, Some(&wait)).is_ok_and(|ready| ready > 0);
        if !is_ready || over.load(Ordering::Relaxed) || !is_in_foreground() {
            continue;
        }
        let mut key = [0];
        match input.lock().read(&mut key) {
            Ok(1) if key[0].eq_ignore_ascii_case(&b'q') => {
                watchdog::interrupt();
                return;
            }
            Ok(1) => {}
            // The terminal is gone.
            _ => return,
        }
    }
}
