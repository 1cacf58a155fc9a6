//! Switches the volatile write cache of a device that was opened for writing, and reads it back.
//! This is the setting of the drive itself, not only that of the kernel.

use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;

use iosonde_sys::device_command;

use super::Held;
use crate::host::Root;
use iosonde_model::record::experiment::CacheSetting;
use iosonde_model::spec::experiment::Switch;

/// How the cache of a device is switched.
enum Way {
    /// By an NVMe feature of the drive.
    Nvme,
    /// By a file of the SCSI or virtio driver, which passes the change on to the device.
    File(&'static str, PathBuf),
}

impl Way {
    fn of(held: &Held, root: &Root) -> Result<Way, String> {
        if held.identity().is_none() {
            return Err("the target is not a block device that may be written".into());
        }
        Way::of_kind(held, root)
    }

    fn of_kind(held: &Held, root: &Root) -> Result<Way, String> {
        let device = held.file.as_fd();
        if !iosonde_sys::inspect::is_block_device(device) {
            return Err("the target is not a block device that may be written".into());
        }
        if device_command::namespace(device).is_ok() {
            return Ok(Way::Nvme);
        }
        let name = held.device(root).map(|facts| facts.name).unwrap_or_default();
        let disk = PathBuf::from("/sys/block").join(name);
        let scsi = fs::read_dir(disk.join("device/scsi_disk")).into_iter().flatten().flatten();
        if let Some(entry) = scsi.into_iter().next() {
            return Ok(Way::File("scsi", entry.path().join("cache_type")));
        }
        let virtio = disk.join("cache_type");
        if virtio.exists() {
            return Ok(Way::File("virtio", virtio));
        }
        Err("switching the write cache of this kind of device is not supported".into())
    }

    fn word(&self) -> &'static str {
        match self {
            Way::Nvme => "nvme",
            Way::File(word, _) => word,
        }
    }

    fn read(&self, held: &Held) -> Result<Switch, String> {
        let on = match self {
            Way::Nvme => device_command::write_cache(held.file.as_fd())
                .map_err(|error| format!("the drive has no volatile write cache: {error}"))?,
            Way::File(_, path) => {
                let text = fs::read_to_string(path)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                text.starts_with("write back")
            }
        };
        Ok(if on { Switch::On } else { Switch::Off })
    }

    fn set(&self, held: &Held, state: Switch) -> Result<(), String> {
        match self {
            Way::Nvme => device_command::set_write_cache(held.file.as_fd(), state == Switch::On)
                .map_err(|error| error.to_string()),
            Way::File(_, path) => {
                let word = if state == Switch::On { "write back" } else { "write through" };
                fs::write(path, word).map_err(|error| format!("{}: {error}", path.display()))
            }
        }
    }
}

/// Sets the cache for a stage. `before` is the state to return to, if it is known from an earlier
/// part of the stage.
///
/// # Errors
/// In words: the device cannot, refuses, or ignores the request.
pub fn set(
    held: &Held,
    root: &Root,
    wanted: Switch,
    before: Option<Switch>,
) -> Result<CacheSetting, String> {
    let way = Way::of(held, root)?;
    let now = way.read(held)?;
    let before = before.unwrap_or(now);
    if now != wanted {
        way.set(held, wanted)?;
    }
    let during = way.read(held)?;
    if during != wanted {
        // The change may have taken effect in part.
        let _ = way.set(held, before);
        let (is, asked) = (during.word(), wanted.word());
        return Err(format!(
            "the write cache was switched {asked}, and the device says it is {is}"
        ));
    }
    Ok(CacheSetting { way: way.word().into(), before, during, after: None })
}

/// Checks whether the cache of a target can be switched, without doing it.
///
/// # Errors
/// In words: it cannot.
pub fn is_possible(held: &Held, root: &Root) -> Result<(), String> {
    Way::of_kind(held, root).map(drop)
}

/// Returns the cache to its state before the stage.
///
/// # Errors
/// In words, if it is in another state afterwards.
pub fn restore(held: &Held, root: &Root, setting: &mut CacheSetting) -> Result<(), String> {
    let way = Way::of(held, root)?;
    if way.read(held)? != setting.before {
        way.set(held, setting.before)?;
    }
    let after = way.read(held)?;
    setting.after = Some(after);
    if after == setting.before {
        return Ok(());
    }
    let (is, was) = (after.word(), setting.before.word());
    Err(format!("the write cache was {was} before the stage, and the device says it is {is} now"))
}
