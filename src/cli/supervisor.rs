//! Runs a command as two processes, so that it ends even if storage hangs. A thread in an
//! uninterruptible wait cannot be killed, and its process remains until the wait ends. Hence the
//! process that was started only supervises: it forwards signals, and ends with the exit code
//! reported by the worker, whether or not the kernel has released the worker.

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

/// Signals that end the command, even one that a script put into the background.
const ENDING: [Signal; 2] = [Signal::INT, Signal::TERM];
/// Signal that ends the command unless it was started by `nohup`.
const HANG_UP: Signal = Signal::HUP;
/// A second signal ends the command at once. Signals closer than this count as one: `timeout` sends
/// to its child and then to the whole group.
pub(super) const SAME: Duration = Duration::from_millis(100);
/// Time for a worker to end after it reported its exit code, while the space of its unnamed file is
/// freed. It is shorter after a signal.
const GONE_WITHIN: Duration = Duration::from_secs(2);
const GONE_AFTER_SIGNAL: Duration = Duration::from_millis(100);
/// Time after an interrupt until a worker that has not ended is killed and abandoned.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(12);
/// Poll interval for the end of a worker that reported its exit code.
const LOOK: Duration = Duration::from_millis(5);

/// The role of this process.
pub(super) enum Role {
    /// The supervisor; it must end with this code.
    Ended(ExitCode),
    /// The process that does the work, with its connection to the supervisor.
    Works(Link),
}

/// The worker's source of signals, and the pipe for its exit code.
#[derive(Debug)]
pub(super) struct Link {
    /// Signals sent to this process itself. Ignored if there is a supervisor, which forwards them.
    inbox: Option<Inbox>,
    /// Pipe with the numbers of the supervisor's signals, and pipe for the exit code.
    orders: Option<(PipeReader, PipeWriter)>,
}

/// Forks into supervisor and worker; if that fails, this process works alone.
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
    /// A link without a supervisor.
    pub(super) fn alone() -> Link {
        Link { inbox: inbox(&[]).ok(), orders: None }
    }

    /// Waits for signals, at most this long; returns their numbers.
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

    /// The pipe that takes the exit code.
    pub(super) fn take_code(&mut self) -> Option<PipeWriter> {
        let (_, code_to) = self.orders.as_ref()?;
        code_to.try_clone().ok()
    }
}

/// Which of these files can be read, after waiting at most this long for one.
fn readable<const N: usize>(files: &[BorrowedFd<'_>; N], at_most: Duration) -> [bool; N] {
    let mut polled = files.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
    let timeout = Timespec {
        tv_sec: at_most.as_secs().cast_signed(),
        tv_nsec: at_most.subsec_nanos().into(),
    };
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) => polled.map(|each| !each.revents().is_empty()),
        // Interrupted by a signal, which is in the inbox.
        Err(_) => [false; N],
    }
}

/// Collects every signal that ends the command, and these.
fn inbox(more: &[i32]) -> std::io::Result<Inbox> {
    let inbox = Inbox::open(&[HANG_UP.as_raw()])?;
    inbox.and_even(&ENDING.map(Signal::as_raw))?;
    inbox.and_even(more)?;
    Ok(inbox)
}

/// Supervises the worker; returns the exit code.
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
            // The worker is gone with an unknown status: the code it reported counts.
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
                    // Fails if the worker has ended, which is detected above.
                    let _ = orders.write_all(&[arrived.signal as u8]);
                }
            }
        }
        let mut byte = [0];
        if is_open && readable(&[code.as_fd()], Duration::ZERO)[0] {
            match code.read(&mut byte) {
                Ok(1) => said = Some((byte[0], Instant::now())),
                // The worker closed the pipe: it is ending.
                _ => is_open = false,
            }
        }
    }
}
