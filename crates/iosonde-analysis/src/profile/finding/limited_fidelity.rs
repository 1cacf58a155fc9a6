//! `limited_fidelity`: only sums were seen, no request.

use crate::finding::{Finding, Gravity, Strength};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::Method;

use super::super::Figures;

/// Speaks where the figures come from counters.
pub(super) fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    if run.source.method != Method::Counters {
        return None;
    }
    let reason = figures.unseen.as_deref().unwrap_or("requests were not traced");
    let mend = run.source.missing.iter().find_map(|missing| missing.mend.as_deref());
    let mend = mend.map_or(String::new(), |mend| format!(" To see them: {mend}."));
    let words = format!(
        "Only sums were seen: bytes by the program's own counters, requests by the devices' \
         counters of everybody; no sizes, latencies, order, syncs or causes ({reason}).{mend}"
    );
    let finding = Finding::new(
        "limited_fidelity",
        "what was not seen",
        Strength::Proven,
        Gravity::Doubt,
        words,
    );
    Some(finding.with("reason", reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, by_counters, profile_of};

    #[test]
    fn counters_alone_speak_and_tracepoints_do_not() {
        let told = words(detect, &by_counters());
        assert!(told.contains("CAP_BPF") && told.contains("To see them: run as root"), "{told}");
        assert_eq!(ask(detect, &profile_of(&[Flow::default()])), None);
    }
}
