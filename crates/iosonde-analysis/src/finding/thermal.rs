//! `thermal`: the drive or the CPU was too hot.

use super::smart_failing::{self, TEMPERATURE};
use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "thermal",
    meaning: "The drive or the CPU was too hot and slowed down.",
    method: "temperatures and throttling counters before and after the run",
    action: "Improve the cooling, and repeat once it is cool.",
    subject: "a hot drive",
    severity: Severity::LowConfidence,
    detect,
};

/// Temperature at which drives begin to throttle, thousandths of a degree Celsius.
const HOT_MC: i64 = 70_000;
/// Smallest drop of the rate that is consistent with throttling.
const DROP: f64 = 0.10;

/// Counters of an NVMe drive that increase while it is too hot, by smartctl's names.
const HOT_COUNTERS: [&str; 2] = ["warning_temp_time", "critical_comp_time"];

/// Reports when the drive or the CPU counted thermal events, the drive warns of its temperature, or
/// the rate fell by 10 % on a hot drive.
fn detect(case: &Case<'_>) -> Option<Finding> {
    drive(case).or_else(|| warning(case)).or_else(|| device(case)).or_else(|| cpu(case))
}

/// Reports an increase of the drive's own counters during the run.
fn drive(case: &Case<'_>) -> Option<Finding> {
    let smart = case.run.target.smart.as_ref()?;
    let read = |report: &Option<serde_json::Value>, name: &str| {
        smart_failing::nvme(report.as_ref()?, name)
    };
    let name = HOT_COUNTERS.into_iter().find(|name| {
        read(&smart.before, name).zip(read(&smart.after, name)).is_some_and(|(a, b)| b > a)
    })?;
    let words = format!("The drive was too hot during the run: its counter {name} increased.");
    Some(DETECTOR.proven(words).with("counter", name))
}

/// Reports its critical warning: the counters are minutes, which a short run may not fill.
fn warning(case: &Case<'_>) -> Option<Finding> {
    let smart = case.run.target.smart.as_ref()?;
    let last = smart.after.as_ref().or(smart.before.as_ref())?;
    let warning = smart_failing::nvme(last, "critical_warning")?;
    (warning & TEMPERATURE != 0).then(|| {
        let words = "The drive warns of a temperature out of its range, in the critical warning \
                     of its health report."
            .to_owned();
        let finding = DETECTOR.proven(words).about("the drive's temperature");
        finding.with("critical_warning", warning)
    })
}

fn cpu(case: &Case<'_>) -> Option<Finding> {
    let mut counts = case.run.telemetry.iter().filter_map(|sample| sample.cpu_throttle_count);
    let first = counts.next()?;
    let events = counts.next_back()?.saturating_sub(first);
    (events > 0).then(|| {
        let words = format!("The CPU was thermally throttled {events} times during the run.");
        let finding = DETECTOR.found_at(Severity::Warning, Strength::Proven, words);
        finding.about("a hot CPU").with("cpu_throttle_events", events)
    })
}

fn device(case: &Case<'_>) -> Option<Finding> {
    let temperatures = case.run.telemetry.iter().filter_map(|sample| sample.device_temperature_mc);
    let hottest = temperatures.max().filter(|temperature| *temperature >= HOT_MC)?;
    let step = super::level_drop::drop(case).filter(|step| step.change() <= -DROP)?;
    let share = -step.change();
    let words = format!(
        "The drive reached {:.0} °C and the rate fell by {}: consistent with thermal throttling.",
        hottest as f64 / 1e3,
        super::percent(share)
    );
    let finding = DETECTOR.suspected(words);
    Some(finding.with("device_temperature_c", hottest as f64 / 1e3).with("drop_share", share))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::{SmartPair, TelemetrySample};

    fn falling(temperature: i64) -> iosonde_model::record::run::Run {
        let shape = |t| if t < 0.5 { 1.0 } else { 0.6 };
        let mut run = run_of(&[Load { shape, noise: 0.05, ..Load::default() }]);
        run.telemetry = vec![TelemetrySample {
            device_temperature_mc: Some(temperature),
            ..TelemetrySample::default()
        }];
        run
    }

    #[test]
    fn a_drop_on_a_hot_drive_is_reported_and_on_a_cool_one_is_not() {
        assert!(ask(detect, &falling(78_000), None).unwrap().words.contains("78 °C"));
        assert_eq!(ask(detect, &falling(45_000), None), None);
        let mut steady = run_of(&[Load::default()]);
        steady.telemetry = falling(78_000).telemetry;
        assert_eq!(ask(detect, &steady, None), None);
    }

    #[test]
    fn the_counters_of_the_drive_prove_it() {
        let report = |minutes: u64| {
            let log = serde_json::json!({ "warning_temp_time": minutes });
            Some(serde_json::json!({ "nvme_smart_health_information_log": log }))
        };
        let mut run = run_of(&[Load::default()]);
        let pair = SmartPair { before: report(5), after: report(5), ..SmartPair::default() };
        run.target.smart = Some(pair);
        assert_eq!(ask(detect, &run, None), None);
        run.target.smart.as_mut().unwrap().after = report(6);
        assert_eq!(ask(detect, &run, None).unwrap().strength, Strength::Proven);
    }

    #[test]
    fn the_warning_of_the_temperature_is_reported_and_others_are_not() {
        let warns = |bits: u64| {
            let log = serde_json::json!({ "critical_warning": bits });
            let after = Some(serde_json::json!({ "nvme_smart_health_information_log": log }));
            let mut run = run_of(&[Load::default()]);
            run.target.smart = Some(SmartPair { after, ..SmartPair::default() });
            ask(detect, &run, None).is_some()
        };
        assert!(warns(0x02) && warns(0x06));
        assert!(!warns(0) && !warns(0x0d));
    }

    #[test]
    fn throttle_events_of_this_run_are_reported_and_old_ones_are_not() {
        let look = |count| TelemetrySample {
            cpu_throttle_count: Some(count),
            ..TelemetrySample::default()
        };
        let mut run = run_of(&[Load::default()]);
        run.telemetry = vec![look(7), look(7)];
        assert_eq!(ask(detect, &run, None), None);
        run.telemetry.push(look(9));
        assert_eq!(ask(detect, &run, None).unwrap().strength, Strength::Proven);
    }
}
