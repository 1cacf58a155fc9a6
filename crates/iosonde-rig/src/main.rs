//! `iosonde-rig fuse MOUNTPOINT [--script FILE] [KEY=VALUE ...]`: serves a directory of known
//! behaviour until it is unmounted or gets SIGTERM. SIGUSR1 cuts the power (unsynced data are
//! lost), SIGUSR2 writes the truth, SIGHUP clears the truth and restarts the clock.
//!
//! `iosonde-rig guest SCRIPT [--program NAME]... [--module NAME]... [-- QEMU OPTION ...]`: runs a
//! shell script in an emulated machine and exits with its code.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use iosonde_rig::guest::Machine;
use iosonde_rig::{FuseMount, Script};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

const USAGE: &str = "usage: iosonde-rig fuse MOUNTPOINT [--script FILE] [KEY=VALUE ...]
       iosonde-rig guest SCRIPT [--program NAME]... [--module NAME]... [-- QEMU OPTION ...]";
/// Time limit of a guest.
const GUEST_LIMIT: Duration = Duration::from_secs(300);
/// Interval at which the end of the mount and signals are polled.
const TICK: Duration = Duration::from_millis(20);

type Failure = Box<dyn std::error::Error>;

fn device(mut words: impl Iterator<Item = String>) -> Result<(PathBuf, Script), Failure> {
    let mountpoint = PathBuf::from(words.next().ok_or(USAGE)?);
    let mut script = Script::default();
    while let Some(word) = words.next() {
        if word == "--script" {
            script = Script::from_file(Path::new(&words.next().ok_or(USAGE)?))?;
        } else {
            script.set_word(&word)?;
        }
    }
    Ok((mountpoint, script.checked()?))
}

fn serve(words: impl Iterator<Item = String>) -> Result<ExitCode, Failure> {
    let (mountpoint, script) = device(words)?;
    let truth = script.truth.clone();
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2])?;
    let mount = FuseMount::at(&mountpoint, script)?;
    writeln!(std::io::stdout(), "serving {}", mountpoint.display())?;
    let write_truth = || match &truth {
        Some(path) => mount.truth().write(path),
        None => Ok(()),
    };
    'serving: while !mount.ended() {
        for signal in signals.pending() {
            match signal {
                SIGUSR1 => mount.power_cut(),
                SIGUSR2 => write_truth()?,
                SIGHUP => mount.restart(),
                _ => break 'serving,
            }
        }
        std::thread::sleep(TICK);
    }
    write_truth()?;
    Ok(ExitCode::SUCCESS)
}

fn guest(mut words: impl Iterator<Item = String>) -> Result<ExitCode, Failure> {
    let script = std::fs::read_to_string(words.next().ok_or(USAGE)?)?;
    let mut machine = Machine::new(GUEST_LIMIT)?;
    while let Some(word) = words.next() {
        machine = match word.as_str() {
            "--program" => machine.program(words.next().ok_or(USAGE)?)?,
            "--module" => machine.modules(&[&words.next().ok_or(USAGE)?]),
            "--" => {
                let options: Vec<String> = words.by_ref().collect();
                machine.options(&options.iter().map(String::as_str).collect::<Vec<_>>())
            }
            _ => return Err(USAGE.into()),
        };
    }
    let ran = machine.boot()?.run(&script)?;
    write!(std::io::stdout(), "{}", ran.stdout)?;
    write!(std::io::stderr(), "{}", ran.stderr)?;
    Ok(ExitCode::from(u8::try_from(ran.exit)?))
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let ended = match words.next().as_deref() {
        Some("fuse") => serve(words),
        Some("guest") => guest(words),
        _ => Err(USAGE.into()),
    };
    match ended {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "iosonde-rig: {error}");
            ExitCode::FAILURE
        }
    }
}
