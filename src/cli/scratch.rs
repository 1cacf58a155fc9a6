//! A temporary directory for one command.

use tempfile::{Builder, TempDir};

use crate::cli::exit::{Failure, environment};

/// A new directory among the temporary files, for its owner alone. It is removed on drop; if that
/// fails, a few records stay there.
pub(crate) fn scratch() -> Result<TempDir, Failure> {
    Builder::new().prefix("iosonde-").tempdir().map_err(|error| {
        let place = std::env::temp_dir();
        environment(format!(
            "no directory in `{}`: {error}; set TMPDIR to another",
            place.display()
        ))
    })
}
