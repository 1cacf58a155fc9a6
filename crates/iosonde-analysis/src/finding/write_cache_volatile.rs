//! `write_cache_volatile`: an acknowledged write is not yet durable.

use iosonde_model::units::bytes;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "write_cache_volatile",
    meaning: "An acknowledged write is not yet durable.",
    method: "the write cache that the device reports",
    action: "Read the Durable column for data that must survive a power cut.",
    subject: "a volatile write cache",
    severity: Severity::Fact,
    detect,
};

/// States the durable rate of a run that writes to a device with a write-back cache.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let cache = case.run.target.device.as_ref()?.write_cache.as_deref()?;
    if cache != "write back" || case.figures.all.write.ops == 0 {
        return None;
    }
    let durable = case.figures.durable.as_ref().and_then(|durable| durable.bytes_per_s);
    let formatted = durable.map_or("not measured".to_owned(), bytes::per_second);
    let words = format!(
        "The device has a write-back cache: acknowledged data is not yet durable; with fsync: \
         {formatted}."
    );
    Some(DETECTOR.proven(words).with_known("durable_bytes_per_s", durable))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::DeviceFacts;

    #[test]
    fn writes_to_a_write_back_cache_are_reported_and_reads_are_not() {
        let device =
            DeviceFacts { write_cache: Some("write back".into()), ..DeviceFacts::default() };
        let mut run = run_of(&[Load { read_percent: 0, ..Load::default() }]);
        assert_eq!(ask(detect, &run, None), None);
        run.target.device = Some(device.clone());
        assert_eq!(ask(detect, &run, None).unwrap().severity, Severity::Fact);
        let mut reads = run_of(&[Load::default()]);
        reads.target.device = Some(device);
        assert_eq!(ask(detect, &reads, None), None);
    }
}
