//! Findings that rest on facts of the kernel, the machine or the target. Each detector has lines in
//! which it must report, and look-alikes in which it must not.
//!
//! A line is a short run of the real engine on a simulated device. Its record then gets the facts
//! of a healthy machine, and the changes of the line. The seed draws the quantities of both.

#[path = "facts/device.rs"]
mod device;
#[path = "facts/machine.rs"]
mod machine;
#[path = "facts/requests.rs"]
mod requests;
#[path = "facts/target.rs"]
mod target;

use std::error::Error;

use iosonde_model::plan::{Arrivals, Engine, EngineKind, Plan};
use iosonde_model::record::facts::{DeviceCounters, DeviceFacts, SmartPair, TelemetrySample};
use iosonde_model::record::{HostFacts, Run};
use iosonde_stats::chance::Chance;
use serde_json::{Value, json};

use super::scene::Scene;

/// A line of the table.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// The detector under test: it must report, or the line is its look-alike.
    pub(crate) about: &'static str,
    /// Findings that must be reported.
    pub(crate) finds: Vec<&'static str>,
    /// Further findings that must be reported as notes.
    pub(crate) notes: Vec<&'static str>,
    scene: Scene,
    /// Changes to the plan of the scene.
    asks: fn(&mut Plan),
    /// Changes to the record and the machine.
    says: fn(&mut Seen, &mut Chance),
}

/// A record and its machine.
pub(crate) struct Seen {
    pub(crate) run: Run,
    pub(crate) host: HostFacts,
}

/// All lines.
pub(crate) fn lines() -> Vec<Line> {
    let groups = [target::lines(), device::lines(), machine::lines(), requests::lines()];
    groups.into_iter().flatten().collect()
}

/// The device of most lines. Its latencies are never 0. Among 24,000 exponential ones a 0 may
/// occur, which would be reported as a fault of the clock.
const DEVICE: &str = "servers=4,read=bimodal:0.9:800us:2800us,write=bimodal:0.9:800us:2800us";

/// A line in which a detector must report.
fn finds(about: &'static str, name: &'static str, says: fn(&mut Seen, &mut Chance)) -> Line {
    Line { finds: vec![about], ..silent(about, name, says) }
}

/// A look-alike, on which a detector must not report.
fn silent(about: &'static str, name: &'static str, says: fn(&mut Seen, &mut Chance)) -> Line {
    let scene = Scene {
        device: DEVICE,
        writes: false,
        iodepth: 8,
        per_s: None,
        warmup_ns: 1_000_000_000,
        seconds: 5,
    };
    Line { name, about, finds: Vec::new(), notes: Vec::new(), scene, asks: |_| {}, says }
}

impl Line {
    /// Sets the device.
    fn on(self, device: &'static str) -> Line {
        Line { scene: Scene { device, ..self.scene }, ..self }
    }

    fn depth(self, iodepth: u32) -> Line {
        Line { scene: Scene { iodepth, ..self.scene }, ..self }
    }

    fn seconds(self, seconds: u64) -> Line {
        Line { scene: Scene { seconds, ..self.scene }, ..self }
    }

    fn writes(self) -> Line {
        Line { scene: Scene { writes: true, ..self.scene }, ..self }
    }

    /// Makes it an open loop.
    fn open(self, per_s: f64, arrivals: Arrivals) -> Line {
        Line { scene: Scene { per_s: Some((per_s, arrivals)), ..self.scene }, ..self }
    }

    fn asks(self, asks: fn(&mut Plan)) -> Line {
        Line { asks, ..self }
    }

    /// Requires a further finding.
    fn and(mut self, code: &'static str) -> Line {
        self.finds.push(code);
        self
    }

    /// Requires a further finding as a note.
    fn note(mut self, code: &'static str) -> Line {
        self.notes.push(code);
        self
    }

    /// Record of a run of the line.
    pub(crate) fn run(&self, seed: u64) -> Result<Seen, Box<dyn Error>> {
        let run = self.scene.run_with(seed, self.asks)?;
        let mut seen = Seen { run, host: HostFacts::default() };
        let mut chance = Chance::of_part(seed, 1);
        nothing_amiss(&mut seen, &mut chance);
        (self.says)(&mut seen, &mut chance);
        Ok(seen)
    }
}

/// A random number between two others.
fn between(chance: &mut Chance, low: f64, high: f64) -> f64 {
    low + (high - low) * chance.unit()
}

/// A random integer between two others, inclusive.
fn whole(chance: &mut Chance, low: u64, high: u64) -> u64 {
    low + chance.below(high - low + 1)
}

/// A random choice.
fn one_of(chance: &mut Chance, of: &[&'static str]) -> &'static str {
    of[chance.index(of.len())]
}

fn share(of: u64, part: f64) -> u64 {
    (of as f64 * part) as u64
}

impl Seen {
    fn device(&mut self) -> &mut DeviceFacts {
        self.run.target.device.get_or_insert_default()
    }

    /// The device's counters at the end.
    fn end(&mut self) -> &mut DeviceCounters {
        &mut self.run.device.get_or_insert_default().1
    }

    /// The device read this share of what the run read.
    fn device_read(&mut self, part: f64) {
        let ours: u64 = self.run.jobs.iter().map(|job| job.read.bytes / 512).sum();
        let start = self.run.device.map_or(0, |(start, _)| start.read_sectors);
        self.end().read_sectors = start + share(ours, part);
    }

    /// Each job used this share of a CPU.
    fn cpu(&mut self, part: f64) {
        let used = share(self.run.measured_ns, part);
        let jobs = self.run.jobs.len() as u64;
        (self.run.process.cpu_user_ns, self.run.process.cpu_system_ns) =
            (used * jobs / 4, used * jobs - used * jobs / 4);
        for job in &mut self.run.jobs {
            (job.cpu_user_ns, job.cpu_system_ns) = (used / 4, used - used / 4);
        }
    }

    /// The CPUs were busy for this share, with no steal time.
    fn busy(&mut self, part: f64) {
        let looks = self.run.telemetry.iter_mut();
        for (second, sample) in looks.enumerate() {
            let ticks = second as u64 * 10_000;
            let busy = share(ticks, part);
            sample.cpu_ticks = Some([busy / 4, busy - busy / 4, ticks - busy, 0, 0]);
        }
    }

    /// Sets the drive's health logs before and after the run.
    fn health(&mut self, before: Value, after: Value) {
        let report = |log| Some(json!({ "nvme_smart_health_information_log": log }));
        self.run.target.smart =
            Some(SmartPair { before: report(before), after: report(after), missing: None });
    }
}

/// Sets the facts of a run on a healthy local NVMe drive.
fn nothing_amiss(seen: &mut Seen, chance: &mut Chance) {
    seen.run.plan.engine = Engine::of(EngineKind::IoUring);
    let target = &mut seen.run.target;
    target.cached_samples = Some((0, 64));
    target.hole_bytes = Some(0);
    target.unwritten_bytes = Some(0);
    target.shared_bytes = Some(0);
    target.encoded_bytes = Some(0);
    target.punted = Some(false);
    target.mount_options = vec!["rw".into(), "relatime".into()];
    target.device = Some(DeviceFacts {
        name: "nvme0n1".into(),
        logical_block_bytes: Some(512),
        physical_block_bytes: Some(512),
        write_cache: Some("write through".into()),
        max_sectors_kb: Some(1280),
        transport: Some("nvme".into()),
        link: Some("8.0 GT/s PCIe x4".into()),
        link_max: Some("8.0 GT/s PCIe x4".into()),
        link_bytes_per_s: Some(3_544_000_000),
        is_virtual: Some(false),
        alignment_offset: Some(0),
        partition_start_bytes: Some(1 << 20),
        ..DeviceFacts::default()
    });
    seen.host = HostFacts {
        cpus_online: Some(8),
        cpus_allowed: Some(8),
        clocksource: Some("tsc".into()),
        ..HostFacts::default()
    };
    seen.run.device = Some(counters(&seen.run, chance));
    seen.run.telemetry = (0..=seen.run.measured_ns / 1_000_000_000)
        .map(|second| TelemetrySample {
            at_ns: second as i64 * 1_000_000_000,
            device_temperature_mc: Some(whole(chance, 35_000, 50_000) as i64),
            cpu_throttle_count: Some(7),
            ..TelemetrySample::default()
        })
        .collect();
    seen.busy(between(chance, 0.02, 0.3));
    seen.cpu(between(chance, 0.05, 0.4));
    for _ in 0..seen.run.measured_ns / 25_000_000 {
        seen.run.hiccups.record(whole(chance, 40_000, 70_000));
    }
    seen.run.backend.clock_drift_ppb = whole(chance, 0, 2_000) as i64 - 1_000;
    let worn = healthy_log(chance);
    seen.health(worn.clone(), worn);
}

/// The health log of a used drive.
fn healthy_log(chance: &mut Chance) -> Value {
    json!({
        "critical_warning": 0,
        "media_errors": whole(chance, 0, 3),
        "percentage_used": whole(chance, 0, 60),
        "warning_temp_time": whole(chance, 0, 9),
        "critical_comp_time": 0,
    })
}

/// Counters of a device that served this run and almost nothing else.
fn counters(run: &Run, chance: &mut Chance) -> (DeviceCounters, DeviceCounters) {
    let start = DeviceCounters {
        reads: whole(chance, 0, 1_000_000),
        read_sectors: whole(chance, 0, 1_000_000_000),
        writes: whole(chance, 0, 1_000_000),
        write_sectors: whole(chance, 0, 1_000_000_000),
        ..DeviceCounters::default()
    };
    let mut end = start;
    for job in &run.jobs {
        end.reads += job.read.ops;
        end.read_sectors += job.read.bytes / 512;
        end.read_ms += (job.read.latency.sum() / 1_000_000) as u64;
        end.writes += job.write.ops;
        end.write_sectors += job.write.bytes / 512;
        end.write_ms += (job.write.latency.sum() / 1_000_000) as u64;
        end.weighted_ms += job.in_flight_area_ns / 1_000_000;
    }
    end.write_sectors += whole(chance, 0, 1_000);
    (start, end)
}
