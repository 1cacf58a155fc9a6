//! `limited_fidelity`: only totals were recorded, no individual requests.

use super::{Detect, Detector, Figures, Finding, Severity};
use iosonde_model::record::profile::{Method, ProfileRun};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "limited_fidelity",
    meaning: "Only totals were recorded, no single requests.",
    method: "which tracepoints could be attached",
    action: "Run it with CAP_BPF and CAP_PERFMON (as root).",
    subject: "missing trace data",
    severity: Severity::LowConfidence,
    detect,
};

/// Reports when the figures come from counters.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    if run.source.method != Method::Counters {
        return None;
    }
    let reason = figures.unseen.as_deref().unwrap_or("requests were not traced");
    let fix = run.source.missing.iter().find_map(|missing| missing.fix.as_deref());
    let fix = fix.map_or(String::new(), |fix| format!(" To see them: {fix}."));
    let own = match run.calls {
        Some(_) => "bytes from the program's own counters, ",
        None => "",
    };
    let words = format!(
        "Only totals were recorded: {own}requests from the \
         devices' counters of all programs; no sizes, latencies, order, syncs or causes \
         ({reason}).{fix}"
    );
    Some(DETECTOR.proven(words).with("reason", reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, by_counters, profile_of};

    #[test]
    fn counters_alone_are_reported_and_tracepoints_are_not() {
        let message = words(detect, &by_counters());
        assert!(
            message.contains("CAP_BPF") && message.contains("To see them: run as root"),
            "{message}"
        );
        assert_eq!(ask(detect, &profile_of(&[Flow::default()])), None);
    }
}
