//! Detects whether the process was started with a closed stdout.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set before `main`: the Rust runtime opens `/dev/null` in place of a closed stdout, which then
/// cannot be distinguished from a requested one.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    // SAFETY: F_GETFD only reads the flags of a descriptor, and the number may be invalid.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

// SAFETY: the loader calls what this section lists, before `main` and with the arguments of `main`,
// which C functions without parameters ignore; `look` uses nothing that is not initialised then.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether stdout was closed when the process was started (`>&-` in a shell).
pub fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}
