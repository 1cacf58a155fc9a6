//! Comparison of a profile with the result of a run, if given.

use std::path::Path;

use crate::cli::exit::{About, Failure, wrong};
use crate::cli::intact::AcceptArgs;
use crate::cli::recorded::{Record, record};
use iosonde_analysis::profile::{self, Against, Figures, device_of};
use iosonde_model::record::{ProfileRun, Run};

/// A run that can be compared with a profile of the same device.
pub(super) struct Beside(Box<Run>);

impl Beside {
    /// Reads the run before profiling begins.
    ///
    /// # Errors
    /// If it cannot be read, or cannot be compared.
    pub(super) fn at(path: &Path) -> Result<Beside, Failure> {
        let about = format!("--against {}", path.display());
        let (found, ..) = record("--against", path, AcceptArgs::NEVER)?;
        let Record::Run(run) = found else {
            return Err(wrong(format!(
                "{about}: is a profile, expected the result of `iosonde run` on the same device"
            )));
        };
        device_of(&run).or_wrong(about)?;
        Ok(Beside(run))
    }

    /// Share of that run's rates that the program used, or why it is unknown.
    pub(super) fn analysed(&self, run: &ProfileRun, figures: &Figures) -> Result<Against, String> {
        profile::against(run, figures, &self.0)
    }
}
