//! `split_requests`: operations are larger than the largest request of the device.

use iosonde_model::plan::{EngineKind, Job};
use iosonde_model::units::bytes;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "split_requests",
    meaning: "The kernel splits each operation into several requests, which the device serves side \
              by side.",
    method: "block size and max_sectors_kb, compared with the device's count of requests",
    action: "Raise max_sectors_kb (up to max_hw_sectors_kb), or read the depth of the device as a \
             multiple of --iodepth.",
    subject: "",
    severity: Severity::Fact,
    detect,
};

/// Share by which the device's count may differ from the requests expected.
const TOLERANCE: f64 = 0.1;

/// Reports the largest number of requests per operation if the device's count matches it. It needs
/// the device's counters: another limit may have split the operations earlier.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let run = case.run;
    let limit = u64::from(run.target.device.as_ref()?.max_sectors_kb?) << 10;
    // Passthrough commands are not split, and buffered I/O has other request sizes.
    let splits = !matches!(run.plan.engine.kind, EngineKind::IoUringCmd | EngineKind::Mmap);
    if limit == 0 || !splits || !case.is_real() || !run.target.direct {
        return None;
    }
    let parts = |job: &Job| job.block_bytes.div_ceil(limit);
    let ops = run.jobs.iter().map(|job| job.read.ops + job.write.ops);
    let expected: u64 = run.plan.jobs.iter().zip(ops).map(|(job, ops)| parts(job) * ops).sum();
    let work = crate::consistency::device_work(run)?;
    let counted = work.reads + work.writes;
    let largest = run.plan.jobs.iter().max_by_key(|job| parts(job))?;
    let apart = counted.abs_diff(expected) as f64;
    if parts(largest) < 2 || expected == 0 || apart > TOLERANCE * expected as f64 {
        return None;
    }
    let words = format!(
        "Each operation of {} is split into {} requests of at most {} (max_sectors_kb), which are \
         in flight together.",
        bytes::exact(largest.block_bytes),
        parts(largest),
        bytes::exact(limit),
    );
    let finding = DETECTOR.proven(words).with("requests_per_operation", parts(largest));
    let finding = finding.with("max_request_bytes", limit).with("device_requests", counted);
    Some(finding.with("expected_requests", expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::{DeviceCounters, DeviceFacts};
    use iosonde_model::record::run::Run;

    /// 64 KiB operations on a device with this largest request and count per operation.
    fn large(max_sectors_kb: u32, requests_per_operation: u64) -> Run {
        let mut run = run_of(&[Load { block_bytes: 64 << 10, ..Load::default() }]);
        run.target.direct = true;
        run.target.device =
            Some(DeviceFacts { max_sectors_kb: Some(max_sectors_kb), ..DeviceFacts::default() });
        let ops: u64 = run.jobs.iter().map(|job| job.read.ops).sum();
        let end = DeviceCounters { reads: ops * requests_per_operation, ..Default::default() };
        run.device = Some((DeviceCounters::default(), end));
        run
    }

    #[test]
    fn what_the_device_counted_decides() {
        let found = ask(detect, &large(16, 4), None).map(|finding| finding.words);
        let words = "Each operation of 64 KiB is split into 4 requests of at most 16 KiB";
        assert!(found.as_ref().is_some_and(|found| found.starts_with(words)), "{found:?}");
        // Whole requests, and requests already split by an upper layer.
        for (limit, counted) in [(64, 1), (1280, 1), (16, 1), (16, 16)] {
            assert_eq!(ask(detect, &large(limit, counted), None), None, "{limit} {counted}");
        }
        let mut unknown = large(16, 4);
        unknown.device = None;
        assert_eq!(ask(detect, &unknown, None), None);
        let mut buffered = large(16, 4);
        buffered.target.direct = false;
        assert_eq!(ask(detect, &buffered, None), None);
    }
}
