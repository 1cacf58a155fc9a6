//! The drive's own health report, through `smartctl` where it is installed.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::program::{self, Limits};

/// Time limit of a `smartctl` call.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Limit on the output that is read, bytes.
const OUTPUT_LIMIT_BYTES: u64 = 1 << 20;

/// `smartctl --json=c -a /dev/NAME` as JSON, for a whole disk by its kernel name.
///
/// # Errors
///
/// The reason in words: not root, not installed, no answer within 5 s, no SMART on this device, or
/// output that is not JSON.
pub fn smart(name: &str) -> Result<Value, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '!');
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(plain) {
        return Err(format!("{name:?} is not a kernel device name"));
    }
    if !rustix::process::geteuid().is_root() {
        return Err("smart needs root".to_owned());
    }
    let program =
        program::find("smartctl").ok_or("smartctl is not installed (package smartmontools)")?;
    let mut command = program::command(&program);
    command.args(["--json=c", "-a"]).arg(Path::new("/dev").join(name.replace('!', "/")));
    let limits =
        Limits { time: TIME_LIMIT, output_bytes: OUTPUT_LIMIT_BYTES, cancelled: &|| false };
    let said = program::run(command, &limits)?;
    let report: Value = serde_json::from_slice(&said.output)
        .map_err(|error| format!("smartctl printed no JSON: {error}"))?;
    // smartctl(8), "EXIT STATUS": bits 0 and 1 mean that nothing was read; the rest is health.
    if said.code & 0b11 != 0 {
        let message = report["smartctl"]["messages"][0]["string"].as_str();
        return Err(message.unwrap_or("smartctl could not read the device").to_owned());
    }
    Ok(report)
}

/// The health log of an NVMe drive, read through the open device, in `smartctl`'s JSON fields.
///
/// # Errors
///
/// The reason in words: no NVMe device, or the drive refused.
pub fn nvme_health(device: BorrowedFd<'_>) -> Result<Value, String> {
    let log = iosonde_sys::device_command::smart_log(device)
        .map_err(|error| format!("the drive gives no health log: {error}"))?;
    Ok(nvme_words(&log))
}

/// Layout of the log: NVM Express Base Specification 2.0, figure 207.
fn nvme_words(log: &[u8; 512]) -> Value {
    // A counter has 16 bytes; the upper half is never reached.
    let counter = |at: usize| {
        let mut bytes = [0_u8; 8];
        bytes.copy_from_slice(&log[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let minutes = |at: usize| u32::from_le_bytes([log[at], log[at + 1], log[at + 2], log[at + 3]]);
    let kelvin = u16::from_le_bytes([log[1], log[2]]);
    let celsius = i32::from(kelvin) - 273;
    json!({
        "device": { "protocol": "NVMe" },
        "temperature": { "current": celsius },
        "power_on_time": { "hours": counter(128) },
        "nvme_smart_health_information_log": {
            "critical_warning": log[0],
            "temperature": celsius,
            "available_spare": log[3],
            "available_spare_threshold": log[4],
            "percentage_used": log[5],
            "data_units_read": counter(32),
            "data_units_written": counter(48),
            "host_reads": counter(64),
            "host_writes": counter(80),
            "controller_busy_time": counter(96),
            "power_cycles": counter(112),
            "power_on_hours": counter(128),
            "unsafe_shutdowns": counter(144),
            "media_errors": counter(160),
            "num_err_log_entries": counter(176),
            "warning_temp_time": minutes(192),
            "critical_comp_time": minutes(196),
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn an_nvme_log_has_the_words_of_smartctl() {
        let mut log = [0_u8; 512];
        log[1..3].copy_from_slice(&311_u16.to_le_bytes());
        log[5] = 7;
        log[48..56].copy_from_slice(&1_000_u64.to_le_bytes());
        log[128..136].copy_from_slice(&24_u64.to_le_bytes());
        log[192..196].copy_from_slice(&5_u32.to_le_bytes());
        log[196] = 1;
        let said = nvme_words(&log);
        assert_eq!(said["temperature"]["current"], 38);
        assert_eq!(said["nvme_smart_health_information_log"]["percentage_used"], 7);
        assert_eq!(said["nvme_smart_health_information_log"]["data_units_written"], 1000);
        assert_eq!(said["power_on_time"]["hours"], 24);
        assert_eq!(said["nvme_smart_health_information_log"]["warning_temp_time"], 5);
        assert_eq!(said["nvme_smart_health_information_log"]["critical_comp_time"], 1);
    }

    #[test]
    fn names_that_could_be_options_or_paths_are_refused() {
        for name in ["", "-a", "../sda", "sda/..", "s da"] {
            assert!(smart(name).unwrap_err().contains("not a kernel device name"), "{name}");
        }
    }
}
