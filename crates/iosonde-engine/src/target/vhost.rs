//! What protects the device behind a vhost-user socket: it has no signatures that a kernel has read
//! and no holders that could be asked, so its own content is looked at, and consent names it.

use std::io;
use std::path::{Path, PathBuf};

use super::safety::Foreign;
use iosonde_model::content::{STAMP_EVERY, is_ours_or_zero};

/// Looked at whole at the beginning, where file systems, partition tables and volume managers put
/// their marks.
const HEAD_BYTES: u64 = 1 << 20;
/// Looked at whole at the end, where a second partition table lies.
const TAIL_BYTES: u64 = 64 << 10;
/// Blocks looked at in between, spread evenly.
const SAMPLES: u64 = 128;
const BLOCK_BYTES: u64 = STAMP_EVERY as u64;

/// Why a device is not written.
#[derive(Debug, thiserror::Error)]
pub enum VhostRefusal {
    /// Content that may be somebody's.
    #[error(
        "the device behind `{path}` holds data that this program did not write ({found}); writing \
         would destroy it. Serve a blank device, or one whose first and last blocks are zero"
    )]
    Foreign {
        /// The socket.
        path: PathBuf,
        /// What was found, and where.
        found: Foreign,
    },
    /// Nothing was found, and nobody has said that it may be written.
    #[error(
        "the device behind `{path}` is a block device, and this load writes. What was sampled of \
         it is blank. If its content may be lost, repeat with --destroy-data={id}"
    )]
    NoConsent {
        /// The socket.
        path: PathBuf,
        /// What the consent must name.
        id: String,
    },
    /// Consent for another device.
    #[error("--destroy-data: found `{found}`, but the device behind `{path}` is `{id}`")]
    OtherConsent {
        /// The socket.
        path: PathBuf,
        /// What the consent must name.
        id: String,
        /// What it names.
        found: String,
    },
    /// It cannot be looked at.
    #[error("cannot read the device behind `{path}` to see what it holds: {error}")]
    Unread {
        /// The socket.
        path: PathBuf,
        /// The device's answer.
        error: io::Error,
    },
}

/// What consent has to name: the socket's true path.
pub fn identity(path: &Path) -> String {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    real.to_string_lossy().into_owned()
}

/// Lets a writing load pass, or says why not. `read` fills a whole block from an offset.
///
/// # Errors
/// If the device holds foreign data, or `consent` does not name it.
pub fn admit_writes(
    path: &Path,
    size_bytes: u64,
    consent: Option<&str>,
    read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> Result<(), VhostRefusal> {
    let path = path.to_path_buf();
    match foreign_data(size_bytes, read) {
        Err(error) => return Err(VhostRefusal::Unread { path, error }),
        Ok(Some(found)) => return Err(VhostRefusal::Foreign { path, found }),
        Ok(None) => {}
    }
    let id = identity(&path);
    match consent {
        Some(given) if given == id => Ok(()),
        Some(given) => Err(VhostRefusal::OtherConsent { path, id, found: given.into() }),
        None => Err(VhostRefusal::NoConsent { path, id }),
    }
}

/// The first sampled block that is neither zero nor ours.
fn foreign_data(
    size_bytes: u64,
    read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<Option<Foreign>> {
    let mut block = [0; STAMP_EVERY];
    for index in sampled(size_bytes / BLOCK_BYTES) {
        let offset = index * BLOCK_BYTES;
        read(offset, &mut block)?;
        if !is_ours_or_zero(&block) {
            let mut head = [0; 8];
            head.copy_from_slice(&block[..8]);
            return Ok(Some(Foreign { offset, head }));
        }
    }
    Ok(None)
}

/// Which of so many blocks are looked at, ascending.
fn sampled(blocks: u64) -> impl Iterator<Item = u64> {
    let head = (HEAD_BYTES / BLOCK_BYTES).min(blocks);
    let tail = blocks.saturating_sub(TAIL_BYTES / BLOCK_BYTES).max(head);
    let step = ((tail - head) / SAMPLES).max(1);
    (0..head).chain((head..tail).step_by(step as usize)).chain(tail..blocks)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const SIZE: u64 = 64 << 20;

    /// Asks for writes on a device that is zero but for these bytes.
    fn ask(foreign: &[u64], consent: Option<&str>) -> Result<(), VhostRefusal> {
        let read = &mut |offset: u64, block: &mut [u8]| {
            block.fill(0);
            for at in foreign.iter().filter(|at| (offset..offset + BLOCK_BYTES).contains(at)) {
                block[(at - offset) as usize] = 0x53;
            }
            Ok(())
        };
        admit_writes(Path::new("/nowhere/disk.sock"), SIZE, consent, read)
    }

    #[test]
    fn only_a_blank_device_with_its_own_name_is_written() {
        assert!(ask(&[], Some("/nowhere/disk.sock")).is_ok());
        let refusal = ask(&[], None).unwrap_err().to_string();
        assert!(refusal.contains("--destroy-data=/nowhere/disk.sock"), "{refusal}");
        assert!(matches!(ask(&[], Some("disk.sock")), Err(VhostRefusal::OtherConsent { .. })));
    }

    #[test]
    fn marks_at_either_end_are_found_whatever_the_consent() {
        for at in [0, 1080, 65600, HEAD_BYTES - 1, SIZE - 512] {
            let refusal = ask(&[at], Some("/nowhere/disk.sock")).unwrap_err();
            assert!(matches!(refusal, VhostRefusal::Foreign { .. }), "{at}: {refusal}");
        }
    }

    #[test]
    fn few_blocks_stand_for_a_large_device_and_all_for_a_small_one() {
        let large: Vec<u64> = sampled(1 << 30).collect();
        assert!(large.len() < 450 && large.is_sorted());
        assert_eq!((large[0], *large.last().unwrap()), (0, (1 << 30) - 1));
        assert!(sampled(100).eq(0..100));
        assert_eq!(sampled(0).count(), 0);
    }
}
