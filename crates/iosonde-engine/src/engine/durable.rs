//! The timed sync at the end of a run that writes.

use std::io;
use std::os::fd::AsFd;

use iosonde_sys::{clock, errno_name};
use rustix::fs::FileType;

use super::{Measured, Medium};
use iosonde_model::record::run::Outcome;

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
            let mut durable = files.iter().filter(|file| !is_endless(file));
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
