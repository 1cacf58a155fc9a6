//! Records signals with their origin, for a caller that forwards them: a signal from the terminal
//! reaches the whole process group by itself, one from `kill` reaches a single process.

use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::held::is_ignored;

/// Linux numbers its signals from 1 to 64.
const SIGNALS: usize = 65;
/// `si_code` of a signal that the kernel itself sends.
const SI_KERNEL: i32 = 0x80;

/// How often each signal has arrived, from processes and from the kernel.
static SEEN: [[AtomicU32; 2]; SIGNALS] =
    [const { [AtomicU32::new(0), AtomicU32::new(0)] }; SIGNALS];
/// The eventfd that wakes the waiting thread; -1 for none.
static BELL: AtomicI32 = AtomicI32::new(-1);

/// A signal that has arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrived {
    /// Its number.
    pub signal: i32,
    /// The kernel has sent it, for a key on the terminal or a hangup. The rest of the foreground
    /// process group has received it too.
    pub by_terminal: bool,
}

/// Records signals. One per process.
#[derive(Debug)]
pub struct Inbox {
    bell: File,
}

impl Inbox {
    /// Begins to record these signals. Those ignored since the start of the process stay ignored.
    ///
    /// # Errors
    /// If the kernel gives no descriptor, or a signal cannot be caught.
    pub fn open(signals: &[i32]) -> io::Result<Inbox> {
        // SAFETY: takes numbers; a returned descriptor is new and unowned.
        let bell = unsafe {
            match libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) {
                -1 => return Err(io::Error::last_os_error()),
                fd => File::from(OwnedFd::from_raw_fd(fd)),
            }
        };
        BELL.store(bell.as_raw_fd(), Ordering::Release);
        let inbox = Inbox { bell };
        let heeded: Vec<i32> =
            signals.iter().copied().filter(|signal| !is_ignored(*signal)).collect();
        inbox.and_even(&heeded)?;
        Ok(inbox)
    }

    /// Records these signals too, even those ignored since the start of the process.
    ///
    /// # Errors
    /// If a signal cannot be caught.
    pub fn and_even(&self, signals: &[i32]) -> io::Result<()> {
        for signal in signals {
            // SAFETY: `note` has the signature of SA_SIGINFO and makes no call that a handler may
            // not; an all-zero sigaction is valid, with an empty mask.
            let result = unsafe {
                let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
                let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = note;
                action.sa_sigaction = handler as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                libc::sigaction(*signal, &raw const action, ptr::null_mut())
            };
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// The signals that have arrived since the last call, by number.
    pub fn take(&self) -> Vec<Arrived> {
        let mut rings = [0; 8];
        // An error means that no signal has arrived.
        let _ = (&self.bell).read(&mut rings);
        let mut arrived = Vec::new();
        for (signal, counts) in (0..).zip(&SEEN) {
            for (by_terminal, count) in [false, true].into_iter().zip(counts) {
                for _ in 0..count.swap(0, Ordering::AcqRel) {
                    arrived.push(Arrived { signal, by_terminal });
                }
            }
        }
        arrived
    }
}

impl AsFd for Inbox {
    /// Readable when a signal has arrived.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // Clear only its own descriptor: another inbox may have been opened meanwhile.
        let own = self.bell.as_raw_fd();
        let _ = BELL.compare_exchange(own, -1, Ordering::AcqRel, Ordering::Relaxed);
    }
}

extern "C" fn note(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo to a handler of SA_SIGINFO; errno is this thread's,
    // and left as it was found; write is allowed in a handler, and the number is that of an eventfd
    // or of nothing.
    unsafe {
        let by_kernel = usize::from(!info.is_null() && (*info).si_code == SI_KERNEL);
        if let Some(counts) = usize::try_from(signal).ok().and_then(|signal| SEEN.get(signal)) {
            counts[by_kernel].fetch_add(1, Ordering::AcqRel);
        }
        let errno = *libc::__errno_location();
        let one = 1u64;
        libc::write(BELL.load(Ordering::Acquire), (&raw const one).cast(), size_of::<u64>());
        *libc::__errno_location() = errno;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_came_is_reported_once_with_its_origin() {
        let inbox = Inbox::open(&[libc::SIGUSR1, libc::SIGUSR2]).unwrap();
        assert_eq!(inbox.take(), []);
        for signal in [libc::SIGUSR2, libc::SIGUSR1] {
            // SAFETY: sends a signal, which is caught, to this thread.
            assert_eq!(unsafe { libc::raise(signal) }, 0);
        }
        let by_terminal = false;
        let each = [libc::SIGUSR1, libc::SIGUSR2].map(|signal| Arrived { signal, by_terminal });
        assert_eq!(inbox.take(), each);
        assert_eq!(inbox.take(), []);
    }
}
