//! Samples of the machine, once per interval, in bounded memory.

use iosonde_engine::host::Root;
use iosonde_engine::host::telemetry::Sampler;
use iosonde_model::record::facts::{DeviceFacts, TelemetrySample};

/// Largest number of samples. Beyond it, every second one is dropped and the interval doubles.
const LIMIT: usize = 4096;

#[derive(Debug)]
pub(super) struct Telemetry {
    sampler: Sampler,
    samples: Vec<TelemetrySample>,
    began_ns: u64,
    /// Number of readings per sample.
    every: u64,
    looks: u64,
}

impl Telemetry {
    /// Samples the machine and, if given, this disk.
    pub(super) fn new(root: &Root, device: Option<&DeviceFacts>) -> Telemetry {
        let sampler = Sampler::new(root, device);
        Telemetry { sampler, samples: Vec::new(), began_ns: 0, every: 1, looks: 0 }
    }

    /// Sets time zero and takes the first sample.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.began_ns = now_ns;
        self.look(now_ns);
    }

    /// Takes a sample, if one is due.
    pub(super) fn look(&mut self, now_ns: u64) {
        self.looks += 1;
        if (self.looks - 1).is_multiple_of(self.every) {
            self.sample(now_ns);
        }
    }

    fn sample(&mut self, now_ns: u64) {
        if self.samples.len() >= LIMIT {
            let mut keep = false;
            self.samples.retain(|_| {
                keep = !keep;
                keep
            });
            self.every = self.every.saturating_mul(2);
        }
        let mut sample = self.sampler.sample();
        sample.at_ns = now_ns.cast_signed() - self.began_ns.cast_signed();
        self.samples.push(sample);
    }

    /// Takes the last sample and returns all.
    pub(super) fn end(mut self, now_ns: u64) -> Vec<TelemetrySample> {
        self.sample(now_ns);
        self.samples
    }
}

/// Context switches of the whole machine since boot (proc_stat(5)).
pub(super) fn machine_switches(root: &Root) -> Option<u64> {
    let text = root.text_up_to("/proc/stat", 8 << 20)?;
    text.lines().find_map(|line| line.strip_prefix("ctxt "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_long_run_keeps_a_bounded_number_over_its_whole_length() {
        let dir = tempfile::tempdir().unwrap();
        let mut telemetry = Telemetry::new(&Root::at(dir.path()), None);
        telemetry.begin(1000);
        let looks = 5 * LIMIT as u64;
        for look in 1..looks {
            telemetry.look(1000 + look);
        }
        let samples = telemetry.end(1000 + looks);
        assert!(samples.len() <= LIMIT + 1, "{}", samples.len());
        assert_eq!((samples[0].at_ns, samples.last().unwrap().at_ns), (0, looks.cast_signed()));
        assert!(samples.windows(2).all(|pair| pair[0].at_ns < pair[1].at_ns));
    }

    #[test]
    fn switches_stand_behind_a_long_line() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        let text = format!("cpu 1 2\nintr {}\nctxt 4711\nbtime 1\n", "0 ".repeat(50_000));
        std::fs::write(dir.path().join("proc/stat"), text).unwrap();
        assert_eq!(machine_switches(&Root::at(dir.path())), Some(4711));
    }
}
