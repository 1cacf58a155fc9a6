//! Erases by NVMe's own commands, through the device that is held.

use std::os::fd::AsFd;
use std::time::Duration;

use iosonde_sys::device_command::{self, Sanitize, SanitizeState, SecureErase};

use super::{Held, of_a_part};
use iosonde_model::spec::experiment::Purge;

/// How often a drive that sanitizes itself is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Looks at a drive that has not begun, after which it is given up: ten seconds.
const MOST_IDLE_LOOKS: u32 = 50;

/// Whether NVMe Format erases this namespace, all of what is used, and nothing else.
pub(super) fn formats(held: &Held, range_bytes: u64, method: Purge) -> Result<(), String> {
    let controller = controller(held)?;
    if u16::from_le_bytes([controller[256], controller[257]]) & 0b10 == 0 {
        return Err("the drive has no Format command".into());
    }
    let attributes = controller[524];
    if method == Purge::NvmeCrypto && attributes & 0b100 == 0 {
        return Err("the drive has no cryptographic erase".into());
    }
    if attributes & 0b11 != 0 && has_others(held, &controller)? {
        return Err("it would erase the other namespaces of the drive too".into());
    }
    of_a_part(held, range_bytes, "Format")
}

/// What the drive says of itself, and of the namespace that is held.
fn controller(held: &Held) -> Result<Box<[u8; 4096]>, String> {
    let device = held.file.as_fd();
    let own =
        device_command::namespace(device).map_err(|_| "the target is not an NVMe namespace")?;
    let asked = |error| format!("the drive does not identify itself: {error}");
    let controller = device_command::identify(device, None).map_err(asked)?;
    device_command::identify(device, Some(own)).map_err(asked)?;
    Ok(controller)
}

/// Whether the drive has a namespace beside the one that is held.
fn has_others(held: &Held, controller: &[u8; 4096]) -> Result<bool, String> {
    let device = held.file.as_fd();
    let own = device_command::namespace(device).map_err(|error| error.to_string())?;
    let namespaces =
        u32::from_le_bytes([controller[516], controller[517], controller[518], controller[519]]);
    Ok((1..=namespaces.min(1024)).any(|other| {
        let found = device_command::identify(device, Some(other));
        other != own && found.is_ok_and(|data| data[..8] != [0; 8])
    }))
}

pub(super) fn format(held: &Held, method: Purge) -> Result<(), String> {
    let device = held.file.as_fd();
    let said = |error: std::io::Error| error.to_string();
    let own = device_command::namespace(device).map_err(said)?;
    let namespace = device_command::identify(device, Some(own)).map_err(said)?;
    // The place of its block format in the list: four bits, and two more above.
    let format = u32::from(namespace[26] & 0xf) | u32::from(namespace[26] >> 5 & 0x3) << 4;
    let erase = match method {
        Purge::NvmeFormat => SecureErase::UserData,
        _ => SecureErase::Key,
    };
    device_command::format(device, own, format, erase).map_err(said)
}

/// How NVMe Sanitize erases this drive, if it does: all of what is used, and nothing else.
pub(super) fn sanitizes(held: &Held, range_bytes: u64) -> Result<Sanitize, String> {
    let controller = controller(held)?;
    let how = strongest(&controller)?;
    if has_others(held, &controller)? {
        return Err("Sanitize would erase the other namespaces of the drive too".into());
    }
    of_a_part(held, range_bytes, "Sanitize").map(|()| how)
}

/// NVM Express Base Specification 2.0, figure 275, SANICAP: bit 1 erases blocks, bit 2 overwrites.
/// After a change of the key alone nothing could be verified.
fn strongest(controller: &[u8; 4096]) -> Result<Sanitize, String> {
    match controller[328] {
        can if can & 0b010 != 0 => Ok(Sanitize::Blocks),
        can if can & 0b100 != 0 => Ok(Sanitize::Overwrite),
        0 => Err("the drive has no Sanitize command: use nvme-format".into()),
        _ => Err("the drive can sanitize by cryptographic erase only: use nvme-crypto".into()),
    }
}

/// Sanitizes the drive, and waits until that has ended: it cannot be interrupted.
pub(super) fn sanitize(held: &Held, range_bytes: u64) -> Result<(), String> {
    let device = held.file.as_fd();
    let how = sanitizes(held, range_bytes)?;
    device_command::sanitize(device, how).map_err(|error| error.to_string())?;
    let mut idle_looks = 0;
    loop {
        std::thread::sleep(LOOK);
        let state = device_command::sanitize_state(device)
            .map_err(|error| format!("it has begun, and its log cannot be read: {error}"))?;
        match state {
            SanitizeState::Done => return Ok(()),
            SanitizeState::Running(_) => {}
            SanitizeState::Never if idle_looks < MOST_IDLE_LOOKS => idle_looks += 1,
            SanitizeState::Never => return Err("the drive took it and never began".into()),
            SanitizeState::Failed => return Err("the drive reports that it failed".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_drive_is_sanitized_as_it_says_that_it_can() {
        let of = |can: u8| {
            let mut controller = [0; 4096];
            controller[328] = can;
            strongest(&controller)
        };
        assert_eq!(of(0b111), Ok(Sanitize::Blocks));
        assert_eq!(of(0b100), Ok(Sanitize::Overwrite));
        assert!(of(0).unwrap_err().contains("no Sanitize command"));
        assert!(of(0b001).unwrap_err().contains("nvme-crypto"));
    }
}
