//! Traces a run by kernel programs, to show where the time of its I/O calls goes.

use crate::cli::exit::{Failure, environment};
use iosonde_engine::host::Root;
use iosonde_model::record::run::Run;
use iosonde_watch::tracer::{Tracer, Wanted};

/// Kernel programs that trace this process.
pub(super) struct Watched(Tracer);

impl Watched {
    /// Begins to trace.
    pub(super) fn begin(root: &Root) -> Result<Watched, Failure> {
        let refused =
            |reason: String| environment(format!("--profile: {reason}; omit it, or fix this"));
        let wanted = Wanted { layers: true, ..Wanted::default() };
        let mut tracer = Tracer::attach(root, &wanted).map_err(|missing| {
            let fix = missing.fix.map(|fix| format!(" (to fix it: {fix})"));
            refused(missing.reason + &fix.unwrap_or_default())
        })?;
        tracer.follow(std::process::id()).map_err(refused)?;
        tracer.begin(iosonde_sys::clock::monotonic_ns());
        Ok(Watched(tracer))
    }

    /// Ends the trace and adds it to the run's record.
    pub(super) fn end(self, run: &mut Run) {
        let source = self.0.source();
        let traced = self.0.finish(iosonde_sys::clock::monotonic_ns());
        run.layers = traced.layers(&source.attribution);
    }
}
