//! Signal handling. Signals are forwarded to a running command unless it receives them already;
//! without a command they end the profile.

use std::os::fd::AsFd;

use iosonde_sys::clock::monotonic_ns;
use iosonde_sys::held::RunningCommand;
use iosonde_sys::signals::{Arrived, Inbox};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::BorrowedFd;
use rustix::process::{Pid, Signal, getpgid, getpgrp};
use rustix::time::Timespec;

use super::WatchError;

/// Signals that request termination.
const ENDING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
/// Signals with a meaning for some commands (dd prints its progress), which would terminate this
/// process.
const PASSED_ON: [Signal; 3] = [Signal::USR1, Signal::USR2, Signal::ALARM];
/// A second signal within this time aborts. A command that handles interrupts, such as a shell,
/// gets them further apart.
const AT_ONCE_NS: u64 = 2_000_000_000;
/// Signals closer than this count as one: `timeout` sends to its child and then to the whole group.
const SAME_NS: u64 = 100_000_000;

#[derive(Debug)]
pub(super) struct Interrupts {
    inbox: Inbox,
    last_ns: Option<u64>,
}

impl Interrupts {
    pub(super) fn listen(has_command: bool) -> Result<Interrupts, WatchError> {
        let mut signals: Vec<i32> = ENDING.iter().map(|signal| signal.as_raw()).collect();
        if has_command {
            signals.extend(PASSED_ON.iter().map(|signal| signal.as_raw()));
        }
        let inbox = Inbox::open(&signals).map_err(WatchError::system("listen to signals"))?;
        Ok(Interrupts { inbox, last_ns: None })
    }

    /// Sleeps until `deadline_ns` of CLOCK_MONOTONIC, until a signal arrives or until this
    /// descriptor is readable. May wake early.
    pub(super) fn sleep(&self, deadline_ns: u64, or_readable: Option<BorrowedFd<'_>>) {
        let left_ns = deadline_ns.saturating_sub(monotonic_ns());
        let timeout = Timespec {
            tv_sec: (left_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (left_ns % 1_000_000_000).cast_signed(),
        };
        let mut files = vec![PollFd::from_borrowed_fd(self.inbox.as_fd(), PollFlags::IN)];
        files.extend(or_readable.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)));
        // Any error ends the sleep, and the caller checks again.
        let _ = poll(&mut files, Some(&timeout));
    }

    /// Forwards received signals. Returns a termination signal if there is no command to forward it
    /// to.
    ///
    /// # Errors
    /// `Left`, if the user aborted.
    pub(super) fn take(&mut self, to: Option<&RunningCommand>) -> Result<Option<i32>, WatchError> {
        let mut requested = None;
        for Arrived { signal, by_terminal } in self.inbox.take() {
            match to {
                // The terminal signals its whole foreground group, which includes this process.
                Some(command) if !(by_terminal && is_in_our_group(command.pid())) => {
                    command.signal(signal);
                }
                Some(_) => {}
                None => requested = Some(signal),
            }
            if ENDING.iter().any(|ending| ending.as_raw() == signal) {
                let now_ns = monotonic_ns();
                let last_ns = self.last_ns.replace(now_ns);
                let since_ns = last_ns.map_or(u64::MAX, |last_ns| now_ns - last_ns);
                if (SAME_NS..AT_ONCE_NS).contains(&since_ns) {
                    return Err(WatchError::Left { signal });
                }
            }
        }
        Ok(requested)
    }
}

fn is_in_our_group(pid: u32) -> bool {
    let group = Pid::from_raw(pid.cast_signed()).and_then(|pid| getpgid(Some(pid)).ok());
    group == Some(getpgrp())
}
