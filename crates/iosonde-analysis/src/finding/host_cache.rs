//! `host_cache`: a virtual disk whose random reads are faster than flash. The file below a loop
//! device may be in memory, too.

use iosonde_model::plan::{Job, Order};
use iosonde_model::units::duration;
use iosonde_stats::Histogram;

use super::ram_backed::is_memory;
use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "host_cache",
    meaning: "Random reads of a virtual disk are faster than flash: memory of the host serves \
              them.",
    method: "latency distribution of a virtual disk",
    action: "Use a test file larger than the host's memory, or state that its cache is meant.",
    subject: "the host's cache",
    severity: Severity::Warning,
    detect,
};

/// Latency below that of any NAND flash random read, controller and bus included, ns.
const FLASH_READ_NS: u64 = 40_000;
/// Possible source of the data of a virtual disk, and of a loop device.
const HYPERVISOR: &str = "the hypervisor may serve them from memory";
const LOOP: &str = "the page cache of this machine may hold the file below the loop device";

/// Reports when 10 % of the random reads of a virtual disk were faster than flash. Never stronger
/// than "consistent with": memory-like devices are as fast. A loop device is as fast as the file
/// below it, so there the finding is only a fact.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let device = case.run.target.device.as_ref()?;
    let is_random = |job: &Job| !matches!(job.order, Order::Sequential { .. });
    let random = case.run.plan.jobs.iter().all(|job| job.read_percent == 0 || is_random(job));
    if device.is_virtual != Some(true) || !random || !case.run.target.direct || !case.is_real() {
        return None;
    }
    // Reads of holes and unwritten extents do not reach a device.
    if case.empty_share() > 0.01 {
        return None;
    }
    let fast = case.figures.all.read.latency.at(0.10)?;
    if fast >= FLASH_READ_NS {
        return None;
    }
    let reads = Histogram::of_all(case.run.jobs.iter().map(|job| &job.read.latency));
    let share = 1.0 - reads.count_above(FLASH_READ_NS) as f64 / reads.count().max(1) as f64;
    let (subject, severity, cause) = match device.transport.as_deref() {
        Some("loop") => ("the page cache", Severity::Fact, LOOP),
        Some(transport) if is_memory(transport) => return None,
        _ => (DETECTOR.subject, DETECTOR.severity, HYPERVISOR),
    };
    let words = format!(
        "Reads from memory suspected: {} of the random reads took less than {} (10 % at most {}), \
         which no flash device achieves; {cause}.",
        super::percent(share),
        duration::latency(FLASH_READ_NS as f64),
        duration::latency(fast as f64)
    );
    let finding = DETECTOR.found_at(severity, Strength::ConsistentWith, words).about(subject);
    let finding = if severity == Severity::Fact { finding } else { finding.moves(share) };
    let finding = finding.with("fast_share", share);
    Some(finding.with("read_p10_ns", fast).with("flash_read_ns", FLASH_READ_NS))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::DeviceFacts;

    fn fast_reads(is_virtual: bool) -> iosonde_model::record::run::Run {
        let mut run = run_of(&[Load { depth: 1, iops: 40_000.0, ..Load::default() }]);
        run.target.device =
            Some(DeviceFacts { is_virtual: Some(is_virtual), ..DeviceFacts::default() });
        run
    }

    #[test]
    fn a_virtual_disk_faster_than_flash_is_reported() {
        let finding = ask(detect, &fast_reads(true), None).unwrap();
        assert_eq!(finding.strength, Strength::ConsistentWith);
    }

    #[test]
    fn of_a_loop_device_it_is_a_fact_and_of_memory_nothing_new() {
        let mut run = fast_reads(true);
        let transport = |run: &mut iosonde_model::record::run::Run, name: &str| {
            run.target.device.as_mut().unwrap().transport = Some(name.into());
        };
        transport(&mut run, "loop");
        let finding = ask(detect, &run, None).unwrap();
        assert_eq!((finding.severity, finding.effect), (Severity::Fact, None));
        assert!(finding.words.contains("loop device"), "{}", finding.words);
        transport(&mut run, "zram");
        assert_eq!(ask(detect, &run, None), None);
    }

    #[test]
    fn a_real_disk_sequential_reads_and_flash_like_times_do_not() {
        assert_eq!(ask(detect, &fast_reads(false), None), None);
        let mut run = fast_reads(true);
        run.plan.jobs[0].order = Order::Sequential { start_block: 0, lane: 0, lanes: 1 };
        assert_eq!(ask(detect, &run, None), None);
        let mut run = run_of(&[Load { depth: 1, iops: 8_000.0, ..Load::default() }]);
        run.target.device = Some(DeviceFacts { is_virtual: Some(true), ..DeviceFacts::default() });
        assert_eq!(ask(detect, &run, None), None);
    }
}
