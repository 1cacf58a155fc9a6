//! The write limit of an experiment: by its own count and by the drive's, which includes writes of
//! other programs and of interrupted passes.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use super::StageJob;
use crate::schedule::RunContext;
use iosonde_engine::host::nvme_health;
use iosonde_engine::target::Held;
use iosonde_model::units::bytes;

/// A unit in which an NVMe drive counts (NVM Express Base Specification 2.0, figure 207), bytes.
const UNIT_BYTES: u64 = 512_000;

/// Bytes written in the life of a drive, if it counts them itself.
pub fn drive_written_bytes(held: Option<&Held>) -> Option<u64> {
    let health = nvme_health(held?.file.as_fd()).ok()?;
    let units = health["nvme_smart_health_information_log"]["data_units_written"].as_u64()?;
    Some(units.saturating_mul(UNIT_BYTES))
}

/// Why no further run begins, if the write limit is reached.
pub(super) fn limit_reached(job: &StageJob<'_>, context: &RunContext) -> Option<String> {
    let limit = job.write_limit_bytes?;
    let own = job.written_bytes.load(Ordering::Relaxed);
    let now = job.drive_written_before.and_then(|_| drive_written_bytes(context.held.as_ref()));
    words(limit, own, now.zip(job.drive_written_before).map(|(now, before)| now - before.min(now)))
}

fn words(limit: u64, own: u64, by_drive: Option<u64>) -> Option<String> {
    let counted = by_drive.filter(|counted| *counted >= limit);
    let by = match counted {
        _ if own >= limit => String::new(),
        None => return None,
        Some(counted) => format!(
            ": the drive counts {} since the experiment began, {} of them by it",
            bytes::rough(counted),
            bytes::rough(own),
        ),
    };
    let limited = bytes::rough(limit);
    Some(format!(
        "the write limit of {limited} (--max-written) was reached{by}; to go on, resume it with a \
         larger one"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_count_reaches_the_limit() {
        assert_eq!(words(1000, 999, None), None);
        assert_eq!(words(1000, 999, Some(999)), None);
        assert!(words(1000, 1000, None).is_some_and(|why| why.contains("was reached; to go on")));
        assert!(words(1000, 0, Some(1000)).is_some_and(|why| why.contains("the drive counts")));
    }
}
