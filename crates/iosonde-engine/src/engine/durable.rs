//! The timed sync at the end of a run that writes.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use iosonde_sys::{clock, errno_name};
use rustix::fs::FileType;

use super::waits::Wait;
use super::{Control, Measured, Medium};
use iosonde_model::record::run::Outcome;

/// Longest wait for the sync after an interrupt, ns.
const INTERRUPTED_NS: u64 = 300_000_000;
/// Interval of the checks for an interrupt.
const LOOK: Duration = Duration::from_millis(20);

/// Makes written data durable and times it, if the plan says so. An interrupt that ends the wait is
/// no failure of the storage; the record then has no such time.
pub(super) fn sync(measured: &mut Measured, medium: &Medium, control: &Control, target: &str) {
    let Some(sync) = &mut measured.final_sync else { return };
    let wait = Wait::begin("fsync at the end of the run", target);
    let timed = timed(medium, control);
    drop(wait);
    let Some((sync_ns, result)) = timed else {
        measured.final_sync = None;
        if measured.outcome == Outcome::Complete {
            measured.outcome = control.outcome(0);
        }
        return;
    };
    sync.sync_ns = sync_ns;
    sync.since_window_ns += sync.sync_ns;
    sync.since_start_ns += sync.sync_ns;
    if let Err(error) = result {
        let name = error.raw_os_error().map_or_else(|| error.to_string(), errno_name);
        // Whatever ended the run earlier is the cause; the failed sync is its consequence.
        if measured.outcome == Outcome::Complete {
            measured.outcome = Outcome::Failed { error: format!("fsync: {name}") };
        }
        sync.error = Some(name);
    }
}

/// Syncs in a separate thread, so that only that thread hangs if storage never answers. Returns the
/// time taken, ns; `None` if interrupted first.
fn timed(medium: &Medium, control: &Control) -> Option<(u64, io::Result<()>)> {
    let before_ns = clock::monotonic_ns();
    let (done_to, done) = channel();
    let own = medium.clone();
    let spawned = std::thread::Builder::new().name("fsync".into()).spawn(move || {
        let result = make_durable(&own);
        let _ = done_to.send((clock::monotonic_ns(), result));
    });
    if spawned.is_err() {
        let result = make_durable(medium);
        return Some((clock::monotonic_ns() - before_ns, result));
    }
    let mut interrupted_ns = None;
    loop {
        match done.recv_timeout(LOOK) {
            Ok((after_ns, result)) => return Some((after_ns.saturating_sub(before_ns), result)),
            Err(RecvTimeoutError::Disconnected) => {
                return Some((0, Err(io::Error::other("it did not end"))));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now_ns = clock::monotonic_ns();
        if control.signal.load(Ordering::Relaxed) != 0 {
            let since_ns = *interrupted_ns.get_or_insert(now_ns);
            if now_ns.saturating_sub(since_ns) > INTERRUPTED_NS {
                return None;
            }
        }
    }
}

fn make_durable(medium: &Medium) -> io::Result<()> {
    match medium {
        Medium::Files(_) | Medium::Nvme(_) => {
            let mut durable = medium.files().into_iter().filter(|file| !is_endless(file));
            durable.try_for_each(rustix::fs::fsync).map_err(io::Error::from)
        }
        Medium::Vhost(server) => server.flush(),
        Medium::Null(_) | Medium::Sim(_) => Ok(()),
    }
}

/// A character device such as `/dev/null` has nothing to make durable, and refuses the call.
fn is_endless(file: &impl AsFd) -> bool {
    rustix::fs::fstat(file)
        .is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::CharacterDevice)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_endless_device_beside_a_file_is_left_out() {
        let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
        let file = tempfile::tempfile().unwrap();
        let files = vec![Arc::new(file.into()), Arc::new(null.into())];
        make_durable(&Medium::Files(files)).unwrap();
    }
}
