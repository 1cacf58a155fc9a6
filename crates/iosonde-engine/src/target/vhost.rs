//! Protects the device behind a vhost-user socket. The kernel knows neither its content nor its
//! users, so its content is inspected, and consent must name it.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use super::contents::{Foreign, Inspection, Seen, inspect};

/// Unit of a read, bytes.
const BLOCK_BYTES: u64 = 4096;

/// The consents of the user.
#[derive(Clone, Copy, Debug, Default)]
pub struct VhostConsent<'a> {
    /// `--destroy-data`.
    pub destroy_data: Option<&'a str>,
    /// `--accept-unseen`.
    pub accept_unseen: &'a [String],
}

/// Why a device is not written.
#[derive(Debug, thiserror::Error)]
pub enum VhostRefusal {
    /// Data that this program did not write.
    #[error(
        "the device behind `{path}` holds data that this program did not write ({found}); writing \
         would destroy it. Serve a device that holds only zeros, or what this program wrote"
    )]
    Foreign { path: PathBuf, found: Foreign },
    /// Not all of it could be inspected in time.
    #[error(
        "the device behind `{path}` may hold data: {seen}; nothing was found in the inspected \
         part. If the rest may be lost, repeat with --destroy-data={id} --accept-unseen={id}; \
         --inspect-time gives more time to read"
    )]
    Uninspected {
        path: PathBuf,
        seen: Seen,
        /// What the consent must name.
        id: String,
    },
    /// Nothing was found, but there is no consent.
    #[error(
        "the device behind `{path}` is a block device, and this load writes. Nothing was found on \
         it. If it may be written, repeat with --destroy-data={id}"
    )]
    NoConsent {
        path: PathBuf,
        /// What the consent must name.
        id: String,
    },
    /// Consent for another device.
    #[error("--destroy-data: found `{found}`, but the device behind `{path}` is `{id}`")]
    OtherConsent {
        path: PathBuf,
        /// What the consent must name.
        id: String,
        /// What the consent names instead.
        found: String,
    },
    #[error("cannot read the device behind `{path}` to see what it holds: {error}")]
    Unread { path: PathBuf, error: io::Error },
}

/// The name that a consent must give: the canonical path of the socket.
pub fn identity(path: &Path) -> String {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    real.to_string_lossy().into_owned()
}

/// Checks that a device may be written. `read` fills whole blocks from an offset.
///
/// # Errors
/// If the device holds foreign data, not all of it could be inspected, or `consent` does not name
/// it.
pub fn admit_writes(
    path: &Path,
    size_bytes: u64,
    consent: VhostConsent<'_>,
    how: Inspection,
    read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> Result<(), VhostRefusal> {
    let path = path.to_path_buf();
    let id = identity(&path);
    let read = RefCell::new(read);
    let any =
        |into: &mut [u8], offset| read_any(&mut **read.borrow_mut(), size_bytes, into, offset);
    let contents = match inspect(size_bytes, &[], &any, 0, how) {
        Err(error) => return Err(VhostRefusal::Unread { path, error }),
        Ok(contents) => contents,
    };
    let unseen = contents.unseen_bytes() > 0 && !consent.accept_unseen.contains(&id);
    if let Some(found) = contents.foreign {
        return Err(VhostRefusal::Foreign { path, found });
    }
    if unseen {
        return Err(VhostRefusal::Uninspected { path, seen: contents.seen, id });
    }
    match consent.destroy_data {
        Some(given) if given == id => Ok(()),
        Some(given) => Err(VhostRefusal::OtherConsent { path, id, found: given.into() }),
        None => Err(VhostRefusal::NoConsent { path, id }),
    }
}

/// Reads any range of bytes from a device that is read in whole blocks.
fn read_any(
    read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
    size_bytes: u64,
    into: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
    let end = offset.saturating_add(into.len() as u64).min(size_bytes);
    let mut block = [0; BLOCK_BYTES as usize];
    let mut at = offset;
    while at < end {
        let start = at / BLOCK_BYTES * BLOCK_BYTES;
        let length = (size_bytes - start).min(BLOCK_BYTES) as usize;
        read(start, &mut block[..length])?;
        let stop = (start + length as u64).min(end);
        into[(at - offset) as usize..(stop - offset) as usize]
            .copy_from_slice(&block[(at - start) as usize..(stop - start) as usize]);
        at = stop;
    }
    Ok(end.saturating_sub(offset) as usize)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const SIZE: u64 = 64 << 20;

    /// Checks a device that is zero except for these bytes.
    fn ask(foreign: &[u64], consent: Option<&str>) -> Result<(), VhostRefusal> {
        let read = &mut |offset: u64, block: &mut [u8]| {
            block.fill(0);
            for at in foreign.iter().filter(|at| (offset..offset + BLOCK_BYTES).contains(at)) {
                block[(at - offset) as usize] = 0x53;
            }
            Ok(())
        };
        let consent = VhostConsent { destroy_data: consent, ..VhostConsent::default() };
        admit_writes(Path::new("/nowhere/disk.sock"), SIZE, consent, Inspection::default(), read)
    }

    #[test]
    fn only_a_blank_device_with_its_own_name_is_written() {
        assert!(ask(&[], Some("/nowhere/disk.sock")).is_ok());
        let refusal = ask(&[], None).unwrap_err().to_string();
        assert!(refusal.contains("--destroy-data=/nowhere/disk.sock"), "{refusal}");
        assert!(matches!(ask(&[], Some("disk.sock")), Err(VhostRefusal::OtherConsent { .. })));
    }

    #[test]
    fn data_anywhere_is_found_whatever_the_consent() {
        for at in [0, 1080, 65600, (5 << 20) + 17, SIZE - 512] {
            let refusal = ask(&[at], Some("/nowhere/disk.sock")).unwrap_err();
            assert!(matches!(refusal, VhostRefusal::Foreign { .. }), "{at}: {refusal}");
        }
    }
}
