//! The kernel's counters of the block device against ours.

use crate::series::directions;
use iosonde_model::record::facts::DeviceCounters;
use iosonde_model::record::run::Run;

use super::{Identity, Severity, significant, thousands};

/// Share by which the device's bytes may differ from ours, besides requests that cross an edge.
const TRANSFERS: f64 = 0.02;
/// Tolerance of Little's law at the device, whose counters tick in milliseconds.
const QUEUE: f64 = 0.05;
/// Queue time below which the device's milliseconds are too coarse.
const QUEUE_FROM_MS: u64 = 100;

/// The work of the device in the window: counters at the end minus counters at the start. `None`
/// without counters, or if they ran backwards.
pub(crate) fn work(run: &Run) -> Option<DeviceCounters> {
    let (start, end) = run.device.as_ref()?;
    Some(DeviceCounters {
        reads: end.reads.checked_sub(start.reads)?,
        read_merges: end.read_merges.checked_sub(start.read_merges)?,
        read_sectors: end.read_sectors.checked_sub(start.read_sectors)?,
        read_ms: end.read_ms.checked_sub(start.read_ms)?,
        writes: end.writes.checked_sub(start.writes)?,
        write_merges: end.write_merges.checked_sub(start.write_merges)?,
        write_sectors: end.write_sectors.checked_sub(start.write_sectors)?,
        write_ms: end.write_ms.checked_sub(start.write_ms)?,
        in_flight: end.in_flight,
        busy_ms: end.busy_ms.checked_sub(start.busy_ms)?,
        weighted_ms: end.weighted_ms.checked_sub(start.weighted_ms)?,
        discards: end.discards.saturating_sub(start.discards),
        flushes: end.flushes.saturating_sub(start.flushes),
        flush_ms: end.flush_ms.saturating_sub(start.flush_ms),
    })
}

/// Bytes read and bytes written by the device.
pub(crate) fn moved_bytes(work: &DeviceCounters) -> (u64, u64) {
    (work.read_sectors.saturating_mul(512), work.write_sectors.saturating_mul(512))
}

/// Our bytes read, our bytes written, and the bytes of requests that may cross an edge.
pub(crate) fn ours(run: &Run) -> (u64, u64, u64) {
    let read = run.jobs.iter().map(|job| job.read.bytes).sum();
    let written = run.jobs.iter().map(|job| job.write.bytes).sum();
    let crossing =
        run.jobs.iter().zip(&run.plan.jobs).map(|(job, plan)| {
            u64::from(job.in_flight_start + job.in_flight_end) * plan.block_bytes
        });
    (read, written, crossing.sum())
}

/// Bytes moved by the device equal ours. More means other programs, or the file system's own
/// writes; less means a cache in between.
pub(super) fn transfers(run: &Run) -> Option<Identity> {
    let work = work(run)?;
    let (read, written, crossing) = ours(run);
    let (device_read, device_written) = moved_bytes(&work);
    let (device, mine) = (device_read + device_written, read + written);
    if mine == 0 {
        return None;
    }
    let ops: u64 = directions(run).map(|direction| direction.ops).sum();
    let equation = format!(
        "device {} B in {} requests = ours {} B in {}",
        thousands(device),
        thousands(work.reads + work.writes),
        thousands(mine),
        thousands(ops),
    );
    let residual = device.abs_diff(mine) as f64 / mine as f64;
    let tolerance = TRANSFERS + crossing as f64 / mine as f64;
    Some(Identity::new("device", Severity::Note, residual, tolerance, equation))
}

/// Little's law at the device: mean queue from the weighted time equals the sum of request times.
pub(super) fn queue(run: &Run) -> Option<Identity> {
    let delta = work(run)?;
    let window_ms = run.measured_ns as f64 / 1e6;
    if delta.weighted_ms < QUEUE_FROM_MS || window_ms == 0.0 {
        return None;
    }
    let weighted = delta.weighted_ms as f64;
    let requests = (delta.read_ms + delta.write_ms + delta.flush_ms) as f64;
    let equation = format!(
        "device queue {} = request time / window {}",
        significant(weighted / window_ms),
        significant(requests / window_ms)
    );
    let residual = (weighted - requests).abs() / weighted;
    Some(Identity::new("device_queue", Severity::Note, residual, QUEUE, equation))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::{Load, run_of};

    fn with_device(percent_of_ours: u64) -> Run {
        let mut run = run_of(&[Load::default()]);
        let (read, _, _) = ours(&run);
        let end = DeviceCounters {
            reads: run.jobs[0].read.ops * percent_of_ours / 100,
            read_sectors: read / 512 * percent_of_ours / 100,
            read_ms: 320_000,
            weighted_ms: 320_100,
            ..DeviceCounters::default()
        };
        run.device = Some((DeviceCounters::default(), end));
        run
    }

    #[test]
    fn a_device_that_did_our_work_agrees() {
        assert!(transfers(&with_device(100)).unwrap().ok);
        assert!(queue(&with_device(100)).unwrap().ok);
    }

    #[test]
    fn caches_and_neighbours_show_and_counters_running_backwards_are_dropped() {
        assert!(!transfers(&with_device(50)).unwrap().ok);
        assert!(!transfers(&with_device(110)).unwrap().ok);
        let mut run = with_device(100);
        run.device = run.device.map(|(start, end)| (end, start));
        assert_eq!(transfers(&run), None);
    }
}
