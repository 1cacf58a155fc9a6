//! Conditions of the machine on which the tests run: ignored signals, CPU contention.

use std::fs;
use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// Restores the default action of SIGHUP, SIGINT, SIGQUIT and SIGTERM in child processes.
///
/// `nohup`, cron and `&` in a script leave some of these ignored. An ignored signal stays ignored
/// across `execve`, and a shell cannot even trap it. A handled signal is reset to the default by
/// `execve`. So each ignored signal gets a handler that does nothing.
///
/// # Panics
///
/// If a handler cannot be installed: every test of a signal would be invalid.
pub fn default_signals_for_children() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = ignored(&status);
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            if ignored & 1 << (signal - 1) != 0 {
                let unheard = Arc::new(AtomicBool::new(false));
                let handled = signal_hook::flag::register(signal, unheard);
                assert!(handled.is_ok(), "signal {signal} stays ignored: {handled:?}");
            }
        }
    });
}

/// The mask of ignored signals in `/proc/PID/status`; bit 0 is signal 1.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Measures the share of time in which some task on this machine waited for a CPU.
pub struct CpuWait {
    began: Instant,
    stalled_us: Option<u64>,
}

impl CpuWait {
    /// Starts the measurement.
    pub fn start() -> CpuWait {
        CpuWait { began: Instant::now(), stalled_us: stalled_us() }
    }

    /// The share of the time since the start, 0 to 1; `None` if the kernel does not report it
    /// (`/proc/pressure/cpu`).
    pub fn share(&self) -> Option<f64> {
        let stalled_us = stalled_us()?.saturating_sub(self.stalled_us?);
        Some(stalled_us as f64 / (self.began.elapsed().as_micros() as f64).max(1.0))
    }
}

/// Time since boot in which some task waited for a CPU, us.
fn stalled_us() -> Option<u64> {
    stalled_of(&fs::read_to_string("/proc/pressure/cpu").ok()?)
}

fn stalled_of(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    some.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn ignored_signals_are_read() {
        let status = "Name:\tx\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001007\n";
        assert_eq!(ignored(status), 0x1007);
        assert_eq!(ignored("Name:\tx\n"), 0);
    }

    #[test]
    fn a_child_of_a_deaf_process_hears() {
        // The process that ignores signals is a shell, which starts this test again.
        let name = "machine::tests::a_child_of_a_deaf_process_hears";
        if std::env::var_os("IOSONDE_RIG_DEAF").is_some() {
            let own = fs::read_to_string("/proc/self/status").unwrap();
            assert_eq!(ignored(&own) & 7, 7, "{own}");
            default_signals_for_children();
            let child = std::process::Command::new("cat").arg("/proc/self/status").output();
            let child = String::from_utf8(child.unwrap().stdout).unwrap();
            assert_eq!(ignored(&child) & 7, 0, "{child}");
            return;
        }
        let mut deaf = std::process::Command::new("sh");
        deaf.args(["-c", "trap '' HUP INT QUIT; exec \"$0\" --exact \"$1\""]);
        deaf.arg(std::env::current_exe().unwrap()).arg(name).env("IOSONDE_RIG_DEAF", "1");
        let output = deaf.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn pressure_is_read() {
        let text = "some avg10=0.00 avg60=1.50 avg300=0.44 total=1234\nfull avg10=0.00 total=5\n";
        assert_eq!(stalled_of(text), Some(1234));
        assert_eq!(stalled_of(""), None);
        if let Some(share) = CpuWait::start().share() {
            assert!(share >= 0.0, "{share}");
        }
    }
}
