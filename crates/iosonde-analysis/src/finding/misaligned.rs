//! `misaligned`: writes do not fit the physical blocks of the device.

use iosonde_model::units::bytes;

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "misaligned",
    meaning: "Writes do not fit the physical blocks of the device, which must read first.",
    method: "offsets and sizes, compared with the physical block size",
    action: "Align the partition and the block size to the physical block.",
    detect,
};

/// Reports when writes went to a partition that does not start on a physical block boundary, or in
/// sizes that are not multiples of the physical block size.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let device = case.run.target.device.as_ref()?;
    if case.figures.all.write.ops == 0 {
        return None;
    }
    let physical = u64::from(device.physical_block_bytes.unwrap_or(0));
    let offset = match device.alignment_offset.unwrap_or(0) {
        0 => device.partition_start_bytes.and_then(|start| start.checked_rem(physical)),
        offset => Some(offset.unsigned_abs()),
    };
    let offset = offset.unwrap_or(0);
    let small = case
        .run
        .plan
        .jobs
        .iter()
        .filter(|job| job.read_percent < 100 && physical > 0)
        .find(|job| !job.block_bytes.is_multiple_of(physical));
    let (strength, words) = if offset != 0 {
        let words = format!(
            "The partition starts {offset} B off a physical block boundary: each write touches \
             one extra block."
        );
        (Strength::Proven, words)
    } else {
        let words = format!(
            "{} writes on {} physical blocks: each costs the device a read-modify-write.",
            bytes::exact(small?.block_bytes),
            bytes::exact(physical)
        );
        (Strength::Supported, words)
    };
    let finding = Finding::new("misaligned", "misalignment", strength, Severity::Warning, words);
    Some(
        finding
            .with("alignment_offset_bytes", offset as f64)
            .with("physical_block_bytes", physical as f64),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::DeviceFacts;

    #[test]
    fn an_offset_or_half_a_block_is_reported_for_writes_only() {
        let device = |offset, physical| DeviceFacts {
            alignment_offset: Some(offset),
            physical_block_bytes: Some(physical),
            ..DeviceFacts::default()
        };
        let mut run = run_of(&[Load { read_percent: 0, ..Load::default() }]);
        run.target.device = Some(device(0, 4096));
        assert_eq!(ask(detect, &run, None), None);
        run.target.device = Some(device(3584, 4096));
        assert!(ask(detect, &run, None).is_some());
        run.target.device = Some(device(0, 4096));
        run.target.device.as_mut().unwrap().partition_start_bytes = Some(63 * 512);
        assert!(ask(detect, &run, None).is_some());
        run.target.device.as_mut().unwrap().partition_start_bytes = Some(1 << 20);
        assert_eq!(ask(detect, &run, None), None);
        run.target.device = Some(device(0, 8192));
        assert_eq!(ask(detect, &run, None).unwrap().strength, Strength::Supported);
        let mut reads = run_of(&[Load::default()]);
        reads.target.device = Some(device(3584, 8192));
        assert_eq!(ask(detect, &reads, None), None);
    }
}
