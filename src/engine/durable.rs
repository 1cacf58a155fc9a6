//! The timed sync at the end of a run that writes.

use std::io;

use iosonde_sys::{clock, errno_name};

use super::{Measured, Medium};
use crate::record::run::Outcome;

/// Makes what was written durable, if the plan says so, and times it.
pub(super) fn sync(measured: &mut Measured, medium: &Medium) {
    let Some(sync) = &mut measured.final_sync else { return };
    let before_ns = clock::monotonic_ns();
    let result = make_durable(medium);
    sync.sync_ns = clock::monotonic_ns() - before_ns;
    sync.since_window_ns += sync.sync_ns;
    sync.since_start_ns += sync.sync_ns;
    if let Err(error) = result {
        let name = error.raw_os_error().map_or_else(|| error.to_string(), errno_name);
        // What ended the run is the cause; that nothing can be synced then, its consequence.
        if !matches!(measured.outcome, Outcome::Failed { .. }) {
            measured.outcome = Outcome::Failed { error: format!("fsync: {name}") };
        }
        sync.error = Some(name);
    }
}

fn make_durable(medium: &Medium) -> io::Result<()> {
    match medium {
        Medium::Files(files) => {
            files.iter().try_for_each(rustix::fs::fsync).map_err(io::Error::from)
        }
        Medium::Vhost(server) => server.flush(),
        Medium::Null(_) | Medium::Sim(_) => Ok(()),
    }
}
