//! How a target is inspected for data before it is written.

use clap::Args;

use super::output::note;
use super::watchdog;
use iosonde_engine::target::contents::{Progress, USUAL_TIME_NS};
use iosonde_engine::target::{Inspection, Intent};
use iosonde_model::units::{bytes, duration};

/// Options of the inspection.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct InspectArgs {
    /// Write this device or file although not all of it could be inspected for data in time; ID as
    /// printed by the refusal; may be repeated
    #[arg(long, value_name = "ID", help_heading = "Consent")]
    pub(crate) accept_unseen: Vec<String>,
    /// Longest time to read a target that will be written, to find out whether it holds data
    /// [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Consent")]
    pub(crate) inspect_time: Option<u64>,
}

fn time(text: &str) -> Result<u64, String> {
    duration::parse(text, 1_000_000_000).map_err(|error| error.to_string())
}

impl InspectArgs {
    /// The inspection that these options request.
    pub(crate) fn inspection(&self) -> Inspection {
        let time_ns = self.inspect_time.unwrap_or(USUAL_TIME_NS);
        Inspection { time_ns, progress, ..Inspection::default() }
    }

    /// Adds these options to an intent.
    pub(crate) fn over(&self, intent: Intent) -> Intent {
        let inspection = self.inspection();
        Intent { accept_unseen: self.accept_unseen.clone(), inspection, ..intent }
    }

    /// The first of these options that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        match (self.accept_unseen.first(), self.inspect_time) {
            (Some(_), _) => Some("--accept-unseen"),
            (None, Some(_)) => Some("--inspect-time"),
            (None, None) => None,
        }
    }
}

/// Reports the progress of the inspection; `false`, after a signal, ends it.
fn progress(progress: &Progress) -> bool {
    if progress.is_due {
        let (seen, time_ns) = (progress.seen, progress.time_ns);
        note(&format!(
            "inspecting the target for data: {} of {}, {} of at most {}",
            bytes::rough(seen.inspected_bytes),
            bytes::rough(seen.size_bytes),
            duration::span(progress.elapsed_ns),
            duration::span(time_ns.max(progress.elapsed_ns)),
        ));
    }
    watchdog::pending().is_none()
}
