//! Noise and drift from run to run: the device's own time runs faster or slower throughout a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Device, Served, Transfer};
use iosonde_stats::chance::Chance;

/// Number of runs of a device so far, shared by all of them.
#[derive(Clone, Debug, Default)]
pub struct Runs(Arc<AtomicU64>);

/// Two descriptions are equal whatever the number of their runs.
impl PartialEq for Runs {
    fn eq(&self, _: &Runs) -> bool {
        true
    }
}

impl Runs {
    /// The number of the run that begins, from 0.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts from 0 again.
    pub fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A device whose time runs `factor` times as fast as the clock.
pub struct Paced {
    inner: Box<dyn Device>,
    factor: f64,
}

impl Paced {
    /// Draws the factor from a log-normal law with this standard deviation in percent. Each run is
    /// slower than the one before by `drift` percent.
    pub fn new(inner: Box<dyn Device>, (noise, drift): (u64, u64), run: u64, seed: u64) -> Paced {
        // Another part of the seed than that of the servers.
        let mut chance = Chance::of_part(seed, 1);
        let slower = (1.0 - drift as f64 / 100.0).powi(i32::try_from(run).unwrap_or(i32::MAX));
        Paced { inner, factor: (noise as f64 / 100.0 * chance.normal()).exp() * slower }
    }
}

impl Device for Paced {
    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Served {
        let served = self.inner.serve((now_ns as f64 * self.factor) as u64, transfer);
        let done_ns = (served.done_ns as f64 / self.factor) as u64;
        Served { done_ns: done_ns.max(now_ns), ..served }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::Model;
    use super::*;
    use iosonde_model::plan::IoKind;
    use iosonde_stats::summary::Summary;

    #[test]
    fn runs_differ_by_the_noise_and_a_seed_repeats() {
        let model = Model::parse("read=1ms,run-noise=10").unwrap();
        let read = Transfer { way: IoKind::Read, target: 0, offset: 0, skip: 0, bytes: 512 };
        let rate = |seed: u64| {
            let mut device = model.build(seed);
            let done = (0..100).map(|_| device.serve(0, &read).done_ns).max().unwrap();
            (100e9 / done as f64).ln()
        };
        let rates: Vec<f64> = (1..=400).map(rate).collect();
        let summary = Summary::of(&rates).unwrap();
        assert!((summary.mean - 1000f64.ln()).abs() < 0.02, "{summary:?}");
        assert!((0.09..0.11).contains(&summary.std_dev), "{summary:?}");
        assert_eq!(rate(7), rate(7));
    }

    #[test]
    fn each_run_is_slower_than_the_one_before_until_the_device_is_new() {
        let model = Model::parse("read=1ms,run-drift=10").unwrap();
        let read = Transfer { way: IoKind::Read, target: 0, offset: 0, skip: 0, bytes: 512 };
        let took = || model.build(1).serve(0, &read).done_ns as f64 / 1e6;
        for run in 0..5 {
            assert!((took() - 0.9f64.powi(-run)).abs() < 1e-3, "run {run}");
        }
        model.forget();
        assert!((took() - 1.0).abs() < 1e-3);
        assert!(Model::parse("run-drift=100").is_err());
    }
}
