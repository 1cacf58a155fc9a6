//! `smart_failing`: the drive reports that it is failing, or lost data during the run.

use serde_json::Value;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "smart_failing",
    meaning: "The drive reports that it is failing, or lost data during the run.",
    method: "the drive's health report before and after the run",
    action: "Back up the data and replace the drive.",
    subject: "the drive's own report",
    severity: Severity::Fault,
    detect,
};

/// Bit of an NVMe drive's critical warnings for a temperature out of range.
pub(super) const TEMPERATURE: u64 = 0x02;

/// Reports when the drive's self-assessment failed, a critical warning is set, or its count of
/// media errors increased during the run. A temperature is no sign of failure, but smartctl
/// includes its warning in the assessment of an NVMe drive.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let smart = case.run.target.smart.as_ref()?;
    let last = smart.after.as_ref().or(smart.before.as_ref())?;
    let all = nvme(last, "critical_warning").unwrap_or(0);
    let warning = all & !TEMPERATURE;
    let has_failed = last.pointer("/smart_status/passed").and_then(Value::as_bool) == Some(false);
    let failed = has_failed && all != TEMPERATURE;
    let before = smart.before.as_ref().and_then(|before| nvme(before, "media_errors"));
    let ends = before.zip(nvme(last, "media_errors"));
    let grown = ends.map_or(0, |(before, after)| after.saturating_sub(before));
    let formatted = if failed {
        "its self-assessment failed".to_owned()
    } else if grown > 0 {
        format!("media errors during the run: {grown}")
    } else if warning != 0 {
        format!("critical warning {warning:#04x}")
    } else {
        return None;
    };
    let words = format!("The drive reports that it is failing: {formatted}.");
    let finding = DETECTOR.proven(words).with("critical_warning", warning);
    Some(finding.with("media_errors_during_run", grown))
}

/// A counter of the NVMe health log, by smartctl's names.
pub(super) fn nvme(report: &Value, name: &str) -> Option<u64> {
    report.get("nvme_smart_health_information_log")?.get(name)?.as_u64()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::SmartPair;

    fn with(before: Value, after: Value) -> iosonde_model::record::run::Run {
        let mut run = run_of(&[Load::default()]);
        run.target.smart =
            Some(SmartPair { before: Some(before), after: Some(after), missing: None });
        run
    }

    fn log(warning: u64, media_errors: u64) -> Value {
        json!({
            "smart_status": { "passed": true },
            "nvme_smart_health_information_log":
                { "critical_warning": warning, "media_errors": media_errors },
        })
    }

    #[test]
    fn a_warning_new_media_errors_and_a_failed_assessment_are_reported() {
        assert!(ask(detect, &with(log(0, 3), log(4, 3)), None).is_some());
        assert!(ask(detect, &with(log(0, 3), log(0, 4)), None).is_some());
        let failed = json!({ "smart_status": { "passed": false } });
        assert!(ask(detect, &with(log(0, 0), failed), None).is_some());
    }

    #[test]
    fn a_warning_of_the_temperature_alone_is_no_failure() {
        let assessed = |warning| {
            let mut log = log(warning, 0);
            log["smart_status"]["passed"] = json!(warning == 0);
            ask(detect, &with(log.clone(), log), None)
        };
        assert_eq!(assessed(0x02), None);
        assert!(assessed(0x06).is_some());
    }

    #[test]
    fn old_media_errors_on_a_healthy_drive_do_not() {
        assert_eq!(ask(detect, &with(log(0, 3), log(0, 3)), None), None);
    }
}
