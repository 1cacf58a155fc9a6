//! Writes the profile as a workload file, if requested.

use std::path::{Path, PathBuf};

use crate::cli::exit::{About, Failure};
use crate::cli::output::note;
use iosonde_model::record::ProfileRun;
use iosonde_model::record::export;
use iosonde_report::profile_toml::{emit, replay_options};

/// A writable path for the workload file.
pub(super) struct Emitted(PathBuf);

impl Emitted {
    /// Checks before profiling begins whether the file can be written.
    ///
    /// # Errors
    /// If it cannot, or if the existing file was not written by this option.
    pub(super) fn at(path: &Path) -> Result<Emitted, Failure> {
        let is_ours = |start: &str| start.starts_with("# The requests of: ");
        export::probe(path, &is_ours).or_wrong(format!("--emit {}", path.display()))?;
        Ok(Emitted(path.to_path_buf()))
    }

    /// Folder of the file.
    pub(super) fn parent(&self) -> &Path {
        export::directory_of(&self.0)
    }

    /// Writes the file; returns whether it was written.
    pub(super) fn write(&self, run: &ProfileRun) -> bool {
        let path = self.0.display();
        let written = emit(run)
            .and_then(|text| export::write(&self.0, &text).map_err(|error| error.to_string()))
            .and_then(|()| replay_options(run));
        match &written {
            Ok(options) => note(&format!(
                "workload written to {path}; replay it with: iosonde run {path}{options}"
            )),
            Err(reason) => note(&format!("error: --emit {path}: {reason}")),
        }
        written.is_ok()
    }
}
