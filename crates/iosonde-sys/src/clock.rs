//! The clock of the measurement: the processor's counter where it can be trusted, else the
//! kernel's.

use std::io;

/// A monotonic clock in nanoseconds from an arbitrary zero.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// TSC at calibration; 0 with `scale == 0` means CLOCK_MONOTONIC.
    base: u64,
    /// Nanoseconds per tick times 2^32; 0 means CLOCK_MONOTONIC.
    scale: u64,
    /// CLOCK_MONOTONIC_RAW at calibration, ns.
    raw_base: u64,
}

/// Time between the two readings of a calibration: 5 ms bounds the error of the two ends (about
/// 50 ns each) to 20 ppm; `drift_ppb` measures the remaining error over the whole run.
const CALIBRATION_NS: u64 = 5_000_000;

impl Clock {
    /// The kernel's CLOCK_MONOTONIC.
    pub fn monotonic() -> Clock {
        Clock { base: 0, scale: 0, raw_base: raw_ns() }
    }

    /// The time-stamp counter, calibrated against CLOCK_MONOTONIC_RAW during 5 ms. The caller must
    /// make sure that it is invariant and that the kernel itself trusts it. Without such a counter
    /// this is [`Clock::monotonic`].
    pub fn tsc() -> Clock {
        if !cfg!(target_arch = "x86_64") {
            return Clock::monotonic();
        }
        let (ticks_0, raw_0) = paired();
        let (ticks_1, raw_1) = loop {
            let pair = paired();
            if pair.1.saturating_sub(raw_0) >= CALIBRATION_NS {
                break pair;
            }
            std::hint::spin_loop();
        };
        let scale = (u128::from(raw_1 - raw_0) << 32) / u128::from((ticks_1 - ticks_0).max(1));
        Clock { base: ticks_0, scale: scale as u64, raw_base: raw_0 }
    }

    /// Whether this is the time-stamp counter.
    pub fn is_tsc(&self) -> bool {
        self.scale != 0
    }

    /// Nanoseconds now.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        if self.scale == 0 {
            return far_monotonic_ns();
        }
        let ticks = ticks().wrapping_sub(self.base);
        ((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64
    }

    /// Drift of this clock against CLOCK_MONOTONIC_RAW since calibration, parts per billion; 0 for
    /// the kernel's own clock, whose rate is steered on purpose.
    pub fn drift_ppb(&self) -> i64 {
        if self.scale == 0 {
            return 0;
        }
        let (ticks, raw) = paired();
        let by_ticks = (u128::from(ticks.wrapping_sub(self.base)) * u128::from(self.scale)) >> 32;
        let by_raw = raw.saturating_sub(self.raw_base).max(1);
        let difference = by_ticks as i128 - i128::from(by_raw);
        (difference * 1_000_000_000 / i128::from(by_raw)) as i64
    }

    /// Mean cost of one reading, picoseconds, over 100,000 readings.
    pub fn cost_ps(&self) -> u64 {
        const READINGS: u64 = 100_000;
        let start = monotonic_ns();
        for _ in 0..READINGS {
            std::hint::black_box(self.now_ns());
        }
        (monotonic_ns() - start) * 1000 / READINGS
    }
}

/// CLOCK_MONOTONIC in ns, out of line to keep loops that use the counter short: every cache line of
/// code fetched between two stamps costs time.
#[cold]
#[inline(never)]
fn far_monotonic_ns() -> u64 {
    monotonic_ns()
}

/// CLOCK_MONOTONIC in ns.
#[inline]
pub fn monotonic_ns() -> u64 {
    kernel_ns(libc::CLOCK_MONOTONIC)
}

/// CLOCK_BOOTTIME in ns: like the monotonic clock, but it also counts suspend.
pub fn boottime_ns() -> u64 {
    kernel_ns(libc::CLOCK_BOOTTIME)
}

/// Wall clock, ns since 1970.
pub fn realtime_ns() -> u64 {
    kernel_ns(libc::CLOCK_REALTIME)
}

fn raw_ns() -> u64 {
    kernel_ns(libc::CLOCK_MONOTONIC_RAW)
}

#[inline]
fn kernel_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing. These clocks exist on every Linux we support.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "clock_gettime: {}", io::Error::last_os_error());
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A reading of the counter and one of the kernel's clock, the closest pair of three tries.
fn paired() -> (u64, u64) {
    let mut best = (0, 0, u64::MAX);
    for _ in 0..3 {
        let before = ticks();
        let raw = raw_ns();
        let after = ticks();
        if after - before < best.2 {
            best = (before + (after - before) / 2, raw, after - before);
        }
    }
    (best.0, best.1)
}

/// The processor's counter.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: `rdtsc` exists on every x86-64 processor and has no side effect.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn ticks() -> u64 {
    monotonic_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_run_forward_and_agree() {
        let (tsc, kernel) = (Clock::tsc(), Clock::monotonic());
        // The kernel's clock is read before and after the counter. However long this thread is
        // suspended in between, the counter's span lies between the two spans of the kernel.
        let reading = || (kernel.now_ns(), tsc.now_ns(), kernel.now_ns());
        let first = reading();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let last = reading();
        let span = (last.1 - first.1) as f64;
        let (shortest, longest) = ((last.0 - first.2) as f64, (last.2 - first.0) as f64);
        let agree = span >= shortest * 0.99 && span <= longest * 1.01;
        assert!(agree, "tsc {span} ns, kernel {shortest} to {longest} ns");
        assert!(tsc.cost_ps() > 0);
    }
}
