//! Telemetry: a cheap sample of the machine's state, repeated during a run.
//!
//! Files stay open between samples: a read at offset 0 makes the kernel generate them again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{Root, device};
use iosonde_model::record::facts::{DeviceFacts, TelemetrySample};

/// Most of a file that a sample reads, bytes; the fields needed are at the beginning.
const SAMPLE_LIMIT_BYTES: usize = 4096;

/// Throttle counters are read for at most this many CPUs, to stay cheap.
const CPU_LIMIT: usize = 256;

/// Sensors of `/sys/class/hwmon` that measure the processor.
const CPU_SENSORS: [&str; 6] =
    ["coretemp", "k10temp", "zenpower", "cpu_thermal", "fam15h_power", "via_cputemp"];

/// Reads one `TelemetrySample` after another.
#[derive(Debug)]
pub struct Sampler {
    device_temperature: Vec<Live>,
    device_temperature_once: Vec<Live>,
    cpu_temperature: Vec<Live>,
    cpu_throttle: Vec<Live>,
    device: Option<Live>,
    cpu: Option<Live>,
    io_pressure: Option<Live>,
    cpu_pressure: Option<Live>,
    memory_pressure: Option<Live>,
}

impl Sampler {
    /// Opens the files that exist here. `device` adds the counters and temperature of that disk.
    #[must_use]
    pub fn new(root: &Root, device: Option<&DeviceFacts>) -> Self {
        let mut sampler = Self {
            device_temperature: Vec::new(),
            device_temperature_once: Vec::new(),
            cpu_temperature: live(root, cpu_sensors(root)),
            cpu_throttle: live(root, throttle_files(root)),
            device: None,
            cpu: Live::open(root, "/proc/stat"),
            io_pressure: Live::open(root, "/proc/pressure/io"),
            cpu_pressure: Live::open(root, "/proc/pressure/cpu"),
            memory_pressure: Live::open(root, "/proc/pressure/memory"),
        };
        if let Some(facts) = device {
            let stat = Path::new("/sys/class/block").join(&facts.name).join("stat");
            sampler.device = Live::open(root, stat);
            // A volume has no sensor, but the disks below it do.
            let (major, minor) = facts.major_minor;
            for (major, minor) in device::numbers_in_stack(root, major, minor) {
                let Some(disk) = root.resolve(format!("/sys/dev/block/{major}:{minor}")) else {
                    continue;
                };
                for (sensor, file) in device_sensors(root, &disk) {
                    let found = Live::open(root, file);
                    // drivetemp sends the disk a command that drains its queue first, which would
                    // disturb the measurement during a run.
                    if sensor == "drivetemp" {
                        sampler.device_temperature_once.extend(found);
                    } else {
                        sampler.device_temperature.extend(found);
                    }
                }
            }
        }
        sampler
    }

    /// One sample, with `at_ns` left 0 for the caller, who has the clock. Of several sensors the
    /// hottest counts. Temperatures whose reading disturbs the disk are in the first sample only.
    pub fn sample(&mut self) -> TelemetrySample {
        let once = std::mem::take(&mut self.device_temperature_once);
        let throttled: Vec<u64> =
            self.cpu_throttle.iter().filter_map(|file| file.text()?.trim().parse().ok()).collect();
        TelemetrySample {
            at_ns: 0,
            device_temperature_mc: hottest(self.device_temperature.iter().chain(&once)),
            cpu_temperature_mc: hottest(&self.cpu_temperature),
            cpu_throttle_count: (!throttled.is_empty())
                .then(|| throttled.iter().fold(0, |sum: u64, &n| sum.saturating_add(n))),
            device: text_of(&self.device).and_then(|text| device::counters(&text)),
            cpu_ticks: text_of(&self.cpu).and_then(|text| cpu_ticks(&text)),
            io_pressure_us: text_of(&self.io_pressure).and_then(|text| some_total(&text)),
            cpu_pressure_us: text_of(&self.cpu_pressure).and_then(|text| some_total(&text)),
            memory_pressure_us: text_of(&self.memory_pressure).and_then(|text| some_total(&text)),
        }
    }
}

/// A pseudo file that is kept open.
#[derive(Debug)]
struct Live(File);

impl Live {
    fn open(root: &Root, path: impl AsRef<Path>) -> Option<Self> {
        let path = root.path(path);
        // A FIFO in an odd tree would block; kernel files of interest are regular ones.
        if !path.metadata().ok()?.is_file() {
            return None;
        }
        File::open(path).ok().map(Self)
    }

    fn text(&self) -> Option<String> {
        let mut buffer = [0; SAMPLE_LIMIT_BYTES];
        let read = self.0.read_at(&mut buffer, 0).ok()?;
        Some(String::from_utf8_lossy(buffer.get(..read)?).into_owned())
    }
}

fn live(root: &Root, paths: Vec<PathBuf>) -> Vec<Live> {
    paths.into_iter().filter_map(|path| Live::open(root, path)).collect()
}

fn text_of(file: &Option<Live>) -> Option<String> {
    file.as_ref()?.text()
}

/// Highest reading in thousandths of a degree Celsius. Impossible readings are left out.
fn hottest<'a>(sensors: impl IntoIterator<Item = &'a Live>) -> Option<i64> {
    sensors
        .into_iter()
        .filter_map(|file| file.text()?.trim().parse().ok())
        .filter(|milli| (-100_000..=250_000).contains(milli))
        .max()
}

/// Sensor names and temperature files of a disk: composite temperature (NVMe), drivetemp (SATA).
fn device_sensors(root: &Root, disk: &Path) -> Vec<(String, PathBuf)> {
    let parts = device::Parts::of(root, disk).directories;
    // Before Linux 5.16 the sensor was below the PCI function, one directory above the controller.
    let functions: Vec<PathBuf> =
        parts.iter().skip(1).filter_map(|part| root.resolve(part.join("device"))).collect();
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    for part in parts.iter().skip(1).chain(&functions) {
        for place in [part.clone(), part.join("hwmon")] {
            for name in root.names(&place).into_iter().filter(|name| is_hwmon(name)) {
                let sensor = place.join(name);
                let kind = root.word(sensor.join("name")).unwrap_or_default();
                let file = sensor.join("temp1_input");
                let known = found.iter().any(|(_, path)| *path == file);
                if matches!(kind.as_str(), "nvme" | "drivetemp") && !known {
                    found.push((kind, file));
                }
            }
        }
    }
    found
}

fn is_hwmon(name: &str) -> bool {
    name.strip_prefix("hwmon")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// One file per processor package: `temp1` is the package (Intel) or the control value (AMD).
fn cpu_sensors(root: &Root) -> Vec<PathBuf> {
    let class = Path::new("/sys/class/hwmon");
    let is_cpu = |path: &PathBuf, file: &str, kinds: &[&str]| {
        root.word(path.join(file)).is_some_and(|kind| kinds.contains(&kind.as_str()))
    };
    let sensors: Vec<PathBuf> = root
        .names(class)
        .into_iter()
        .map(|name| class.join(name))
        .filter(|sensor| is_cpu(sensor, "name", &CPU_SENSORS))
        .map(|sensor| sensor.join("temp1_input"))
        .collect();
    if !sensors.is_empty() {
        return sensors;
    }
    let zones = Path::new("/sys/class/thermal");
    root.names(zones)
        .into_iter()
        .map(|name| zones.join(name))
        .filter(|zone| is_cpu(zone, "type", &["x86_pkg_temp", "cpu-thermal", "cpu_thermal"]))
        .map(|zone| zone.join("temp"))
        .collect()
}

fn throttle_files(root: &Root) -> Vec<PathBuf> {
    let cpus = Path::new("/sys/devices/system/cpu");
    root.names(cpus)
        .into_iter()
        .filter(|name| name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok()))
        .map(|name| cpus.join(name).join("thermal_throttle/core_throttle_count"))
        .filter(|file| root.exists(file))
        .take(CPU_LIMIT)
        .collect()
}

/// `cpu  user nice system idle iowait irq softirq steal guest guest_nice` of proc_stat(5), in
/// the five sums of `TelemetrySample::cpu_ticks`. Guest time is part of user time already.
fn cpu_ticks(stat: &str) -> Option<[u64; 5]> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Option<Vec<u64>> =
        line.split_whitespace().take(8).map(|field| field.parse().ok()).collect();
    let fields = fields.filter(|fields| fields.len() >= 4)?;
    let field = |at: usize| fields.get(at).copied().unwrap_or(0);
    let user = field(0).saturating_add(field(1));
    let system = field(2).saturating_add(field(5)).saturating_add(field(6));
    Some([user, system, field(3), field(4), field(7)])
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`, microseconds (the kernel's `psi.rst`).
fn some_total(pressure: &str) -> Option<u64> {
    let line = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_whitespace().find_map(|field| field.strip_prefix("total=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks() {
        let stat = "cpu  10 1 20 300 5 2 3 7 4 0\ncpu0 1 1 1 1\n";
        assert_eq!(cpu_ticks(stat), Some([11, 25, 300, 5, 7]));
        assert_eq!(cpu_ticks("cpu  1 2 3 4"), Some([3, 3, 4, 0, 0]));
        for odd in ["", "cpu", "cpu  1 2", "cpu  1 -2 3 4 5", "cpu0 1 2 3 4 5"] {
            assert_eq!(cpu_ticks(odd), None, "{odd}");
        }
    }

    #[test]
    fn pressure() {
        let text = "some avg10=0.83 avg60=0.55 avg300=0.21 total=4159921\nfull avg10=0.8 total=3";
        assert_eq!(some_total(text), Some(4_159_921));
        assert_eq!(some_total("full total=3"), None);
        assert_eq!(some_total("some total=-3"), None);
    }
}
