//! Clocks and physics: no latency of zero, no drift, no suspend, nothing faster than the link.

use crate::figures::Figures;
use crate::series::directions;
use iosonde_model::plan::EngineKind;
use iosonde_model::record::run::Run;
use iosonde_model::units;

use super::{Identity, Severity, significant};

/// Drift of the latency clock against CLOCK_MONOTONIC_RAW accepted, parts per billion (50 ppm).
const DRIFT_PPB: f64 = 50_000.0;
/// Longest accepted suspend during the window, ns.
const SLEPT_NS: f64 = 10e6;
/// Granularity of CPU accounting on kernels that count ticks, ns.
const CPU_TICK_NS: f64 = 20e6;
/// Bandwidth above which, with the link unknown, only memory can be the source, bytes per second.
/// One PCIe 5.0 x16 slot carries 57 GB/s; no single device comes near this.
pub(crate) const MEMORY_BYTES_PER_S: f64 = 100e9;

/// Whether time and device are real: physical limits do not apply to `null` and `sim`.
fn is_real(run: &Run) -> bool {
    run.plan.engine.kind.is_real()
}

/// No latency is zero.
pub(super) fn latency(run: &Run) -> Option<Identity> {
    let least = directions(run).filter_map(|direction| direction.latency.min()).min()?;
    let equation = format!("smallest latency {least} ns > 0");
    let residual = if least == 0 { 1.0 } else { 0.0 };
    is_real(run).then(|| Identity::new("latency", Severity::Note, residual, 0.0, equation))
}

/// The clock that times requests agrees with the kernel's raw clock.
pub(super) fn drift(run: &Run) -> Identity {
    let drift = run.backend.clock_drift_ppb.unsigned_abs() as f64;
    let equation = format!(
        "drift of the {} clock {} ppm <= 50 ppm",
        run.backend.clock,
        significant(run.backend.clock_drift_ppb as f64 / 1e3)
    );
    Identity::new("clock", Severity::Note, drift / 1e9, DRIFT_PPB / 1e9, equation)
}

/// Window between the clock readings at its edges: the counterpart of `measured_boottime_ns`.
pub(crate) fn window_ns(run: &Run) -> u64 {
    if run.process.span_ns > 0 { run.process.span_ns } else { run.measured_ns }
}

/// The clock that includes suspend measured the same window.
pub(super) fn suspended(run: &Run) -> Identity {
    let span_ns = window_ns(run);
    let slept = run.measured_boottime_ns.abs_diff(span_ns) as f64;
    let equation = format!(
        "window by CLOCK_BOOTTIME {} s = by CLOCK_MONOTONIC {} s",
        significant(run.measured_boottime_ns as f64 / 1e9),
        significant(span_ns as f64 / 1e9)
    );
    let window = span_ns.max(1) as f64;
    // 100 ppm for clocks that are steered differently.
    let tolerance = SLEPT_NS / window + 1e-4;
    Identity::new("suspend", Severity::Note, slept / window, tolerance, equation)
}

/// No thread used more CPU time than elapsed time; the time of a simulation is not that of the CPU.
pub(super) fn cpu(run: &Run) -> Option<Identity> {
    if run.plan.engine.kind == EngineKind::Sim {
        return None;
    }
    let worst = run
        .jobs
        .iter()
        .filter(|job| job.measured_ns > 0)
        .map(|job| ((job.cpu_user_ns + job.cpu_system_ns) as f64, job.measured_ns as f64))
        .max_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)))?;
    let equation = format!(
        "CPU time of the busiest job {} s <= {} s",
        significant(worst.0 / 1e9),
        significant(worst.1 / 1e9)
    );
    let residual = (worst.0 / worst.1 - 1.0).max(0.0);
    let tolerance = 0.01 + CPU_TICK_NS / worst.1;
    Some(Identity::new("cpu", Severity::Note, residual, tolerance, equation))
}

/// Bandwidth does not exceed that of the link or, if the link is unknown, that of memory.
pub(super) fn bandwidth(run: &Run, figures: &Figures) -> Option<Identity> {
    if !is_real(run) {
        return None;
    }
    let link = run.target.device.as_ref().and_then(|device| device.link_bytes_per_s);
    let (ceiling, name) = match link {
        // A link carries both directions at once.
        Some(bytes_per_s) => (bytes_per_s as f64, "link"),
        None => (MEMORY_BYTES_PER_S, "memory"),
    };
    let read = figures.all.read.bytes_per_s;
    let write = figures.all.write.bytes_per_s;
    let rate = if link.is_some() { read.max(write) } else { read + write };
    let equation = format!(
        "bandwidth {} <= {name} ceiling {}",
        units::bytes::per_second(rate),
        units::bytes::per_second(ceiling)
    );
    let residual = (rate / ceiling.max(1.0) - 1.0).max(0.0);
    // The payload share of a link is itself an estimate.
    let tolerance = if link.is_some() { 0.05 } else { 0.0 };
    Some(Identity::new("bandwidth", Severity::Note, residual, tolerance, equation))
}

/// Latency is at least that of this engine with a backend that does nothing. Data is generated
/// before an operation and compared after it, so that time is excluded.
pub(super) fn floor(run: &Run, figures: &Figures) -> Option<Identity> {
    let mean_ns = figures.all.total.latency.mean_ns?;
    let backend = &run.backend;
    let floor_ps = backend.tool_overhead_ps.saturating_sub(backend.tool_overhead_data_ps);
    let floor_ns = floor_ps as f64 / 1e3;
    if !is_real(run) || floor_ns == 0.0 {
        return None;
    }
    let without = if backend.tool_overhead_data_ps > 0 { " without data" } else { "" };
    let equation = format!(
        "mean latency {} ns >= tool overhead{without} {} ns",
        significant(mean_ns),
        significant(floor_ns)
    );
    let residual = (1.0 - mean_ns / floor_ns).max(0.0);
    Some(Identity::new("floor", Severity::Note, residual, 0.0, equation))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::figures;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::DeviceFacts;

    #[test]
    fn a_suspend_a_drift_and_a_jump_are_seen() {
        // T11.
        let mut run = run_of(&[Load::default()]);
        assert!(suspended(&run).ok && drift(&run).ok && latency(&run).unwrap().ok);
        assert!(cpu(&run).unwrap().ok);
        run.measured_boottime_ns += 60_000_000_000;
        assert!(!suspended(&run).ok);
        run.backend.clock_drift_ppb = -51_000;
        assert!(!drift(&run).ok);
        run.jobs[0].read.latency.record(0);
        assert!(!latency(&run).unwrap().ok);
        run.jobs[0].cpu_user_ns = 11_000_000_000;
        assert!(!cpu(&run).unwrap().ok);
    }

    #[test]
    fn nothing_is_faster_than_its_link_or_than_memory() {
        // T10: a published 55 to 63 bytes per ns from one laptop SSD.
        let mut run = run_of(&[Load { block_bytes: 1 << 20, iops: 60_000.0, ..Load::default() }]);
        assert!(bandwidth(&run, &figures(&run)).unwrap().ok);
        run.target.device =
            Some(DeviceFacts { link_bytes_per_s: Some(7_000_000_000), ..DeviceFacts::default() });
        assert!(!bandwidth(&run, &figures(&run)).unwrap().ok);
        let fast = run_of(&[Load { block_bytes: 1 << 20, iops: 200_000.0, ..Load::default() }]);
        assert!(!bandwidth(&fast, &figures(&fast)).unwrap().ok);
    }

    #[test]
    fn a_latency_below_the_floor_is_seen_and_null_is_not_judged() {
        let mut run = run_of(&[Load::default()]);
        assert!(floor(&run, &figures(&run)).unwrap().ok);
        run.backend.tool_overhead_ps = 10_000_000_000_000;
        assert!(!floor(&run, &figures(&run)).unwrap().ok);
        // Large writes of new data: generating it is not part of the latency.
        run.backend.tool_overhead_data_ps = run.backend.tool_overhead_ps - 30_000;
        let entry = floor(&run, &figures(&run)).unwrap();
        assert!(entry.ok && entry.equation.ends_with(">= tool overhead without data 30.0 ns"));
        run.plan.engine.kind = EngineKind::Null;
        assert_eq!(floor(&run, &figures(&run)), None);
    }
}
