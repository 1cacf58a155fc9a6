//! `link_down`: the link runs below what both ends support.

use iosonde_model::units;

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "link_down",
    meaning: "The link runs below what both ends support.",
    method: "current and largest PCIe speed and width in sysfs",
    action: "Check the slot, the cable and the backplane.",
    subject: "a downgraded link",
    severity: Severity::Warning,
    detect,
};

/// Share of the link's payload rate at or above which the link is the limit.
const NEAR: f64 = 0.85;

/// Reports when the link runs below the best both ends support; a limit if the bandwidth is close
/// to it, otherwise a warning.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let device = case.run.target.device.as_ref()?;
    let (now, best) = (device.link.as_deref()?, device.link_max.as_deref()?);
    if now == best {
        return None;
    }
    let rate = case.figures.all.read.bytes_per_s.max(case.figures.all.write.bytes_per_s);
    let ceiling = device.link_bytes_per_s.map(|ceiling| ceiling as f64);
    let near = ceiling.is_some_and(|ceiling| rate >= NEAR * ceiling);
    let severity = if near { Severity::Limit } else { Severity::Warning };
    let mut words = format!("The link runs at {now}, both ends support {best}");
    if let Some(ceiling) = ceiling {
        words.push_str(&format!(
            "; ceiling {}, measured {}",
            units::bytes::per_second(ceiling),
            units::bytes::per_second(rate)
        ));
    }
    words.push('.');
    let finding = DETECTOR.found_at(severity, Strength::Proven, words).with("link", now);
    Some(finding.with("link_max", best).with("bytes_per_s", rate))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::DeviceFacts;

    #[test]
    fn half_the_lanes_are_reported_and_all_lanes_are_not() {
        let mut run = run_of(&[Load { block_bytes: 1 << 20, iops: 1_700.0, ..Load::default() }]);
        let device = |now: &str| DeviceFacts {
            link: Some(now.into()),
            link_max: Some("8.0 GT/s PCIe x4".into()),
            link_bytes_per_s: Some(1_773_000_000),
            ..DeviceFacts::default()
        };
        run.target.device = Some(device("8.0 GT/s PCIe x4"));
        assert_eq!(ask(detect, &run, None), None);
        run.target.device = Some(device("8.0 GT/s PCIe x2"));
        assert_eq!(ask(detect, &run, None).unwrap().severity, Severity::Limit);
        run.target.device.as_mut().unwrap().link_bytes_per_s = None;
        assert_eq!(ask(detect, &run, None).unwrap().severity, Severity::Warning);
    }
}
