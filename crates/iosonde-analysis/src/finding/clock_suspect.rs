//! `clock_suspect`: the clock that times the requests cannot be trusted.

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "clock_suspect",
    meaning: "The clock that times the requests cannot be trusted.",
    method: "two clocks read at both ends of the run, and the kernel's clock source",
    action: "Check the clock source of the machine (`iosonde doctor`), and repeat.",
    subject: "clock",
    severity: Severity::LowConfidence,
    detect,
};

/// Clock sources that are slow and coarse.
const SLOW_SOURCES: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

/// Reports when a latency of zero, a drift, or more CPU time than elapsed time was seen (low
/// confidence), or when the kernel uses a slow clock source (a warning).
fn detect(case: &Case<'_>) -> Option<Finding> {
    let broken =
        ["latency", "clock", "cpu"].iter().find_map(|code| case.consistency.broken_code(code));
    if let Some(entry) = broken {
        let words =
            format!("The clock is unreliable, latencies may be invalid: {}.", entry.words());
        let finding = DETECTOR.supported(words).with("residual", entry.residual);
        return Some(finding.with("identity", entry.code));
    }
    let source = case.host?.clocksource.as_deref()?;
    let slow = case.is_real() && SLOW_SOURCES.contains(&source);
    slow.then(|| {
        let words = format!("The kernel's clock source is {source}: slow and coarse to read.");
        DETECTOR.found_at(Severity::Warning, Strength::Proven, words).with("clocksource", source)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::HostFacts;

    #[test]
    fn a_drift_is_reported_and_a_steered_clock_is_not() {
        let mut run = run_of(&[Load::default()]);
        run.backend.clock_drift_ppb = 20_000;
        assert_eq!(ask(detect, &run, None), None);
        run.backend.clock_drift_ppb = 80_000;
        assert_eq!(ask(detect, &run, None).unwrap().severity, Severity::LowConfidence);
    }

    #[test]
    fn a_slow_clock_source_is_a_warning() {
        let run = run_of(&[Load::default()]);
        let host =
            |source: &str| HostFacts { clocksource: Some(source.into()), ..HostFacts::default() };
        assert!(ask(detect, &run, Some(&host("hpet"))).is_some());
        assert_eq!(ask(detect, &run, Some(&host("kvm-clock"))), None);
    }
}
