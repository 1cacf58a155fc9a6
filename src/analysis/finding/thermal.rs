//! `thermal`: heat slowed the drive or the CPU.

use super::{Case, Finding, Gravity, Strength};

/// Temperature from which drives begin to throttle, thousandths of a degree Celsius.
const HOT_MC: i64 = 70_000;
/// Drop of the rate that goes with throttling.
const DROP: f64 = 0.10;

/// Speaks where the CPU counted throttle events, or the rate fell by 10 % on a hot drive.
pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    cpu(case).or_else(|| device(case))
}

fn cpu(case: &Case<'_>) -> Option<Finding> {
    let mut counts = case.run.telemetry.iter().filter_map(|sample| sample.cpu_throttle_count);
    let first = counts.next()?;
    let events = counts.next_back()?.saturating_sub(first);
    (events > 0).then(|| {
        let words = format!("The CPU was throttled by heat {events} times during the run.");
        let subject = "a hot CPU";
        Finding::new("thermal", subject, Strength::Proven, Gravity::Caution, words)
            .with("cpu_throttle_events", events as f64)
    })
}

fn device(case: &Case<'_>) -> Option<Finding> {
    let temperatures = case.run.telemetry.iter().filter_map(|sample| sample.device_temperature_mc);
    let hottest = temperatures.max().filter(|temperature| *temperature >= HOT_MC)?;
    let step = super::level_drop::drop(case).filter(|step| step.change() <= -DROP)?;
    let share = -step.change();
    let words = format!(
        "The drive reached {:.0} °C and the rate fell by {}: thermal throttling would look like this.",
        hottest as f64 / 1e3,
        super::percent(share)
    );
    let strength = Strength::ConsistentWith;
    let finding = Finding::new("thermal", "a hot drive", strength, Gravity::Doubt, words);
    Some(finding.with("device_temperature_c", hottest as f64 / 1e3).with("drop_share", share))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::analysis::finding::tests::ask;
    use crate::analysis::testing::{Load, run_of};
    use crate::record::facts::TelemetrySample;

    fn falling(temperature: i64) -> crate::record::run::Run {
        let shape = |t| if t < 0.5 { 1.0 } else { 0.6 };
        let mut run = run_of(&[Load { shape, noise: 0.05, ..Load::default() }]);
        run.telemetry = vec![TelemetrySample {
            device_temperature_mc: Some(temperature),
            ..TelemetrySample::default()
        }];
        run
    }

    #[test]
    fn a_drop_on_a_hot_drive_speaks_and_on_a_cool_one_does_not() {
        assert!(ask(detect, &falling(78_000), None).unwrap().words.contains("78 °C"));
        assert_eq!(ask(detect, &falling(45_000), None), None);
        let mut steady = run_of(&[Load::default()]);
        steady.telemetry = falling(78_000).telemetry;
        assert_eq!(ask(detect, &steady, None), None);
    }

    #[test]
    fn throttle_events_of_this_run_speak_and_old_ones_do_not() {
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
