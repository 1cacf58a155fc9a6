//! `iosonde-rig fuse MOUNTPOINT [--script FILE] [KEY=VALUE ...]`: serves a directory of known
//! behaviour until it is unmounted or gets SIGTERM.
//!
//! Signals: SIGUSR1 cuts the power (unsynced data are gone), SIGUSR2 writes the truth, SIGHUP
//! forgets the truth and starts the clock again.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use iosonde_rig::{FuseMount, Script};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

const USAGE: &str = "usage: iosonde-rig fuse MOUNTPOINT [--script FILE] [KEY=VALUE ...]";
/// How often the end of the mount and signals are looked for.
const TICK: Duration = Duration::from_millis(20);

fn arguments() -> Result<(PathBuf, Script), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() != Some("fuse") {
        return Err(USAGE.into());
    }
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

fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let (mountpoint, script) = arguments()?;
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
    Ok(())
}

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "iosonde-rig: {error}");
            ExitCode::FAILURE
        }
    }
}
