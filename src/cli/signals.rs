//! The first SIGINT, SIGTERM or SIGHUP asks for an end; a second one leaves at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

/// The signal that came first, in the cell of the first call of [`listen`].
static FIRST: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// The number of the signal that asked for an end, if one did.
pub(crate) fn pending() -> Option<i32> {
    let signal = FIRST.get()?.load(Ordering::Relaxed);
    i32::try_from(signal).ok().filter(|signal| *signal != 0)
}

/// Installs the handlers; the cell holds the number of the signal that came first.
pub(crate) fn listen() -> std::io::Result<Arc<AtomicUsize>> {
    let cell = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let armed = Arc::new(AtomicBool::new(false));
        // In this order: the exit looks at the flag before this very signal sets it. The test file
        // has no name, and what was finished is kept already, so leaving at once loses nothing.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&armed))?;
        flag::register(signal, armed)?;
        flag::register_usize(signal, Arc::clone(&cell), signal as usize)?;
    }
    // A limit on file sizes (ulimit -f) is then told as EFBIG, where the default is to be killed.
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let _: Result<(), _> = FIRST.set(Arc::clone(&cell));
    Ok(cell)
}
