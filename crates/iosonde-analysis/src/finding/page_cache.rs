//! `page_cache`: buffered reads were served from memory.

use iosonde_model::record::facts::FilesystemClass;
use iosonde_model::units::duration;

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "page_cache",
    meaning: "Buffered reads were served from memory.",
    method: "blocks found in the page cache before the run; bytes read by the device",
    action: "Use direct I/O (--direct 1), or drop the caches first.",
    subject: "the page cache",
    severity: Severity::LowConfidence,
    detect,
};

/// Device reads over ours below which memory served the rest.
const DEVICE_SHARE: f64 = 0.9;
/// Share of sampled blocks in the page cache that affects the rates.
const CACHED: f64 = 0.05;
/// Median latency below that of any device, ns.
const MEMORY_NS: u64 = 5_000;

/// Reports when the device of a buffered run read less than we did, its blocks were in the page
/// cache, or the median read was faster than any device.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let target = &case.run.target;
    let memory = target.class == FilesystemClass::Memory || super::is_endless(target);
    if target.direct || memory || !case.is_real() || case.figures.all.read.ops == 0 {
        return None;
    }
    let device = case.device_read_share().filter(|_| case.empty_share() <= 0.01);
    let cached = case.cached_share().filter(|share| *share > CACHED);
    let median = case.figures.all.read.latency.at(0.5);
    let (strength, words) = match (device, cached, median) {
        (Some(share), _, _) if share < DEVICE_SHARE => (
            Strength::Proven,
            format!("{} of the bytes read were served from memory.", super::percent(1.0 - share)),
        ),
        (None, Some(share), _) => (
            Strength::Supported,
            format!("{} of sampled blocks were in memory before the run.", super::percent(share)),
        ),
        (None, None, Some(ns)) if ns < MEMORY_NS => (
            Strength::ConsistentWith,
            format!(
                "The median read took {}: this is the speed of memory, not of a device.",
                duration::latency(ns as f64)
            ),
        ),
        _ => return None,
    };
    let finding = DETECTOR.found(strength, words).with_known("device_read_share", device);
    Some(finding.with_known("cached_share", cached))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::DeviceCounters;

    fn buffered() -> iosonde_model::record::run::Run {
        let mut run = run_of(&[Load::default()]);
        run.target.direct = false;
        run
    }

    #[test]
    fn reads_that_the_device_never_saw_are_reported() {
        let mut run = buffered();
        let device = |read_sectors| {
            let end = DeviceCounters { read_sectors, ..DeviceCounters::default() };
            Some((DeviceCounters::default(), end))
        };
        run.device = device(run.jobs[0].read.bytes / 512 / 10);
        let finding = ask(detect, &run, None).unwrap();
        assert!(finding.words.contains("90.0 %"), "{}", finding.words);
        // Cold buffered reads, even with some blocks cached: the counters decide.
        run.device = device(run.jobs[0].read.bytes / 512);
        run.target.cached_samples = Some((4, 64));
        assert_eq!(ask(detect, &run, None), None);
    }

    #[test]
    fn without_counters_samples_and_speed_are_reported() {
        let mut run = buffered();
        assert_eq!(ask(detect, &run, None), None);
        run.target.cached_samples = Some((64, 64));
        assert_eq!(ask(detect, &run, None).unwrap().strength, Strength::Supported);
        let mut fast = run_of(&[Load { depth: 1, iops: 400_000.0, ..Load::default() }]);
        assert_eq!(ask(detect, &fast, None), None);
        fast.target.direct = false;
        assert_eq!(ask(detect, &fast, None).unwrap().strength, Strength::ConsistentWith);
        // /dev/zero is as fast, but is not a cache.
        fast.target.kind = "character device".into();
        assert_eq!(ask(detect, &fast, None), None);
    }
}
