//! Erases by NVMe commands, through the open device.

use std::os::fd::AsFd;
use std::time::Duration;

use iosonde_sys::device_command::{self, Sanitize, SanitizeState, SecureErase};

use super::{Held, of_a_part};
use iosonde_model::spec::experiment::Purge;

/// Interval at which the state of a sanitize is polled.
const LOOK: Duration = Duration::from_millis(200);
/// Polls of a drive that has not begun, after which it is an error: ten seconds.
const MOST_IDLE_LOOKS: u32 = 50;

/// Checks that the drive can Format this namespace alone, and that the range covers all of it.
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

/// Identify data of the controller, if the open namespace can be identified, too.
fn controller(held: &Held) -> Result<Box<[u8; 4096]>, String> {
    let device = held.file.as_fd();
    let own =
        device_command::namespace(device).map_err(|_| "the target is not an NVMe namespace")?;
    let asked = |error| format!("the drive does not identify itself: {error}");
    let controller = device_command::identify(device, None).map_err(asked)?;
    device_command::identify(device, Some(own)).map_err(asked)?;
    Ok(controller)
}

/// Whether the drive has other namespaces than the open one.
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
    // FLBAS, the index of its LBA format: bits 3:0, and bits 6:5 above them.
    let format = u32::from(namespace[26] & 0xf) | u32::from(namespace[26] >> 5 & 0x3) << 4;
    let erase = match method {
        Purge::NvmeFormat => SecureErase::UserData,
        _ => SecureErase::Key,
    };
    device_command::format(device, own, format, erase).map_err(said)
}

/// How NVMe Sanitize can erase this drive, if it has no other namespace and the range covers it.
pub(super) fn sanitizes(held: &Held, range_bytes: u64) -> Result<Sanitize, String> {
    let controller = controller(held)?;
    let how = strongest(&controller)?;
    if has_others(held, &controller)? {
        return Err("Sanitize would erase the other namespaces of the drive too".into());
    }
    of_a_part(held, range_bytes, "Sanitize").map(|()| how)
}

/// SANICAP of NVM Express Base Specification 2.0, figure 275: bit 1 is block erase, bit 2 is
/// overwrite. Crypto erase (bit 0) is not used, since its result could not be verified.
fn strongest(controller: &[u8; 4096]) -> Result<Sanitize, String> {
    match controller[328] {
        can if can & 0b010 != 0 => Ok(Sanitize::Blocks),
        can if can & 0b100 != 0 => Ok(Sanitize::Overwrite),
        0 => Err("the drive has no Sanitize command: use nvme-format".into()),
        _ => Err("the drive can sanitize by cryptographic erase only: use nvme-crypto".into()),
    }
}

/// Sanitizes the drive and waits until it has ended; this cannot be interrupted.
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
