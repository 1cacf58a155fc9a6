//! `odirect_ignored`: direct I/O was accepted, but memory served the reads.

use iosonde_model::record::facts::FilesystemClass;

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "odirect_ignored",
    meaning: "Direct I/O was accepted, but memory served the reads.",
    method: "bytes read by the device, compared with ours",
    action: "Use a test file larger than memory.",
    subject: "reads served from memory",
    severity: Severity::LowConfidence,
    detect,
};

/// Device reads over ours below which something else served the reads.
const DEVICE_SHARE: f64 = 0.9;
/// Share of sampled blocks in the page cache above which the cache is in use.
const CACHED: f64 = 0.05;

/// Reports when the device of a direct target read less than we did, when the kernel reports no
/// support for direct I/O, or, without device counters, when the blocks are in the page cache.
/// Blocks stay there after buffered writes, and direct reads of them still reach the device.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let target = &case.run.target;
    let memory = target.class == FilesystemClass::Memory;
    if !target.direct || memory || !case.is_real() || case.figures.all.read.ops == 0 {
        return None;
    }
    // Reads of holes and unwritten extents do not reach a device either: another finding.
    let device = case.device_read_share().filter(|_| case.empty_share() <= 0.01);
    let read_all = device.is_some_and(|share| share >= DEVICE_SHARE);
    let device = device.filter(|_| !read_all);
    let cached = case.cached_share().filter(|share| *share > CACHED && !read_all);
    let unable = target.dio_mem_align == Some(0);
    let (strength, formatted) = match (device, cached, unable) {
        (Some(share), _, _) => {
            let formatted =
                format!("the device read only {} of the bytes read", super::percent(share));
            (Strength::Proven, formatted)
        }
        (None, Some(share), _) => {
            let formatted =
                format!("{} of sampled blocks were in the page cache", super::percent(share));
            let strength = if unable { Strength::Supported } else { Strength::ConsistentWith };
            (strength, formatted)
        }
        (None, None, true) => {
            (Strength::ConsistentWith, "it reports no alignment for direct I/O".to_owned())
        }
        (None, None, false) => return None,
    };
    let name = target.filesystem.as_deref().unwrap_or("the file system");
    let words = format!("{name} accepts direct I/O but appears to ignore it: {formatted}.");
    let finding = DETECTOR.found(strength, words).with_known("device_read_share", device);
    Some(finding.with_known("cached_share", cached).with("filesystem", name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::DeviceCounters;

    fn with_device_reads(percent: u64) -> iosonde_model::record::run::Run {
        let mut run = run_of(&[Load::default()]);
        let read_sectors = run.jobs[0].read.bytes / 512 * percent / 100;
        let end = DeviceCounters { read_sectors, ..DeviceCounters::default() };
        run.device = Some((DeviceCounters::default(), end));
        run
    }

    #[test]
    fn a_device_that_read_half_of_it_is_reported() {
        let finding = ask(detect, &with_device_reads(50), None).unwrap();
        assert_eq!(finding.strength, Strength::Proven);
        assert_eq!(ask(detect, &with_device_reads(99), None), None);
    }

    #[test]
    fn one_device_of_a_pool_proves_nothing() {
        let mut run = with_device_reads(50);
        run.target.filesystem = Some("btrfs".into());
        assert_eq!(ask(detect, &run, None), None);
    }

    #[test]
    fn unwritten_space_and_plain_buffered_reads_are_other_findings() {
        let mut run = with_device_reads(0);
        run.target.unwritten_bytes = Some(1 << 30);
        assert_eq!(ask(detect, &run, None), None);
        let mut run = with_device_reads(0);
        run.target.direct = false;
        assert_eq!(ask(detect, &run, None), None);
    }

    #[test]
    fn a_device_that_read_all_of_it_refutes_cached_blocks() {
        let mut run = with_device_reads(99);
        run.target.cached_samples = Some((60, 64));
        assert_eq!(ask(detect, &run, None), None);
        // The reads went through the page cache, whatever the device read.
        run.target.dio_mem_align = Some(0);
        assert!(ask(detect, &run, None).is_some());
        run.target.dio_mem_align = None;
        run.device = None;
        assert!(ask(detect, &run, None).is_some());
    }

    #[test]
    fn cached_blocks_are_weaker_evidence() {
        let mut run = run_of(&[Load::default()]);
        run.target.cached_samples = Some((2, 64));
        assert_eq!(ask(detect, &run, None), None);
        run.target.cached_samples = Some((60, 64));
        assert_eq!(ask(detect, &run, None).unwrap().strength, Strength::ConsistentWith);
        run.target.dio_mem_align = Some(0);
        assert_eq!(ask(detect, &run, None).unwrap().strength, Strength::Supported);
    }
}
