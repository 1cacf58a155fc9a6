//! Two processes for one command, so that it ends whatever storage does. A thread that waits in the
//! kernel for an answer that never comes cannot be killed, and its process is not gone before it
//! is. Hence the process that was started only supervises: it passes on signals, and ends with the
//! exit code that the worker has said, whether or not the kernel lets go of the worker.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::keys;
use iosonde_sys::process::{Split, Worker, end_by, split};
use iosonde_sys::signals::Inbox;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;
use rustix::time::Timespec;

/// They ask for an end, even of a command that a script has put into the background.
const ENDING: [Signal; 2] = [Signal::INT, Signal::TERM];
/// This one asks for it unless the command was started by `nohup`.
const HANG_UP: Signal = Signal::HUP;
/// A second signal means: leave at once. Two that are closer are one: `timeout` sends to its child
/// and then to the whole group.
pub(super) const SAME: Duration = Duration::from_millis(100);
/// How long a worker that has said its exit code may take to end: the space of its unnamed file is
/// freed then. It is shorter after a signal.
const GONE_WITHIN: Duration = Duration::from_secs(2);
const GONE_AFTER_SIGNAL: Duration = Duration::from_millis(100);
/// A worker that does not even leave is given up so long after an interrupt.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(12);
/// How often it is looked whether the worker has ended, once it has said its exit code.
const LOOK: Duration = Duration::from_millis(5);

/// Which process this is.
pub(super) enum Role {
    /// The supervisor, which has ended with this code.
    Ended(ExitCode),
    /// The process that does the work, with its connection to the supervisor.
    Works(Link),
}

/// Where signals come from, and where the exit code goes.
#[derive(Debug)]
pub(super) struct Link {
    /// Signals that reach this process itself. With a supervisor they are not looked at: it has
    /// them, too.
    inbox: Option<Inbox>,
    /// The number of each signal that the supervisor got, and its end.
    orders: Option<(PipeReader, PipeWriter)>,
}

/// Splits the process; where that cannot be, it works alone.
pub(super) fn supervised() -> Role {
    let pipes = std::io::pipe().and_then(|orders| Ok((orders, std::io::pipe()?)));
    let Ok(((orders, orders_to), (code, code_to))) = pipes else {
        return Role::Works(Link::alone());
    };
    match split() {
        Ok(Split::Supervisor(worker)) => {
            drop((orders, code_to));
            Role::Ended(supervise(&worker, orders_to, code))
        }
        Ok(Split::Worker) => {
            drop((orders_to, code));
            let inbox = Link::alone().inbox;
            Role::Works(Link { inbox, orders: Some((orders, code_to)) })
        }
        Err(_) => Role::Works(Link::alone()),
    }
}

impl Link {
    /// Without a supervisor.
    pub(super) fn alone() -> Link {
        Link { inbox: inbox(&[]).ok(), orders: None }
    }

    /// Waits for signals, at most so long; gives their numbers.
    pub(super) fn signals(&mut self, at_most: Duration) -> Vec<i32> {
        match (&mut self.orders, &self.inbox) {
            (Some((orders, _)), _) => {
                if !readable(&[orders.as_fd()], at_most)[0] {
                    return Vec::new();
                }
                let mut numbers = [0; 16];
                let count = orders.read(&mut numbers).unwrap_or(0);
                numbers[..count].iter().map(|number| i32::from(*number)).collect()
            }
            (None, Some(inbox)) => {
                readable(&[inbox.as_fd()], at_most);
                inbox.take().into_iter().map(|arrived| arrived.signal).collect()
            }
            (None, None) => {
                std::thread::sleep(at_most);
                Vec::new()
            }
        }
    }

    /// Gives away the end that takes the exit code.
    pub(super) fn take_code(&mut self) -> Option<PipeWriter> {
        let (_, code_to) = self.orders.as_ref()?;
        code_to.try_clone().ok()
    }
}

/// Which of these can be read, after waiting for one at most so long.
fn readable<const N: usize>(files: &[BorrowedFd<'_>; N], at_most: Duration) -> [bool; N] {
    let mut polled = files.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
    let timeout = Timespec {
        tv_sec: at_most.as_secs().cast_signed(),
        tv_nsec: at_most.subsec_nanos().into(),
    };
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) => polled.map(|each| !each.revents().is_empty()),
        // A signal has come; it is in the inbox.
        Err(_) => [false; N],
    }
}

/// Notes every signal that asks for an end, and these.
fn inbox(more: &[i32]) -> std::io::Result<Inbox> {
    let inbox = Inbox::open(&[HANG_UP.as_raw()])?;
    inbox.and_even(&ENDING.map(Signal::as_raw))?;
    inbox.and_even(more)?;
    Ok(inbox)
}

/// The life of the supervisor.
fn supervise(worker: &Worker, mut orders: PipeWriter, mut code: PipeReader) -> ExitCode {
    let child = Signal::CHILD.as_raw();
    let inbox = inbox(&[child]).ok();
    let terminal = keys::state();
    let mut first: Option<(Instant, u8)> = None;
    let mut said: Option<(u8, Instant)> = None;
    let mut is_open = true;
    loop {
        match worker.try_wait() {
            Ok(Some(Ok(code))) => return ExitCode::from(code as u8),
            Ok(Some(Err(signal))) => {
                keys::put_back(terminal.as_ref());
                end_by(signal);
                return ExitCode::from(128 + signal as u8);
            }
            Ok(None) => {}
            // It is gone and nobody knows how; what it has said stands.
            Err(_) => return ExitCode::from(said.map_or(1, |(code, _)| code)),
        }
        let may_take = if first.is_some() { GONE_AFTER_SIGNAL } else { GONE_WITHIN };
        if let Some((code, at)) = said
            && at.elapsed() > may_take
        {
            return ExitCode::from(code);
        }
        if let Some((_, signal)) = first.filter(|(at, _)| at.elapsed() > GIVEN_UP_AFTER) {
            worker.kill();
            keys::put_back(terminal.as_ref());
            return ExitCode::from(128 + signal);
        }
        let wait = if said.is_some() || inbox.is_none() { LOOK } else { Duration::from_secs(1) };
        match &inbox {
            Some(inbox) if is_open => drop(readable(&[inbox.as_fd(), code.as_fd()], wait)),
            Some(inbox) => drop(readable(&[inbox.as_fd()], wait)),
            None => std::thread::sleep(wait),
        }
        for arrived in inbox.iter().flat_map(Inbox::take).filter(|each| each.signal != child) {
            match first {
                Some((at, _)) if at.elapsed() >= SAME => {
                    worker.kill();
                    keys::put_back(terminal.as_ref());
                    return ExitCode::from(128 + arrived.signal as u8);
                }
                Some(_) => {}
                None => {
                    first = Some((Instant::now(), arrived.signal as u8));
                    // A worker that has ended hears nothing any more, and is seen above.
                    let _ = orders.write_all(&[arrived.signal as u8]);
                }
            }
        }
        let mut byte = [0];
        if is_open && readable(&[code.as_fd()], Duration::ZERO)[0] {
            match code.read(&mut byte) {
                Ok(1) => said = Some((byte[0], Instant::now())),
                // It is ending.
                _ => is_open = false,
            }
        }
    }
}
