//! A command whose process id is known before it runs: the child waits between fork and exec until
//! it is released. `std::process::Command` returns only after the exec.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use crate::thread::Usage;

/// Exit code of a child that cannot be released any more, because its parent has ended.
const GIVEN_UP: i32 = 125;

/// A child before its exec, with the user, streams, folder and environment of this process. If it
/// is dropped without release, it is killed and its command never runs.
#[derive(Debug)]
pub struct HeldCommand {
    child: Child,
    /// The pipe that the child reads; the child exits when this process ends.
    gate: File,
    verdict: File,
}

/// A released command. If it is dropped before it is reaped, it keeps running.
#[derive(Debug)]
pub struct RunningCommand {
    child: Child,
}

/// How a command ended, and the resources that it and the children it waited for have used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reaped {
    /// Exit code, or the number of the signal that killed it.
    pub end: Result<i32, i32>,
    /// CPU time and context switches.
    pub usage: Usage,
    /// Largest resident set among them, bytes.
    pub peak_rss_bytes: u64,
}

#[derive(Debug)]
struct Child {
    pid: libc::pid_t,
}

impl HeldCommand {
    /// Forks a child. The words are the command, looked up in `PATH` if it contains no slash, and
    /// its arguments.
    ///
    /// # Errors
    /// If there is no word, or the kernel gives no process or pipe.
    pub fn fork(words: &[CString]) -> io::Result<HeldCommand> {
        let Some(name) = words.first() else { return Err(io::ErrorKind::InvalidInput.into()) };
        let mut arguments: Vec<*const libc::c_char> =
            words.iter().map(|word| word.as_ptr()).collect();
        arguments.push(ptr::null());
        let (wait_here, gate) = pipe()?;
        let (verdict, tell_here) = pipe()?;
        let at_birth = Birth::prepare()?;
        // SAFETY: the child calls `become_command`, which makes system calls and allocates nothing,
        // on values that were made before.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let ends = [wait_here.as_raw_fd(), gate.as_raw_fd(), tell_here.as_raw_fd()];
            // SAFETY: this is the child of a fork; the arguments end with a null pointer, and point
            // to words that live on.
            unsafe { become_command(name, &arguments, ends, &at_birth) }
        }
        let failed = (pid < 0).then(io::Error::last_os_error);
        at_birth.restore_mask();
        match failed {
            Some(error) => Err(error),
            None => Ok(HeldCommand {
                child: Child { pid },
                gate: File::from(gate),
                verdict: File::from(verdict),
            }),
        }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.pid.unsigned_abs()
    }

    /// Lets it run. Returns after the exec.
    ///
    /// # Errors
    /// The error of the exec (`ENOENT`, `EACCES`); the child has ended then.
    pub fn release(mut self) -> io::Result<RunningCommand> {
        // If the child was killed meanwhile, `Reaped` will report it.
        let _ = self.gate.write_all(&[1]);
        let mut errno = [0; 4];
        match self.verdict.read_exact(&mut errno) {
            // The pipe was closed by the exec, or because a signal killed the child.
            Err(_) => {
                let pid = std::mem::replace(&mut self.child.pid, 0);
                Ok(RunningCommand { child: Child { pid } })
            }
            Ok(()) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
        }
    }
}

impl Drop for HeldCommand {
    fn drop(&mut self) {
        if self.child.pid != 0 {
            self.child.signal(libc::SIGKILL);
            let _ = self.child.reap();
        }
    }
}

impl RunningCommand {
    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.pid.unsigned_abs()
    }

    /// Whether it has ended. Its entry in `/proc` stays until `reap`.
    ///
    /// # Errors
    /// If the kernel knows no such child.
    pub fn has_ended(&self) -> io::Result<bool> {
        let mut seen = MaybeUninit::<libc::siginfo_t>::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let pid = self.child.pid.unsigned_abs();
        // SAFETY: `seen` is valid for writing, and all-zero is a valid siginfo_t.
        let (result, seen) = unsafe {
            let result = libc::waitid(libc::P_PID, pid, seen.as_mut_ptr(), options);
            (result, seen.assume_init())
        };
        match result {
            0 => {
                // SAFETY: waitid has filled in the fields of a child's state, or left zeros.
                Ok(unsafe { seen.si_pid() } != 0)
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sends it a signal. Its process id is not reused before it is reaped.
    pub fn signal(&self, signal: i32) {
        self.child.signal(signal);
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If the kernel knows no such child.
    pub fn reap(self) -> io::Result<Reaped> {
        self.child.reap()
    }
}

impl Child {
    fn signal(&self, signal: i32) {
        // SAFETY: takes numbers only; the child is not reaped, so that the pid is its own.
        unsafe {
            libc::kill(self.pid, signal);
        }
    }

    fn reap(&self) -> io::Result<Reaped> {
        let mut status = 0;
        let mut used = MaybeUninit::<libc::rusage>::zeroed();
        loop {
            // SAFETY: both pointers are valid for writing.
            let got = unsafe { libc::wait4(self.pid, &raw mut status, 0, used.as_mut_ptr()) };
            if got == self.pid {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        // SAFETY: all-zero is a valid rusage, and the kernel has filled it in.
        let used = unsafe { used.assume_init() };
        let end = match libc::WIFSIGNALED(status) {
            true => Err(libc::WTERMSIG(status)),
            false => Ok(libc::WEXITSTATUS(status)),
        };
        let peak_rss_bytes = (used.ru_maxrss as u64).saturating_mul(1024);
        Ok(Reaped { end, usage: Usage::from(used), peak_rss_bytes })
    }
}

/// The signal state for the child.
struct Birth {
    mask: libc::sigset_t,
    /// Whether SIGCHLD was ignored when this process started. The command then ignores it again.
    child_ignored: bool,
}

impl Birth {
    /// Blocks every signal until `restore_mask`, so that no handler of ours runs in the child.
    fn prepare() -> io::Result<Birth> {
        let child_ignored = is_ignored(libc::SIGCHLD);
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: both sets are valid for writing; sigfillset makes the first a set; an ignored
        // signal is set to its default, which takes no handler of ours.
        unsafe {
            if child_ignored {
                libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            }
            libc::sigfillset(all.as_mut_ptr());
            match libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), mask.as_mut_ptr()) {
                0 => Ok(Birth { mask: mask.assume_init(), child_ignored }),
                errno => Err(io::Error::from_raw_os_error(errno)),
            }
        }
    }

    fn restore_mask(&self) {
        // SAFETY: the set was made by the kernel.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.mask, ptr::null_mut());
        }
    }
}

/// Whether this process ignores a signal, as under `nohup`.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `now` is valid for writing, and all-zero is a valid sigaction.
    unsafe {
        libc::sigaction(signal, ptr::null(), now.as_mut_ptr());
        now.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Waits for the release and executes the command. As in an exec, signals with a handler get their
/// default and ignored ones stay ignored, except SIGPIPE, which the Rust runtime ignores.
///
/// # Safety
/// Only in the child of a fork. `arguments` ends with a null pointer, and each other points to a
/// string that ends with a zero byte.
unsafe fn become_command(
    name: &CStr,
    arguments: &[*const libc::c_char],
    [wait_here, gate, tell_here]: [RawFd; 3],
    at_birth: &Birth,
) -> ! {
    // SAFETY: system calls on numbers and on values of this frame; execvp of the common C libraries
    // allocates on the stack only.
    unsafe {
        for signal in 1..=64 {
            if !is_ignored(signal) {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        if at_birth.child_ignored {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        }
        at_birth.restore_mask();
        libc::close(gate);
        let mut byte = 0u8;
        loop {
            match libc::read(wait_here, (&raw mut byte).cast(), 1) {
                1 => break,
                -1 if *libc::__errno_location() == libc::EINTR => {}
                _ => libc::_exit(GIVEN_UP),
            }
        }
        libc::execvp(name.as_ptr(), arguments.as_ptr());
        let errno = *libc::__errno_location();
        libc::write(tell_here, (&raw const errno).cast(), size_of::<i32>());
        libc::_exit(127)
    }
}

/// A pipe that no command inherits: read end and write end.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array is valid for writing; on success both descriptors are new and unowned.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn words(words: &[&str]) -> Vec<CString> {
        words.iter().map(|word| CString::new(*word).unwrap()).collect()
    }

    fn end_of(command: &[&str]) -> Result<i32, i32> {
        HeldCommand::fork(&words(command)).unwrap().release().unwrap().reap().unwrap().end
    }

    #[test]
    fn it_waits_for_its_release_and_has_its_number_before() {
        let dir = std::env::temp_dir().join(format!("held-{}", std::process::id()));
        let script = format!("echo $$ > {}", dir.display());
        let held = HeldCommand::fork(&words(&["sh", "-c", &script])).unwrap();
        let pid = held.pid();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!dir.exists(), "it ran before it was released");
        let running = held.release().unwrap();
        assert_eq!(running.pid(), pid);
        assert_eq!(running.reap().unwrap().end, Ok(0));
        let said = std::fs::read_to_string(&dir).unwrap();
        std::fs::remove_file(&dir).unwrap();
        assert_eq!(said.trim(), pid.to_string());
    }

    #[test]
    fn ends_are_distinguished() {
        assert_eq!(end_of(&["true"]), Ok(0));
        assert_eq!(end_of(&["sh", "-c", "exit 37"]), Ok(37));
        assert_eq!(end_of(&["sh", "-c", "kill -TERM $$"]), Err(libc::SIGTERM));
        // The Rust runtime ignores SIGPIPE; a command does not.
        assert_eq!(end_of(&["sh", "-c", "kill -PIPE $$"]), Err(libc::SIGPIPE));
    }

    #[test]
    fn why_it_cannot_run_comes_back() {
        let errno = |command: &[&str]| {
            let held = HeldCommand::fork(&words(command)).unwrap();
            held.release().unwrap_err().raw_os_error()
        };
        assert_eq!(errno(&["/no/such/program"]), Some(libc::ENOENT));
        assert_eq!(errno(&["no-such-program-anywhere"]), Some(libc::ENOENT));
        assert_eq!(errno(&["/"]), Some(libc::EACCES));
        assert!(HeldCommand::fork(&[]).is_err());
    }

    #[test]
    fn given_up_it_never_runs() {
        let path = std::env::temp_dir().join(format!("given-up-{}", std::process::id()));
        let name = path.display().to_string();
        let held = HeldCommand::fork(&words(&["touch", &name])).unwrap();
        let pid = held.pid();
        drop(held);
        assert!(!path.exists() && !std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn its_end_is_seen_before_it_is_reaped_and_its_use_is_reported() {
        let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let held = HeldCommand::fork(&words(&["sh", "-c", script])).unwrap();
        let running = held.release().unwrap();
        while !running.has_ended().unwrap() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(std::path::Path::new(&format!("/proc/{}/io", running.pid())).exists());
        let reaped = running.reap().unwrap();
        assert!(reaped.usage.user_ns + reaped.usage.system_ns > 0, "{reaped:?}");
        assert!(reaped.peak_rss_bytes > 0);
    }
}
