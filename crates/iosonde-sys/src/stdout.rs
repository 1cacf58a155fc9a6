//! Whether the process was started with a stdout.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set before `main`: the runtime of Rust opens `/dev/null` in the place of a stdout that is
/// closed, and then nobody can tell it from one that was asked for.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    // SAFETY: F_GETFD only reads the flags of a descriptor, whatever the number stands for.
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
