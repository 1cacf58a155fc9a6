//! `misaligned`: writes do not fit the physical blocks of the device.

use iosonde_model::plan::{Draw, IoKind, Job, Order};
use iosonde_model::units::bytes;

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "misaligned",
    meaning: "Writes do not fit the physical blocks of the device, which must read first.",
    method: "offsets and sizes, compared with the physical block size",
    action: "Align the partition and the block size to the physical block.",
    subject: "misalignment",
    severity: Severity::Warning,
    detect,
};

/// Reports when writes went to a partition that does not start on a physical block boundary, or in
/// sizes or at offsets that are not multiples of the physical block size.
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
    let writers = case.run.plan.jobs.iter().filter(|job| job.writes_data());
    let (strength, words) = if offset != 0 {
        // The kernel reports -1 if it does not know the offset.
        let starts = match device.alignment_offset {
            Some(..0) => "does not start on".to_owned(),
            _ => format!("starts {offset} B off"),
        };
        let words = format!(
            "The partition {starts} a physical block boundary: each write touches one extra block."
        );
        (Strength::Proven, words)
    } else {
        let words = format!(
            "{} on {} physical blocks cost the device read-modify-writes.",
            writers.filter(|_| physical > 0).find_map(|job| misfit(job, physical))?,
            bytes::exact(physical)
        );
        (Strength::Supported, words)
    };
    let finding = DETECTOR.found(strength, words).with("alignment_offset_bytes", offset);
    Some(finding.with("physical_block_bytes", physical))
}

/// The writes of a job that do not fit blocks of this size, as a noun phrase.
fn misfit(job: &Job, physical: u64) -> Option<String> {
    let fits = |bytes: u64| bytes.is_multiple_of(physical);
    let (low, high) = job.size_range(IoKind::Write);
    let [smallest, largest] = [low, high].map(bytes::exact);
    let all_fit = match &job.sizes.write {
        Draw::Split(sizes) => sizes.iter().all(|(bytes, _)| fits(*bytes)),
        // Sizes between the ends are multiples of the unit.
        _ => fits(low) && fits(high) && (low == high || fits(job.unit())),
    };
    if !all_fit {
        let each = format!("{smallest} writes");
        return Some(if low == high { each } else { format!("Writes of {smallest} to {largest}") });
    }
    // A sequential operation begins where the previous one ended.
    let is_sequential = matches!(job.order, Order::Sequential { .. });
    if !is_sequential && !fits(job.unit()) {
        return Some(format!("Writes at multiples of {}", bytes::exact(job.unit())));
    }
    (!fits(job.region_start))
        .then(|| format!("Writes from offset {} on", bytes::exact(job.region_start)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::DeviceFacts;

    #[test]
    fn sizes_and_offsets_that_are_drawn_are_reported_if_some_do_not_fit() {
        let speaks = |change: fn(&mut Job)| {
            let mut run = run_of(&[Load { read_percent: 0, ..Load::default() }]);
            run.target.device.get_or_insert_default().physical_block_bytes = Some(4096);
            change(&mut run.plan.jobs[0]);
            ask(detect, &run, None).map(|finding| finding.words)
        };
        let words = speaks(|job| job.sizes.write = Draw::Split(vec![(512, 50.0), (4096, 50.0)]));
        assert!(words.unwrap().starts_with("Writes of 512 B to 4 KiB on 4 KiB physical"));
        let words = speaks(|job| {
            job.order = Order::Sequential { start_block: 0, lane: 0, lanes: 1 };
            job.sizes.write = Draw::Split(vec![(4096, 40.0), (6144, 20.0), (8192, 40.0)]);
        });
        assert!(words.unwrap().starts_with("Writes of 4 KiB to 8 KiB on 4 KiB physical"));
        let words = speaks(|job| job.unit_bytes = 512).unwrap();
        assert!(words.starts_with("Writes at multiples of 512 B on"), "{words}");
        let words = speaks(|job| job.region_start = 512).unwrap();
        assert!(words.starts_with("Writes from offset 512 B on"), "{words}");
        assert_eq!(speaks(|job| job.sizes.read = Draw::Fixed(512)), None);
    }

    #[test]
    fn a_misalignment_without_its_amount_names_none() {
        let mut run = run_of(&[Load { read_percent: 0, ..Load::default() }]);
        run.target.device.get_or_insert_default().alignment_offset = Some(-1);
        let words = ask(detect, &run, None).unwrap().words;
        assert!(words.starts_with("The partition does not start on a physical"), "{words}");
    }

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
