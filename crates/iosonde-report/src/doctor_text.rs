//! The features available on a machine, and the cost of measuring there.

use std::fmt::Write;

use iosonde_model::units::{bytes, count, duration};
use serde::Serialize;

use super::answer::Answer;
use super::clean::clean;
use super::wrap::Text;

/// Without these features, figures are not those of the storage, or cannot be checked.
const ESSENTIAL: [&str; 4] = ["test file", "direct I/O", "io_uring", "device counters"];

/// One feature: whether it is available, and how to fix it if not.
#[derive(Clone, Debug, Serialize)]
pub struct Feature {
    pub name: &'static str,
    /// Whether it can be used on this machine.
    pub available: bool,
    /// Its purpose, or why it cannot be used.
    pub detail: String,
    /// How to make it available.
    pub fix: Option<String>,
}

impl Feature {
    /// A feature; `fix` is kept only if it is missing.
    pub fn new(
        name: &'static str,
        available: bool,
        detail: impl Into<String>,
        fix: &str,
    ) -> Feature {
        let fix = (!available && !fix.is_empty()).then(|| fix.into());
        Feature { name, available, detail: detail.into(), fix }
    }
}

/// The tool overhead and ceiling.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Floor {
    pub clock: String,
    /// Time of one reading of the clock, ps.
    pub clock_cost_ps: u64,
    /// Median of a bare inline pread loop, ps.
    pub psync_p50_ps: Option<u64>,
    /// Target of the pread loop.
    pub psync_on: String,
    /// Operations per second of one job with the null backend.
    pub null_ops_per_s: Option<u64>,
    /// Operations per second of io_uring with no-op requests.
    pub nop_ops_per_s: Option<u64>,
}

/// Results of `doctor`.
#[derive(Clone, Debug)]
pub struct DoctorReport {
    /// The directory or file under test.
    pub path: String,
    pub features: Vec<Feature>,
    pub floor: Floor,
    /// CPUs that the process may use.
    pub cpus: u32,
    /// Available memory, bytes.
    pub memory_bytes: Option<u64>,
}

impl DoctorReport {
    /// The text for a screen of `screen` columns.
    pub fn text(&self, screen: usize) -> String {
        let mut out = Text::new(screen, 100);
        out.push_str(&self.answer().text(out.columns));
        out.push_str("Measurement features available to this user\n");
        for feature in &self.features {
            let mark = if feature.available { "yes" } else { "no " };
            out.hanging(&format!("  {mark}  {:<19} ", feature.name), &clean(&feature.detail));
            if let Some(fix) = &feature.fix {
                out.hanging(&format!("       {:<19} -> ", ""), &clean(fix));
            }
        }
        self.costs(&mut out);
        let memory = self.memory_bytes.map_or("n/a".into(), bytes::rough);
        let _ = writeln!(
            out,
            "\n{} allowed, {memory} of memory available",
            count::of(self.cpus.into(), "CPU")
        );
        out.into_string()
    }

    fn costs(&self, out: &mut Text) {
        let floor = &self.floor;
        let time = |ps: u64| duration::latency(ps as f64 / 1000.0);
        out.push_str("\nTool overhead, on one core\n");
        let clock = format!("{}, {} per reading", floor.clock, time(floor.clock_cost_ps));
        out.hanging("  clock               ", &clock);
        let median = |ps| format!("{} median, {}", time(ps), clean(&floor.psync_on));
        let bare = floor.psync_p50_ps.map_or("n/a (no test file)".into(), median);
        out.hanging("  bare pread loop     ", &bare);
        let null = format!("{}, histograms on", rate(floor.null_ops_per_s));
        out.hanging("  engine on `null`    ", &null);
        let empty = rate(floor.nop_ops_per_s);
        out.hanging("  ring of empty ops   ", &empty);
    }

    /// The available features, the confidence in measurements, and the first fix.
    fn answer(&self) -> Answer {
        let missing: Vec<&Feature> =
            self.features.iter().filter(|feature| !feature.available).collect();
        let all = self.features.len();
        let names: Vec<&str> = missing.iter().map(|feature| feature.name).collect();
        let absent = match names.as_slice() {
            [] => String::new(),
            names => format!(" (missing: {})", names.join(", ")),
        };
        let result = format!(
            "{} of {all} measurement features are available in {}{absent}; one core can \
             drive {}",
            all - missing.len(),
            clean(&self.path),
            rate(self.floor.null_ops_per_s)
        );
        let essential =
            ESSENTIAL.iter().find_map(|name| missing.iter().find(|each| each.name == *name));
        let slow_clock = missing.iter().find(|feature| feature.name == "processor clock");
        let confidence = match (essential, slow_clock) {
            (Some(feature), _) => {
                format!("low for what is measured here: no {}", feature.name)
            }
            (None, Some(feature)) => format!("medium: {}", feature.detail),
            (None, None) => "high".to_owned(),
        };
        let fix = essential.or(slow_clock).and_then(|feature| feature.fix.clone());
        let next = fix.unwrap_or_else(|| format!("Measure: iosonde check {}", clean(&self.path)));
        Answer { result, confidence, next }
    }
}

fn rate(per_s: Option<u64>) -> String {
    match per_s {
        Some(rate) => format!("{} M operations/s", count::significant(rate as f64 / 1e6)),
        None => "n/a".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_screens;

    fn report() -> DoctorReport {
        DoctorReport {
            path: "/data".into(),
            features: vec![
                Feature::new("io_uring", true, "many requests in flight from one thread", ""),
                Feature::new("test file", true, "/data on ext4", ""),
                Feature::new("direct I/O", true, "direct I/O", ""),
                Feature::new(
                    "device counters",
                    true,
                    "nvme0n1: the device's own counters, to check ours",
                    "",
                ),
                Feature::new(
                    "SMART",
                    false,
                    "the drive's health report (SMART) before and after a check",
                    "install smartmontools, and run as root",
                ),
            ],
            floor: Floor {
                clock: "tsc".into(),
                clock_cost_ps: 14_000,
                psync_p50_ps: Some(450_000),
                psync_on: "a preallocated, unwritten file in /data (O_DIRECT)".into(),
                null_ops_per_s: Some(21_500_000),
                nop_ops_per_s: Some(9_800_000),
            },
            cpus: 8,
            memory_bytes: Some(12 << 30),
        }
    }

    #[test]
    fn the_answer_stands_first_on_every_screen() {
        assert_screens("doctor", |screen| report().text(screen));
    }

    #[test]
    fn what_is_essential_and_missing_is_the_next_thing_to_fix() {
        let mut report = report();
        assert_eq!(report.answer().confidence, "high");
        assert_eq!(report.answer().next, "Measure: iosonde check /data");
        report.features[2] = Feature::new("direct I/O", false, "refused", "use another one");
        let answer = report.answer();
        assert_eq!(answer.confidence, "low for what is measured here: no direct I/O");
        assert_eq!(answer.next, "use another one");
        assert!(answer.result.starts_with("3 of 5 measurement features"), "{answer:?}");
        report.features.push(Feature::new("test file", false, "no permission", "give another"));
        assert_eq!(report.answer().next, "give another");
    }
}
