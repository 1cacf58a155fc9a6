//! Guards of devices, mounts and limits: each undoes its set-up on drop, also after a panic.
//!
//! A failure to undo is silent, since a drop cannot report it. Each guard falls back to the
//! kernel's lazy form of undoing where one exists. SIGKILL runs no drop.

mod image;
mod loopdev;
mod throttle;
mod tmpfs;
mod zram;

use std::path::Path;
use std::process::Command;

use rustix::mount::UnmountFlags;

pub use image::{FsKind, ImageMount};
pub use loopdev::{LoopDevice, LoopOptions};
pub use throttle::{IoLimits, IoThrottle};
pub use tmpfs::TmpfsMount;
pub use zram::ZramDevice;

use crate::Unavailable;

/// Runs a program to its end. Returns its trimmed standard output, or why it failed.
fn run(command: &mut Command) -> Result<String, Unavailable> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| Unavailable::new(format!("{name} cannot be run: {error}")))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Unavailable::new(format!("{name} failed ({}): {}", output.status, said.trim())))
    }
}

/// Unmounts now if possible, otherwise lazily, as soon as the last user is gone.
fn unmount(path: &Path) {
    if rustix::mount::unmount(path, UnmountFlags::empty()).is_err() {
        let _ = rustix::mount::unmount(path, UnmountFlags::DETACH);
    }
}

/// For `map_err`: prefixes the error with the action that failed.
fn doing<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> Unavailable {
    move |error| Unavailable::new(format!("cannot {what}: {error}"))
}

/// Device number, as (major, minor), of a block device node.
fn device_number(node: &Path) -> Result<(u32, u32), Unavailable> {
    let stat = rustix::fs::stat(node).map_err(doing(format!("stat {}", node.display())))?;
    Ok((rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)))
}
