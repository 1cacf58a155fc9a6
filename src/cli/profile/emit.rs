//! The profile as a workload file, where one is asked for.

use std::path::{Path, PathBuf};

use crate::cli::exit::{Exit, Failure};
use crate::cli::output::note;
use iosonde_model::record::ProfileRun;
use iosonde_model::record::export;
use iosonde_report::profile_toml::emit;

/// A name that takes a workload file.
pub(super) struct Emitted(PathBuf);

impl Emitted {
    /// Finds out, before anything is run, whether a file can be put there.
    ///
    /// # Errors
    /// If not, or if what is there is another file than an earlier one of these.
    pub(super) fn at(path: &Path) -> Result<Emitted, Failure> {
        let is_ours = |start: &str| start.starts_with("# The requests of: ");
        export::probe(path, &is_ours).map_err(|error| {
            let message = format!("--emit {}: {error}", path.display());
            Failure::new(Exit::Unprofiled, message)
        })?;
        Ok(Emitted(path.to_path_buf()))
    }

    /// The folder that it lies in.
    pub(super) fn parent(&self) -> &Path {
        let parent = self.0.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }

    /// Writes the file; whether it is there now.
    pub(super) fn write(&self, run: &ProfileRun) -> bool {
        let path = self.0.display();
        let written = emit(run)
            .and_then(|text| export::write(&self.0, &text).map_err(|error| error.to_string()));
        match &written {
            Ok(()) => note(&format!("workload written to {path}: iosonde run {path} replays it")),
            Err(reason) => note(&format!("error: --emit {path}: {reason}")),
        }
        written.is_ok()
    }
}
