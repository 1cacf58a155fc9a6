//! Splits a command into two processes. A thread that waits in the kernel for storage that never
//! answers cannot be killed, and its process cannot end before it. The parent of the command waits
//! only for the supervisor, which has no such thread.

use std::fs::{File, OpenOptions, read_dir};
use std::io;
use std::os::fd::AsRawFd;

use crate::held::is_ignored;

/// Which of the two processes this is.
#[derive(Debug)]
pub enum Split {
    /// The one that was started; it supervises the other.
    Supervisor(Worker),
    /// The one that does the work. It is killed when the supervisor ends, however that ends.
    Worker,
}

/// The process that does the work.
#[derive(Debug)]
pub struct Worker {
    pid: libc::pid_t,
}

/// Forks this process, which must have no other thread yet.
///
/// # Errors
/// If there is another thread, or the kernel gives no process.
pub fn split() -> io::Result<Split> {
    if read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("this process has several threads"));
    }
    let child_ignored = is_ignored(libc::SIGCHLD);
    // SAFETY: takes no pointer.
    let us = unsafe { libc::getpid() };
    // SAFETY: this thread is the only one, so that the child has all that the parent has, and may
    // do all that it may. An ignored signal is set to its default, which takes no handler.
    let pid = unsafe {
        if child_ignored {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        }
        libc::fork()
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: these take numbers and no pointer.
            unsafe {
                if child_ignored {
                    libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                }
                let tied = libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0;
                if !tied || libc::getppid() != us {
                    libc::_exit(libc::EXIT_FAILURE);
                }
            }
            Ok(Split::Worker)
        }
        pid => Ok(Split::Supervisor(Worker { pid })),
    }
}

impl Worker {
    /// How it ended: its exit code, or the signal that killed it. `None` before that, even after a
    /// kill if a request is not answered.
    ///
    /// # Errors
    /// If there is no such process any more.
    pub fn try_wait(&self) -> io::Result<Option<Result<i32, i32>>> {
        let mut status = 0;
        // SAFETY: `status` is valid for writing.
        match unsafe { libc::waitpid(self.pid, &raw mut status, libc::WNOHANG) } {
            -1 => Err(io::Error::last_os_error()),
            0 => Ok(None),
            _ if libc::WIFSIGNALED(status) => Ok(Some(Err(libc::WTERMSIG(status)))),
            _ => Ok(Some(Ok(libc::WEXITSTATUS(status)))),
        }
    }

    /// Kills it. A thread that waits for storage in the kernel keeps waiting.
    pub fn kill(&self) {
        // SAFETY: takes numbers; the process is our child and was not reaped.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
        }
    }
}

/// Ends this process by the signal that ended its worker.
pub fn end_by(signal: i32) {
    // SAFETY: takes numbers; the default of a signal is no handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Ends the process without waiting for its other threads. Its output is closed first, so that no
/// reader of it waits for them either.
pub fn leave(code: u8) -> ! {
    let _ = let_go_of_stdio();
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(code.into()) }
}

/// Replaces stdin, stdout and stderr by `/dev/null` in this thread's table of open files, which is
/// that of the process unless the thread has its own. A thread that never ends then does not keep
/// a pipe open.
///
/// # Errors
/// If there is no `/dev/null`.
pub fn let_go_of_stdio() -> io::Result<()> {
    let null: File = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    for number in 0..=2 {
        // SAFETY: takes numbers. What was open under the standard numbers belongs to no value: the
        // standard library never closes them, and they stay open, on something else.
        unsafe {
            libc::dup2(null.as_raw_fd(), number);
        }
    }
    Ok(())
}
