//! The drive's own health report, through `smartctl` where it is installed.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::program::{self, Limits};

/// A drive that does not answer within this time is left alone.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Most output that is read, bytes.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn names_that_could_be_options_or_paths_are_refused() {
        for name in ["", "-a", "../sda", "sda/..", "s da"] {
            assert!(smart(name).unwrap_err().contains("not a kernel device name"), "{name}");
        }
    }
}
