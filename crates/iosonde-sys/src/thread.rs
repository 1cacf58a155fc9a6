//! Resource usage of a thread or of the process; CPUs and priority of a thread.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Resources used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// User CPU time, ns.
    pub user_ns: u64,
    /// System CPU time, ns.
    pub system_ns: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
}

/// Usage of the calling thread.
pub fn usage_of_thread() -> Usage {
    usage(libc::RUSAGE_THREAD)
}

/// Usage of the whole process, including io_uring workers and pollers.
pub fn usage_of_process() -> Usage {
    usage(libc::RUSAGE_SELF)
}

fn usage(who: libc::c_int) -> Usage {
    let mut raw = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `raw` is valid for writing, and all-zero is a valid rusage even if the call failed.
    let raw = unsafe {
        libc::getrusage(who, raw.as_mut_ptr());
        raw.assume_init()
    };
    Usage::from(raw)
}

impl From<libc::rusage> for Usage {
    fn from(raw: libc::rusage) -> Usage {
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        Usage {
            user_ns: ns(raw.ru_utime),
            system_ns: ns(raw.ru_stime),
            voluntary_switches: raw.ru_nvcsw as u64,
            involuntary_switches: raw.ru_nivcsw as u64,
        }
    }
}

/// Largest resident set of this process so far, bytes; 0 where the kernel does not show it. Not
/// from `getrusage`, whose figure begins with that of the program that started this one.
pub fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: Option<u64> = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok());
    kib.unwrap_or(0) * 1024
}

/// Sets the timer slack of the calling thread to 1 ns, so that a sleep ends on time. By default the
/// kernel may delay it by 50 µs to merge timers, which would delay requests at a fixed rate. A
/// refusal shows as lag of the requests.
pub fn wake_on_time() {
    let slack_ns: libc::c_ulong = 1;
    // SAFETY: PR_SET_TIMERSLACK takes a number and no pointer, and concerns this thread alone.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) };
}

/// Binds the calling thread to one CPU; `false` if the kernel refuses.
pub fn pin_to(cpu: u32) -> bool {
    pin_to_any(&[cpu])
}

/// Binds the calling thread to these CPUs; `false` if the kernel refuses, as where none exists.
pub fn pin_to_any(cpus: &[u32]) -> bool {
    if cpus.iter().any(|cpu| *cpu as usize >= libc::CPU_SETSIZE as usize) {
        return false;
    }
    // SAFETY: a zeroed cpu_set_t is an empty set; CPU_SET stays within it by the guard above; the
    // set is valid for the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for cpu in cpus {
            libc::CPU_SET(*cpu as usize, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) == 0
    }
}

/// Gives the calling thread a private copy of the process's table of open files; `false` if the
/// kernel refuses. A system call on an unshared table takes no reference to the file, which saves
/// two atomic operations. Descriptors opened from then on are invalid in the other threads, and the
/// reverse: the caller must not share descriptors.
///
/// The copy leaves out the standard streams: a thread that waits for storage forever would keep
/// them open, and readers of this process would wait.
pub fn own_file_table() -> bool {
    // SAFETY: takes no pointer. The copy holds every descriptor that was open, so that none that a
    // live value owns becomes invalid in either table.
    let is_own = unsafe { libc::unshare(libc::CLONE_FILES) == 0 };
    if is_own {
        // Without /dev/null they stay open, which is no error.
        let _ = crate::process::let_go_of_stdio();
    }
    is_own
}

/// CPUs the calling thread may run on, ascending.
pub fn allowed_cpus() -> Vec<u32> {
    // SAFETY: a zeroed cpu_set_t is an empty set, valid for writing; CPU_ISSET stays within it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return Vec::new();
        }
        (0..libc::CPU_SETSIZE as usize)
            .filter(|cpu| libc::CPU_ISSET(*cpu, &set))
            .map(|cpu| cpu as u32)
            .collect()
    }
}

/// Sets the niceness of the calling thread; `false` if the kernel refuses.
pub fn renice(niceness: i32) -> bool {
    // SAFETY: takes no pointer. The thread is named by 0, the caller.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) == 0 }
}

/// `IOPRIO_WHO_PROCESS` of ioprio_set(2) and ioprio_get(2): one thread.
const WHO_PROCESS: libc::c_int = 1;

/// Sets class and level of the calling thread's I/O priority; `false` if the kernel refuses.
pub fn set_io_priority((class, level): (u8, u8)) -> bool {
    const CLASS_SHIFT: u32 = 13;
    set_priority(libc::c_long::from(class) << CLASS_SHIFT | libc::c_long::from(level))
}

/// Whether the kernel lets the calling thread have this priority (class, hint and level in one
/// number). The previous priority is restored.
pub fn may_have_io_priority(priority: u16) -> bool {
    // SAFETY: takes no pointer. The thread is named by 0, the caller.
    let before = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) };
    set_priority(priority.into()) && set_priority(before.max(0))
}

fn set_priority(priority: libc::c_long) -> bool {
    // SAFETY: takes no pointer. The thread is named by 0, the caller.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, priority) == 0 }
}

/// The CPU the calling thread runs on now.
pub fn current_cpu() -> Option<u32> {
    // SAFETY: takes no pointer.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The program that this command starts is killed when the calling thread ends, however it ends.
/// Start it from a thread that lives as long as the process.
pub fn end_with_us(command: &mut Command) {
    let us = std::process::id();
    let tie = move || {
        // SAFETY: prctl with PR_SET_PDEATHSIG takes a number and no pointer; getppid takes nothing.
        let (tied, parent) =
            unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::getppid()) };
        match tied {
            // The parent has ended meanwhile.
            0 if u32::try_from(parent) != Ok(us) => Err(io::ErrorKind::BrokenPipe.into()),
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec `tie` makes two system calls and allocates nothing.
    unsafe {
        command.pre_exec(tie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_was_bound() {
        std::thread::spawn(|| {
            let allowed = allowed_cpus();
            assert!(pin_to_any(&allowed) && allowed_cpus() == allowed);
            assert!(pin_to(allowed[0]));
            assert_eq!((allowed_cpus(), current_cpu()), (vec![allowed[0]], Some(allowed[0])));
            assert!(!pin_to_any(&[]) && !pin_to_any(&[1_000_000]));
        })
        .join()
        .expect("the thread ends well");
    }

    #[test]
    fn the_peak_follows_what_is_touched() {
        let before = peak_rss_bytes();
        let touched = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(peak_rss_bytes() >= before && peak_rss_bytes() >= 64 << 20);
        drop(touched);
    }
}
